#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kill -9 of a gateway with an archive at random instants, under load: while it takes events, while the archive is
written, while it recovers. Every event that was acknowledged is in the archive exactly once, asked by SQL; the ledger
adds up to the same.

    archive_kill.py CASE EMITTER GATEWAY

killed   20 kills (GRIDLINE_TEST_SCALE times as many; `script/test long`: 2,000)
full     the disk of the archive is full: events are taken all the same, the archive says so, and catches up by itself
         when there is room
damaged  a record of the journal can't be read: the archive has all others, and ledger, doctor and the table
         archive_lost say what is missing, once, also after another start"""
import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "flow"))
import grid
from disk import Disk
from grid import Gateway, wait_for

EMITTER, GATEWAY = sys.argv[2:4]
SCALE = int(os.environ.get("GRIDLINE_TEST_SCALE", "1"))
KILLS = 20 * SCALE
EVENTS = 30000  # of one emitter


class Emitter:
    """Writes EVENTS events by the instrumentation library, which keeps what is not acknowledged."""

    def __init__(self, work, gateway, run):
        self.run, self.stats = run, {}
        self.process = grid.start([EMITTER, "unix:" + gateway.socket, str(EVENTS), "--rate", "25000", "--backup",
                                   f"{work}/backup{run}", "--flush-ms", "60000", "--run", str(run)], stdout=subprocess.PIPE)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.stats = json.loads(line)

    def is_over(self):
        return self.process.poll() is not None

    def end(self):
        assert self.process.wait(grid.PATIENCE) == 0, self.stats
        self.reader.join()
        assert self.stats["done"] and self.stats["dropped"] == 0 and self.stats["queued"] == 0, self.stats
        assert self.stats["passed"] == self.stats["taken"], self.stats


class Archived(Gateway):
    """A gateway whose archive is written often, in small pieces."""

    def __init__(self, work, folder=None, settings=()):
        self.archive = folder or work + "/archive"
        super().__init__(GATEWAY, work, "gateway", "tcp://127.0.0.1:0",
                         settings=[f"archive.dir={self.archive}", "archive.flush=1s", "archive.memory=1MiB", *settings])

    def sql(self, text):
        out = grid.run(self.command, "sql", "--archive", self.archive, "--format", "ndjson", text).stdout
        return [json.loads(line) for line in out.splitlines()]


def check_archive(gateway, emitters):
    """After a stop in good order."""
    for row in gateway.sql("SELECT run, count(*) AS n, count(DISTINCT n) AS different, min(n) AS low, max(n) AS high "
                           "FROM emitter_event GROUP BY run ORDER BY run"):
        assert row["n"] == row["different"] == EVENTS and (row["low"], row["high"]) == (0, EVENTS - 1), row
    runs = [row["run"] for row in gateway.sql("SELECT DISTINCT run FROM emitter_event ORDER BY run")]
    assert runs == sorted(e.run for e in emitters), (runs, len(emitters))
    found = {row["producer"]: row for row in gateway.sql(
        "SELECT producer, count(*) AS n, count(DISTINCT seq) AS different FROM emitter_event GROUP BY producer, epoch")}
    for account in gateway.accounts():  # adds up
        row = found[account["producer"]]
        assert row["n"] == row["different"] == account["passed"], (row, account)
    return sum(row["n"] for row in found.values())


def written(gateway):
    """How often the archive was: the generation of its newest blob."""
    newest = 0
    for name in os.listdir(gateway.archive):
        if name.endswith("Z.db"):
            with contextlib.closing(sqlite3.connect(f"file:{gateway.archive}/{name}?mode=ro", uri=True)) as db:
                newest = max(newest, db.execute("SELECT max(gen) FROM blob").fetchone()[0])
    return newest


def case_killed(work):
    seed = int(os.environ.get("GRIDLINE_TEST_SEED", random.randrange(1 << 30)))
    print("seed", seed)
    rng = random.Random(seed)
    gateway = Archived(work).start()
    gateway.address = gateway.addresses[0]  # the same port in every life
    emitters = [Emitter(work, gateway, 0)]
    for _ in range(KILLS):
        if emitters[-1].is_over():
            emitters.append(Emitter(work, gateway, len(emitters)))
        time.sleep(rng.uniform(0.0, 0.6 if rng.random() < 0.5 else 0.1))  # where it falls is to be random
        gateway.stop(signal.SIGKILL)
        gateway.start()
    for e in emitters:
        e.end()
    assert gateway.stop() == 0, gateway.log()
    stored = check_archive(gateway, emitters)
    commits = written(gateway)
    assert commits >= KILLS / 4, f"the archive was written {commits} times only"
    print(f"{KILLS} kills, {commits} commits of the archive; {stored} events of {len(emitters)} programs, each acknowledged "
          "and in the archive once")


def case_full(work):
    """The gateway's journal is on another disk: the archive lags behind it, and nothing is lost."""
    with Disk(work + "/disk", "3m") as disk:
        gateway = Archived(work, disk.path + "/archive", ["archive.flush=1s"]).start()
        emitters = []
        while "No space left" not in gateway.log():
            assert len(emitters) < 60, "the disk does not get full"
            emitters.append(Emitter(work, gateway, len(emitters)))
            emitters[-1].end()
        print(f"full after {len(emitters)} programs of {EVENTS} events")
        emitters.append(Emitter(work, gateway, len(emitters)))
        emitters[-1].end()  # acknowledged, although the archive is full
        answer = gateway.gridline("sql", "--format", "ndjson", "SELECT max(run) AS newest FROM emitter_event").stdout
        assert json.loads(answer)["newest"] == len(emitters) - 1, answer  # and seen: from memory
        disk.resize("400m")
        wait_for(lambda: "works again" in gateway.log(), "the archive to notice that there is room")
        assert gateway.stop() == 0, gateway.log()
        stored = check_archive(gateway, emitters)
        print(f"{stored} events, each in the archive once")


def case_damaged(work):
    gateway = Archived(work, settings=["archive.flush=1h", "archive.memory=64MiB"]).start()
    emitters = [Emitter(work, gateway, 0)]
    emitters[0].end()
    assert gateway.gridline("ledger").returncode == 0
    gateway.stop(signal.SIGKILL)  # before the archive is on disk: it is read again from the journal
    [segment] = [f"{gateway.journal}/{name}" for name in os.listdir(gateway.journal) if name.endswith(".seg")]
    with open(segment, "r+b") as f:
        f.seek(os.path.getsize(segment) // 2)
        byte = f.read(1)[0]
        f.seek(-1, os.SEEK_CUR)
        f.write(bytes([byte ^ 0xff]))
    for _ in range(2):
        gateway.start()
        wait_for(lambda: "NOT in the archive: 0 events and 1 whole records" in gateway.gridline("ledger", check=False).stdout,
                 "a ledger that says what is missing")
        assert gateway.gridline("ledger", check=False).returncode == 1
        doctor = gateway.gridline("doctor", check=False)
        assert doctor.returncode != 0 and "1 whole records of the journal could not be read" in doctor.stdout, doctor.stdout
        assert gateway.stop() == 0, gateway.log()
        [lost] = gateway.sql("SELECT first, last, why FROM archive_lost")
        assert lost["first"] == lost["last"] and lost["why"] == "it is damaged", lost
    assert gateway.log().count("can't be read") == 1, gateway.log()
    [row] = gateway.sql("SELECT count(*) AS n, count(DISTINCT n) AS different FROM emitter_event")
    assert EVENTS - 10000 < row["n"] == row["different"] < EVENTS, row
    print(f"{row['n']} of {EVENTS} events are there, and the ledger says which record is not")


grid.main(globals(), ["", sys.argv[1]])
