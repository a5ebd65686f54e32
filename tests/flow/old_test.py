#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Data that an older version made (tests/fixtures/f4a70a4) is read, and read right.

    old_test.py CASE GATEWAY FIXTURE

archive  numbers of an archive made before fields had classes, however they were spelt; ids and mixed words are text
journal  a gateway that was killed: what it had acknowledged is in the archive of this version, once"""
import json
import re
import subprocess
import sys
import tarfile

sys.dont_write_bytecode = True  # the tree stays as it is
import grid
from grid import Gateway, wait_for

GATEWAY, FIXTURE = sys.argv[2], sys.argv[3]
GRIDLINE = GATEWAY.rpartition("/")[0] + "/gridline"


def unpack(work):
    """The events as plain Python reads them: dicts of bare words."""
    with tarfile.open(FIXTURE) as f:
        f.extractall(work)
    with open(work + "/in.ulm") as f:
        return [dict(re.findall(r"(\S+?)=(\S+)", line)) for line in f]


def rows(*argv):
    out = subprocess.run([GRIDLINE, "sql", "--format", "json", *argv], capture_output=True, text=True)
    assert out.returncode == 0, out
    return json.loads(out.stdout)["rows"]


def check_text(events, *where):
    by = lambda key: sorted([v, sum(e[key] == v for e in events)] for v in {e[key] for e in events})
    assert rows(*where, "SELECT id, count(*) FROM load GROUP BY id ORDER BY id") == by("id")
    assert rows(*where, "SELECT status, count(*) FROM load GROUP BY status ORDER BY status") == by("status")
    assert rows(*where, "SELECT count(*) FROM load WHERE id = 3") == [[sum(e["id"] == "3" for e in events)]]


def case_archive(work):
    events = unpack(work)
    numbers = [float(e["LOAD"]) for e in events if e["LOAD"] != "-"]
    where = ("--archive", work + "/archive")
    assert rows(*where, 'SELECT count(*), count(LOAD), count("LOAD:text") FROM load') == [[len(events), len(numbers), len(events)]]
    total, most = rows(*where, "SELECT sum(LOAD), max(LOAD) FROM load")[0]
    assert abs(total - sum(numbers)) < 1e-9 and most == max(numbers), (total, sum(numbers))
    folded = rows(*where, "SELECT sum(LOAD_sum), sum(LOAD_count) FROM load_bucket(NULL, NULL)")[0]
    assert abs(folded[0] - sum(numbers)) < 1e-9 and folded[1] == len(numbers), folded
    assert rows(*where, "SELECT count(*) FROM load WHERE LOAD = 0.5") == [[sum(n == 0.5 for n in numbers)]]
    check_text(events, *where)


def case_journal(work):
    events = unpack(work)
    gateway = Gateway(GATEWAY, work, "gateway", "127.0.0.1:0", settings=[f"archive.dir={work}/state/archive", "archive.keep=*=36600d"])
    gateway.journal = work + "/state/journal"
    gateway.start()
    where = ("--gateway", "unix:" + gateway.socket)
    wait_for(lambda: rows(*where, "SELECT count(*) FROM load") == [[len(events)]], "all that was acknowledged")
    check_text(events, *where)
    assert gateway.gridline("ledger").returncode == 0
    assert gateway.stop() == 0
    assert rows("--archive", work + "/state/archive", "SELECT count(*), count(DISTINCT time || host) FROM load") == [[len(events)] * 2]


grid.main(globals(), sys.argv)
