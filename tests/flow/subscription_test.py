#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Subscriptions at a real gateway (JM-4, SV-1).

    subscription_test.py CASE AGENT GATEWAY [SECONDS]

modes: a real agent's events by each way to ask for them, compared with what a few lines here make of the full stream.
slow: 100 consumers, of which one stops reading and one reads a byte at a time: the others get everything, and each of the two
what it got and what it was told it lost adds up to the event. SECONDS is how long it stops reading (default: until its
queue has run over)."""
import json
import os
import re
import selectors
import signal
import struct
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True  # the tree stays as it is
import grid
from frames import EVENTS, GAP, Consumer
from grid import wait_for

SERIES = [10, 40, 80, 95, 97, 88, 91, 60, 20, 93, 84, 79, 81, 99, 5, 5, 5, 50]


# ---------------------------------------------------------------- modes

def crossings(values, level, hysteresis):
    """Values that get to the level, or below level - hysteresis after that."""
    out, above = [], None
    for v in values:
        before = above
        if above is None:
            above = v >= level
        elif v >= level:
            above = True
        elif v < level - hysteresis:
            above = False
        if before is not None and above != before:
            out.append(v)
    return out


def changes(values):
    return [v for i, v in enumerate(values) if i == 0 or v != values[i - 1]]


def deltas(values, enough):
    out = []
    for v in values:
        if not out or enough(out[-1], v):
            out.append(v)
    return out


MODES = {
    "all": ([], lambda v: v),
    "where": (["--where", "value > 80 AND value < 95"], lambda v: [x for x in v if 80 < x < 95]),
    "host": (["--host", "nobody*"], lambda v: []),
    "on_change": (["--on-change", "value"], changes),
    "cross": (["--cross", "value:90"], lambda v: crossings(v, 90, 0)),
    "cross with hysteresis": (["--cross", "value:90:8"], lambda v: crossings(v, 90, 8)),
    "delta": (["--delta", "value:30"], lambda v: deltas(v, lambda a, b: abs(b - a) >= 30)),
    "delta in percent": (["--delta", "value:50%"], lambda v: deltas(v, lambda a, b: abs(b - a) >= 0.5 * abs(a))),
}


def case_modes(work):
    agent_program, gateway_program = sys.argv[2], sys.argv[3]
    # Each reading is the next number of the series, and the last of them for ever.
    script = f"{work}/series"
    with open(script, "w") as f:
        f.write(f"#!/bin/sh\nn=$(cat {work}/at 2>/dev/null || echo 0)\nset -- {' '.join(map(str, SERIES))}\n"
                f"echo $((n + 1)) >{work}/at\nshift $n 2>/dev/null || set -- 0\n[ $# -gt 0 ] || set -- 0\n"
                "echo $1\n")
    os.chmod(script, 0o755)
    gateway = grid.Gateway(gateway_program, work, "gateway", "tcp://127.0.0.1:0").start()
    agent = grid.Agent(agent_program, work, "worker", gateway.addresses[:1],
                       f'defaults = false\nexec series {{ command = {{"{script}"}}  format = value  every = 50ms  refresh = 50ms }}\n')
    tails = {}
    for name, (options, _) in MODES.items():  # live, each from the first event on
        tails[name] = grid.start([gateway.command, "tail", "--gateway", "unix:" + gateway.socket, "--event", "series", "--format",
                                  "json", *options], stdout=subprocess.PIPE, stderr=open(f"{work}/{name}", "w"), text=True)
    wait_for(lambda: len(gateway.rows("subscriptions")) == len(MODES), "all subscriptions")
    agent.start()
    wait_for(lambda: os.path.exists(f"{work}/at") and int(open(f"{work}/at").read() or 0) > len(SERIES) + 3, "the series")
    agent.stop()
    gateway.stop()  # says goodbye behind the last event
    for name, p in tails.items():
        wait_for(lambda: "hung up" in open(f"{work}/{name}").read(), f"the end of {name}")
        p.send_signal(signal.SIGTERM)
    got = {name: [json.loads(line)["value"] for line in p.communicate()[0].splitlines()] for name, p in tails.items()}
    full = [e["value"] for e in gateway.events() if e["name"] == "series"]
    assert full[:len(SERIES)] == SERIES, full
    assert got["all"] == full, (got["all"], full)
    for name, (_, expected) in MODES.items():
        assert got[name] == expected(full), (name, got[name], expected(full))
        print(f"{name}: {len(got[name])} of {len(full)}")


# ---------------------------------------------------------------- slow

class Counted:
    """A consumer that counts; with a filter of its own, so that nothing is shared."""

    def __init__(self, gateway, queue="4MiB", where=""):
        self.link = Consumer(gateway.socket).subscribe(events="burst", where=where, format="ndjson", queue=queue)
        self.events = self.lost = 0
        self.delays = []

    def take(self):
        alive = self.link.receive()
        now = time.monotonic_ns()
        for kind, payload in self.link.frames():
            if kind == EVENTS:
                self.events += struct.unpack_from("<I", payload, 20)[0]
                sent = re.search(rb'"sent":(\d+)', payload[-400:] if len(payload) > 400 else payload)
                if sent:
                    self.delays.append(now - int(sent.group(1)))
            elif kind == GAP:
                self.lost += struct.unpack_from("<Q", payload, 4)[0]
        return alive


class Publisher(threading.Thread):
    """Bursts of lines until it is told to stop."""

    def __init__(self, path, burst):
        super().__init__(daemon=True)
        self.path, self.burst, self.n, self.is_stopping = path, burst, 0, threading.Event()

    def run(self):
        import socket
        s = socket.socket(socket.AF_UNIX)
        s.connect(self.path)
        pad = "x" * 200
        while not self.is_stopping.wait(0.05):
            now = time.monotonic_ns()
            stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            lines = [f'{{"time":"{stamp}","host":"h","prog":"p","name":"burst","pad":"{pad}","n":{self.n + i},"sent":{now}}}\n'
                     for i in range(self.burst)]
            s.sendall("".join(lines).encode())
            self.n += self.burst
        s.close()


def p99(values):
    return sorted(values)[int(len(values) * 0.99)] / 1e6 if values else float("nan")


def case_slow(work):
    seconds = float(sys.argv[4]) if len(sys.argv) > 4 else 0
    gateway = grid.Gateway(sys.argv[3], work, "gateway", "tcp://127.0.0.1:0").start()
    fast = [Counted(gateway, where=f"n >= -{i}") for i in range(98)]
    stuck, slow = Counted(gateway, queue="64KiB"), Counted(gateway, queue="64KiB")
    poll = selectors.DefaultSelector()
    for c in fast:
        poll.register(c.link.socket, selectors.EVENT_READ, c)
    publisher = Publisher(gateway.socket, 40)
    publisher.start()

    def serve(until, each=lambda: None):
        end, looked = time.monotonic() + grid.PATIENCE + seconds, 0
        while not until():
            assert time.monotonic() < end, "too long"
            for key, _ in poll.select(0.05):
                assert key.data.take()
            if time.monotonic() > looked + 1:
                looked = time.monotonic()
                each()

    lost = {}

    def look():
        # The last two that came; rows say who by the consumer's name.
        rows = gateway.rows("subscriptions")
        for row in rows:
            assert row["queued_bytes"] <= 70 << 10 or not row["where"] == "", row
        lost["sum"] = sum(r["lost"] for r in rows)
        lost["of"] = sum(1 for r in rows if r["lost"])
        slow.link.buffer += slow.link.socket.recv(1)  # a byte a second

    for c in (stuck, slow):  # first everybody reads
        poll.register(c.link.socket, selectors.EVENT_READ, c)
    serve(lambda: min(c.events for c in fast) > 2000)
    before = p99([d for c in fast for d in c.delays])
    for c in fast:
        c.delays.clear()
    for c in (stuck, slow):
        poll.unregister(c.link.socket)
    began = time.monotonic()
    serve(lambda: lost.get("of") == 2 and lost["sum"] > 5000 and time.monotonic() - began > seconds, look)
    after = p99([d for c in fast for d in c.delays])
    publisher.is_stopping.set()
    publisher.join()
    total = publisher.n
    serve(lambda: all(c.events == total for c in fast))
    for c in (stuck, slow):
        c.link.socket.settimeout(grid.PATIENCE)
        while c.events + c.lost < total:
            assert c.take()
        assert c.lost > 0 and c.events + c.lost == total, (c.events, c.lost, total)
    assert all(c.lost == 0 and c.events == total for c in fast)
    peak = re.search(r"VmHWM:\s*(\d+)", open(f"/proc/{gateway.process.pid}/status").read()).group(1)
    print(f"{total} events, 98 consumers got each; delay p99 {before:.1f} ms while all read, {after:.1f} ms with two that do not; "
          f"these lost {stuck.lost} and {slow.lost}, all told; the gateway's peak {int(peak) / 1024:.0f} MB")
    assert int(peak) < (100 << 10) * grid.memory_scale(sys.argv[3]), "its memory is not bounded"
    gateway.stop()


if __name__ == "__main__":
    grid.main(globals(), sys.argv)
