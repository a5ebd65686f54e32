#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kill -9 of the gateway and of agents at random instants, under load, 200 times (GRIDLINE_TEST_SCALE times as often): no
event that was acknowledged is lost, none is there twice, and an epoch whose producer was killed is open, with the right
lower bound.

The load: workers (emulated, by the real protocol) that keep what is not acknowledged, and agents that read a log that
grows; agents are killed and started again, the gateway, too.

    grid_kill.py AGENT GATEWAY WORKERS"""
import json
import os
import random
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "flow"))
import grid
from grid import Agent, Gateway, wait_for

AGENT, GATEWAY, WORKERS = sys.argv[2:5]
KILLS = 200 * int(os.environ.get("GRIDLINE_TEST_SCALE", "1"))
AGENTS = 2


class Log:
    """A log that an agent reads, a line every few milliseconds."""

    def __init__(self, path):
        self.path, self.lines, self.is_over = path, 0, False
        open(path, "w").close()
        self.thread = threading.Thread(target=self.write, daemon=True)
        self.thread.start()

    def write(self):
        with open(self.path, "a", buffering=1) as f:
            while not self.is_over:
                f.write(f"line {self.lines + 1}\n")
                self.lines += 1
                time.sleep(0.005)

    def end(self):
        self.is_over = True
        self.thread.join()


def agent_config(work, host, log):
    return (f'state_dir = "{work}/{host}/state"\nlease = 2s\ndefaults = false\n'
            f'logfile app {{ path = "{log}"  filter = "{work}/filter.conf"  from = start  every = 50ms }}')


def blocks_of(gateway):
    out = grid.run(GATEWAY, "--dump", gateway.journal).stdout
    return [b for b in map(json.loads, out.splitlines()) if not bytes.fromhex(b["producer"]).startswith(b"gridline")]


def held(gateway):
    """By (producer, epoch) the sequence numbers in the journal; each is there once."""
    ranges = {}
    for b in blocks_of(gateway):
        ranges.setdefault((b["producer"], b["epoch"]), []).append((b["first_seq"], b["count"]))
    for origin, list_of in ranges.items():
        list_of.sort()
        for (first, count), (behind, _) in zip(list_of, list_of[1:]):
            assert first + count <= behind, f"{origin}: numbers from {behind} on are stored twice"
    return ranges


def case_kill(work):
    seed = int(os.environ.get("GRIDLINE_TEST_SEED", random.randrange(1 << 30)))
    print("seed", seed)
    rng = random.Random(seed)
    with open(work + "/filter.conf", "w") as f:
        f.write("types = {\"n=uint\"}\nevent app.line {\n    match = '^line (?<n>\\d+)$'\n}\n")
    gateway = Gateway(GATEWAY, work, "gateway", "tcp://127.0.0.1:0", settings=["lease.time=2s", "lease.renew=500ms"]).start()
    gateway.address = gateway.addresses[0]  # the same port in every life
    logs, agents = {}, []
    for i in range(AGENTS):
        host = f"agent{i}"
        logs[host] = Log(f"{work}/{host}.log")
        address = gateway.address.removeprefix("tcp://" if i else "")  # one agent a host and address: another spelling
        agents.append(Agent(AGENT, work, host, [address], agent_config(work, host, logs[host].path)).start())
    out = open(work + "/emulator.json", "w")
    emulator = grid.start([WORKERS, "--gateway", gateway.address, "--workers", "20", "--events", "2000", "--settle", "60s"],
                          stdout=out)
    killed = {"gateway": 0, "agent": 0}
    while sum(killed.values()) < KILLS:
        time.sleep(rng.uniform(0.01, 0.35))  # where it falls is to be random
        if rng.random() < 0.5:
            gateway.stop(signal.SIGKILL)
            killed["gateway"] += 1
            gateway.start()
        else:
            agent = rng.choice(agents)
            agent.stop(signal.SIGKILL)
            killed["agent"] += 1
            agent.start()
    for log in logs.values():
        log.end()
    emulator.send_signal(signal.SIGTERM)
    assert emulator.wait(grid.PATIENCE) == 0, open(work + "/emulator.json").read()
    out.close()
    with open(work + "/emulator.json") as f:
        done = json.loads(f.read().splitlines()[-1])
    assert done["events_acknowledged"] == done["events"] > 0, done

    def lines():
        by_host = {}
        for e in gateway.events("app.line"):
            by_host.setdefault(e["host"], []).append(e["n"])
        return by_host

    total = sum(log.lines for log in logs.values())
    wait_for(lambda: sum(map(len, lines().values())) >= total, f"{total} lines")
    # One agent is killed for good: its epoch stays open; the other says goodbye.
    agents[0].stop(signal.SIGKILL)
    assert agents[1].stop() == 0, agents[1].log()
    ranges = held(gateway)
    for row in gateway.rows("ledger"):
        if row["class"] != "events" or (row["producer"], row["epoch"]) not in ranges:
            continue
        stored = sum(n for _, n in ranges[row["producer"], row["epoch"]])
        first, count = ranges[row["producer"], row["epoch"]][-1]
        assert row["passed"] == stored, row
        if row["state"] == "open":
            assert row["tail"].startswith("unknown") and row["at_least"] >= first + count - 1, row
    open_hosts = {r.get("host") for r in gateway.rows("ledger") if r["state"] == "open" and r["class"] == "events"}
    assert "agent0" in open_hosts and "agent1" not in open_hosts, open_hosts
    assert gateway.stop() == 0
    for host, numbers in lines().items():
        expected = list(range(1, logs[host].lines + 1))
        assert sorted(numbers) == expected, f"{host}: {len(numbers)} lines, {len(set(numbers))} different, {len(expected)} written"
    emulated = sum(n for origin, list_of in held(gateway).items() for _, n in list_of) - total
    assert emulated >= done["events_acknowledged"], (emulated, done)
    gateway.accounts()  # adds up
    print(f"{killed['gateway']} kills of the gateway, {killed['agent']} of agents; {done['events']} events of emulated workers and "
          f"{total} lines of agents, each acknowledged and there once")


grid.main(globals(), ["", "kill"])
