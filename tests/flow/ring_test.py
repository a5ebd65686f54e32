#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Samples that wait on the agent's disk while the gateway is away: a real agent and a real gateway. Heartbeats have numbers, so that a
gap is seen.

    ring_test.py CASE GATEWAY AGENT"""
import json
import os
import signal
import subprocess
import sys

sys.dont_write_bytecode = True  # the tree stays as it is
import grid
from grid import Agent, Gateway, skip, wait_for

GATEWAY, AGENT = "", ""
BEATS = "defaults = false\nheartbeat { every = 50ms  refresh = 50ms }\n"


def gateway_of(work):
    g = Gateway(GATEWAY, work, "gateway", "127.0.0.1:0", settings=[f"archive.dir={work}/archive"]).start()
    g.address = g.addresses[0].split("//")[-1]  # the same port when it comes back
    return g


def sql(g, query):
    """[] while there is no such table"""
    out = g.gridline("sql", "--format", "ndjson", query, check=False)
    assert out.returncode == 0 or "no such table" in out.stderr, out
    return [json.loads(line) for line in out.stdout.splitlines()]


def beats(g, where="1"):
    """[(started, sequence, time)] in the order of their own times"""
    return [(r["started"], r["sequence"], r["time"]) for r in sql(g, f"SELECT started, sequence, time FROM heartbeat WHERE {where} ORDER BY time")]


def check_whole(g, rows):
    """Each run's heartbeats: every number once, in the order of their times. What was on the way when the gateway ended is lost, as samples
    may be, and the ledger counts it: a round or two."""
    missing = 0
    for run in {r[0] for r in rows}:
        numbers = [r[1] for r in rows if r[0] == run]
        assert numbers == sorted(set(numbers)) and numbers[0] == 1, (run, numbers)
        missing += numbers[-1] - len(numbers)
    lost = sum(r["lost"] for r in g.rows("ledger") if r["class"] == "samples")
    assert missing <= 2 and (missing == 0 or lost >= missing), (missing, lost)


def ring_rows(g):
    """Accounts of rows that waited: the second epoch of an agent's samples."""
    return [r for r in g.rows("ledger") if r["epoch"] == 2 and r["class"] == "events"]


def check_ledger(g):
    out = g.gridline("ledger").stdout
    assert out.count("adds up: yes") == 2 and "NO" not in out.split("at the senders")[1], out
    return out


def written(agent):
    folder = agent.folder + "/state/samples"
    return sum(os.path.getsize(f"{folder}/{f}") for f in os.listdir(folder)) if os.path.isdir(folder) else 0


def case_outage(work):
    """The gateway is away and comes back: the samples of the outage are there, with their own times and without a gap, and are counted."""
    g = gateway_of(work)
    agent = Agent(AGENT, work, "node1", [g.addresses[0]], BEATS).start()
    wait_for(lambda: len(beats(g)) > 10, "heartbeats")
    g.stop()
    before = written(agent)
    wait_for(lambda: written(agent) > before + 3000, "an outage of many rounds")
    g.start()
    wait_for(lambda: any(r["passed"] > 30 and r.get("sender_queued") == 0 for r in ring_rows(g)), "the ring is empty")
    last = beats(g)[-1][1]
    wait_for(lambda: beats(g)[-1][1] > last, "live heartbeats")
    check_whole(g, beats(g))
    row = ring_rows(g)[0]
    assert row["host"] == "node1" and row["sender_dropped"] == 0 and row["lost"] == 0, row
    check_ledger(g)
    agent.stop()
    states = wait_for(lambda: [r["state"] for r in ring_rows(g)] == ["closed"] and ring_rows(g), "the agent's goodbye")
    assert states[0]["tail"] == "known" and states[0]["sender_passed"] == states[0]["sender_taken"] == states[0]["passed"], states
    g.stop()


def case_killed(work):
    """The agent is killed in an outage, and the next one in it, too: what they wrote is sent by the third, under their own names."""
    g = gateway_of(work)
    address = g.addresses[0]
    g.stop()
    agent = Agent(AGENT, work, "node1", [address], BEATS)
    for _ in range(2):
        agent.start()
        before = written(agent)
        wait_for(lambda: written(agent) > before + 3000, "samples on disk")
        agent.stop(signal.SIGKILL)
    agent.start()
    g.start()
    wait_for(lambda: len({r[0] for r in beats(g)}) == 3, "heartbeats of all three")
    wait_for(lambda: sum(r["state"] == "closed" for r in ring_rows(g)) == 2, "final counts of those that were killed")
    check_whole(g, beats(g))
    for r in ring_rows(g):
        assert r["sender_dropped"] == 0 and r["lost"] == 0, r
    check_ledger(g)
    agent.stop(signal.SIGKILL)
    g.stop()


def case_overflow(work):
    """A ring that is too small for the outage gives up its oldest rows: what is missing is counted by reason, exactly."""
    g = gateway_of(work)
    address = g.addresses[0]
    g.stop()
    many = BEATS + "samples_max = 1MiB\nbudget { cpu = 100% }\n" + "".join(f"{name} {{ every = 10ms  refresh = 10ms }}\n" for name in ("paging", "memory", "network", "ip", "cpu"))
    agent = Agent(AGENT, work, "node1", [address], many).start()
    folder = agent.folder + "/state/samples"
    first = lambda: min((f for f in os.listdir(folder) if f.endswith(".seg")), default=None) if os.path.isdir(folder) else None
    wait_for(first, "a ring")
    oldest = first()
    wait_for(lambda: first() != oldest, "the oldest gives way")
    assert written(agent) < 2 << 20
    g.start()
    row = wait_for(lambda: next((r for r in ring_rows(g) if r["passed"] and r.get("sender_queued") == 0), None), "the ring is empty")
    assert row["sender_dropped"] == row["sender_forced"] > 0, row
    assert row["passed"] == row["sender_passed"] and row["sender_taken"] == row["sender_passed"] + row["sender_forced"], row
    assert row["lost"] == 0, row  # they are dropped, not lost
    assert f"forced {row['sender_forced']:,}" in check_ledger(g)
    agent.stop()
    g.stop()


def case_full(work):
    """No room on the disk when the agent starts: it runs without the ring, and says so."""
    if os.geteuid() != 0:
        skip("a full disk needs root")
    state = work + "/state"
    os.makedirs(state)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,nr_inodes=8", "tmpfs", state], check=False).returncode:
        skip("no mounts here")
    try:
        for i in range(7):  # no inode is left
            open(f"{state}/{i}", "w", encoding="ascii").close()
        g = gateway_of(work)
        agent = Agent(AGENT, work, "node1", [g.addresses[0]], BEATS + f'state_dir = "{state}"\n').start()
        wait_for(lambda: len(beats(g)) > 5, "samples all the same")
        assert "samples are dropped and counted while there is no gateway" in agent.log(), agent.log()
        agent.stop()
        g.stop()
    finally:
        grid.stop_all()
        subprocess.run(["umount", state], check=True)


if __name__ == "__main__":
    GATEWAY, AGENT = sys.argv[2:4]
    grid.main({name: f for name, f in globals().items() if name.startswith("case_")}, sys.argv)
