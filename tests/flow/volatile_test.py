#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small desktop grid whose workers come, say goodbye, are killed and are switched off all the time (bench/workers --session,
emulated by the real protocol), at one gateway with its archive and a file observer: when it comes to rest the gateway's
directory says of every worker what that worker knows of itself, its ledger adds up to the datagram, and archive and file have
every event. GRIDLINE_TEST_SCALE times as many workers.

    volatile_test.py CASE GATEWAY WORKERS BENCH"""
import json
import os
import signal
import subprocess
import sys

import grid
from grid import Gateway, wait_for

GATEWAY, WORKERS, BENCH = sys.argv[2:5]
sys.path.insert(0, BENCH)
import volatility

N = 240 * int(os.environ.get("GRIDLINE_TEST_SCALE", "1"))


class Emulator:
    def __init__(self, gateway, work, *arguments):
        self.standing, self.report = work + "/standing", work + "/report"
        self.process = grid.start([WORKERS, "-g", gateway.addresses[0], "-n", str(N), "--session", "1s", "--gap", "500ms",
                                   "--day", "4s", "--vanish", "1/3", "--time", "5s", "--datagrams", str(10 * N), "--events",
                                   str(N), "--settle", "60s", "--standing", self.standing, "--report", self.report, "--guest",
                                   "--step", "--abandon", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def phase(self, name):
        for line in self.process.stdout:
            result = json.loads(line)
            if result["phase"] == name:
                return result
        raise AssertionError(f"the emulator ended with {self.process.wait()} before '{name}'")

    def go(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()


def told(gateway):
    """Its status now."""
    path = gateway.folder + "/ledger.json"
    gateway.process.send_signal(signal.SIGUSR1)
    wait_for(lambda: os.path.exists(path), "the gateway's status")
    with open(path) as f:
        return json.load(f)["status"]


def agree(gateway, emulator, what):
    """Waits until both say the same of every worker; how many there are in each state."""
    expected = volatility.standing(emulator.standing)
    last = []

    def same():
        last[:] = volatility.differences(expected, gateway.rows("hosts"))
        return not last

    try:
        wait_for(same, what)
    except AssertionError as e:
        raise AssertionError(f"{e}: {len(last)} of {len(expected)} differ: {last[:5]}") from None
    return {state: list(expected.values()).count(state) for state in volatility.STATES.values()}


def come_and_go(work, *arguments):
    gateway = Gateway(GATEWAY, work, "gateway", "tcp://127.0.0.1:0",
                      settings=["lease.time=15s", "lease.renew=2s", f"archive.dir={work}/archive", "observer.all.type=file",
                                f"observer.all.path={work}/all.ndjson", "observer.all.encoding=ndjson",
                                "observer.all.max_size=0"]).start()
    emulator = Emulator(gateway, work, *arguments)
    for phase in ("registered", "load", "settled"):
        result = emulator.phase(phase)
        if phase != "settled":
            emulator.go()
    assert result["came"] and result["left"] and result["vanished"], result
    states = agree(gateway, emulator, "who has vanished is expired")
    assert all(states[s] for s in ("live", "deregistered", "expired")) and not states["late"], states
    emulator.go()
    emulator.phase("cut")
    states = agree(gateway, emulator, "whose connection was cut is late")
    assert states["late"], states
    status = told(gateway)
    emulator.go()
    done = emulator.phase("done")
    assert emulator.process.wait(grid.PATIENCE) == 0, done
    assert gateway.stop() == 0, gateway.log()
    return gateway, emulator, status, done


def check_kept(work, gateway, emulator, status, done):
    report = volatility.epochs(emulator.report)
    with open(gateway.folder + "/ledger.json") as f:
        end = json.load(f)
    wrong, sent, kept = volatility.check_ledger(end["ledger"]["accounts"], status, report)
    assert not wrong, (len(wrong), wrong[:3])
    assert sent == done["datagrams"] - done["datagrams_unsent"] and kept > 0, (sent, kept, done)
    out = grid.run(gateway.command, "sql", "--archive", work + "/archive", "--format", "csv",
                   "SELECT count(*) AS n FROM vector").stdout
    assert out.split() == ["n", str(kept)], (out, kept)
    with open(work + "/all.ndjson") as f:
        lines = sum('"name":"vector"' in line for line in f)
    observer = end["observers"][0]
    assert lines == kept and observer["dropped"] == 0, (lines, kept, observer)
    acknowledged = sum(e["events"]["acknowledged"] for e in report)
    held = gateway.events("emulator.event")
    keys = {(e["host"], e["life"], e["number"]) for e in held}
    assert len(keys) == len(held) >= acknowledged > 0, (len(keys), len(held), acknowledged)


def case_own(work):
    """Each with a connection of its own."""
    check_kept(work, *come_and_go(work, "--cut-last", str(N // 10)))


def case_relay(work):
    """Through relays of 30: one of their connections is cut at the end."""
    check_kept(work, *come_and_go(work, "--relay", "30", "--cut-last", "1"))


grid.main(globals(), sys.argv)
