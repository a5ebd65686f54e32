#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gridline demo: what it finds is there, and whatever ends it, nothing of it is left.

    demo_test.py CASE GRIDLINE"""
import json
import os
import shutil
import signal
import subprocess
import sys

import grid
from grid import wait_for

GRIDLINE = os.path.abspath(sys.argv[2])
NOBODY = 65534
SCALE = float(os.environ.get("GRIDLINE_TEST_SCALE", "1"))


def need_namespaces():
    if os.geteuid() != 0 or not all(map(shutil.which, ("ip", "tc", "nft", "nsenter"))):
        grid.skip("network namespaces need root, ip, tc, nft and nsenter")
    if grid.run("unshare", "-n", "true", check=False).returncode:
        grid.skip("no network namespaces here")


def processes(word):
    """{pid: (command line, its network namespace)} of those with the word in their command line, but for ours and the demo itself."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                line = f.read().decode(errors="replace").split("\0")
            if any(word in w for w in line) and int(pid) != os.getpid():
                found[int(pid)] = (line, os.readlink(f"/proc/{pid}/ns/net"))
        except OSError:
            continue
    return found


def members(space):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/ns/net") == space:
                found.append(int(pid))
        except OSError:
            continue
    return found


class Demo:
    """One whose temporary folder is in the test's own."""

    def __init__(self, work, *argv, user=None):
        self.work = work
        with open(f"{work}/out", "wb") as out, open(f"{work}/log", "ab") as log:
            self.process = grid.start([GRIDLINE, "demo", "--format", "json", *argv], stdout=out, stderr=log, stdin=subprocess.DEVNULL,
                                      env={**os.environ, "TMPDIR": work}, user=user, group=user)

    def log(self):
        with open(f"{self.work}/log") as f:
            return f.read()

    def folders(self):
        return [n for n in os.listdir(self.work) if n.startswith("gridline-demo.")]

    def all(self):
        return processes(f"{self.work}/gridline-demo.{self.process.pid}.")

    def roles(self):
        """The transfer service's processes: the client is the last to start."""
        return {pid: v for pid, v in self.all().items() if "gridline-transfer" in os.path.basename(v[0][0])}

    def wait_for_load(self):
        wait_for(lambda: self.process.poll() is not None or any("client" in v[0] for v in self.roles().values()), "the load")
        assert self.process.poll() is None, self.log()
        return {v[1] for v in self.all().values()}


def check_nothing_left(demo, spaces, here=os.readlink("/proc/self/ns/net")):
    wait_for(lambda: not demo.all(), f"its processes to be gone: {demo.all()}")
    for space in spaces - {here}:
        wait_for(lambda: not members(space), "its namespaces to be empty")
    assert not demo.folders(), demo.folders()


def case_findings(work):
    need_namespaces()
    demo = Demo(work, "--duration", "4s")
    spaces = demo.wait_for_load()
    assert len(spaces) == 6, spaces  # this one, where the gateway is, and one for each host
    assert demo.process.wait(grid.PATIENCE * 2) == 0, demo.log()
    with open(f"{work}/out") as f:
        found = json.load(f)
    print(json.dumps(found, indent=1))
    assert found["namespaces"] is True
    # Three streams, one of them with a small buffer.
    assert found["slow_stream"] == 2 and found["slow_stream_ms"] > 1.2 * found["other_streams_ms"]
    # Who is slow, against the baseline.
    assert found["baseline_transfers"] >= 5 and found["run_transfers"] >= 5
    assert found["server"] == "server2" and found["server_seconds"] > found["server_baseline_seconds"]
    assert found["changed_hosts"] == 0
    # The hop that the loss is in: of a block from its sending to its arrival, not what the disks do.
    assert found["block_hop_from"] in ("block.send", "block.header"), found["block_hop_from"]
    assert found["block_hop_ms"] > 1.2 * found["block_hop_baseline_ms"] > 0
    # Retransmits are in the pauses.
    assert found["bursts"] >= 2 and found["pauses"] >= 2
    inside = found["paused_retransmits"] / found["paused_seconds"]
    outside = found["other_retransmits"] / max(found["other_seconds"], 0.1)
    assert found["paused_retransmits"] >= 20 and inside > 2 * outside, (inside, outside)
    assert found["cause"] == "network"
    assert found["one_stream_mbit_s"] > 0 and found["three_streams_mbit_s"] > 0
    assert found["events"] > 1000
    check_nothing_left(demo, spaces)


def case_fallback(work):
    """Without namespaces, to the end. What pauses is the server, and no retransmit says otherwise."""
    if SCALE < 10:
        grid.skip("a long form: GRIDLINE_TEST_SCALE=10")
    demo = Demo(work, "--duration", "4s", "--no-namespaces")
    spaces = demo.wait_for_load()
    assert len(spaces) == 1, spaces
    assert demo.process.wait(grid.PATIENCE * 2) == 0, demo.log()
    with open(f"{work}/out") as f:
        found = json.load(f)
    assert found["namespaces"] is False and found["bursts"] >= 2 and found["run_transfers"] > 0, found
    check_nothing_left(demo, spaces)


def case_interrupted(work):
    """A signal in the middle of it."""
    need_namespaces()
    for signo in (signal.SIGINT, signal.SIGTERM):
        demo = Demo(work)
        spaces = demo.wait_for_load()
        assert grid.stop(demo.process, signo) == 128 + signo, demo.log()
        check_nothing_left(demo, spaces)


def case_user(work):
    """As an ordinary user, where users may have namespaces of their own."""
    need_namespaces()
    if grid.run("setpriv", "--reuid", str(NOBODY), "--clear-groups", "unshare", "-Urn", GRIDLINE, "version", check=False).returncode:
        grid.skip("an ordinary user can't have namespaces, or can't run what was built here")
    os.chmod(work, 0o777)
    demo = Demo(work, user=NOBODY)
    spaces = demo.wait_for_load()
    assert len(spaces) == 6, (spaces, demo.log())
    assert grid.stop(demo.process, signal.SIGINT) == 128 + signal.SIGINT, demo.log()
    check_nothing_left(demo, spaces)


def case_broken(work):
    """One of its processes is killed: it says so, and ends."""
    demo = Demo(work, "--no-namespaces")
    spaces = demo.wait_for_load()
    victim = next(pid for pid, v in demo.roles().items() if "scheduler" in v[0])
    os.kill(victim, signal.SIGKILL)
    assert demo.process.wait(grid.PATIENCE) == 1, demo.log()
    assert "scheduler was killed by signal 9" in demo.log(), demo.log()
    check_nothing_left(demo, spaces)


def case_killed(work):
    """kill -9: its processes end by themselves; its folder goes with the next demo. One that stands still then, too."""
    spaces, demos = set(), []
    for argv in ((), ("--no-namespaces",)) if os.geteuid() == 0 else (("--no-namespaces",),):
        demo = Demo(work, *argv)
        spaces |= demo.wait_for_load()
        if argv:
            server = next(pid for pid, v in demo.roles().items() if "server" in v[0] and any("server2" in w for w in v[0]))
            os.kill(server, signal.SIGSTOP)  # as the demo itself does
        assert grid.stop(demo.process, signal.SIGKILL) == -signal.SIGKILL
        demos.append(demo)
    assert len(demos[-1].folders()) >= 1
    last = Demo(work, "--no-namespaces")
    spaces |= last.wait_for_load()
    assert len(last.folders()) == 1 and "removing what a demo that was killed has left" in last.log(), (last.folders(), last.log())
    assert grid.stop(last.process, signal.SIGINT) == 128 + signal.SIGINT
    for demo in (*demos, last):
        check_nothing_left(demo, spaces)


def case_beside(work):
    """A second one leaves the first alone, and its folder."""
    first = Demo(work, "--no-namespaces")
    first.wait_for_load()
    second = Demo(work, "--no-namespaces")
    second.wait_for_load()
    assert len(second.folders()) == 2 and first.process.poll() is None, first.log()
    for demo in (first, second):
        assert grid.stop(demo.process, signal.SIGTERM) == 128 + signal.SIGTERM, demo.log()
    check_nothing_left(second, set())


if __name__ == "__main__":
    grid.main(globals(), sys.argv)
