#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the manual promises of faults, ack, silence and rule, against a guard and a gateway that this test plays.

    faults_test.py PATH-OF-GRIDLINE [TEST...]"""
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True  # the tree stays as it is
from ask_test import GRIDLINE, Gateway, OK, FAILED, USAGE, NOT_FOUND, PARTLY, NOT_ALLOWED
from frames import MORE


def fault(id, rule, host, state="firing", severity="error", since="2026-11-16T10:00:00.000000Z"):
    return {"fault": id, "rule": rule, "severity": severity, "state": state, "host": host, "since": since, "episode": 1,
            "summary": f"{host}: {rule}", "told": True, "silenced": False, "hidden": False}


FAULTS = [
    fault("4f2a000000000001", "disk-full", "node1", since="2026-11-16T10:00:00.000000Z"),
    fault("4f2b000000000002", "disk-full", "node2", since="2026-11-16T12:00:00.000000Z", severity="critical"),
    fault("9c00000000000003", "host-late", "node1", since="2026-11-16T11:00:00.000000Z", severity="warning"),
]
RULES = [{"rule": "host-late", "severity": "warning", "evaluations": 40, "failures": 0, "last_ms": 0.5, "every_ms": 10000, "next_ms": 2000, "pending": 0, "firing": 1},
         {"rule": "disk-full", "severity": "error", "evaluations": 41, "failures": 2, "last_ms": 0.5, "every_ms": 1000, "next_ms": -2000, "pending": 0, "firing": 2,
          "query": "SELECT host, mount\nFROM filesystem_latest", "why": "no such column: free"}]


class Faults(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="gridline-faults.")
        self.addCleanup(shutil.rmtree, self.dir)
        self.guard_socket, self.gateway_socket = self.dir + "/guard", self.dir + "/gateway"
        self.faults, self.rules, self.answers = list(FAULTS), list(RULES), {}
        self.env = {"PATH": os.environ["PATH"], "LC_ALL": "C", "HOME": self.dir, "XDG_RUNTIME_DIR": self.dir}
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS"):
            if name in os.environ:
                self.env[name] = os.environ[name]

    def script(self, verb, given):
        """In pages of one."""
        rows = {"faults": self.faults, "rules": self.rules, "silences": [{"id": 3, "rule": "disk*", "by": "ann"}]}.get(verb)
        if rows is None:
            yield self.answers.get(verb, (OK, "", {}))
            return
        i = given.get("after", 0)
        if i < len(rows):
            yield MORE, "", rows[i]
        yield OK, "", {"rows": 1, **({"after": i + 1} if i + 1 < len(rows) else {})}

    def serve(self, path):
        g = Gateway(path, self.script)
        self.addCleanup(g.close)
        return g

    def guard(self):
        return self.serve(self.guard_socket)

    def gateway(self):
        return self.serve(self.gateway_socket)

    def run_it(self, *words, code=OK, to="--guard", env=None):
        where = {"--guard": "unix:" + self.guard_socket, "--gateway": "unix:" + self.gateway_socket}[to]
        done = subprocess.run([GRIDLINE, words[0], to, where, *words[1:]], capture_output=True, timeout=60,
                              env={**self.env, **(env or {})}, stdin=subprocess.DEVNULL, text=True)
        self.assertEqual(done.returncode, code, (done.stdout, done.stderr))
        return done.stdout, done.stderr

    # ------------------------------------------------------------ faults

    def test_newest_first(self):
        g = self.guard()
        out, err = self.run_it("faults")
        lines = out.splitlines()
        self.assertEqual(lines[0].split()[:6], ["FAULT", "SEVERITY", "STATE", "SINCE", "RULE", "HOST"])
        self.assertEqual([line.split()[0][:4] for line in lines[1:]], ["4f2b", "9c00", "4f2a"])
        self.assertEqual(err, "")
        self.assertNotIn("\x1b", out)
        self.assertEqual(g.asked[0], ("faults", {"state": ""}))
        self.assertEqual(g.hellos[0][2], b"gridline-faults")

    def test_many_are_sorted(self):
        self.faults = [fault(f"{i:016x}", "r", "h", since=f"2026-11-16T10:{i * 7 % 60:02}:{i % 60:02}.000000Z") for i in range(60)]
        self.guard()
        rows = [json.loads(line) for line in self.run_it("faults", "--format", "json")[0].splitlines()]
        self.assertEqual(len(rows), 60)
        self.assertEqual([r["since"] for r in rows], sorted((f["since"] for f in self.faults), reverse=True))

    def test_choice_is_sent(self):
        g = self.guard()
        self.run_it("faults", "--all", "--rule", "disk*", "--host", "node1,node2")
        self.assertEqual(g.asked[0][1], {"state": "all", "rule": "disk*", "host": "node1,node2"})
        self.run_it("faults", "--state", "cleared")
        self.assertEqual([given["state"] for verb, given in g.asked if "after" not in given], ["all", "cleared"])
        self.assertIn("there is no 'fired'", self.run_it("faults", "--state", "fired", code=USAGE)[1])
        self.run_it("faults", "--state", "cleared", "--all", code=USAGE)

    def test_none_says_who_looks(self):
        self.faults = []
        self.guard()
        self.gateway()
        self.assertEqual(self.run_it("faults"), ("", "no open faults; 2 rules, last evaluated 3 s ago\n"
                                                 "1 of them can't be evaluated: `gridline rule list` says why\n"))
        self.assertIn("no such faults; 2 rules", self.run_it("faults", "--rule", "x")[1])
        self.rules = []
        self.assertIn("no guard is heard here", self.run_it("faults", to="--gateway", code=NOT_FOUND)[1])

    def on_terminal(self, *words, env=None):
        main, side = pty.openpty()
        with subprocess.Popen([GRIDLINE, *words, "--guard", "unix:" + self.guard_socket], stdout=side, stderr=subprocess.DEVNULL,
                              stdin=subprocess.DEVNULL, env={**self.env, **(env or {})}) as p:
            os.close(side)
            out = b""
            try:
                while (data := os.read(main, 65536)):
                    out += data
            except OSError:
                pass  # Linux says EIO at the end
            os.close(main)
            self.assertEqual(p.wait(60), OK)
        return out.decode()

    def test_colours(self):
        self.guard()
        out = self.on_terminal("faults", env={"TERM": "xterm"})
        self.assertIn("\x1b[1;31mcritical\x1b[0m", out)
        self.assertIn("\x1b[33mwarning\x1b[0m", out)
        head, first = out.splitlines()[:2]
        plain = first.replace("\x1b[1;31m", "").replace("\x1b[0m", "")
        self.assertEqual(head.index("STATE"), plain.index("firing"))  # escapes take no room
        self.assertNotIn("\x1b", self.on_terminal("faults", env={"TERM": "xterm", "NO_COLOR": "1"}))
        self.assertNotIn("\x1b", self.on_terminal("faults", env={"TERM": "dumb"}))

    def test_watch_prints_what_changes(self):
        g = self.guard()
        with subprocess.Popen([GRIDLINE, "faults", "--watch", "-t", "json", "--guard", "unix:" + self.guard_socket],
                              stdout=subprocess.PIPE, env=self.env, text=True) as p:
            first = [json.loads(p.stdout.readline())["fault"] for _ in range(3)]
            self.faults = [dict(FAULTS[0], state="acknowledged", acked_by="ann"), *FAULTS[1:]]
            change = json.loads(p.stdout.readline())
            p.send_signal(signal.SIGTERM)
            rest, _ = p.communicate(timeout=60)
        self.assertEqual(first[0], FAULTS[1]["fault"])
        self.assertEqual((change["fault"], change["state"], rest), (FAULTS[0]["fault"], "acknowledged", ""))
        self.assertGreater(len(g.asked), 3)

    # ------------------------------------------------------------ whom to ask

    def run_default(self, *words, code=OK, **more):
        done = subprocess.run([GRIDLINE, *words], capture_output=True, timeout=60, env=self.env, stdin=subprocess.DEVNULL, text=True,
                              **more)
        self.assertEqual(done.returncode, code, (done.stdout, done.stderr))
        return done

    def test_the_guard_of_this_host_is_asked_first(self):
        who = {"user": 65534} if os.geteuid() == 0 else {}  # root's are in /run: somebody else
        os.mkdir(self.dir + "/gridline")
        guard, gateway_socket = self.dir + "/gridline/guard.sock", self.dir + "/gridline/gateway.sock"
        gateway = self.serve(gateway_socket)
        for path in (self.dir, self.dir + "/gridline", gateway_socket):
            os.chmod(path, 0o777)
        self.run_default("faults", **who)
        self.assertEqual(len(gateway.asked), 3)
        g = Gateway(guard, self.script)
        os.chmod(guard, 0o777)
        self.run_default("faults", **who)
        self.assertEqual((len(gateway.asked), len(g.asked)), (3, 3))
        g.close()  # its socket stays, as after kill -9
        self.run_default("faults", **who)
        self.assertEqual(len(gateway.asked), 6)

    def test_no_guard(self):
        self.assertIn("no guard answers at", self.run_it("faults", code=FAILED)[1])
        self.assertIn("leave one out", self.run_default("faults", "--guard", "unix:/x", "--gateway", "unix:/y", code=USAGE).stderr)

    # ------------------------------------------------------------ ack

    def orders(self, g, verb):
        return [given for v, given in g.asked if v == verb]

    def test_faults_by_id_prefix_or_place(self):
        g = self.guard()
        for word, want in (("9c00000000000003", 2), ("9c00", 2), ("4f2b", 1), ("disk-full:node1", 0)):
            _, err = self.run_it("ack", word, "--note", "why not")
            self.assertIn("is acknowledged", err)
            self.assertEqual(self.orders(g, "ack")[-1]["fault"], FAULTS[want]["fault"])
        given = self.orders(g, "ack")[-1]
        self.assertEqual(given["note"], "why not")
        self.assertTrue(given["by"])  # the guard's socket is the owner's only
        out, err = self.run_it("ack", "9c00", "4f2b", "--format", "json")
        self.assertEqual([json.loads(line)["fault"] for line in out.splitlines()], [FAULTS[2]["fault"], FAULTS[1]["fault"]])
        self.assertEqual(err, "")
        self.run_it("ack", "--undo", "9c00")
        self.assertEqual(set(self.orders(g, "unack")[-1]), {"fault", "by"})

    def test_what_is_not_one_fault_is_none(self):
        self.faults.append(fault("4f2a000000000009", "disk-full", "node1"))
        g = self.guard()
        self.assertIn("no such fault", self.run_it("ack", "7777", code=NOT_FOUND)[1])
        self.assertIn("no such fault", self.run_it("ack", "9c0", code=NOT_FOUND)[1])  # too short to mean one
        err = self.run_it("ack", "disk-full:node1", code=USAGE)[1]
        self.assertIn("could be several", err)
        self.assertIn("4f2a000000000009", err)
        self.assertEqual(self.orders(g, "ack"), [])
        self.run_it("ack", "7777", "9c00", code=PARTLY)
        self.assertEqual(len(self.orders(g, "ack")), 1)

    def test_refusals_are_said(self):
        self.guard()
        for status in (FAILED, NOT_FOUND, NOT_ALLOWED):
            self.answers["ack"] = (status, "because of this", {})
            self.assertIn("because of this", self.run_it("ack", "9c00", code=status)[1])

    def test_a_gateway_is_not_told_who_asks(self):
        g = self.gateway()
        self.run_it("ack", "9c00", "--note", "x", to="--gateway")
        self.assertEqual(self.orders(g, "ack"), [{"fault": FAULTS[2]["fault"], "note": "x"}])

    # ------------------------------------------------------------ silence

    def test_silence(self):
        g = self.guard()
        self.answers["silence"] = (OK, "", {"id": 12})
        before = time.time_ns()
        _, err = self.run_it("silence", "--rule", "disk*", "--where", "mount=/var", "--for", "2h", "--note", "n")
        given = self.orders(g, "silence")[0]
        self.assertTrue(before + 7200e9 <= given["until"] <= time.time_ns() + 7200e9)
        self.assertEqual({k: given[k] for k in ("rule", "where", "note")}, {"rule": "disk*", "where": "mount=/var", "note": "n"})
        self.assertIn("silence 12 until ", err)
        out, err = self.run_it("silence", "--all", "--for", "2h", "--format", "json")
        self.assertEqual((json.loads(out)["id"], err), (12, ""))
        self.run_it("silence", "--end", "12")
        self.assertEqual(self.orders(g, "unsilence")[0]["id"], 12)
        self.assertIn("disk*", self.run_it("silence", "--list")[0])

    def test_silence_of_what_and_how_long(self):
        g = self.guard()
        for words in (["--for", "2h"], ["--rule", "x"], ["--rule", "x", "--all", "--for", "1h"], ["--list", "--rule", "x"],
                      ["--rule", "x", "--for", "1h", "--until", "now+1h"], ["--rule", "x", "--until", "now-1h"], ["--end", "x"]):
            self.run_it("silence", *words, code=USAGE)
        self.assertEqual(self.orders(g, "silence"), [])
        self.run_it("silence", "--all", "--until", "now+1h")
        self.assertEqual(len(self.orders(g, "silence")), 1)

    def test_silence_by_a_gateway(self):
        g = self.gateway()
        _, err = self.run_it("silence", "--host", "node1", "--for", "1h", to="--gateway")
        self.assertIn("guards are told", err)
        self.assertNotIn("by", self.orders(g, "silence")[0])
        self.run_it("silence", "--list", to="--gateway", code=NOT_FOUND)
        self.run_it("silence", "--end", "3", to="--gateway", code=USAGE)
        self.run_it("silence", "--end", "3@guardian", to="--gateway")
        self.assertEqual(self.orders(g, "unsilence"), [{"id": 3, "guard": "guardian"}])

    # ------------------------------------------------------------ rule

    def test_rules(self):
        self.guard()
        self.gateway()
        lines = self.run_it("rule")[0].splitlines()
        self.assertEqual([line.split()[0] for line in lines], ["RULE", "disk-full", "host-late"])
        self.assertEqual(self.run_it("rule", "list")[0].splitlines(), lines)
        out, _ = self.run_it("rule", "show", "disk-full")
        self.assertRegex(out, r"(?m)^query +SELECT host, mount\n +FROM filesystem_latest$")
        self.assertNotIn("host-late", out)
        rows = [json.loads(line) for line in self.run_it("rule", "show", "disk-full", "-t", "json")[0].splitlines()]
        self.assertEqual([r["rule"] for r in rows], ["disk-full"])
        self.run_it("rule", "show", "nothing", code=NOT_FOUND)
        self.run_it("rule", "paint", "x", code=USAGE)
        self.rules = []
        self.assertIn("no guard is heard", self.run_it("rule", to="--gateway", code=NOT_FOUND)[1])


if __name__ == "__main__":
    unittest.main()
