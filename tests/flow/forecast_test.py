#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Forecasts at a real gateway: "disk full within two hours" is said of the disk of which it is true, and of none other; what a
real agent measures has its mounts as columns.

    forecast_test.py CASE gridline gridline-gateway gridline-agent gridline-guard"""
import datetime
import json
import subprocess
import sys
import time

import grid
from grid import Agent, Gateway, Guard, wait_for

GRIDLINE, GATEWAY, AGENT, GUARD = sys.argv[2:6]
FULL = "SELECT host FROM space_forecast('free', '2h') WHERE value - error < 0"


def event(at, host, free):
    stamp = datetime.datetime.fromtimestamp(at, datetime.timezone.utc).isoformat().replace("+00:00", "Z")
    return json.dumps({"time": stamp, "host": host, "prog": "df", "level": "info", "name": "space", "free": free})


def history(now):
    """Ten hours, a sample every half a minute but for an hour that was lost: of `ramp` a GB a minute goes and 90 are left, of `slow` a
    tenth of that; `flat` stays, `noisy` goes up and down around 5 GB."""
    for i in range(1200, 0, -1):
        if 300 < i < 420:
            continue
        at = now - 30 * i
        yield event(at, "ramp", 1e9 * (90 + i / 2))
        yield event(at, "slow", 1e8 * (900 + i / 2))
        yield event(at, "flat", 5e9)
        yield event(at, "noisy", 5e9 + 1e9 * ((i * 7919) % 13 - 6) / 6)


def sql(gateway, text):
    return [json.loads(line) for line in gateway.gridline("sql", "-t", "ndjson", text).stdout.splitlines()]


def give(g, events):
    out = subprocess.run([GRIDLINE, "import", "--gateway", "unix:" + g.socket, "-"], text=True,
                         input="\n".join(events) + "\n", capture_output=True)
    assert out.returncode == 0, out


def ramp_of(work):
    g = Gateway(GATEWAY, work, "gateway", "127.0.0.1:0", settings=[f"archive.dir={work}/archive"]).start()
    give(g, history(time.time()))
    wait_for(lambda: sql(g, "SELECT count(*) AS n FROM space")[0]["n"] == 4 * 1081, "the events")
    return g


def case_disk_full(work):
    g = ramp_of(work)
    assert [r["host"] for r in sql(g, FULL)] == ["ramp"], sql(g, "SELECT * FROM space_forecast('free', '2h')")
    rows = {r["host"]: r for r in sql(g, "SELECT * FROM space_forecast('free', '2h')")}
    assert len(rows) == 4, rows
    assert rows["ramp"]["predictor"].startswith("trend"), rows
    assert abs(rows["ramp"]["value"] + 30e9) < 1e9, rows  # two hours after now there are 30 GB too few
    assert rows["flat"]["value"] == 5e9 and rows["flat"]["error"] == 0, rows
    assert 4e9 < rows["noisy"]["value"] < 6e9 and 0.2e9 < rows["noisy"]["error"] < 1e9, rows
    assert sql(g, FULL.replace("2h", "1h")) == []  # not within one
    bad = g.gridline("sql", "SELECT * FROM space_forecast('free')", check=False)
    assert bad.returncode == 2 and "a field and a horizon" in bad.stderr, bad
    g.stop()


def case_guard(work):
    """A rule over a forecast, asked at the gateway by a real guard: it fires for the disk that will be full, and for no other."""
    g = ramp_of(work)
    rule = f"""default_rules = false
rule full-soon {{ query = "{FULL.replace("host", "host, value, error, predictor")}"  key = {{"host"}}  every = "1s"  for = "0s" }}"""
    guard = Guard(GUARD, work, "unix:" + g.socket, rule).start()
    faults = wait_for(guard.faults, "a fault")
    assert [(f["rule"], f["host"], f["state"]) for f in faults] == [("full-soon", "ramp", "firing")], faults
    row = json.loads(guard.gridline("rule", "list", "--format", "json").stdout.splitlines()[0])
    assert row["rule"] == "full-soon" and row["place"] == "gateway" and row["failures"] == 0, row
    guard.stop()
    g.stop()


def case_agent(work):
    g = Gateway(GATEWAY, work, "gateway", "127.0.0.1:0", settings=[f"archive.dir={work}/archive"]).start()
    a = Agent(AGENT, work, "node", g.addresses, "filesystem { every = \"100ms\" }").start()
    wait_for(lambda: g.gridline("sql", "SELECT 1 FROM filesystem LIMIT 1", check=False).stdout, "the sensor")
    mounts = {r["mount"] for r in sql(g, "SELECT mount FROM filesystem_latest")}
    assert mounts
    text = "SELECT host, mount, value, last, points FROM filesystem_forecast('free', '10s')"
    wait_for(lambda: {r["mount"] for r in sql(g, text)} >= mounts, "a forecast of every mount")
    assert all(r["host"] == "node" and r["points"] > 0 and r["value"] >= 0 for r in sql(g, text))
    a.stop()
    g.stop()


if __name__ == "__main__":
    grid.main(globals(), sys.argv)
