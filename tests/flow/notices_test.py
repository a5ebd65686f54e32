#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What docs/sql.md promises under "Notices": an answer whose range lacks rows that were stored says so, and no other does.

    notices_test.py CASE gridline gridline-gateway"""
import datetime
import json
import os
import subprocess
import sys
import time
import urllib.parse
import urllib.request

import grid
from grid import Gateway, wait_for

GRIDLINE, GATEWAY = sys.argv[2:4]
ALL = "archive.keep=*=36600d"


def gridline(*argv):
    return subprocess.run([GRIDLINE, *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def sql(source, text):
    """Rows, and what was said beside them."""
    out = gridline("sql", "--format", "json", *source, text)
    assert out.returncode == 0, out
    answer = json.loads(out.stdout)
    codes = [n["code"] for n in answer.get("notices", [])]
    assert len(out.stderr.splitlines()) == len(codes), (out.stderr, answer)
    return answer["rows"], codes, out.stderr


def publish(g, events):
    out = subprocess.run([GRIDLINE, "import", "--quiet", "--gateway", "unix:" + g.socket, "-"], text=True,
                         input="".join(json.dumps(e) + "\n" for e in events), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert out.returncode == 0, out


def at(seconds):
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).isoformat()


def event(name, seconds, n):
    return {"time": at(seconds), "host": "a", "prog": "app", "level": "info", "name": name, "n": n}


def hours(name, n, now):
    """An event a minute, over the last n hours."""
    return [event(name, now - 60 * i, i) for i in reversed(range(60 * n))]


def gateway(work, folder, *settings):
    return Gateway(GATEWAY, work, f"gateway{len(os.listdir(work))}", "127.0.0.1:0",
                   settings=[f"archive.dir={folder}", "archive.partition=1h", f"state_dir={work}/state", "http=127.0.0.1:0", *settings])


def ask_http(work, g, text):
    url = next(a for a in g.addresses if a.startswith("http")) + "/api/v1/sql?" + urllib.parse.urlencode({"q": text})
    with open(work + "/state/http.token") as f:
        headers = {"Authorization": "Bearer " + f.read().strip()}
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as r:
        return json.load(r)


def check_retention(source):
    """Of gone.x the events before the last hours were deleted; of new.x there were none."""
    rows, codes, said = sql(source, "SELECT count(*) FROM gone_x")
    assert codes == ["retention"] and 0 < rows[0][0] < 360, (rows, codes, said)
    assert "gone.x: data from 2" in said and "deleted by retention (age)" in said and " h " in said, said
    assert sql(source, "SELECT count(*) FROM gone_x WHERE time > at('now-90m')")[1:] == ([], "")
    assert sql(source, "SELECT count(*) FROM gone_x WHERE time < at('now-90m')")[1] == ["retention"]
    assert sql(source, "SELECT count(*) FROM gone_x_latest")[1] == []
    assert sql(source, "SELECT count(*) FROM new_x")[:2] == ([[60]], [])
    # Tiers have it: nothing is missing of what is folded, and of what no tier can answer something is.
    assert sql(source, "SELECT sum(n_count) FROM gone_x_bucket('now-7h', 'now', '1h')")[:2] == ([[360]], [])
    rows, _, _ = sql(source, "SELECT event, step, from_time < to_time, \"rows\", reason FROM retention")
    assert len(rows) == 1 and rows[0][:3] == ["gone.x", 0, 1] and rows[0][3] >= 180 and rows[0][4] == "age", rows
    out = gridline("export", *source, "--event", "*.x", "--format", "ndjson")
    assert out.returncode == 0 and "gone.x: data from" in out.stderr and "new.x" not in out.stderr, out.stderr
    out = gridline("export", *source, "--event", "*.x", "--from", "now-90m", "--format", "ndjson")
    assert out.returncode == 0 and out.stderr == "" and out.stdout, out.stderr


def case_retention(work):
    folder = work + "/archive"
    g = gateway(work, folder, ALL).start()
    now = time.time()
    publish(g, hours("gone.x", 6, now) + hours("new.x", 1, now))
    here = ["--gateway", "unix:" + g.socket]
    wait_for(lambda: sql(here, "SELECT count(*) FROM new_x")[0] == [[60]], "the events")
    assert sql(here, "SELECT count(*) FROM gone_x")[1] == []
    g.stop()

    g = gateway(work, folder, "archive.keep=*=2h").start()
    here = ["--gateway", "unix:" + g.socket]
    wait_for(lambda: sql(here, "SELECT count(*) FROM retention")[0] != [[0]], "retention")
    wait_for(lambda: sql(here, "SELECT count(*) FROM gone_x")[0][0][0] <= 180, "retention of all that is too old")
    check_retention(here)
    answer = ask_http(work, g, "SELECT count(*) FROM gone_x")
    assert answer["notices"][0]["code"] == "retention" and "gone.x" in answer["notices"][0]["text"], answer
    assert "notices" not in ask_http(work, g, "SELECT count(*) FROM new_x")
    g.stop()
    # It is on disk, and survives the loss of the catalogue.
    check_retention(["--archive", folder])
    os.unlink(folder + "/catalog.db")
    check_retention(["--archive", folder])
    assert gridline("archive", "repair", "--archive", folder).returncode == 0
    check_retention(["--archive", folder])

    # Now the tiers go: each step is remembered.
    g = gateway(work, folder, "archive.keep=*=2h", "archive.keep_10s=2h", "archive.keep_1m=2h", "archive.keep_1h=2h").start()
    here = ["--gateway", "unix:" + g.socket]
    steps = "SELECT count(DISTINCT step) FROM retention WHERE event = 'gone.x'"
    wait_for(lambda: sql(here, steps)[0] == [[4]], "retention of raw rows and three tiers")
    assert sql(here, "SELECT count(*) FROM gone_x")[1] == ["retention"]
    assert sql(here, "SELECT count(*) FROM gone_x_bucket('now-7h', 'now', '1h')")[1] == ["retention"]
    assert sql(here, "SELECT count(*) FROM gone_x_bucket('now-90m', 'now', '1h')")[1] == []
    g.stop()


def case_unflushed(work):
    folder = work + "/archive"
    files = ["--archive", folder]
    g = gateway(work, folder, ALL).start()
    now = time.time()
    publish(g, hours("job.x", 2, now))
    g.stop()
    assert sql(files, "SELECT count(*) FROM job_x")[:2] == ([[120]], [])

    g.start()
    here = ["--gateway", "unix:" + g.socket]
    publish(g, [event("job.x", time.time(), 1000 + i) for i in range(10)])
    wait_for(lambda: sql(here, "SELECT count(*) FROM job_x")[0] == [[130]], "the events")
    assert sql(here, "SELECT count(*) FROM job_x")[1] == []
    rows, codes, said = wait_for(lambda: [a for a in [sql(files, "SELECT count(*) FROM job_x")] if "job.x: 10 rows" in a[2]],
                                 "a reader of the folder to hear of it")[0]
    assert rows == [[120]] and codes == ["unflushed"], (rows, codes, said)
    assert sql(files, "SELECT * FROM job_x_latest")[1] == ["unflushed"]
    assert sql(files, "SELECT count(*) FROM job_x WHERE time < at('now-10m')")[1:] == ([], "")
    out = gridline("export", *files, "--event", "job.x")
    assert out.returncode == 0 and "job.x: 10 rows" in out.stderr, out.stderr
    # One that was killed has them in its journal; after a clean end they are in the files.
    g.stop(9)
    assert sql(files, "SELECT count(*) FROM job_x")[:2] == ([[120]], ["unflushed"])
    g.start()
    wait_for(lambda: sql(here, "SELECT count(*) FROM job_x")[0] == [[130]], "what was in the journal")
    g.stop()
    assert sql(files, "SELECT count(*) FROM job_x")[:2] == ([[130]], [])


if __name__ == "__main__":
    grid.main(globals(), sys.argv)
