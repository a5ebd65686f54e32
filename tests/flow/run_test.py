#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gridline run: agent and gateway on one host, kept running, and gone when it ends.

    run_test.py CASE GRIDLINE"""
import json
import os
import signal
import socket
import subprocess
import sys

import grid
from grid import wait_for

GRIDLINE = os.path.abspath(sys.argv[2])
NOBODY = 65534


class Run:
    def __init__(self, work, *argv, env=None, user=None):
        self.folder = f"{work}/run"
        os.makedirs(self.folder, exist_ok=True)
        self.env, self.user = env, user
        with open(self.folder + "/out", "wb") as out, open(self.folder + "/log", "ab") as log:
            self.process = grid.start([GRIDLINE, "run", "--port", "0", "--format", "json", *argv], stdout=out, stderr=log,
                                      env=env, user=user, group=user, extra_groups=[] if user else None)
        wait_for(lambda: self.process.poll() is not None or "Ctrl-C" in self.log(), "both parts to be ready")
        assert self.process.poll() is None, self.log()
        with open(self.folder + "/out") as f:
            self.rows = [json.loads(line) for line in f]

    def log(self):
        with open(self.folder + "/log") as f:
            return f.read()

    def addresses(self, part):
        return [r["address"] for r in self.rows if r["part"] == part]

    def gridline(self, verb, *argv, check=True):
        """Asks where the rows say; without a folder of its own, where commands look by themselves."""
        out = subprocess.run([GRIDLINE, verb, *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             timeout=grid.PATIENCE, env=self.env, user=self.user, group=self.user)
        assert not check or out.returncode == 0, (out.returncode, out.stderr)
        return [json.loads(line) for line in out.stdout.splitlines()]

    def ask(self, verb, *argv, check=True):
        return self.gridline(verb, "--gateway", self.addresses("gateway")[1], "--format", "json", *argv, check=check)


def processes(word):
    """Those with it in their command line."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                line = f.read().decode(errors="replace").split("\0")
        except OSError:
            continue
        if any(word in w for w in line) and os.path.basename(line[0]) in ("gridline-agent", "gridline-gateway", "gridline-guard"):
            found[os.path.basename(line[0])] = int(pid)
    return found


def check_nothing_left(folder):
    assert not processes(folder), processes(folder)
    left = [f for _, _, files in os.walk(folder) for f in files if f.endswith((".sock", ".ready"))]
    assert not left, left


def is_live(run):
    rows = run.ask("hosts", check=False)
    return rows and rows[0]["state"] == "live" and rows[0]


def case_parts(work):
    """What is promised: ready when it says so, a part that dies comes back, and a signal ends all of it."""
    folder = f"{work}/files"
    run = Run(work, "--dir", folder, "--set-agent", "vector.every=200ms")
    assert [r["address"].split(":")[0] for r in run.rows] == ["tcp", "unix", "http", "unix", "unix"], run.rows
    assert [r["part"] for r in run.rows] == ["gateway", "gateway", "gateway", "agent", "guard"], run.rows
    row = is_live(run)
    assert row and row["host"] == socket.gethostname(), "not live when it said that it is ready"
    assert all(e["name"] == "vector" for e in run.ask("tail", "-e", "vector", "-n", "3"))

    before = processes(folder)
    assert set(before) == {"gridline-agent", "gridline-gateway", "gridline-guard"}
    for program in ("gridline-agent", "gridline-gateway", "gridline-guard"):
        os.kill(before[program], signal.SIGKILL)
        wait_for(lambda: processes(folder).get(program, before[program]) != before[program], f"another {program}")
        wait_for(lambda: f"the {program[9:]} was killed by signal 9" in run.log(), "that it says so")
        wait_for(lambda: is_live(run), f"the host after the end of {program}")
        assert run.ask("tail", "-e", "vector", "-n", "2")
    wait_for(lambda: is_live(run)["registrations"] >= 3, "registrations of both agents and at both gateways")
    for address in (run.addresses("gateway")[i] for i in (0, 2)):  # they are the same
        with socket.create_connection(("127.0.0.1", int(address.strip("/").rsplit(":", 1)[1]))):
            pass

    second = subprocess.run([GRIDLINE, "run", "--port", "0", "--dir", folder], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, timeout=grid.PATIENCE)
    assert second.returncode == 1 and f"process {run.process.pid}" in second.stderr and not second.stdout, second
    assert is_live(run)

    assert grid.stop(run.process) == 0, run.log()
    check_nothing_left(folder)
    again = Run(work + "/again", "--dir", folder)
    assert is_live(again)["registrations"] > 3, "the journal of before is there"
    assert grid.stop(again.process, signal.SIGINT) == 0
    check_nothing_left(folder)


def case_killed(work):
    """Nothing is left of it either when it has no chance to end its parts."""
    folder = f"{work}/files"
    run = Run(work, "--dir", folder)
    grid.stop(run.process, signal.SIGKILL)
    wait_for(lambda: not processes(folder), "the end of both parts")


def case_does_not_start(work):
    """What is in the way is said, and nothing is left."""
    folder = f"{work}/files"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        out = subprocess.run([GRIDLINE, "run", "--dir", folder, "--port", str(port)], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, timeout=grid.PATIENCE)
    assert out.returncode == 1 and not out.stdout, out
    in_use = [f"127.0.0.1:{p}" for p in (port, port + 1)]  # HTTP's is the next, which somebody else may have
    assert any(a in out.stderr for a in in_use) and "the gateway did not start" in out.stderr, out.stderr
    out = subprocess.run([GRIDLINE, "run", "--dir", folder, "--port", "0", "--set-agent", "no.such=key"], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True, timeout=grid.PATIENCE)
    assert out.returncode == 1 and "the agent did not start" in out.stderr and "no.such" in out.stderr, out.stderr
    check_nothing_left(folder)
    for words in (["--port", "70000"], ["--format", "poem"], ["operand"]):
        assert subprocess.run([GRIDLINE, "run", *words], stderr=subprocess.DEVNULL, timeout=grid.PATIENCE).returncode == 2, words


def case_user(work):
    """As an ordinary user, in the places where commands look by themselves."""
    user = NOBODY if os.geteuid() == 0 else None
    env = {"PATH": os.environ["PATH"], "HOME": work, "XDG_STATE_HOME": f"{work}/state", "XDG_RUNTIME_DIR": f"{work}/rt"}
    env.update({k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")})
    for path in (work, env["XDG_STATE_HOME"], env["XDG_RUNTIME_DIR"]):
        os.makedirs(path, exist_ok=True)
        if user:
            os.chown(path, user, user)
    try:
        subprocess.run([GRIDLINE, "version"], env=env, user=user, group=user, check=True, stdout=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError):
        grid.skip("an ordinary user can't run what was built here")
    run = Run(work, env=env, user=user)
    assert run.addresses("agent") == [f"unix:{work}/rt/gridline/agent.sock"], run.rows
    assert run.gridline("hosts", "--format", "json")[0]["state"] == "live"
    assert run.gridline("tail", "-e", "vector", "-n", "1", "--format", "json")
    assert grid.stop(run.process) == 0, run.log()
    check_nothing_left(work)
    assert os.path.isdir(f"{work}/state/gridline/run/gateway/journal")


if __name__ == "__main__":
    grid.main(globals(), sys.argv)
