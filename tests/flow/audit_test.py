#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the manual and docs/guard.md promise of `gridline audit`, with an audit that this test writes by what is said there.

    audit_test.py PATH-OF-GRIDLINE [TEST...]"""
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

GRIDLINE = os.path.abspath(sys.argv.pop(1))
OK, FAILED, USAGE, NOT_FOUND, PARTLY = 0, 1, 2, 3, 4


def make_lines(n, what="ack"):
    lines, prev = [], "0" * 64
    for i in range(1, n + 1):
        head = (f'{{"n":{i},"prev":"{prev}","time":"2026-11-16T14:08:52.{i:06}Z","what":"{what}",'
                f'"data":{{"by":"ann","fault":"{i:016x}"}}')
        prev = hashlib.sha256(head.encode()).hexdigest()
        lines.append(f'{head},"hash":"{prev}"}}\n')
    return lines


def head_of(line):
    return json.loads(line)["hash"]


class Audit(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="gridline-audit.")
        self.addCleanup(shutil.rmtree, self.dir)
        os.mkdir(self.dir + "/audit")
        self.lines = make_lines(5)
        self.write(self.lines)

    def write(self, lines):
        with open(self.dir + "/audit/audit-000001.log", "w", encoding="utf-8") as f:
            f.write("".join(lines))

    def run_it(self, *words, code=OK, env=None):
        done = subprocess.run([GRIDLINE, "audit", *words], capture_output=True, timeout=60, stdin=subprocess.DEVNULL, text=True,
                              env={**os.environ, "HOME": self.dir, **(env or {})})
        self.assertEqual(done.returncode, code, (done.stdout, done.stderr))
        return done.stdout, done.stderr

    def row(self, *words, code=OK):
        return json.loads(self.run_it("verify", self.dir, "--format", "json", *words, code=code)[0])

    def test_whole(self):
        said = f"whole: 5 lines in 1 file, head {head_of(self.lines[-1])}\n"
        self.assertEqual(self.run_it("verify", self.dir)[0], said)
        self.assertEqual(self.run_it("verify", self.dir + "/audit", "--head", head_of(self.lines[2]))[0], said)
        self.run_it("verify", self.dir, "--head", head_of(self.lines[2]).upper() + "\r")  # a row of csv
        row = self.row()
        self.assertEqual({k: row[k] for k in ("state", "lines", "files", "torn", "head")},
                         {"state": "whole", "lines": 5, "files": 1, "torn": 0, "head": head_of(self.lines[-1])})

    def test_changed(self):
        self.write(self.lines[:2] + [self.lines[2].replace("ann", "bob")] + self.lines[3:])
        out, err = self.run_it("verify", self.dir, code=FAILED)
        self.assertEqual(out, "")
        self.assertIn("audit-000001.log:3: changed", err)
        row = self.row(code=FAILED)
        self.assertEqual((row["state"], row["lines"], row["where"]), ("changed", 2, "audit-000001.log:3"))

    def test_cut(self):
        head = head_of(self.lines[-1])
        self.write(self.lines[:3])
        self.run_it("verify", self.dir)
        self.assertIn("cut off at the end", self.run_it("verify", self.dir, "--head", head, code=FAILED)[1])
        row = self.row("--head", head, code=FAILED)
        self.assertEqual((row["state"], row["head"]), ("cut", head_of(self.lines[2])))
        self.run_it("verify", self.dir, "--head", "12", code=USAGE)

    def test_found_cut_by_a_guard(self):
        self.write(make_lines(2, "audit.cut"))
        self.assertIn("lines are missing", self.run_it("verify", self.dir, code=FAILED)[1])
        row = self.row(code=FAILED)
        self.assertEqual((row["state"], row["cut"], row["lines"]), ("cut", 2, 2))

    def test_none(self):
        self.assertIn("no audit is in", self.run_it("verify", self.dir + "/nowhere", code=NOT_FOUND)[1])
        self.run_it("show", self.dir + "/nowhere", code=NOT_FOUND)
        self.run_it("paint", code=USAGE)

    def test_folder_by_configuration(self):
        env = {"GRIDLINE_GUARD_STATE_DIR": self.dir}
        self.assertIn("whole: 5 lines", self.run_it("verify", env=env)[0])
        out, err = self.run_it("verify", env={"GRIDLINE_GUARD_BLIND": "often"}, code=FAILED)
        self.assertEqual(out, "")
        self.assertIn("give the folder", err)
        self.assertNotIn("(null)", err)

    def test_show(self):
        rows = [json.loads(line) for line in self.run_it("show", self.dir, "--format", "json")[0].splitlines()]
        self.assertEqual([(r["n"], r["what"], r["by"]) for r in rows], [(i, "ack", "ann") for i in range(1, 6)])
        self.write(self.lines[:2] + [self.lines[2].replace("ann", "bob")] + self.lines[3:])
        out, err = self.run_it("show", self.dir, "--format", "json", code=PARTLY)
        self.assertEqual([json.loads(line)["n"] for line in out.splitlines()], [1, 2, 4, 5])
        self.assertIn("1 lines are not shown", err)


if __name__ == "__main__":
    unittest.main()
