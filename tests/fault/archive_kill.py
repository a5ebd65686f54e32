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
         archive_lost say what is missing, once, also after another start
behind   the archive's disk is full for longer than the journal can hold: new events are refused and wait at their programs,
         and a kill then loses none that was acknowledged
away     a durable subscriber is away while ten times its hold is written: it gets each event once, from the journal and the
         archive, and nobody is refused because of it
unarchived  the same where the archive does not have the events: it is told how many are missing, and so is the ledger"""
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


def status(gateway):
    with open(gateway.folder + "/ledger.json") as f:
        return json.load(f)["status"]


def case_behind(work):
    limit = 8 << 20
    done = subprocess.run([GATEWAY, "--listen", "tcp://127.0.0.1:0", "--journal", work + "/j", "--set", f"archive.dir={work}/a", "--set",
                           "journal_max=8MiB"], stderr=subprocess.PIPE, text=True, timeout=grid.PATIENCE)
    assert done.returncode == 1 and "it needs 32MiB; raise journal_max" in done.stderr, done
    with Disk(work + "/disk", "3m") as disk:
        gateway = Archived(work, disk.path + "/archive", [f"journal_max={limit}"]).start()
        gateway.address = gateway.addresses[0]
        emitters = []
        while "journal is at its limit" not in gateway.log():
            assert len(emitters) < 60, "the journal does not get full"
            emitters.append(Emitter(work, gateway, len(emitters)))
            wait_for(lambda: emitters[-1].is_over() or "journal is at its limit" in gateway.log(), "the program or the limit")
        print(f"the journal is full after {len(emitters)} programs of {EVENTS} events")
        wait_for(lambda: emitters[-1].stats.get("queued", 0) > 0, "events that wait")
        gateway.stop(signal.SIGKILL)
        size = sum(os.path.getsize(f"{gateway.journal}/{name}") for name in os.listdir(gateway.journal))
        assert size <= limit, size
        disk.resize("400m")
        gateway.start()
        for e in emitters:
            e.end()
        assert gateway.stop() == 0, gateway.log()
        stored = check_archive(gateway, emitters)
        assert status(gateway)["journal.forced"] == 0, status(gateway)
        print(f"{stored} events, each acknowledged and in the archive once")


def take(gateway, n, hold):
    """What a durable subscriber gets, and what it is told."""
    out = subprocess.run([gateway.command, "tail", "--gateway", "unix:" + gateway.socket, "-e", "emitter.event", "--durable", "mine",
                          "--hold", hold, "-n", str(n), "-t", "ndjson"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                         timeout=grid.PATIENCE, check=True)
    return [(e["run"], e["n"]) for e in map(json.loads, out.stdout.splitlines())], out.stderr


def case_away(work):
    hold, runs = 1 << 20, 11  # a run takes about 1 MB of the journal
    gateway = Archived(work, settings=["journal_max=2MiB", "journal_hold=2MiB"]).start()
    gateway.address = gateway.addresses[0]
    first = threading.Thread(target=lambda: taken.append(take(gateway, 1, "1MiB")))
    taken = []
    first.start()
    wait_for(lambda: gateway.rows("subscriptions"), "the subscription")
    emitters = []
    for run in range(runs):
        emitters.append(Emitter(work, gateway, run))
        emitters[-1].end()
        if run == 0:
            first.join()
    events, said = taken[0]
    refused = gateway.rows("ledger")
    assert all(row.get("refused", 0) == 0 for row in refused), refused
    gateway.stop(signal.SIGKILL)
    gateway.start()
    mine = [row for row in gateway.rows("subscriptions") if row["durable"] == "mine"]
    assert mine[0]["gone_records"] > 0 and mine[0]["hold"] == hold and mine[0]["state"] == "away", mine
    more, said = take(gateway, runs * EVENTS - len(events), "1GiB")
    assert "missing" not in said and "asked for 1073741824 bytes, given 2097152" in said, said
    got = events + more
    assert len(got) == len(set(got)) == runs * EVENTS, (len(got), len(set(got)))
    row = gateway.rows("subscriptions", "show", "mine")[0]
    assert row["lag_records"] < row["gone_records"] and row["hold"] == 2 * hold and row["refilled"] > 0 and row["gap_events"] == 0, row
    mine = [r for r in gateway.rows("ledger") if r["producer"] == "durable:mine"]
    assert mine and mine[0]["refilled"] == row["refilled"] and mine[0]["lost"] == 0, mine
    gateway.gridline("subscriptions", "delete", "mine")
    assert gateway.gridline("subscriptions", "show", "mine", check=False).returncode == 3
    print(f"{len(events)} events before, {len(more)} after; each once")


def case_unarchived(work):
    runs = 5
    gateway = Archived(work, settings=["journal_max=2MiB", "archive.events=nothing.*"]).start()
    first = threading.Thread(target=take, args=(gateway, 1, "1MiB"))
    first.start()
    wait_for(lambda: gateway.rows("subscriptions"), "the subscription")
    emitters = [Emitter(work, gateway, 0)]
    emitters[0].end()
    first.join()
    taken = gateway.rows("subscriptions", "show", "mine")[0]["position"]
    for run in range(1, runs):
        emitters.append(Emitter(work, gateway, run))
        emitters[-1].end()
    tail = grid.start([gateway.command, "tail", "--gateway", "unix:" + gateway.socket, "-e", "emitter.event", "--durable", "mine", "-t",
                       "ndjson"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    grid.run(gateway.command, "log", "--to", "unix:" + gateway.socket, "emitter.event", "n=-1")
    got = 0
    for line in tail.stdout:
        if json.loads(line)["n"] == -1:
            break
        got += 1
    tail.send_signal(signal.SIGINT)
    said = tail.communicate(timeout=grid.PATIENCE)[1]
    told = [int(line.split()[2]) for line in said.splitlines() if "events are missing here" in line]
    row = gateway.rows("subscriptions", "show", "mine")[0]
    rest = runs * EVENTS - int(taken.split("-")[2])  # and the gateway's own events
    assert rest <= got + sum(told) < rest + 100, (got, told, rest, taken)
    assert told and got and sum(told) == row["gap_events"] and row["refilled"] == 0 and row["gap_records"] == 0, (said, row)
    mine = [r for r in gateway.rows("ledger") if r["producer"] == "durable:mine"]
    assert mine and mine[0]["lost"] == sum(told), mine
    print(f"{got} events came, {sum(told)} are told as missing after {taken}")


grid.main(globals(), ["", sys.argv[1]])
