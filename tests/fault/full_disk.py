#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The disk of a gateway's journal and archive is full, nearly full and free, again and again, under the load of many
workers. At the end the archive holds what the ledger says was passed, of every worker, samples and events alike.

    full_disk.py CASE WORKERS GATEWAY

again    rounds of full, nearly full and free (GRIDLINE_TEST_SCALE times as many)
killed   the same, and kill -9 while the disk is full"""
import errno
import json
import os
import random
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "flow"))
import grid
from disk import Disk
from grid import Gateway, wait_for

WORKERS, GATEWAY = sys.argv[2:4]
ROUNDS = 3 * int(os.environ.get("GRIDLINE_TEST_SCALE", "1"))
N = 100
FULL, ROOM = "senders are told to wait", "takes events again"
LINES_MAX = 400  # of the log, for a round: a line for each change of state, and some for workers that come and go


class Filler:
    """Takes all the room there is on a disk, and gives some of it back."""

    def __init__(self, disk):
        self.path = disk.path + "/filler"
        self.file = open(self.path, "wb", buffering=0)

    def fill(self):
        step = 1 << 20
        while step:
            try:
                os.posix_fallocate(self.file.fileno(), os.fstat(self.file.fileno()).st_size, step)
            except OSError as e:
                assert e.errno == errno.ENOSPC, e
                step = step // 2 if step > 4096 else 0

    def give(self, size):
        self.file.truncate(max(0, os.fstat(self.file.fileno()).st_size - size))


class Load:
    """Workers with samples and events, which they send again until they are acknowledged."""

    def __init__(self, gateway):
        self.process = grid.start([WORKERS, "-g", gateway.addresses[0], "-n", str(N), "--datagrams", "1000", "--events", "4000",
                                   "--settle", "60s"], stdout=subprocess.PIPE, text=True)
        self.phase("registered")

    def phase(self, name):
        for line in self.process.stdout:
            result = json.loads(line)
            if result["phase"] == name:
                return result
        raise AssertionError(f"the workers ended with {self.process.wait()} before '{name}'")

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        done = self.phase("done")
        assert self.process.wait(grid.PATIENCE) == 0, done


def archived(gateway, table):
    """Rows by producer and epoch, after a stop in good order."""
    out = grid.run(gateway.command, "sql", "--archive", gateway.archive, "--format", "ndjson",
                   f"SELECT producer, epoch, count(*) AS n, count(DISTINCT seq) AS different FROM {table} "
                   "GROUP BY producer, epoch").stdout
    return {(row["producer"], row["epoch"]): row for row in map(json.loads, out.splitlines())}


def check(gateway):
    """The archive has what was passed, each once."""
    tables = {"samples": archived(gateway, "vector"), "events": archived(gateway, "emulator_event")}
    short, sums = [], {"samples": 0, "events": 0}
    for account in gateway.accounts():  # adds up
        row = tables[account["class"]].get((account["producer"], account["epoch"]), {"n": 0, "different": 0})
        if not row["n"] == row["different"] == account["passed"]:
            short.append((account["class"], account["passed"], row["n"], row["different"]))
        sums[account["class"]] += row["n"]
    assert not short, f"{len(short)} accounts differ from the archive: (class, passed, rows, different) {short[:5]}"
    return sums


class Round:
    """A gateway with journal and archive on a small disk, under load, and what it says."""

    def __init__(self, work, disk):
        self.gateway = Gateway(GATEWAY, work, "gateway", "tcp://127.0.0.1:0",
                               settings=[f"archive.dir={disk.path}/archive", "archive.flush=1s"])
        self.gateway.journal, self.gateway.archive = disk.path + "/journal", disk.path + "/archive"
        self.gateway.start()
        self.gateway.address = self.gateway.addresses[0]  # the same port in every life
        self.disk, self.filler, self.load = disk, Filler(disk), Load(self.gateway)

    def said(self, what):
        return self.gateway.log().count(what)

    def passed(self):
        return sum(row["passed"] for row in self.gateway.rows("ledger"))

    def fill(self):
        before = self.said(FULL)
        self.filler.fill()
        wait_for(lambda: self.said(FULL) > before, "a full disk")

    def nearly_fill(self, size):
        """Some room, until it is used up."""
        room, full = self.said(ROOM), self.said(FULL)
        self.filler.give(size)
        wait_for(lambda: self.said(ROOM) > room, "some room")
        wait_for(lambda: self.said(FULL) > full, "a disk that is full again")

    def free(self):
        self.disk.resize("400m")
        self.filler.give(1 << 40)

    def await_passed(self):
        before = self.passed()
        wait_for(lambda: self.passed() > before + 5000, "events to pass")

    def end(self, rounds):
        self.load.end()
        assert self.gateway.stop() == 0, self.gateway.log()
        lines = self.gateway.log().count("\n")
        print(check(self.gateway), f"{lines} lines of log")
        assert lines < rounds * LINES_MAX, lines


def generator():
    seed = int(os.environ.get("GRIDLINE_TEST_SEED", random.randrange(1 << 30)))
    print("seed", seed)
    return random.Random(seed)


def case_again(work):
    rng = generator()
    with Disk(work + "/disk", "12m") as disk:
        r = Round(work, disk)
        for _ in range(ROUNDS):
            r.fill()
            for _ in range(rng.randrange(3)):
                r.nearly_fill(rng.randrange(64 << 10, 1 << 20))
            r.free()
            wait_for(lambda: r.said(ROOM) >= r.said(FULL), "room")
            r.await_passed()
        r.end(ROUNDS)


def case_killed(work):
    rng = generator()
    with Disk(work + "/disk", "12m") as disk:
        r = Round(work, disk)
        for _ in range(ROUNDS):
            r.fill()
            if rng.random() < 0.5:
                r.nearly_fill(rng.randrange(64 << 10, 1 << 20))
            r.gateway.stop(signal.SIGKILL)
            r.free()
            r.gateway.start()
            r.await_passed()
        r.end(ROUNDS)


grid.main(globals(), ["", sys.argv[1]])
