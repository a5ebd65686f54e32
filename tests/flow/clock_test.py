#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Global time with real processes (DG-11, docs/time.md): agents whose clocks are shimmed, behind proxies that delay, and a
gateway with the real clock, which is the truth. Whatever is in the gateway's journal must be right: its time is the true
time, within the bound in the head of its block.

    clock_test.py CASE AGENT GATEWAY GRIDLINE EMITTER SHIM"""
import asyncio
import json
import mmap
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

import grid
from grid import start, stop, wait_for

CASE, AGENT, GATEWAY, GRIDLINE, EMITTER, SHIM = sys.argv[1:7]
SECOND = 10**9
HOUR = 3600 * SECOND
UNKNOWN = 2**64 - 1
GRANULE = 2000  # ns: how well this test itself knows UTC against CLOCK_MONOTONIC


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Proxy:
    """Between an agent and its gateway: what passes waits, in each direction for its own time."""

    def __init__(self, to_port, there=0.0, back=0.0):
        self.to_port, self.there, self.back, self.port = to_port, there, back, free_port()
        self.loop, is_up = asyncio.new_event_loop(), threading.Event()
        threading.Thread(target=self.run, args=(is_up,), daemon=True).start()
        assert is_up.wait(30)

    def run(self, is_up):
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(asyncio.start_server(self.serve, "127.0.0.1", self.port))
        is_up.set()
        self.loop.run_forever()

    async def serve(self, reader, writer):
        try:
            other_reader, other_writer = await asyncio.open_connection("127.0.0.1", self.to_port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(self.carry(reader, other_writer, lambda: self.there),
                             self.carry(other_reader, writer, lambda: self.back))

    async def carry(self, reader, writer, delay):
        """Reading goes on while what was read waits: a delay, not a brake."""
        queue = asyncio.Queue()

        async def write():
            while True:
                due, data = await queue.get()
                await asyncio.sleep(max(0, due - self.loop.time()))
                if not data:
                    break
                writer.write(data)
            writer.close()

        task = asyncio.ensure_future(write())
        data = b"more"
        while data:
            try:
                data = await reader.read(65536)
            except OSError:
                data = b""
            queue.put_nowait((self.loop.time() + delay(), data))
        await task


class Clocks:
    """A host's clocks. ahead: of UTC, ns; ppm: how fast they run."""

    FIELDS = ("anchor_mono", "anchor_utc", "rate_ppb", "ahead", "slept", "maxerror_us")

    def __init__(self, path, ahead=0, ppm=0, maxerror_us=-1):
        with open(path, "wb") as f:
            f.write(bytes(4096))
        with open(path, "r+b") as f:
            self.map = mmap.mmap(f.fileno(), 4096)
        self.path, self.ppb, self.epochs = path, ppm * 1000, []
        best = None
        for _ in range(20):  # read together
            a, utc, b = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
            if best is None or b - a < best[0]:
                best = (b - a, (a + b) // 2, utc)
        self.mono, self.utc = best[1:]
        for name, value in zip(self.FIELDS, (self.mono, self.utc, self.ppb, ahead, 0, maxerror_us)):
            self.put(name, value)
        self.epochs.append((0, ahead))

    def put(self, name, value):
        struct.pack_into("=q", self.map, 8 * self.FIELDS.index(name), value)

    def step(self, ns):
        """UTC is set. The moment is remembered in true time."""
        ahead = self.epochs[-1][1] + ns
        before = time.time_ns()
        self.put("ahead", ahead)
        self.epochs.append(((before + time.time_ns()) // 2, ahead))

    def sleep(self, ns):
        """A suspend, as this host sees it; nothing else of the world waits, so it comes back with clocks that are ahead."""
        self.put("slept", ns)

    def environment(self):
        env = dict(os.environ, CLOCK_SHIM=self.path, LD_PRELOAD=SHIM)
        env["ASAN_OPTIONS"] = env.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
        return env

    def true_time(self, raw, ahead):
        """The true time at which this host's UTC was raw, when it was ahead by that."""
        passed = raw - self.utc - ahead
        return self.utc + passed - passed * self.ppb // (10**9 + self.ppb)


class Gateway:
    def __init__(self, work):
        self.work, self.port, ready = work, free_port(), work + "/gateway.ready"
        self.process = start([GATEWAY, "--listen", f"tcp://127.0.0.1:{self.port}", "--journal", work + "/journal", "--lease", "6s",
                              "--renew", "1s", "--ready-file", ready, "--quiet"])
        wait_for(lambda: os.path.exists(ready) and os.path.getsize(ready), "the gateway's start")

    def events(self, host):
        """With the clock of their blocks: offset, bound, generation."""
        glb = self.work + "/dump.glb"
        with open(glb, "wb") as f:
            subprocess.run([GATEWAY, "--dump", self.work + "/journal", "--print", "binary"], stdout=f, check=True)
        text = subprocess.run([GRIDLINE, "convert", glb, "-t", "ndjson"], stdout=subprocess.PIPE, text=True, check=True).stdout
        events = [json.loads(line) for line in text.splitlines()]
        with open(glb, "rb") as f:
            blocks = f.read()
        at = n = 0
        while at < len(blocks):
            magic, body, _, _, _, count, generation = struct.unpack_from("<4sIIHHII", blocks, at)
            offset, bound = struct.unpack_from("<qQ", blocks, at + 56)
            assert magic == b"GLB1"
            for e in events[n:n + count]:
                e["clock"] = (offset, bound, generation)
            at, n = at + 80 + body, n + count
        assert n == len(events)
        return [e for e in events if e["host"] == host]


class Agent:
    def __init__(self, gateway, name, clocks, there=0.0, back=0.0, config=""):
        self.gateway, self.name, self.clocks = gateway, name, clocks
        self.proxy = Proxy(gateway.port, there, back)
        self.dir = f"{gateway.work}/{name}"
        self.log_path = self.dir + ".log"
        with open(self.dir + ".conf", "w") as f:
            f.write(f'hostname = "{name}"\nstate_dir = "{self.dir}-state"\nrun_dir = "{self.dir}"\ndefaults = false\n'
                    f'gateway = {{"tcp://127.0.0.1:{self.proxy.port}"}}\nload {{ every = 100ms }}\n{config}')
        self.start()

    def start(self):
        ready = self.dir + ".ready"
        if os.path.exists(ready):
            os.unlink(ready)
        with open(self.log_path, "a") as log:
            self.process = start([AGENT, "-c", self.dir + ".conf", "--ready-file", ready], stderr=log,
                                 env=self.clocks.environment())
        wait_for(lambda: os.path.exists(ready) or self.process.poll() is not None, "the agent's start")
        assert self.process.poll() is None, self.log()

    def log(self):
        with open(self.log_path) as f:
            return f.read()

    def events(self):
        return self.gateway.events(self.name)

    def clock_events(self, state=None):
        """By time: samples and events come by different ways."""
        return sorted((e for e in self.events() if e["name"] == "clock" and state in (None, e["state"])), key=time_of)

    def exchanges(self):
        return sum(e["level"] == "info" for e in self.clock_events())

    def wait_exchanges(self, n, before=0):
        wait_for(lambda: self.exchanges() >= before + n, f"{n} exchanges of {self.name}")

    def wait_more_exchanges(self, n):
        self.wait_exchanges(n, self.exchanges())


def time_of(event):
    whole, _, fraction = event["time"].rstrip("Z").partition(".")
    return int(time.mktime(time.strptime(whole + " UTC", "%Y-%m-%dT%H:%M:%S %Z")) - time.timezone) * SECOND + \
        int(fraction.ljust(9, "0") or 0)


def check(agent, least=20):
    """Every event of the agent's host: how far its time is from the true one. Returns (error, bound) of those that know."""
    known = []
    wait_for(lambda: sum(e["clock"][1] != UNKNOWN for e in agent.events()) >= least, f"{least} events of {agent.name}")
    for e in agent.events():
        offset, bound, generation = e["clock"]
        stamped = time_of(e)
        raw = stamped - offset
        # An epoch of UTC is told by the raw time: steps are of hours.
        truths = [agent.clocks.true_time(raw, ahead) for _, ahead in agent.clocks.epochs]
        now = time.time_ns()
        truth = min(truths, key=lambda t: abs(now - t))
        if bound == UNKNOWN:
            continue
        error = abs(stamped - truth)
        assert error <= bound + GRANULE, (e, error, bound, generation)
        known.append((error, bound))
        if e["name"] == "clock":
            assert e["generation"] == generation, e
    return known


def last(agent):
    return agent.clock_events()[-1]


def case_offsets(gateway):
    """Whatever UTC says at first: off by much it jumps, by less it is slewed, by nothing that can be told it stays."""
    clocks = {name: Clocks(f"{gateway.work}/{name}.clocks", ahead) for name, ahead in
              (("ahead", 3 * SECOND), ("behind", -3 * SECOND), ("slightly", 300 * 10**6), ("right", 0))}
    agents = {name: Agent(gateway, name, c) for name, c in clocks.items()}
    for agent in agents.values():
        agent.wait_exchanges(4)
        check(agent)
    for name, ahead in (("ahead", 3), ("behind", -3)):
        assert [e["generation"] for e in agents[name].clock_events("jumped")] == [1], agents[name].log()
        assert abs(last(agents[name])["offset_ns"] + ahead * SECOND) < SECOND // 2
    assert not agents["slightly"].clock_events("jumped")
    slewing = agents["slightly"].clock_events("slewing")
    assert [e["level"] for e in slewing].count("notice") == 1, slewing
    offsets = [e["offset_ns"] for e in slewing]
    assert offsets == sorted(offsets, reverse=True) and offsets[-1] < offsets[0], offsets
    assert -10**8 < offsets[-1] < 0 and slewing[-1]["bound_ns"] > 10**8, slewing[-1]
    assert all(e["clock"][0] == 0 for e in agents["right"].events())
    assert last(agents["right"])["state"] == "synchronised"


def case_synchronised(gateway):
    """Within what the kernel says of itself nothing is applied; the bound is told all the same."""
    agent = Agent(gateway, "kept", Clocks(gateway.work + "/kept.clocks", 300 * 10**6, maxerror_us=900000))
    agent.wait_exchanges(3)
    check(agent)
    assert all(e["clock"][0] == 0 for e in agent.events())
    e = last(agent)
    assert e["kernel_maxerror_ns"] == 900 * 10**6 and 300 * 10**6 <= e["bound_ns"] < 10**9, e


def case_switched_off(gateway):
    agent = Agent(gateway, "raw", Clocks(gateway.work + "/raw.clocks", 3 * SECOND), config="global_time = false\n")
    agent.wait_exchanges(4)
    check(agent)
    assert all(e["clock"][0] == 0 for e in agent.events())
    assert last(agent)["bound_ns"] >= 3 * SECOND


def case_drift(gateway):
    agents = [Agent(gateway, name, Clocks(f"{gateway.work}/{name}.clocks", ahead, ppm), there, back)
              for name, ahead, ppm, there, back in (("fast", 3 * SECOND, 200, 0, 0), ("slow", -3 * SECOND, -200, 0.02, 0.01))]
    for agent in agents:
        agent.wait_exchanges(8)
        check(agent, 50)


def case_asymmetry(gateway):
    """All of the round trip in one direction: that is what the bound is for, and it is nearly used up."""
    agents = [Agent(gateway, name, Clocks(f"{gateway.work}/{name}.clocks", ahead, ppm), there, back)
              for name, ahead, ppm, there, back in (("up", 3 * SECOND, 200, 0.3, 0), ("down", -3 * SECOND, -200, 0, 0.3))]
    for agent in agents:
        agent.wait_exchanges(4)
        known = check(agent)
        assert max(error for error, _ in known) > 100 * 10**6, agent.log()
        assert max(error / bound for error, bound in known) > 0.8


def case_step(gateway):
    """Hours forth, and back by more: global time goes on."""
    agent = Agent(gateway, "set", Clocks(gateway.work + "/set.clocks", -3 * SECOND, 200))
    agent.wait_more_exchanges(2)
    for n, step in enumerate((2 * HOUR, -5 * HOUR), 1):
        agent.clocks.step(step)
        wait_for(lambda: len(agent.clock_events("stepped")) >= n, "the step is told")
        e = agent.clock_events("stepped")[-1]
        assert abs(e["step_ns"] - step) < SECOND and e["level"] == "notice", e
        assert e["generation"] == last(agent)["generation"] == n + 1, (e, last(agent))
        agent.wait_more_exchanges(2)
        check(agent)
    times = [time_of(e) for e in agent.events() if e["clock"][2] >= 1 and e["name"] == "load"]
    assert max(times) - min(times) < 600 * SECOND


def case_suspend(gateway):
    agent = Agent(gateway, "slept", Clocks(gateway.work + "/slept.clocks", 0))
    agent.wait_more_exchanges(2)
    agent.clocks.sleep(SECOND)  # the kernel was wrong by a second about it
    wait_for(lambda: agent.clock_events("resumed"), "the suspend is told")
    e = agent.clock_events("resumed")[-1]
    assert abs(e["slept_ns"] - SECOND) < 10**8, e
    assert e["bound_ns"] >= 2 * SECOND, e
    agent.wait_more_exchanges(2)
    assert last(agent)["bound_ns"] < 2 * SECOND  # known again


def case_restart(gateway):
    """Killed, an agent leaves a page that is valid for a while: the next one ends that and goes on counting."""
    clocks = Clocks(gateway.work + "/again.clocks", 3 * SECOND, -200)
    agent = Agent(gateway, "again", clocks)
    agent.wait_more_exchanges(2)
    page = agent.dir + "/clock"
    first = os.stat(page).st_ino
    assert stop(agent.process, signal.SIGKILL) == -signal.SIGKILL
    assert os.path.exists(page)
    with open(page, "rb") as f:
        old = mmap.mmap(f.fileno(), 4096, prot=mmap.PROT_READ)
    assert struct.unpack_from("=q", old, 64)[0] > 0
    agent.start()
    agent.wait_more_exchanges(2)
    assert os.stat(page).st_ino != first and struct.unpack_from("=q", old, 64)[0] == 0
    assert [e["generation"] for e in agent.clock_events("jumped")] == [1, 3], agent.log()
    check(agent)
    assert stop(agent.process) == 0
    assert not os.path.exists(page)


def case_program(gateway):
    """A program with libgridline on the host of an agent has the agent's time; without the agent, local UTC."""
    clocks = Clocks(gateway.work + "/app.clocks", 3 * SECOND, 200)
    agent = Agent(gateway, "app", clocks)
    agent.wait_more_exchanges(2)
    env = dict(clocks.environment(), GRIDLINE_CLOCK=agent.dir + "/clock")
    emitter = start([EMITTER, f"tcp://127.0.0.1:{gateway.port}", "1000000", "--rate", "200"], env=env, stdout=subprocess.DEVNULL)
    me = socket.gethostname()
    agent.events = lambda: gateway.events("app") + [e for e in gateway.events(me) if e["prog"] == "emitter"]

    def with_clock(test):
        return [e for e in agent.events() if e["prog"] == "emitter" and test(*e["clock"])]

    wait_for(lambda: len(with_clock(lambda o, b, g: g == 1 and b != UNKNOWN)) > 100, "events in global time")
    clocks.step(2 * HOUR)
    wait_for(lambda: len(with_clock(lambda o, b, g: g == 2 and b != UNKNOWN)) > 100, "events after the step")
    check(agent, 200)
    assert stop(agent.process) == 0
    wait_for(lambda: len(with_clock(lambda o, b, g: o == 0 and b == UNKNOWN)) > 10, "events in local UTC")
    check(agent, 200)
    stop(emitter, signal.SIGKILL)


with tempfile.TemporaryDirectory(prefix="gridline-clock-") as work:
    try:
        globals()["case_" + CASE](Gateway(work))
    finally:
        grid.stop_all()
