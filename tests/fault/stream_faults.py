#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Faults of a receiver, with real processes: an emitter (emitter.c, libgridline's public interface) and a
gridline-gateway that is killed, stopped, absent, or out of disk.

    stream_faults.py SCENARIO EMITTER GATEWAY

After each scenario: the journal holds every acknowledged event exactly once, in contiguous sequence numbers; the
emitter's ledger, the gateway's ledger and the journal agree to the event. The worst call of the emitter is printed.
Nothing waits for a time: everything waits for a condition, with a deadline. GRIDLINE_TEST_SCALE multiplies rounds.
Exit 77: could not be run here (says why)."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from disk import Disk

EMITTER, GATEWAY = "", ""
SCALE = int(os.environ.get("GRIDLINE_TEST_SCALE", "1") or "1")
DEADLINE_S = 60
CHILDREN = []  # every process that was started; none outlives this one


def until(condition, what):
    """Polls until condition() is true; its value."""
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.005)
    raise AssertionError(f"gave up waiting for {what}")


def expect(is_true, what):
    if not is_true:
        raise AssertionError(what)


class Gateway:
    def __init__(self, folder, journal=None):
        self.folder = folder
        self.journal = journal or os.path.join(folder, "journal")
        self.socket = os.path.join(folder, "sock")
        self.ledger_file = os.path.join(folder, "ledger")
        self.log_path = os.path.join(folder, "gateway.log")
        self.process = None

    def url(self):
        return "unix:" + self.socket

    def start(self):
        ready = os.path.join(self.folder, "ready")
        if os.path.exists(ready):
            os.unlink(ready)
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                [GATEWAY, "--listen", self.url(), "--journal", self.journal, "--ledger", self.ledger_file,
                 "--ready-file", ready], stderr=log)
        CHILDREN.append(self.process)
        until(lambda: os.path.exists(ready) or self.process.poll() is not None, "the gateway to listen")
        expect(self.process.poll() is None, "the gateway ended: " + self.log())

    def log(self):
        with open(self.log_path, encoding="utf-8") as f:
            return f.read()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        """Stops it in good order; its ledger by producer."""
        self.process.terminate()
        code = self.process.wait(timeout=DEADLINE_S)
        expect(code == 0, f"the gateway ended with {code}: " + self.log())
        with open(self.ledger_file, encoding="utf-8") as f:
            return {a["producer"]: a for a in json.load(f)["ledger"]["accounts"] if not is_own(a)}

    def dump(self, *arguments):
        out = subprocess.run([GATEWAY, "--dump", self.journal, *arguments], check=True, stdout=subprocess.PIPE).stdout
        return [json.loads(line) for line in out.splitlines()]


def is_own(account):
    """Is it of the events that the gateway makes of itself?"""
    return bytes.fromhex(account["producer"]).startswith(b"gridline")


class Emitter:
    def __init__(self, url, n, **options):
        environment = dict(os.environ)
        environment.update(options.pop("environment", {}))
        arguments = [EMITTER, url, str(n)]
        for name, value in options.items():
            arguments.append("--" + name.replace("_", "-"))
            if value is not True:
                arguments.append(str(value))
        self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, env=environment)
        CHILDREN.append(self.process)
        self.last, self.done = {}, {}  # by run
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            try:
                stats = json.loads(line)
            except ValueError:
                continue  # cut short by a kill
            self.last[stats["run"]] = stats
            if stats["done"]:
                self.done[stats["run"]] = stats

    def passed(self):
        return self.last.get(0, {}).get("passed", 0)

    def written(self):
        return self.last.get(0, {}).get("written", 0)

    def end(self, run=0):
        """Waits for it to end by itself; its last stats, checked."""
        code = self.process.wait(timeout=DEADLINE_S)
        self.reader.join()
        expect(code == 0, f"the emitter ended with {code}")
        stats = self.done[run]
        expect(stats["taken"] == stats["passed"] + stats["queued"] + stats["dropped"],
               f"the emitter's ledger does not add up: {stats}")
        print(f"worst call: {stats['worst_ns'] / 1000:.1f} us; {stats}")
        return stats

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.reader.join()


def archive(gateway):
    """Blocks by producer as sorted (first, count), and events by run as lists of n; nothing twice."""
    blocks, events = {}, {}
    for b in gateway.dump():
        if is_own(b):
            continue
        blocks.setdefault(b["producer"], []).append((b["first_seq"], b["count"]))
    for e in gateway.dump("--print", "ndjson"):
        if e["name"] == "emitter.event":
            events.setdefault(e["run"], []).append(e["n"])
    for producer, list_of in blocks.items():
        list_of.sort()
        for (first, count), (behind, _) in zip(list_of, list_of[1:]):
            expect(first + count <= behind, f"{producer}: numbers from {behind} on are stored twice")
    for run, numbers in events.items():
        expect(len(set(numbers)) == len(numbers), f"run {run}: an event is stored twice")
    return blocks, events


def holes(list_of):
    """How many numbers are missing between 1 and the last."""
    first, count = list_of[-1]
    return first + count - 1 - sum(c for _, c in list_of)


def check_account(account, list_of):
    stored = sum(c for _, c in list_of)
    expect(account["taken"] == account["passed"] + account["duplicate"] + account["refused"] + account["too_old"] + account["no_schema"] +
           account["queued"],
           f"the gateway's ledger does not add up: {account}")
    expect(account["passed"] == stored, f"{account['passed']} passed, {stored} stored")
    counts = account["counts"]
    if counts:
        expect(counts["taken"] == counts["passed"] + counts["queued"] + sum(counts["dropped"].values()),
               f"the sender's COUNTS do not add up: {counts}")
    return stored


def check_complete(gateway, stats, n, dropped=False):
    """One emitter that has delivered everything it had not to drop, and said goodbye."""
    ledger = gateway.end()
    blocks, events = archive(gateway)
    expect(len(blocks) == 1 and len(ledger) == 1, f"{len(blocks)} producers in the journal, {len(ledger)} in the ledger")
    (producer, list_of), = blocks.items()
    stored = check_account(ledger[producer], list_of)
    expect(ledger[producer]["state"] == "closed", "the epoch is open")
    expect(stats["queued"] == 0, f"still queued: {stats}")
    counts = ledger[producer]["counts"]
    expect(counts["passed"] == stored and counts["queued"] == 0, f"COUNTS say {counts}, {stored} are stored")
    # Behind the stats, closing may write a last gridline.dropped event: COUNTS have it.
    later = counts["taken"] - stats["taken"]
    expect(later >= 0 and (dropped or later == 0), f"COUNTS say {counts}, the emitter {stats}")
    expect(stats["passed"] + later == stored, f"{stats['passed']} acknowledged, {later} later, {stored} stored")
    if dropped:
        # Those dropped before they had a number (rings) are not holes.
        expect(holes(list_of) == counts["dropped"].get("unwritable", 0), f"holes: {holes(list_of)}, COUNTS: {counts}")
    else:
        expect(stats["dropped"] == 0, f"dropped: {stats}")
        expect(holes(list_of) == 0, "numbers are missing")
        expect(sorted(events[0]) == list(range(n)), "events are missing")
    print(f"stored {stored}, ledger: {ledger[producer]}")


def killed(folder):
    """kill -9 of the receiver, again and again, at random instants: while blocks are on their way, while it syncs,
    while the backup is replayed."""
    n, rounds = 40000 + 80000 * SCALE, 8 * SCALE
    seed = int.from_bytes(os.urandom(4), "little")
    instants = random.Random(seed)
    print(f"seed {seed}")
    gateway = Gateway(folder)
    gateway.start()
    emitter = Emitter(gateway.url(), n, rate=50000, backup=os.path.join(folder, "backup"), flush_ms=30000)
    for _ in range(rounds):
        before = emitter.passed()
        until(lambda: emitter.passed() > before or 0 in emitter.done, "acknowledgements")
        time.sleep(instants.uniform(0, 0.12))  # not a wait: the instant of the fault
        gateway.kill()
        gateway.start()
        if instants.random() < 0.5:  # also when it has just come back
            time.sleep(instants.uniform(0, 0.08))
            gateway.kill()
            gateway.start()
    stats = emitter.end()
    check_complete(gateway, stats, n)


def hung(folder):
    """SIGSTOP: the socket stays open, nobody answers; later SIGCONT."""
    n = 60000
    gateway = Gateway(folder)
    gateway.start()
    emitter = Emitter(gateway.url(), n, rate=20000, backup=os.path.join(folder, "backup"), flush_ms=30000)
    until(lambda: emitter.passed() > 0, "acknowledgements")
    gateway.process.send_signal(signal.SIGSTOP)
    backup = os.path.join(folder, "backup")
    # Given up after 5 s of silence: then the queue goes to the backup.
    until(lambda: any(f.endswith(".seg") for f in os.listdir(backup)), "the backup to be used")
    gateway.process.send_signal(signal.SIGCONT)
    stats = emitter.end()
    check_complete(gateway, stats, n)


def absent(folder):
    """The receiver comes after the program has written half of its events."""
    n = 40000
    gateway = Gateway(folder)
    emitter = Emitter(gateway.url(), n, rate=20000, backup=os.path.join(folder, "backup"), flush_ms=30000)
    until(lambda: emitter.written() > n // 2, "half of the events")
    expect(emitter.passed() == 0, "acknowledged by nobody")
    gateway.start()
    stats = emitter.end()
    check_complete(gateway, stats, n)


def journal_full(folder):
    """The disk of the receiver's journal is full, then is not."""
    n = 60000
    with Disk(os.path.join(folder, "disk"), "512k") as disk:
        gateway = Gateway(folder, os.path.join(disk.path, "journal"))
        gateway.start()
        emitter = Emitter(gateway.url(), n, rate=20000, backup=os.path.join(folder, "backup"), flush_ms=30000)
        until(lambda: "told to wait" in gateway.log(), "the disk to be full")
        stuck = until(lambda: 0 < emitter.passed() < emitter.written() - 10000 and emitter.passed(), "the emitter to lag")
        print(f"disk full after {stuck} events")
        disk.resize("64m")
        stats = emitter.end()
        expect("takes events again" in gateway.log(), "the gateway did not notice that it can store again")
        check_complete(gateway, stats, n)


def backup_full(folder):
    """No receiver, and the disk of the backup is full: memory, then drops, all counted; then the receiver comes."""
    n = 60000
    with Disk(os.path.join(folder, "disk"), "512k") as disk:
        gateway = Gateway(folder)
        emitter = Emitter(gateway.url(), n, rate=20000, backup=os.path.join(disk.path, "backup"), flush_ms=30000,
                          environment={"GRIDLINE_QUEUE": "256KiB"})
        until(lambda: emitter.last.get(0, {}).get("unwritable", 0) > 0, "drops")
        gateway.start()
        stats = emitter.end()
        expect(stats["unwritable"] > 0, "nothing was dropped")
        check_complete(gateway, stats, n, dropped=True)


def emitter_killed(folder):
    """kill -9 of the program: with the receiver there, without it; the next run delivers what the backup has."""
    backup = os.path.join(folder, "backup")
    gateway = Gateway(folder)
    gateway.start()
    emitter = Emitter(gateway.url(), 1000000, rate=20000, backup=backup, run=0)
    until(lambda: emitter.passed() > 5000, "acknowledgements")
    gateway.kill()
    mark = emitter.written()
    until(lambda: emitter.written() > mark + 10000, "events in the backup")
    emitter.kill()
    first = emitter.last[0]
    gateway.start()
    second = Emitter(gateway.url(), 20000, rate=20000, backup=backup, flush_ms=30000, run=1)
    stats = second.end(run=1)
    ledger = gateway.end()
    blocks, events = archive(gateway)
    expect(len(blocks) == 2, f"{len(blocks)} producers in the journal")
    for producer, list_of in blocks.items():
        check_account(ledger[producer], list_of)
        expect(holes(list_of) == 0, "numbers are missing")
    # Of the killed run: a whole beginning, with at least what was acknowledged and what the backup held.
    expect(sorted(events[0]) == list(range(len(events[0]))), "the killed run has holes")
    expect(len(events[0]) >= first["passed"], f"{len(events[0])} stored, {first['passed']} acknowledged")
    expect(len(events[0]) > mark, "what was in the backup is not all there")
    expect(sorted(events[1]) == list(range(20000)), "the second run is not complete")
    expect(stats["passed"] == stats["taken"] and stats["queued"] == 0, f"not all delivered: {stats}")
    states = sorted(a["state"] for a in ledger.values())
    expect(states == ["closed", "open"], f"the killed epoch is open, the other closed: {states}")
    print(f"killed run: {first['written']} written, {first['passed']} acknowledged, {len(events[0])} stored")


def forked(folder):
    """Parent and child both go on, each under its own name."""
    n = 40000
    gateway = Gateway(folder)
    gateway.start()
    emitter = Emitter(gateway.url(), n, rate=20000, backup=os.path.join(folder, "backup"), flush_ms=30000, fork=True)
    until(lambda: 1 in emitter.last and emitter.last[1]["passed"] > 0, "the child's acknowledgements")
    gateway.kill()
    gateway.start()
    parent = emitter.end()
    child = emitter.end(run=1)
    ledger = gateway.end()
    blocks, events = archive(gateway)
    expect(len(blocks) == 2, f"{len(blocks)} producers in the journal")
    stored = 0
    for producer, list_of in blocks.items():
        stored += check_account(ledger[producer], list_of)
        expect(holes(list_of) == 0, "numbers are missing")
        expect(ledger[producer]["state"] == "closed", "an epoch is open")
    expect(sorted(events[0]) == list(range(n)), "the parent's events are not all there")
    expect(sorted(events[1]) == list(range(n)), "the child's events are not all there")
    expect(parent["passed"] + child["passed"] == stored, f"{stored} stored")


def main():
    global EMITTER, GATEWAY
    scenario, EMITTER, GATEWAY = sys.argv[1:4]
    scenarios = {f.__name__: f for f in
                 (killed, hung, absent, journal_full, backup_full, emitter_killed, forked)}
    folder = tempfile.mkdtemp(prefix="gridline-fault-")
    started = time.monotonic()
    try:
        scenarios[scenario](folder)
    except BaseException:
        log = os.path.join(folder, "gateway.log")
        if os.path.exists(log):
            with open(log, encoding="utf-8") as f:
                print("gateway.log:\n" + f.read()[-4000:], file=sys.stderr)
        raise
    finally:
        for child in CHILDREN:
            if child.poll() is None:
                child.kill()
                child.wait()
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{scenario}: {time.monotonic() - started:.1f} s")


main()
