#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The disk of a gateway's journal and archive is full, nearly full and free, again and again, under the load of many
workers. At the end the archive holds what the ledger says was passed, of every worker, samples and events alike.

    full_disk.py CASE WORKERS GATEWAY

again    rounds of full, nearly full and free (GRIDLINE_TEST_SCALE times as many)"""
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
        self.phase("done")
        assert self.process.wait(grid.PATIENCE) == 0


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


def case_again(work):
    seed = int(os.environ.get("GRIDLINE_TEST_SEED", random.randrange(1 << 30)))
    print("seed", seed)
    rng = random.Random(seed)
    with Disk(work + "/disk", "12m") as disk:
        gateway = Gateway(GATEWAY, work, "gateway", "tcp://127.0.0.1:0",
                          settings=[f"archive.dir={disk.path}/archive", "archive.flush=1s"])
        gateway.journal, gateway.archive = disk.path + "/journal", disk.path + "/archive"
        gateway.start()
        load = Load(gateway)
        filler = Filler(disk)

        def passed():
            return sum(row["passed"] for row in gateway.rows("ledger"))

        def said(what):
            return gateway.log().count(what)
        for _ in range(ROUNDS):
            before = said("senders are told to wait")
            filler.fill()
            wait_for(lambda: said("senders are told to wait") > before, "a full disk")
            for _ in range(rng.randrange(3)):
                again = said("takes events again")
                before = said("senders are told to wait")
                filler.give(rng.randrange(64 << 10, 1 << 20))
                wait_for(lambda: said("takes events again") > again, "some room")
                wait_for(lambda: said("senders are told to wait") > before, "a disk that is full again")
            disk.resize("400m")
            filler.give(1 << 40)
            wait_for(lambda: gateway.log().rstrip().count("takes events again") >= said("senders are told to wait"), "room")
            now = passed()
            wait_for(lambda: passed() > now + 5000, "events to pass")
        load.end()
        assert gateway.stop() == 0, gateway.log()
        lines = gateway.log().count("\n")
        print(check(gateway), f"{lines} lines of log")
        assert lines < ROUNDS * LINES_MAX, lines


grid.main(globals(), ["", sys.argv[1]])
