#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kill -9 of a real guard at random moments, while faults fire and two actions run for each: one that may be repeated after a
crash and one that may not. The program that they run writes down action, host and attempt, synced, before it does anything else.
Then the guard runs in peace, and its audit, its faults and what the program wrote are compared: no fault without both actions, none
repeated beyond its policy, each that did not come to a known end is told as unknown, nothing is left running.

    guard_kill.py kill GUARD GATEWAY [KILLS]

guard_kill.c does the same at every commit point."""
import collections
import json
import os
import random
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "flow"))

import grid
from grid import Gateway, Guard, wait_for

GUARD, GATEWAY = sys.argv[2:4]
KILLS = int(sys.argv[4]) if len(sys.argv) > 4 else 25 * int(os.environ.get("GRIDLINE_TEST_SCALE", "1"))
GRIDLINE = os.path.join(os.path.dirname(GATEWAY), "gridline")
ATTEMPTS = 4

CONFIG = """
default_rules = false
exec again { program = "%(program)s"  args = {"{action}", "{host}", "{attempt}"}  after_crash = "repeat"  attempts = %(attempts)d
             retry = 10ms  retry_max = 10ms  rate = "100000/1s"  concurrency = 4  breaker = 0  group = 0s }
exec once { program = "%(program)s"  args = {"{action}", "{host}", "{attempt}"}  after_crash = "forget"  attempts = %(attempts)d
            retry = 10ms  retry_max = 10ms  rate = "100000/1s"  concurrency = 4  breaker = 0  group = 0s }
rule hot {
    query = "SELECT host, degrees FROM heat_latest WHERE degrees > 80"
    clear_query = "SELECT host FROM heat_latest WHERE degrees < 10"
    every = 100ms  fresh = 1d  trust = {"heat"}
    on_fire = {"again", "once"}
}
"""


def make_program(work):
    """Appends a line and syncs it, and then takes a little time, so that kills find it at work."""
    path = f"{work}/deed"
    with open(path, "w") as f:
        f.write(f'#!/bin/sh\necho "$1 $2 $3" >> {work}/deeds\nsync {work}/deeds\nsleep 0.0$(($$ % 5))\n')
    os.chmod(path, 0o755)
    return path


def deeds(work):
    """How often each action ran for each host."""
    count = collections.Counter()
    if os.path.exists(f"{work}/deeds"):
        with open(f"{work}/deeds") as f:
            for line in f:
                action, host, _ = line.split()
                count[action, host] += 1
    return count


def audit(guard):
    """The ends of each action for each fault: (action, fault) -> results, and the last one among them."""
    out = subprocess.run([GRIDLINE, "audit", "show", "--long", "--format", "ndjson", f"{guard.folder}/state"], check=True,
                         stdout=subprocess.PIPE, text=True)
    ends, over = collections.defaultdict(list), set()
    for line in map(json.loads, out.stdout.splitlines()):
        if line["what"] == "action.end":
            ends[line["action"], line["fault"]].append(line["result"])
            if line["last"] == "yes":
                over.add((line["action"], line["fault"]))
    return ends, over


def run_verify(guard, *argv):
    return subprocess.run([GRIDLINE, "audit", "verify", *argv, f"{guard.folder}/state"], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)


def check_tampering(guard, head):
    """A line that is changed is found by the command, and so is one cut off at the end, by the head that was kept."""
    path = f"{guard.folder}/state/audit/audit-000001.log"
    with open(path, "rb") as f:
        lines = f.read().splitlines(keepends=True)
    assert run_verify(guard, "--head", head).returncode == 0
    with open(path, "wb") as f:
        f.writelines(lines[:-1])
    assert run_verify(guard).returncode == 0
    assert run_verify(guard, "--head", head).returncode == 1
    with open(path, "wb") as f:
        f.writelines([lines[0], lines[1].replace(b"2", b"3", 1), *lines[2:]])
    out = run_verify(guard)
    assert out.returncode == 1 and "audit-000001.log:2" in out.stdout, out.stdout
    with open(path, "wb") as f:
        f.writelines(lines)


def processes(work):
    """Those whose command line names our folder."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                line = f.read().decode(errors="replace")
        except OSError:
            continue
        if f"{work}/deed" in line:
            found.append((pid, line))
    return found


def heat(gateway, host):
    subprocess.run([GRIDLINE, "log", "--to", "unix:" + gateway.socket, "--host", host, "heat", "degrees=90"], check=True)


def start_listening(guard):
    before = len(guard.log()) if os.path.exists(guard.folder + "/log") else 0
    guard.start()
    wait_for(lambda: "listening" in guard.log()[before:], "a subscription")


def case_kill(work):
    rnd = random.Random(7)
    gateway = Gateway(GATEWAY, work, "gateway", "tcp://127.0.0.1:0", settings=(
        f"state_dir={work}/state", f"archive.dir={work}/archive")).start()
    guard = Guard(GUARD, work, "unix:" + gateway.socket, CONFIG % {"program": make_program(work), "attempts": ATTEMPTS})
    hosts = []
    for _ in range(KILLS):
        start_listening(guard)
        for _ in range(rnd.randrange(5)):
            hosts.append(f"h{len(hosts)}")
            heat(gateway, hosts[-1])
        time.sleep(rnd.random() * 0.4)  # the moment of the kill: any will do
        guard.stop(signal.SIGKILL)
        wait_for(lambda: not processes(work), "what it had started dies with it")
    start_listening(guard)
    for host in hosts:  # what it was told just before a kill it may not have judged
        heat(gateway, host)
    listed = lambda: {f["host"]: f["fault"] for f in guard.faults("--all", "--rule", "hot")}
    wait_for(lambda: len(listed()) == len(hosts), "all faults")
    faults = listed()
    all_of = {(action, fault) for action in ("again", "once") for fault in faults.values()}
    wait_for(lambda: all_of <= audit(guard)[1], "the end of every action")
    assert guard.stop() == 0, guard.log()
    ends, over = audit(guard)
    count = deeds(work)
    assert sorted(faults) == sorted(hosts)
    assert {host for _, host in count} <= set(hosts), "an action about nothing"
    assert set(ends) == all_of == over, "an order that was invented or lost"
    for host, fault in faults.items():
        again, once = count["again", host], count["once", host]
        assert again <= ATTEMPTS, (host, again)
        assert again >= 1 or "unknown" in ends["again", fault], (host, ends["again", fault])
        assert once <= 1, (host, once)
        assert once == 1 or set(ends["once", fault]) == {"unknown"}, (host, ends["once", fault])
    verify = run_verify(guard)
    assert verify.returncode == 0, verify.stdout
    check_tampering(guard, re.search("head ([0-9a-f]{64})", verify.stdout).group(1))
    assert not processes(work), processes(work)
    gateway.stop()
    print(f"{KILLS} kills, {len(hosts)} faults: {sum(n > 1 for (a, _), n in count.items() if a == 'again')} repeated, "
          f"{sum('unknown' in e for e in ends.values())} unknown; {verify.stdout.strip()}")


grid.main(globals(), ["", "kill"])
