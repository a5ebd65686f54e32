#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The default rules that are asked at a gateway, with a real one and a real guard: each fires for what it is about and clears when
that is over, and none fires where all is well.

    defaults_test.py CASE GUARD GATEWAY AGENT"""
import errno
import json
import os
import signal
import subprocess
import sys

import grid
from grid import Agent, Gateway, Guard, wait_for

GUARD, GATEWAY, AGENT = sys.argv[2:5]
# What a machine that runs many tests may say of itself.
OF_THE_MACHINE = {"disk-full", "inodes-full", "disk-full-soon", "memory-low", "memory-pressure"}


def rule_rows(guard, *argv):
    return [json.loads(l) for l in guard.gridline("rule", *argv, "--format", "json").stdout.splitlines()]


def rule(guard, name):
    return rule_rows(guard, "show", name)[0]


def defaults(work, gateway):
    """Names and queries, as a guard has them that is told nothing."""
    guard = Guard(GUARD, work, "unix:" + gateway.socket, "", name="asked").start()
    found = {r["rule"]: rule(guard, r["rule"])["query"] for r in rule_rows(guard, "list") if r["rule"] != "guard.blind"}
    assert len(found) >= 14, found
    guard.stop()
    return found


def quick(rules, only=None, **queries):
    """All rules at once and often; those not in `only` are off."""
    text = ""
    for name in rules:
        if only and name not in only:
            text += f"rule {name} {{ enabled = false }}\n"
            continue
        query = queries.get(name.replace("-", "_"))
        text += f"rule {name} {{ every = 300ms for = 300ms clear_for = 300ms {'query = ' + json.dumps(query) if query else ''} }}\n"
    return text


def gateway_of(work, *settings, archive=None):
    return Gateway(GATEWAY, work, "gateway", "tcp://127.0.0.1:0", settings=(
        f"state_dir={work}/state", f"archive.dir={archive or work + '/archive'}", *settings)).start()


def sql(gateway, text):
    out = gateway.gridline("sql", "--format", "json", text, check=False)
    return json.loads(out.stdout)["rows"] if out.returncode == 0 else []  # an event that nobody has sent is no table


def state(guard, name):
    """Of the rule's only fault."""
    found = [f for f in guard.faults("--all") if f["rule"] == name]
    assert len(found) <= 1, found
    return found[0]["state"] if found else None


def case_well(work):
    """Every rule is evaluated, has no reason to fail, and says nothing."""
    gateway = gateway_of(work)
    rules = defaults(work, gateway)
    agent = Agent(AGENT, work, "well", [gateway.addresses[0]], "filesystem { every = 200ms refresh = 1s }").start()
    guard = Guard(GUARD, work, "unix:" + gateway.socket, quick(rules)).start()
    for name in rules:
        wait_for(lambda: rule(guard, name)["evaluations"] - rule(guard, name)["failures"] >= 5 and rule(guard, name)["why"] == "",
                 f"{name} is evaluated")
    firing = [f for f in guard.faults() if f["state"] == "firing" and f["rule"] not in OF_THE_MACHINE]
    assert not firing, firing
    agent.stop()


def case_restarts(work):
    gateway = gateway_of(work)
    rules = defaults(work, gateway)
    query = rules["agent-restarts"]
    assert "at('now-1h')" in query
    soon = quick(rules, {"agent-restarts"}, agent_restarts=query.replace("at('now-1h')", "at('now-20s')"))
    agent = Agent(AGENT, work, "restless", [gateway.addresses[0]], "")
    guard = Guard(GUARD, work, "unix:" + gateway.socket, soon).start()
    starts = lambda: len(sql(gateway, "SELECT 1 FROM agent_state WHERE state = 'started'"))
    for n in range(1, 5):
        assert state(guard, "agent-restarts") is None, guard.faults()
        agent.start()
        wait_for(lambda: gateway.state("restless") == "live", "it is live")
        wait_for(lambda: starts() == n, "its start is known")
        if n < 4:
            agent.stop(signal.SIGKILL)
    wait_for(lambda: state(guard, "agent-restarts") == "firing", "a fire")
    wait_for(lambda: state(guard, "agent-restarts") == "cleared", "a clear, when they are long ago")


def fill(f):
    """All that there is room for now: what the archive itself gives up, too."""
    try:
        while True:
            f.write(b"x" * 4096)
    except OSError as e:
        assert e.errno == errno.ENOSPC, e
    return True


def case_archive(work):
    """The archive's disk is full: it fails, and that is over when there is room."""
    small = f"{work}/small"
    os.makedirs(small)
    if os.geteuid() != 0 or grid.run("mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", small, check=False).returncode:
        grid.skip("a full disk needs the right to mount a small one")
    try:
        gateway = gateway_of(work, "archive.flush=1s", archive=small + "/archive")
        rules = defaults(work, gateway)
        agent = Agent(AGENT, work, "busy", [gateway.addresses[0]], "heartbeat { every = 200ms refresh = 200ms }\n").start()
        guard = Guard(GUARD, work, "unix:" + gateway.socket,
                      quick(rules, {"archive-failing", "archive-behind"})).start()
        wait_for(lambda: sql(gateway, "SELECT time FROM heartbeat LIMIT 1"), "an archive with heartbeats")
        for name in ("archive-failing", "archive-behind"):
            wait_for(lambda: rule(guard, name)["evaluations"] - rule(guard, name)["failures"] >= 3, f"{name} is evaluated")
            assert state(guard, name) is None, guard.faults()
        with open(small + "/fill", "wb", buffering=0) as f:
            wait_for(lambda: fill(f) and state(guard, "archive-failing") == "firing", "it can't write")
        os.unlink(small + "/fill")
        wait_for(lambda: state(guard, "archive-failing") == "cleared", "it can write again")
        agent.stop()
        guard.stop()
        gateway.stop()
    finally:
        grid.stop_all()
        grid.run("umount", small, check=False)


def case_dropped(work):
    """Samples that came while there was no gateway, at an agent that does not keep them."""
    gateway = gateway_of(work)
    rules = defaults(work, gateway)
    query = rules["events-dropped"]
    soon = query.replace("at('now-15m')", "at('now-15s')")
    assert soon != query
    agent = Agent(AGENT, work, "cut", [gateway.addresses[0]], "spool_samples = false\nself { every = 300ms refresh = 300ms }\nvector { every = 10ms }\n"
                  "load { every = 10ms refresh = 10ms }\n").start()
    guard = Guard(GUARD, work, "unix:" + gateway.socket, quick(rules, {"events-dropped"}, events_dropped=soon)).start()
    wait_for(lambda: sql(gateway, "SELECT time FROM self LIMIT 1"), "what the agent says of itself")
    wait_for(lambda: rule(guard, "events-dropped")["evaluations"] - rule(guard, "events-dropped")["failures"] >= 3, "looks")
    assert state(guard, "events-dropped") is None, guard.faults()
    port = gateway.addresses[0].rsplit(":", 1)[1]
    gateway.stop()
    gateway.address = f"tcp://127.0.0.1:{port}"
    # The agent tells those on its own host what it drops.
    tail = grid.start([gateway.command, "tail", "--gateway", f"unix:{agent.folder}/run/agent.sock", "-e", "self", "--format", "json"],
                      stdout=subprocess.PIPE, text=True)
    while json.loads(tail.stdout.readline()).get("samples_dropped", 0) < 300:
        pass
    grid.stop(tail)
    gateway.start()
    wait_for(lambda: state(guard, "events-dropped") == "firing", "a fire")
    wait_for(lambda: state(guard, "events-dropped") == "cleared", "a clear, when it is long ago")
    agent.stop()


def case_ledger(work):
    """samples-lost and archive-behind over tables of the test's own, in the gateway's SQL: datagrams that are dropped are sent again, and
    an archive that is a minute behind takes a minute."""
    gateway = gateway_of(work)
    rules = defaults(work, gateway)
    agent = Agent(AGENT, work, "here", [gateway.addresses[0]], "").start()
    wait_for(lambda: sql(gateway, "SELECT 1 FROM heartbeat LIMIT 1"), "a heartbeat")
    ledger = ("WITH ledger(host, class, state, lost, taken) AS (VALUES ('few', 'samples', 'open', 99, 100), "
              "('little', 'samples', 'open', 200, 1000000), ('closed', 'samples', 'closed', 5000, 100), "
              "('lossy', 'samples', 'open', 60, 2000), ('lossy', 'samples', 'open', 60, 3000), ('none', 'samples', 'open', 0, 0)) ")
    assert sql(gateway, ledger + rules["samples-lost"]) == [["lossy", 120, 5000, 2.3]], sql(gateway, ledger + rules["samples-lost"])
    assert sql(gateway, rules["samples-lost"]) == []
    behind = rules["archive-behind"]
    assert behind.startswith("WITH ")
    for kept, came, expected in (("now-90s", "now", [["archive", 90]]), ("now-50s", "now", []), ("now-10m", "now", [["archive", 300]]),
                                 ("now", "now-10m", [])):
        tables = (f"WITH heartbeat(time) AS (VALUES (at('{kept}'))), heartbeat_latest(time) AS (VALUES (at('{came}'))), ")
        assert sql(gateway, tables + behind[5:]) == expected, (kept, came, sql(gateway, tables + behind[5:]))
    empty = "WITH heartbeat(time) AS (SELECT 1 WHERE 0), heartbeat_latest(time) AS (VALUES (at('now'))), "
    assert sql(gateway, empty + behind[5:]) == []  # heartbeats are not archived here
    assert sql(gateway, behind) == []
    agent.stop()


grid.main(globals(), sys.argv)
