#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What docs/configuration.md promises of gridline config, and that the document and packaging/agent.conf are true.

    config_test.py PATH-OF-GRIDLINE SOURCE-FOLDER [TEST...]"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

GRIDLINE = os.path.abspath(sys.argv.pop(1))
SOURCE = os.path.abspath(sys.argv.pop(1))
OK, FAILED, USAGE, NOT_FOUND = 0, 1, 2, 3


class Config(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="gridline-flow.")
        self.addCleanup(shutil.rmtree, self.dir)
        os.mkdir(os.path.join(self.dir, "agent.d"))
        os.mkdir(os.path.join(self.dir, "gateway.d"))
        self.env = {"PATH": os.environ["PATH"], "HOME": self.dir, "LC_ALL": "C"}
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS"):
            if name in os.environ:
                self.env[name] = os.environ[name]

    def write(self, name, text):
        with open(os.path.join(self.dir, name), "w", encoding="utf-8") as f:
            f.write(text)
        return name

    def run_it(self, *args, code=OK, env=None):
        done = subprocess.run([GRIDLINE, "config", *args], capture_output=True, cwd=self.dir, timeout=120, text=True,
                              stdin=subprocess.DEVNULL, env={**self.env, **(env or {})})
        self.assertEqual(done.returncode, code, done.stderr[-2000:])
        return done.stdout, done.stderr

    # ------------------------------------------------------------ check

    def test_check(self):
        self.write("a.conf", "# fine\ncpu { every = 2s }\n")
        out, err = self.run_it("check", "a.conf")
        self.assertEqual(out, "")
        self.assertRegex(err, r"^a\.conf: no problem, \d+ sensors?\n$")

    def test_check_says_everything(self):
        self.write("a.conf", "/* a\n comment */\ncpu {\n  every = 1x\n  priority = 77\n}\nhostname = \"a b\"\n")
        self.write("agent.d/more.conf", "queue_max = 1\n")
        out, err = self.run_it("check", "a.conf", code=FAILED)
        self.assertEqual(out, "")
        self.assertEqual(sorted(err.splitlines()), [
            'a.conf:4: cpu.every: "1x" is not a duration; write 10s, 5m, 250ms',
            'a.conf:5: cpu.priority: "77" is out of range; it can be 0 to 9',
            'a.conf:7: hostname: "a b" is not the name of a host; it has at most 255 bytes and no blanks',
            'agent.d/more.conf:1: queue_max: "1" is out of range; it can be 64KiB to 1GiB',
        ])

    def test_check_suggests(self):
        self.write("a.conf", "\ncpu { evry = 1s }\n")
        self.assertEqual(self.run_it("check", "a.conf", code=FAILED)[1],
                         'a.conf:2: cpu: no key "evry"; did you mean every?\n')
        self.write("a.conf", "")
        self.assertEqual(self.run_it("check", "a.conf", "-s", "budget.cup=1%", code=FAILED)[1],
                         "flag -s budget.cup: there is no such key; did you mean budget.cpu?\n")

    def test_no_such_file(self):
        self.assertEqual(self.run_it("check", "none.conf", code=FAILED)[1],
                         "none.conf: can't read it: No such file or directory\n")

    def test_usage(self):
        self.assertIn("did you mean check?", self.run_it("chekc", code=USAGE)[1])
        self.assertIn("missing check|show|explain", self.run_it(code=USAGE)[1])
        self.assertIn("neither text nor json", self.run_it("show", "--format", "xml", code=USAGE)[1])

    # ------------------------------------------------------------ show

    def test_later_values_win(self):
        self.write("a.conf", "hostname = one\nqueue_max = 1MiB\ncpu { every = 1s refresh = 1m }\n")
        self.write("agent.d/10.conf", "hostname = two\ncpu { every = 2s }\n")
        self.write("agent.d/20.conf", "hostname = three\n")
        out, _ = self.run_it("show", "a.conf", "--effective", "--format", "json", "-s", "budget.cpu=3%", "-s",
                             "gateway=127.0.0.1:1,[::1]:2", env={"GRIDLINE_AGENT_QUEUE_MAX": "2MiB",
                                                     "GRIDLINE_AGENT_CPU_REFRESH": "90s",
                                                     "GRIDLINE_AGENT_BUDGET_CPU": "2%"})
        values = {v["key"]: (v["value"], v["origin"]) for v in json.loads(out)}
        self.assertEqual(values["hostname"], ("three", "agent.d/20.conf:1"))
        self.assertEqual(values["queue_max"], ("2MiB", "environment GRIDLINE_AGENT_QUEUE_MAX"))
        self.assertEqual(values["budget.cpu"], ("3%", "flag -s budget.cpu"))
        self.assertEqual(values["gateway"], (["127.0.0.1:1", "[::1]:2"], "flag -s gateway"))
        self.assertEqual(values["cpu.every"], ("2s", "agent.d/10.conf:2"))
        self.assertEqual(values["cpu.refresh"], ("90s", "environment GRIDLINE_AGENT_CPU_REFRESH"))
        self.assertEqual(values["cpu.compare"], ("sent", "default"))

    def test_shown_is_a_file_that_means_the_same(self):
        self.write("a.conf", "hostname = \"\\x6eode\"\nbudget { cpu = 2% }\ncpu { every = 5m change = {\"user 5\"} }\n"
                             "output o { path = 'a \"b\" $c' }\n")
        first, _ = self.run_it("show", "a.conf", "--effective")
        self.assertRegex(first, r'path = "a \\"b\\" \\\$c"  # a\.conf:4')
        self.write("b.conf", first)
        shown, _ = self.run_it("show", "b.conf")
        self.assertEqual(shown, self.run_it("show", "a.conf")[0])
        self.assertNotIn("#", shown)

    def test_environment_is_not_put_into_texts(self):
        self.write("a.conf", 'hostname = "${HOME}"\n')
        self.assertIn("a.conf:1: ${...} is not replaced", self.run_it("show", "a.conf", code=FAILED)[1])
        self.write("a.conf", "output o { path = '${HOME}' }\n")
        self.assertIn(r'path = "\${HOME}"', self.run_it("show", "a.conf")[0])

    # ------------------------------------------------------------ explain

    def test_explain(self):
        self.assertEqual(self.run_it("explain", "budget.cpu")[0].splitlines()[0], "budget.cpu")
        self.assertIn("cpu.every\n", self.run_it("explain", "cpu")[0])
        self.assertIn("did you mean budget.cpu?", self.run_it("explain", "budget.cup", code=NOT_FOUND)[1])

    def test_every_key_of_show_is_explained(self):
        self.write("a.conf", 'output o { path = "-" }\n')
        shown = json.loads(self.run_it("show", "a.conf", "--format", "json")[0])
        self.assertGreater(len(shown), 20)
        for value in shown:
            explained = json.loads(self.run_it("explain", value["key"], "--format", "json")[0])
            self.assertEqual(len(explained), 1, value["key"])
            self.assertTrue(explained[0]["help"])

    # ------------------------------------------------------------ documents

    def test_lists_in_the_document_are_what_explain_says(self):
        with open(os.path.join(SOURCE, "docs/configuration.md"), encoding="utf-8") as f:
            text = f.read()
        blocks = re.findall(r"<!-- gridline config explain (\w+) -->\n```\n(.*?)```\n", text, re.DOTALL)
        self.assertEqual(sorted(name for name, _ in blocks), ["agent", "output", "sensor"])
        for name, block in blocks:
            self.assertEqual(block, self.run_it("explain", name)[0], f"docs/configuration.md: {name} is out of date")

    def test_example_file(self):
        """As it is, and with each example in it alone; those of sensors that this build lacks are left out."""
        with open(os.path.join(SOURCE, "packaging/agent.conf"), encoding="utf-8") as f:
            text = f.read()
        self.write("a.conf", text)
        self.run_it("check", "a.conf")
        examples = re.findall(r"^#([a-z].*)$", text, re.MULTILINE)
        self.assertGreater(len(examples), 10)
        known = {e["key"].split(".")[0] for e in json.loads(self.run_it("explain", "--format", "json")[0])}
        left_out = []
        for example in examples:
            name = re.match(r"[a-z_.]+", example).group()
            if name in known or self.is_sensor(name):
                self.write("a.conf", example + "\n")
                self.run_it("check", "a.conf")
            else:
                left_out.append(name)
        self.assertTrue(set(left_out) <= {"vector", "disk", "tcp", "exec"}, left_out)

    # ------------------------------------------------------------ the gateway's

    def test_gateway(self):
        self.write("g.conf", "lease { time = 1m }\nobserver log { type = file  path = \"/var/log/e\" }\n")
        self.write("gateway.d/10.conf", "lease { renew = 7s }\n")
        out, err = self.run_it("check", "--gateway", "g.conf")
        self.assertEqual((out, err), ("", "g.conf: no problem, 1 observer\n"))
        out, _ = self.run_it("show", "--gateway", "g.conf", "--effective", "--format", "json", "-s", "observer.log.keep=2",
                             env={"GRIDLINE_GATEWAY_CONNECTIONS_MAX": "9", "GRIDLINE_GATEWAY_OBSERVER_LOG_MAX_AGE": "1h"})
        values = {v["key"]: (v["value"], v["origin"]) for v in json.loads(out)}
        self.assertEqual(values["lease.time"], ("1m", "g.conf:1"))
        self.assertEqual(values["lease.renew"], ("7s", "gateway.d/10.conf:1"))
        self.assertEqual(values["connections_max"], ("9", "environment GRIDLINE_GATEWAY_CONNECTIONS_MAX"))
        self.assertEqual(values["observer.log.max_age"], ("1h", "environment GRIDLINE_GATEWAY_OBSERVER_LOG_MAX_AGE"))
        self.assertEqual(values["observer.log.keep"], ("2", "flag -s observer.log.keep"))
        self.assertEqual(values["observer.log.compress"], ("none", "default"))
        for key in values:
            explained = json.loads(self.run_it("explain", "--gateway", key, "--format", "json")[0])
            self.assertEqual(len(explained), 1, key)

    def test_gateway_problems(self):
        self.write("g.conf", "lease { tme = 1m }\n")
        self.assertEqual(self.run_it("check", "--gateway", "g.conf", code=FAILED)[1],
                         'g.conf:1: lease: no key "tme"; did you mean time?\n')
        self.write("g.conf", "journal_max = 5\nlisten = \"tcp://0.0.0.0:1\"\nobserver o { type = tape }\n")
        self.assertEqual(sorted(self.run_it("check", "--gateway", "g.conf", code=FAILED)[1].splitlines()), [
            'g.conf:1: journal_max: "5" is out of range; it can be 1MiB to 1TiB',
            'g.conf:3: observer.o.type: "tape" is none of text|file'])
        self.write("g.conf", "listen = \"tcp://0.0.0.0:1\"\n")
        self.assertIn("write tls:// and identity = FOLDER, or insecure = true",
                      self.run_it("check", "--gateway", "g.conf", code=FAILED)[1])
        self.assertIn("did you mean lease.time?", self.run_it("explain", "--gateway", "lease.tme", code=NOT_FOUND)[1])

    def test_gateway_documents(self):
        with open(os.path.join(SOURCE, "docs/gateway.md"), encoding="utf-8") as f:
            text = f.read()
        blocks = re.findall(r"<!-- gridline config explain --gateway (\w+) -->\n```\n(.*?)```\n", text, re.DOTALL)
        self.assertEqual(sorted(name for name, _ in blocks), ["access", "gateway", "observer", "token"])
        for name, block in blocks:
            self.assertEqual(block, self.run_it("explain", "--gateway", name)[0], f"docs/gateway.md: {name} is out of date")
        self.write("g.conf", re.search(r"```\n(listen = .*?)```\n", text, re.DOTALL).group(1))
        self.run_it("check", "--gateway", "g.conf")

    def test_gateway_example_file(self):
        """As it is, with each example in it alone, and with all of them."""
        with open(os.path.join(SOURCE, "packaging/gateway.conf"), encoding="utf-8") as f:
            text = f.read()
        self.write("g.conf", text)
        self.run_it("check", "--gateway", "g.conf")
        examples = re.findall(r"^#([a-z].*)$", text, re.MULTILINE)
        self.assertGreater(len(examples), 10)
        for example in examples:
            self.write("g.conf", example + "\n")
            self.run_it("check", "--gateway", "g.conf")
        self.write("g.conf", "\n".join(examples) + "\n")
        self.assertEqual(self.run_it("check", "--gateway", "g.conf")[1], "g.conf: no problem, 4 observers\n")

    def is_sensor(self, name):
        done = subprocess.run([GRIDLINE, "config", "explain", name], capture_output=True, env=self.env, timeout=120)
        return done.returncode == OK


if __name__ == "__main__":
    unittest.main()
