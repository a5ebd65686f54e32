#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What docs/gateway.md promises of observers, with a real gridline-gateway: files that rotate, are opened again on SIGHUP,
and survive kill -9; counts that add up; flags and the file of configuration.

    observer_test.py PATH-OF-GATEWAY [TEST...]"""
import glob
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

GATEWAY = os.path.abspath(sys.argv.pop(1))
PATIENCE = 60


def wait_for(what, condition):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"{what}: not within {PATIENCE} s")


class Observers(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="gridline-flow.")
        self.addCleanup(shutil.rmtree, self.dir)
        self.process = None
        self.sent = 0
        self.addCleanup(self.kill)

    def path(self, name):
        return os.path.join(self.dir, name)

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
        if self.process:
            self.process.wait()

    def start(self, config, *flags, stdout=subprocess.DEVNULL):
        with open(self.path("gateway.conf"), "w", encoding="utf-8") as f:
            f.write(config.replace("DIR", self.dir))
        ready = self.path("ready")
        if os.path.exists(ready):
            os.unlink(ready)
        with open(self.path("stderr"), "ab") as log:
            self.process = subprocess.Popen(
                [GATEWAY, "--config", "gateway.conf", "--listen", "unix:sock", "--journal", "journal", "--ready-file", "ready",
                 "--ledger", "ledger.json", *flags], cwd=self.dir, stdout=stdout, stderr=log, stdin=subprocess.DEVNULL)
        wait_for("the gateway", lambda: os.path.exists(ready) and os.path.getsize(ready) or self.process.poll() is not None)
        self.assertIsNone(self.process.poll(), self.log())

    def log(self):
        with open(self.path("stderr"), encoding="utf-8") as f:
            return f.read()

    def send(self, n, name="e"):
        """Lines of ULM; they have no acknowledgement."""
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(self.path("sock"))
            for i in range(n):
                self.sent += 1
                level = "Error" if self.sent % 10 == 0 else "Info"
                s.sendall(f"DATE=20261115212028.{self.sent:06d} HOST=h PROG=p LVL={level} NL.EVNT={name} "
                          f"n={self.sent}\n".encode())
            s.shutdown(socket.SHUT_WR)
            while s.recv(4096):
                pass

    def counts(self):
        """By observer what the ledger's file says; each adds up."""
        ledger = self.path("ledger.json")
        if os.path.exists(ledger):
            os.unlink(ledger)
        self.process.send_signal(signal.SIGUSR1)
        wait_for("the ledger", lambda: os.path.exists(ledger))
        with open(ledger, encoding="utf-8") as f:
            observers = json.load(f)["observers"]
        for o in observers:
            self.assertEqual(o["taken"], o["passed"] + o["filtered"] + o["dropped"] + o["queued"])
        return {o["name"]: o for o in observers}

    def wait_taken(self, name, n):
        wait_for(f"{n} events", lambda: self.counts()[name]["taken"] >= n)
        return self.counts()[name]

    def numbers(self, pattern, tool=("cat",)):
        """Of our events (the gateway says some of its own), oldest file first."""
        files = sorted(glob.glob(self.path(pattern)), key=lambda f: (len(f) == min(map(len, glob.glob(self.path(pattern)))), f))
        out = []
        for name in files:
            with open(name, "rb") as f:
                text = subprocess.run(tool, stdin=f, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout
            out += [int(line.rsplit(b" n=", 1)[1].split()[0]) for line in text.splitlines() if b" n=" in line]
        return out

    # ------------------------------------------------------------ tests

    def test_two_files(self):
        self.start('observer all { type = file  path = "DIR/all" }\n'
                   'observer errors { type = file  path = "DIR/errors"  events = {e}  where = "level <= \'error\'" }\n')
        self.send(100)
        self.wait_taken("all", 100)
        errors = self.counts()["errors"]
        self.process.terminate()
        self.assertEqual(self.process.wait(PATIENCE), 0, self.log())
        self.assertEqual(self.numbers("all"), list(range(1, 101)))
        self.assertEqual(self.numbers("errors"), list(range(10, 101, 10)))
        self.assertEqual(errors["passed"], 10)

    def test_print_is_a_text_observer(self):
        out = open(self.path("out"), "wb")
        self.start("", "--print", "ndjson", stdout=out)
        self.send(7)
        self.assertEqual(self.wait_taken("print", 7)["dropped"], 0)
        self.process.terminate()
        self.assertEqual(self.process.wait(PATIENCE), 0)
        out.close()
        with open(self.path("out"), encoding="utf-8") as f:
            events = [json.loads(line) for line in f]
        self.assertEqual([e["n"] for e in events if e["name"] == "e"], list(range(1, 8)))

    def test_rotation_and_sighup(self):
        self.start('observer log { type = file  path = "DIR/log"  compress = gzip  max_size = 500  keep = 0 }\n')
        for i in range(20):
            self.send(40)
            self.wait_taken("log", 40 * (i + 1))  # which also flushes
        os.rename(self.path("log"), self.path("log-moved"))
        self.process.send_signal(signal.SIGHUP)
        wait_for("the file again", lambda: os.path.exists(self.path("log")))
        moved = self.numbers("log-moved", ("gzip", "-dc"))
        os.unlink(self.path("log-moved"))
        self.send(40)
        self.wait_taken("log", 840)
        self.process.terminate()
        self.assertEqual(self.process.wait(PATIENCE), 0)
        self.assertGreater(len(glob.glob(self.path("log.*Z.gz"))), 3)
        found = self.numbers("log*", ("gzip", "-dc"))
        self.assertEqual(sorted(found + moved), list(range(1, 841)))

    def test_kill(self):
        """What the ledger called passed before the kill is there, and can be read with the tool."""
        config = 'observer log { type = file  path = "DIR/log"  compress = zstd  max_size = 20k  keep = 0 }\n'
        for _ in range(5):
            self.start(config)
            before = self.sent
            self.send(300)
            passed = self.wait_taken("log", 300)["passed"]
            self.assertGreaterEqual(passed, 300)
            self.process.kill()
            self.process.wait()
            self.assertEqual(self.numbers("log*", ("zstd", "-dcq")), list(range(1, before + 301)))

    def test_full_disk(self):
        self.start('observer full { type = file  path = "/dev/full" }\nobserver fine { type = file  path = "DIR/fine" }\n')
        self.send(50)
        self.wait_taken("fine", 50)
        wait_for("what it says", lambda: "observer full: No space left on device" in self.log())
        counts = self.counts()
        self.assertEqual(counts["full"]["passed"], 0)
        self.assertEqual(counts["fine"]["queued"], 0)
        self.process.terminate()
        self.assertEqual(self.process.wait(PATIENCE), 0)
        self.assertEqual(self.log().count("No space left on device"), 1, "said once")
        self.assertIn("could not be written", self.log())
        self.assertEqual(self.numbers("fine"), list(range(1, 51)))

    def test_flags_and_check(self):
        run = lambda *flags: subprocess.run([GATEWAY, *flags], cwd=self.dir, capture_output=True, text=True, timeout=PATIENCE,
                                            env={"PATH": os.environ["PATH"], "HOME": self.dir})
        done = run("--check")
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        done = run("--check", "--listen", "tcp://0.0.0.0:1", "--journal", "j")
        self.assertEqual(done.returncode, 1)
        self.assertIn("insecure = true", done.stderr)
        self.assertEqual(run("--check", "--listen", "tcp://0.0.0.0:1", "--set", "insecure=true", "--journal", "j").returncode, 0)
        done = run("--check", "-s", "observer.log.compres=zstd")
        self.assertIn("did you mean observer.log.compress?", done.stderr)
        done = run("--check", "--config", "missing.conf")
        self.assertIn("missing.conf: can't read it", done.stderr)
        done = run("--check", "--lease", "soon")
        self.assertIn('lease.time: "soon" is not a duration', done.stderr)
        self.assertEqual(os.listdir(self.dir), [], "a check leaves nothing")

    def test_only_a_journal_stays_here(self):
        """Nothing appears outside of the folder: no socket, no state."""
        home = self.path("home")
        os.mkdir(home)
        process = subprocess.Popen([GATEWAY, "--listen", "unix:sock", "--journal", "j", "--ready-file", "r", "--quiet"], cwd=self.dir,
                                   env={"PATH": os.environ["PATH"], "HOME": home, "XDG_RUNTIME_DIR": home})
        try:
            wait_for("the gateway", lambda: os.path.exists(self.path("r")) and os.path.getsize(self.path("r")))
            with open(self.path("r"), encoding="utf-8") as f:
                self.assertEqual(f.read(), "unix:sock\n")
        finally:
            process.terminate()
            self.assertEqual(process.wait(PATIENCE), 0)
        self.assertEqual(os.listdir(home), [])


if __name__ == "__main__":
    unittest.main()
