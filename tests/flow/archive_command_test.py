#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the manual promises of gridline archive: check names what is lost, repair saves the rest, stat says what costs,
a backup of a running archive is one.

    archive_command_test.py CASE gridline gridline-gateway"""
import glob
import json
import os
import shutil
import subprocess
import sys

import grid
from grid import Gateway, wait_for

GRIDLINE, GATEWAY = sys.argv[2:4]
KEEP = "archive.keep=*=36600d"  # these are old events
OK, FAILED, USAGE, NOT_FOUND, PARTLY, NOT_ALLOWED = range(6)
N = 3000


def events(n, first=0):
    out = []
    for i in range(first, first + n):
        out.append(json.dumps({"time": f"2026-09-21T{13 + i // 3600 % 8:02}:{i // 60 % 60:02}:{i % 60:02}.{i % 1000:03}Z",
                               "host": f"node{i % 3}", "prog": "app", "level": "info",
                               "name": "job.start" if i % 4 else "job.end", "n": i, "text": f"text {i * 7919 % 10007}"}))
    return "\n".join(out) + "\n"


def write(path, text):
    with open(path, "w") as f:
        f.write(text)
    return path


def gridline(*argv):
    return subprocess.run([GRIDLINE, *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def archive(word, folder, *argv, code=OK):
    out = gridline("archive", word, "--archive", folder, "--format", "json", *argv)
    assert out.returncode == code, (word, out.returncode, out.stdout, out.stderr)
    return [json.loads(line) for line in out.stdout.splitlines()], out.stderr


def numbers(folder):
    """Which events can be had of it: n of each, which come once."""
    out = gridline("export", "--archive", folder)
    assert out.returncode in (OK, PARTLY), out
    got = sorted(e["n"] for e in map(json.loads, out.stdout.splitlines()) if e["prog"] == "app")
    assert len(set(got)) == len(got), "some come twice"
    return got


def make(work, n=N):
    folder = work + "/archive"
    out = gridline("import", "--quiet", "--archive", folder, write(work + "/events.ndjson", events(n)))
    assert out.returncode == OK, out
    return folder


def partition(folder):
    path, = glob.glob(folder + "/2026*Z.db")
    return path


def change(path, fn):
    with open(path, "rb") as f:
        data = bytearray(f.read())
    fn(data)
    with open(path, "wb") as f:
        f.write(data)


def case_check(work):
    folder = make(work)
    rows, said = archive("check", folder)
    assert rows == [] and f"{N} rows" in said and "nothing is damaged" in said, (rows, said)
    assert archive("check", work + "/none", code=NOT_FOUND)[0] == []

    # A bit of a body: each chunk that it costs is named, with who made its rows and their numbers.
    before = numbers(folder)
    change(partition(folder), lambda data: data.__setitem__(len(data) - 3000, data[len(data) - 3000] ^ 1))
    rows, said = archive("check", folder, code=FAILED)
    after = numbers(folder)
    assert rows and set(after) < set(before), (rows, said)
    assert sum(r["rows"] for r in rows) == len(before) - len(after), rows
    for r in rows:
        assert r["event"].startswith("job.") and r["host"].startswith("node") and r["what"] == "a chunk is damaged", r
        assert r["last_seq"] - r["first_seq"] + 1 >= r["rows"] and len(r["producer"]) == 32, r
        assert r["from"] <= r["to"] and r["file"] == os.path.basename(partition(folder)), r


def case_repair(work):
    folder = make(work)
    rows, said = archive("repair", folder)
    assert rows == [], (rows, said)
    path = partition(folder)
    # SQLite can't open it at all any more.
    change(path, lambda data: data.__setitem__(slice(0, 8192), b"\0" * 8192))
    assert archive("check", folder, code=FAILED)[0]
    out = gridline("export", "--archive", folder)
    assert out.returncode != OK or numbers(folder) == [], out
    rows, said = archive("repair", folder)
    assert numbers(folder) == list(range(N)), said
    assert archive("check", folder)[0] == []
    assert os.path.exists(path + ".damaged")

    # The catalogue is gone, and what it knows comes from the partitions.
    os.unlink(folder + "/catalog.db")
    archive("repair", folder)
    assert numbers(folder) == list(range(N))
    assert archive("check", folder)[0] == []
    # What is imported again is there already: marks are.
    out = gridline("import", "--archive", folder, "--format", "json", work + "/events.ndjson")
    row, = map(json.loads, out.stdout.splitlines())
    assert row["stored"] == 0 and row["again"] == N, row

    # A folder that a gateway writes is not repaired.
    g = Gateway(GATEWAY, work, "gateway", "127.0.0.1:0", settings=[f"archive.dir={folder}", KEEP]).start()
    out = gridline("archive", "repair", "--archive", folder)
    assert out.returncode == FAILED and "another process" in out.stderr, out
    g.stop()


def case_stat(work):
    folder = make(work)
    rows, _ = archive("stat", folder)
    of = {kind: [r for r in rows if r["of"] == kind] for kind in ("partition", "event", "stream", "producer")}
    for kind in of:
        assert sum(r["rows"] for r in of[kind]) == N, (kind, of[kind])
        assert [r["bytes"] for r in of[kind]] == sorted((r["bytes"] for r in of[kind]), reverse=True), kind
        assert all(r["bytes"] > 0 and r["from"] <= r["to"] for r in of[kind]), of[kind]
        assert abs(sum(r["share"] for r in of[kind]) - 1) < 0.02, of[kind]
    assert [r["event"] for r in of["event"]] == ["job.start", "job.end"]
    assert [r["rows"] for r in of["event"]] == [N * 3 // 4, N // 4]
    assert [r["streams"] for r in of["event"]] == [3, 3]
    assert len(of["stream"]) == 6 and len(of["producer"]) == 1 and of["producer"][0]["streams"] == 6
    assert of["partition"][0]["bytes"] == os.path.getsize(partition(folder))
    rows, _ = archive("stat", folder, "--by", "stream", "--top", "2")
    assert [r["of"] for r in rows] == ["stream", "stream"]
    assert gridline("archive", "stat", "--archive", folder, "--by", "colour").returncode == USAGE
    assert gridline("archive", "stat", "--archive", work + "/none").returncode == NOT_FOUND
    assert gridline("archive", "sat", "--archive", folder).returncode == USAGE
    table = gridline("archive", "stat", "--archive", folder)
    assert table.returncode == OK and table.stdout.startswith("OF "), table
    csv = gridline("archive", "stat", "--archive", folder, "--format", "csv")
    assert csv.returncode == OK and "job.start" in csv.stdout, csv


def case_backup(work):
    """Copies are made while events come; each of them, with the gateway's journal, becomes the whole again."""
    folder = work + "/archive"
    g = Gateway(GATEWAY, work, "gateway", "127.0.0.1:0",
                settings=[f"archive.dir={folder}", "archive.flush=1s", "archive.memory=1MiB", "archive.partition=1h", KEEP]).start()
    n, pieces, copies = 40000, 4, []
    for i in range(pieces):
        path = write(f"{work}/events{i}.ndjson", events(n // pieces, n // pieces * i))
        if i:
            wait_for(lambda: numbers(folder), "some events to be on disk")
        p = grid.start([GRIDLINE, "import", "--quiet", "--gateway", "unix:" + g.socket, path], stdout=subprocess.DEVNULL)
        while True:
            is_over = p.poll() is not None
            to = f"{work}/copy{len(copies)}"
            rows, said = archive("backup", folder, to)
            assert any(r["file"] == "catalog.db" for r in rows), (rows, said)
            assert archive("check", to)[0] == []
            copies.append(to)
            if is_over:
                break
        assert p.wait() == 0
    g.stop()
    # What the gateway had in memory only comes from the journal when it starts.
    g.start()
    wait_for(lambda: len(numbers(folder)) == n, "the archive to have everything")
    g.stop()
    assert numbers(folder) == list(range(n))
    out = gridline("archive", "backup", "--archive", folder, copies[0])
    assert out.returncode == FAILED and "not empty" in out.stderr, out
    held = [len(numbers(to)) for to in copies]
    assert held == sorted(held) and held[-1] > 0, held
    for to in (copies[0], copies[len(copies) // 2], copies[-1]):
        other = Gateway(GATEWAY, work, os.path.basename(to) + ".gateway", "127.0.0.1:0",
                        settings=[f"archive.dir={to}", "archive.flush=1s", "archive.partition=1h", KEEP])
        shutil.copytree(g.journal, other.journal)
        other.start()
        wait_for(lambda: len(numbers(to)) >= n, "the copy to have everything")
        other.stop()
        assert numbers(to) == list(range(n))
        assert archive("check", to)[0] == []


def case_backup_now(work):
    """A copy has all that was acknowledged when it began, flushed or not, of a gateway that runs and of one that was killed."""
    folder = work + "/archive"
    settings = [f"archive.dir={folder}", "archive.partition=1h", "archive.flush=1h", KEEP]
    g = Gateway(GATEWAY, work, "gateway", "127.0.0.1:0", settings=settings).start()
    for i in range(3):
        path = write(f"{work}/events{i}.ndjson", events(N, N * i))
        out = gridline("import", "--quiet", "--gateway", "unix:" + g.socket, path)
        assert out.returncode == OK, out
        if i == 2:
            g.stop(9)
        to = f"{work}/copy{i}"
        _, said = archive("backup", folder, to)
        assert "events that were not flushed yet are in the copy" in said, said
        assert numbers(to) == list(range(N * (i + 1))), (i, len(numbers(to)))
        assert archive("check", to)[0] == []
    assert numbers(folder) == []
    # With the journal it becomes the whole, each event once.
    other = Gateway(GATEWAY, work, "other", "127.0.0.1:0", settings=[f"archive.dir={work}/copy1", *settings[1:]])
    shutil.copytree(g.journal, other.journal)
    other.start()
    wait_for(lambda: other.gridline("sql", "--format", "csv", "SELECT count(*) FROM job_start").stdout.split() ==
             ["count(*)", str(3 * N * 3 // 4)], "the copy to have everything")
    other.stop()
    assert numbers(work + "/copy1") == list(range(3 * N))
    # Without the journal it says what it can't have.
    shutil.rmtree(g.journal)
    _, said = archive("backup", folder, work + "/poor", code=PARTLY)
    assert "journal" in said and "is not in the copy" in said, said


if __name__ == "__main__":
    grid.main(globals(), sys.argv)
