#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the manual promises of gridline log, convert, merge, help and version.

    commands_test.py PATH-OF-GRIDLINE [TEST...]

Each test has its own folder, which is also TMPDIR, and at its end nothing but what it made may be there."""
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

GRIDLINE = os.path.abspath(sys.argv.pop(1))
OK, FAILED, USAGE, NOT_FOUND, PARTLY = 0, 1, 2, 3, 4
LINES = """DATE=20261115212028.123456 HOST=h1 PROG=p LVL=Info NL.EVNT=cpu user=1.5 id=7
DATE=20261115212029.5 HOST=h2 PROG=p LVL=Error NL.EVNT=disk device=sda1 used=18446744073709551615
DATE=20261115212027.000001 HOST=h1 PROG=q LVL=Debug NL.EVNT=cpu user=0.25 id=8 note="a \\"quoted\\" word"
"""
READABLE = ["ulm", "bp", "ndjson", "xml", "binary"]


class Commands(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="gridline-flow.")
        self.addCleanup(shutil.rmtree, self.dir)
        self.env = {"PATH": os.environ["PATH"], "TMPDIR": self.dir, "LC_ALL": "C"}
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS"):
            if name in os.environ:
                self.env[name] = os.environ[name]

    def path(self, name):
        return os.path.join(self.dir, name)

    def write(self, name, text):
        with open(self.path(name), "wb") as f:
            f.write(text if isinstance(text, bytes) else text.encode())
        return name

    def read(self, name):
        with open(self.path(name), "rb") as f:
            return f.read()

    def run_it(self, *args, code=OK, stdin=b"", env=None, **more):
        done = subprocess.run([GRIDLINE, *args], input=stdin, capture_output=True, cwd=self.dir, timeout=120,
                              env={**self.env, **(env or {})}, **more)
        self.assertEqual(done.returncode, code, done.stderr.decode(errors="replace")[-2000:])
        return done.stdout, done.stderr.decode()

    def out(self, *args, **more):
        return self.run_it(*args, **more)[0]

    # ------------------------------------------------------------ the command itself

    def test_alone_is_one_screen(self):
        text = self.out().decode()
        self.assertLessEqual(text.count("\n"), 24)
        self.assertTrue(all(len(line) <= 80 for line in text.splitlines()))
        manual = self.out("help").decode()
        verbs = re.findall(r"gridline-([a-z]+)\(1\)", manual)
        self.assertGreater(len(verbs), 20)
        for verb in verbs:  # each command is on the screen
            self.assertRegex(text, rf"  {verb}\b")

    def test_unknown_verb(self):
        out, err = self.run_it("convrt", code=USAGE)
        self.assertEqual(out, b"")
        self.assertIn("did you mean convert?", err)
        self.assertIn("alone lists them", self.run_it("frobnicate", code=USAGE)[1])

    def test_usage_errors(self):
        self.assertIn("did you mean --format?", self.run_it("convert", "--fromat", "ulm", code=USAGE)[1])
        self.assertIn("missing EVENT", self.run_it("log", code=USAGE)[1])
        self.assertIn("column", self.run_it("convert", "--where", "id >", code=USAGE)[1])
        self.assertIn("bash, zsh and fish", self.run_it("help", "--completion", "csh", code=USAGE)[1])
        self.run_it("help", "nothing", code=NOT_FOUND)

    def test_help_and_version(self):
        self.assertRegex(self.out("version"), rb"^gridline \d+\.\d+\.\d+\n$")
        self.assertEqual(self.out("--version"), self.out("version"))
        for verb in ("log", "convert", "merge", "help", "version"):
            usage, manual = self.out(verb, "--help").decode(), self.out("help", verb).decode()
            self.assertIn(f"usage: gridline {verb}", usage)
            for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "SEE ALSO"):
                self.assertIn(f"\n{section}\n", "\n" + manual)
            self.assertTrue(all(len(line) <= 100 for line in manual.splitlines()), manual)
        self.assertIn("--keep-going", self.out("help", "merge").decode())
        self.assertIn("ndjson", self.out("help", "convert").decode())

    def test_man_pages(self):
        if not shutil.which("mandoc"):
            self.skipTest("no mandoc")
        for verb in ("gridline", "log", "convert", "merge", "gateway", "help", "version"):
            page = self.out("help", "--man", verb)
            lint = subprocess.run(["mandoc", "-Tlint", "-W", "warning"], input=page, capture_output=True)
            self.assertEqual((lint.returncode, lint.stdout, lint.stderr), (0, b"", b""), verb)
            shown = subprocess.run(["mandoc", "-Tascii"], input=page, capture_output=True, check=True).stdout
            self.assertIn(b"EXIT STATUS", re.sub(b".\b", b"", shown))  # bold is a character, backspace, the character

    def test_completion(self):
        script = self.out("help", "--completion", "bash").decode()

        def complete(line):
            words = line.split(" ")
            quoted = " ".join(f"'{w}'" for w in words)
            ask = f"{script}\nCOMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _gridline; echo \"${{COMPREPLY[*]}}\""
            return subprocess.run(["bash", "-c", ask], capture_output=True, check=True, cwd=self.dir).stdout.decode().split()

        self.write("some.ulm", "")
        self.assertEqual(complete("gridline conv"), ["convert"])
        self.assertEqual(complete("gridline merge --mem"), ["--memory"])
        self.assertEqual(complete("gridline convert -t nd"), ["ndjson"])
        self.assertEqual(complete("gridline convert --input c"), [])
        self.assertEqual(complete("gridline convert so"), ["some.ulm"])
        self.assertEqual(complete("gridline log --level emer"), ["emergency"])
        self.assertEqual(complete("gridline help me"), ["merge"])
        for shell in ("zsh", "fish"):
            script = self.out("help", "--completion", shell)
            self.assertIn(b"keep-going", script)
            if shutil.which(shell):
                subprocess.run([shell, "-n"], input=script, check=True)

    # ------------------------------------------------------------ log

    def test_gateway_is_run(self):
        self.assertIn(b"--journal DIR", self.out("gateway", "--help"))
        self.assertIn(b"gridline gateway", self.out("help", "gateway"))

    def test_log_prints(self):
        line = self.out("log", "--time", "2026-11-15T21:20:28Z", "--host", "h", "-l", "warn", "job.end", "id=7", "f=1.5",
                        "ok=true", "v=1.10", "n:text=5", "big:uint=5", "raw:bytes=/w==", "msg=two words")
        self.assertEqual(line, b'DATE=20261115212028.000000 HOST=h PROG=gridline LVL=Warning NL.EVNT=job.end id=7 f=1.5 '
                               b'ok=true v=1.10 n="5" big=5 raw="%b:/w==" msg="two words" GL.U="big"\n')
        event = json.loads(self.out("log", "-t", "ndjson", "a.b", "x=1"))
        self.assertEqual((event["name"], event["x"]), ("a.b", 1))
        self.assertAlmostEqual(time.time(), time.mktime(time.strptime(event["time"][:19], "%Y-%m-%dT%H:%M:%S")), delta=90000)

    def test_log_refuses(self):
        self.assertIn("NAME=VALUE", self.run_it("log", "a", "novalue", code=USAGE)[1])
        self.assertIn("not int", self.run_it("log", "a", "x:int=1.5", code=USAGE)[1])
        self.assertIn("event name", self.run_it("log", "no good", code=USAGE)[1])
        self.assertIn("twice", self.run_it("log", "a", "x=1", "x=2", code=USAGE)[1])

    def test_log_to_file(self):
        for i in range(3):
            self.run_it("log", "--to", self.path("out.ulm"), "tick", f"i={i}")
        self.run_it("log", "tock", env={"GRIDLINE_DEST": self.path("out.ulm")})
        events = [json.loads(x) for x in self.out("convert", "out.ulm").splitlines()]
        self.assertEqual([(e["name"], e.get("i")) for e in events], [("tick", 0), ("tick", 1), ("tick", 2), ("tock", None)])

    def test_log_nobody_there(self):
        start = time.monotonic()
        err = self.run_it("log", "--timeout", "300ms", "--to", "unix:" + self.path("no.sock"), "a", code=FAILED)[1]
        self.assertIn("no.sock", err)
        self.assertLess(time.monotonic() - start, 20)

    # ------------------------------------------------------------ convert

    def test_every_format_to_every_format(self):
        self.write("a.ulm", LINES)
        want = self.out("convert", "-t", "ulm", "a.ulm")
        self.assertIn(b"used=18446744073709551615", want)
        for one in READABLE:
            self.run_it("convert", "-t", one, "a.ulm", "-o", "one")
            for two in READABLE:
                self.run_it("convert", "-t", two, "one", "-o", "two")
                self.assertEqual(self.out("convert", "-t", "ulm", "two"), want, (one, two))

    def test_format_by_name_of_output(self):
        self.write("a.ulm", LINES)
        self.run_it("convert", "a.ulm", "-o", "a.xml")
        self.assertTrue(self.read("a.xml").startswith(b"<?xml"))
        self.run_it("convert", "a.ulm", "-o", "a.glb")
        self.assertTrue(self.read("a.glb").startswith(b"GLB1"))
        self.assertTrue(self.out("convert", "a.glb").startswith(b"{"))

    def test_stdin(self):
        want = self.out("convert", "-t", "bp", "-", stdin=LINES.encode())
        self.assertEqual(want, self.out("convert", "-t", "bp", stdin=LINES.encode()))
        self.assertEqual(want.count(b"\n"), 3)
        self.assertEqual(self.out("convert", "-t", "ulm", stdin=b""), b"")

    def test_a_stream_is_not_held_back(self):
        with subprocess.Popen([GRIDLINE, "convert", "-t", "ulm"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              env=self.env) as p:
            p.stdin.write(LINES.splitlines(True)[0].encode())
            p.stdin.flush()
            self.assertIn(b"NL.EVNT=cpu", p.stdout.readline())
            p.stdin.close()
            self.assertEqual(p.wait(30), OK)

    def test_bad_line_stops(self):
        lines = LINES.splitlines(True)
        self.write("a.ulm", lines[0] + "no equals sign\n" + lines[1])
        out, err = self.run_it("convert", "-t", "ulm", "a.ulm", code=FAILED)
        self.assertRegex(err, r"^a\.ulm:2: .*'='")
        self.assertEqual(out.count(b"\n"), 1)
        self.run_it("convert", "a.ulm", "-o", "out.json", code=FAILED)
        self.assertEqual(os.listdir(self.dir), ["a.ulm"])

    def test_keep_going(self):
        lines = LINES.splitlines(True)
        self.write("a.ulm", lines[0] + "no equals sign\n" + lines[1] + "DATE=nonsense A=1\n" + lines[2])
        for verb in ("convert", "merge"):
            out, err = self.run_it(verb, "--keep-going", "-t", "ulm", "a.ulm", code=PARTLY)
            self.assertEqual(out.count(b"\n"), 3)
            self.assertRegex(err, r"a\.ulm:2: ")
            self.assertRegex(err, r"a\.ulm:4: .*DATE")
            self.assertIn("2 bad units were skipped", err)
            self.assertNotIn("skipped", self.run_it(verb, "-kq", "a.ulm", code=PARTLY)[1])

    def test_missing_file(self):
        self.write("a.ulm", LINES)
        self.assertIn("none.ulm: No such file", self.run_it("convert", "none.ulm", code=NOT_FOUND)[1])
        out, err = self.run_it("merge", "-k", "none.ulm", "a.ulm", code=PARTLY)
        self.assertEqual(out.count(b"\n"), 3)
        self.assertIn("1 of 2 inputs", err)
        self.run_it("convert", ".", code=FAILED)
        self.assertIn("--input", self.run_it("convert", stdin=b"\x01\x02 what is this\n", code=FAILED)[1])
        self.assertIn("line is longer", self.run_it("convert", "--input", "ulm", stdin=b"x" * 3000000, code=FAILED)[1])

    def test_damaged_binary(self):
        self.write("a.ulm", LINES * 3000)
        self.run_it("convert", "a.ulm", "-o", "a.glb")
        whole = self.read("a.glb")
        self.write("torn.glb", whole[:-5])
        out, err = self.run_it("convert", "-k", "-t", "ulm", "torn.glb", code=PARTLY)
        self.assertIn("torn.glb: offset", err)
        self.assertGreater(out.count(b"\n"), 3000)
        self.write("twice.glb", whole[:-5] + whole)
        self.assertGreater(self.out("convert", "-k", "-t", "ulm", "twice.glb", code=PARTLY).count(b"\n"), 9000)

    def test_filters(self):
        self.write("a.ulm", LINES)

        def count(*args):
            return self.out("convert", "a.ulm", *args).count(b"\n")

        self.assertEqual(count("--where", "id IN (7, 8)"), 2)
        self.assertEqual(count("--where", "level <= 'error'"), 1)
        self.assertEqual(count("-w", "host = 'h1' AND user < 1"), 1)
        self.assertEqual(count("--from", "2026-11-15T21:20:28.123456Z"), 2)
        self.assertEqual(count("--to", "2026-11-15T21:20:28.123456Z"), 1)
        self.assertEqual(count("--from", "now-10s"), 0)
        self.assertEqual(count("--from", "1794777628", "--to", "1794777629"), 1)

    def test_fills_in(self):
        self.write("a.ulm", "DATE=20261115212028.123456 NL.EVNT=e x=1\n" + LINES)
        out = self.out("convert", "-t", "ulm", "--host", "here", "--prog", "me", "a.ulm")
        self.assertEqual(out.count(b"HOST=here PROG=me"), 1)
        self.assertEqual(out.count(b"HOST=h1"), 2)

    def test_csv_has_all_columns(self):
        self.write("a.ulm", LINES)
        want = b"time,host,prog,level,name,user,id,device,used,note\r\n"
        self.assertTrue(self.out("convert", "-t", "csv", "a.ulm").startswith(want))
        self.assertTrue(self.out("convert", "-t", "csv", stdin=LINES.encode()).startswith(want))
        self.assertTrue(self.out("convert", "-t", "csv", "-", "a.ulm", stdin=LINES.encode()).startswith(want))
        with open(self.path("a.ulm"), "rb") as f:
            done = subprocess.run([GRIDLINE, "convert", "-t", "csv"], stdin=f, capture_output=True, env=self.env)
            self.assertTrue(done.stdout.startswith(want))
        self.assertEqual(self.out("merge", "-t", "csv", "a.ulm").split(b"\r\n")[0] + b"\r\n", want)
        few = self.out("convert", "-t", "csv", "--columns", "id,nothing", "a.ulm").split(b"\r\n")
        self.assertEqual(few[0], b"time,host,prog,level,name,id,nothing")
        self.assertEqual(few[1], b"2026-11-15T21:20:28.123456Z,h1,p,info,cpu,7,")
        self.assertEqual(os.listdir(self.dir), ["a.ulm"])

    # ------------------------------------------------------------ output

    def test_output_may_be_an_input(self):
        self.write("a.ulm", LINES)
        os.chmod(self.path("a.ulm"), 0o640)
        self.run_it("merge", "a.ulm", "-o", "a.ulm")
        self.assertEqual(self.read("a.ulm").count(b"\n"), 3)
        self.assertTrue(self.read("a.ulm").startswith(b"DATE=20261115212027"))
        self.assertEqual(os.stat(self.path("a.ulm")).st_mode & 0o777, 0o640)
        os.symlink("a.ulm", self.path("link.ulm"))
        self.run_it("convert", "a.ulm", "-o", "link.ulm")
        self.assertTrue(os.path.islink(self.path("link.ulm")))

    def test_full_disk(self):
        self.write("a.ulm", LINES)
        for verb in ("convert", "merge"):
            err = self.run_it(verb, "a.ulm", "-o", "/dev/full", code=FAILED)[1]
            self.assertIn("No space left", err)
        self.assertIn("No such file", self.run_it("convert", "a.ulm", "-o", "no/such/dir", code=FAILED)[1])

    def test_reader_goes_away(self):
        self.write("a.ulm", LINES * 100000)
        for verb in ("convert", "merge"):
            done = subprocess.run(f"'{GRIDLINE}' {verb} a.ulm | head -n 1", shell=True, capture_output=True,
                                  cwd=self.dir, env=self.env)
            self.assertEqual(done.stderr, b"")
            self.assertEqual(done.stdout.count(b"\n"), 1)

    def test_interrupt_leaves_nothing(self):
        for verb in ("convert", "merge"):
            with subprocess.Popen([GRIDLINE, verb, "-o", "out.ulm"], stdin=subprocess.PIPE, stderr=subprocess.PIPE,
                                  cwd=self.dir, env=self.env) as p:
                p.stdin.write(LINES.encode() * 100000)
                p.stdin.flush()  # more than a pipe holds: it is reading
                p.send_signal(signal.SIGINT)
                self.assertEqual(p.wait(30), -signal.SIGINT)
                self.assertEqual(p.stderr.read(), b"")
                try:
                    p.stdin.close()
                except BrokenPipeError:
                    pass
            self.assertEqual(os.listdir(self.dir), [])

    # ------------------------------------------------------------ merge

    def make_lines(self, seed, n):
        r = random.Random(seed)
        return ["DATE=202611152120%02d.%06d HOST=h%d PROG=p LVL=Info NL.EVNT=e file=%d n=%d text=\"%s\"\n" % (
            r.randrange(3), r.randrange(5), seed, seed, i, "x" * r.randrange(60)) for i in range(n)]

    def test_merge_is_stable_and_changes_no_byte(self):
        files, everything = [], []
        for i in range(5):
            lines = self.make_lines(i, 500)
            files.append(self.write(f"f{i}.ulm", "".join(lines)))
            everything += lines
        everything.sort(key=lambda line: line[:26])  # Python's sort is stable
        self.assertEqual(self.out("merge", *files), "".join(everything).encode())
        odd = 'DATE=20261115212028.1  NL.EVNT=e LVL=INFO   path=/a/b:c,d x=007\r\n\r\nDATE=20261115212027.1 NL.EVNT=f'
        self.assertEqual(self.out("merge", stdin=odd.encode()),
                         b"DATE=20261115212027.1 NL.EVNT=f\n"
                         b"DATE=20261115212028.1  NL.EVNT=e LVL=INFO   path=/a/b:c,d x=007\n")

    def test_merge_larger_than_memory(self):
        files, everything = [], []
        for i in range(4):
            lines = self.make_lines(i, 150000)
            files.append(self.write(f"f{i}.ulm", "".join(lines)))
            everything += lines
        everything.sort(key=lambda line: line[:26])
        want = "".join(everything).encode()
        out, err = self.run_it("merge", "-v", "--memory", "16MiB", *files)
        self.assertRegex(err, r"[2-9]\d* runs in ")
        self.assertEqual(out, want)
        self.assertEqual(sorted(os.listdir(self.dir)), files)
        self.assertNotIn("runs", self.run_it("merge", "-v", "--memory", "1GiB", "-o", "m.ulm", *files)[1])
        self.assertEqual(self.read("m.ulm"), want)
        self.run_it("merge", "--memory", "16MiB", "-o", "rows.glb", *files)  # events, not lines, go through the files
        self.assertEqual(self.out("convert", "-t", "ulm", "rows.glb"), self.out("convert", "-t", "ulm", "m.ulm"))
        err = self.run_it("merge", "--memory", "16MiB", *files, code=FAILED, env={"TMPDIR": "/nonexistent"})[1]
        self.assertIn("TMPDIR", err)

    def test_merge_mixes_formats(self):
        names, lines = [], LINES.splitlines(True)
        for name, line in zip(("binary", "xml", "bp"), lines):
            self.run_it("convert", "-t", name, "-o", name, stdin=line.encode())
            names.append(name)
        want = self.out("convert", "-t", "ulm", stdin="".join([lines[2], lines[0], lines[1]]).encode())
        for target in READABLE:
            merged = self.out("merge", "-t", target, *names)
            self.assertEqual(self.out("convert", "-t", "ulm", stdin=merged), want, target)
        self.assertTrue(self.out("merge", "bp", "xml").startswith(b"ts="))  # the first file's format
        self.assertEqual(self.out("merge", "--where", "level = 'error'", "-t", "ulm", *names).count(b"\n"), 1)


if __name__ == "__main__":
    unittest.main()
