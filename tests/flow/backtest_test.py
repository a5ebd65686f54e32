#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the manual promises of `gridline rule test`: over an archive with a known ramp, flaps and a gap, rules fire and clear at the
very seconds that their definition says; nothing is run; what can't be tested is said.

    backtest_test.py CASE gridline gridline-gateway gridline-guard"""
import datetime
import json
import os
import subprocess
import sys
import time

import grid
from grid import Gateway, Guard, wait_for

GRIDLINE, GATEWAY, GUARD = sys.argv[2:5]
OK, FAILED, USAGE, NOT_FOUND, PARTLY, NOT_ALLOWED = range(6)
T0 = 1_794_700_800  # 2026-11-15T00:00:00Z
KEEP = "archive.keep=*=36600d"  # these are old events

ACTIONS = """
log note { }
log page { }
exec never { script = "touch %s/acted" }
"""
RULES = """
rule low {
    query = "SELECT host, free FROM space_latest WHERE free < 100"
    key = {"host"}  every = "10s"  for = "30s"  clear_for = "30s"  fresh = "1m"  trust = {"space"}
    on_fire = {"note", "never"}  on_clear = {"note"}  on_repeat = {"page"}  repeat = "200s"
    summary = "{host} has {free}"
}
rule low-quick {
    query = "SELECT host, free FROM space_latest WHERE free < 100"
    clear_query = "SELECT host FROM space_latest WHERE free > 400"
    key = {"host"}  every = "10s"  for = "0s"  clear_for = "0s"  fresh = "1m"
}
"""
FORECAST = """
rule soon {
    query = "SELECT host FROM space_forecast('free', '5m', '30m') WHERE host = 'a' AND value + error < 0"
    key = {"host"}  every = "60s"  for = "0s"  clear_for = "0s"
}
"""
HEALTH = """
rule gone { query = "SELECT host FROM host_health WHERE state = 'unreachable'"  key = {"host"} }
"""


def stamp(at):
    return datetime.datetime.fromtimestamp(at, datetime.timezone.utc).isoformat().replace("+00:00", "Z")


def event(t, host, free):
    return json.dumps({"time": stamp(T0 + t), "host": host, "prog": "df", "level": "info", "name": "space", "free": free})


def history():
    """a: a ramp that is below 100 from 910 s to 1490 s. b: 20 s below and 20 s above, for a while. c: below from 300 s to 990 s, but
    from 600 s to 890 s nothing was heard of it."""
    for t in range(0, 1800, 10):
        yield event(t, "a", 1000.0 - t if t < 1500 else 1000.0)
        yield event(t, "b", 50.0 if 200 <= t < 400 and t // 20 % 2 == 0 else 500.0)
        if not 600 <= t < 900:
            yield event(t, "c", 50.0 if 300 <= t < 1000 else 500.0)


# Seconds after T0, by the definition of for, clear_for, no_data = hold, and of a clear query.
LOW = [(330, "low", "fires", "c"), (330, "low", "fire", "c"), (530, "low", "repeat", "c"), (730, "low", "repeat", "c"),
       (930, "low", "repeat", "c"), (940, "low", "fires", "a"), (940, "low", "fire", "a"), (1030, "low", "clears", "c"),
       (1030, "low", "clear", "c"), (1140, "low", "repeat", "a"), (1340, "low", "repeat", "a"), (1530, "low", "clears", "a"),
       (1530, "low", "clear", "a")]
QUICK = ([(200 + 40 * i, "low-quick", "fires", "b") for i in range(5)] + [(220 + 40 * i, "low-quick", "clears", "b") for i in range(5)] +
         [(300, "low-quick", "fires", "c"), (1000, "low-quick", "clears", "c"), (910, "low-quick", "fires", "a"),
          (1500, "low-quick", "clears", "a")])


def archive(work):
    path = work + "/events.ndjson"
    with open(path, "w") as f:
        f.write("\n".join(history()) + "\n")
    out = subprocess.run([GRIDLINE, "import", "--archive", work + "/archive", path], capture_output=True, text=True)
    assert out.returncode == OK, out
    return work + "/archive"


def write(work, text):
    path = work + "/guard.conf"
    with open(path, "w") as f:
        f.write(ACTIONS % work + text)
    return path


def test(*argv, code=OK):
    out = subprocess.run([GRIDLINE, "rule", "test", "--format", "json", *argv], capture_output=True, text=True)
    assert out.returncode == code, (out.returncode, out.stdout, out.stderr)
    return [json.loads(line) for line in out.stdout.splitlines()], out.stderr


def within(t_from, t_to):
    return ["--from", stamp(T0 + t_from), "--to", stamp(T0 + t_to)]


def deeds(rows):
    """(seconds, rule, what, host), sorted; the host is the first word of the summary of low, the only field of the others."""
    out = []
    for r in rows:
        at = datetime.datetime.fromisoformat(r["at"].replace("Z", "+00:00")).timestamp() - T0
        host = r["summary"].split()[0] if r["rule"] == "low" else r["summary"].split()[0].split("=")[1]
        out.append((at, r["rule"], r["what"], host))
    return sorted(out)


def check_low(rows):
    got = deeds(r for r in rows if r["rule"] in ("low", "low-quick"))
    assert got == sorted(LOW + QUICK), [x for x in got if x not in LOW + QUICK] + [x for x in LOW + QUICK if x not in got]
    lasted = {(r["rule"], r["summary"].split()[0]): r["lasted_s"] for r in rows if r["what"] == "clears" and r["rule"] == "low"}
    assert lasted == {("low", "c"): 700, ("low", "a"): 590}, lasted
    actions = {(r["what"], r["actions"]) for r in rows if "actions" in r}
    assert actions == {("fire", "note,never"), ("repeat", "page"), ("clear", "note")}, actions


def case_folder(work):
    dir = archive(work)
    rows, said = test(write(work, RULES + FORECAST), "--archive", dir, *within(0, 1800))
    check_low(rows)
    assert [d for d in deeds(rows) if d[1] == "soon"][0] == (720, "soon", "fires", "a"), deeds(rows)
    assert "none of which was run" in said, said
    only, _ = test(write(work, FORECAST), "--archive", dir, *within(0, 1800))  # no rule that needs events
    assert deeds(only) == [d for d in deeds(rows) if d[1] == "soon"]
    assert not os.path.exists(work + "/acted")
    # the same again: nothing was kept
    again, _ = test(write(work, RULES + FORECAST), "--archive", dir, *within(0, 1800))
    assert deeds(again) == deeds(rows)


def case_part(work):
    """From the middle of an episode on: it begins there, with what was known before."""
    rows, _ = test(write(work, RULES), "--archive", archive(work), *within(500, 1020))
    low = [d for d in deeds(rows) if d[1] == "low" and d[2] in ("fires", "clears")]
    assert low == [(530, "low", "fires", "c"), (940, "low", "fires", "a")], low
    summary, _ = test(write(work, RULES), "--archive", work + "/archive", "--summary", *within(500, 1020))
    by_rule = {r["rule"]: r for r in summary}
    assert by_rule["low"]["fires"] == 2 and by_rule["low"]["clears"] == 0 and by_rule["low"]["firing"] == 2, by_rule
    assert by_rule["low"]["evaluations"] == 52 and by_rule["low"]["failures"] == 0 and by_rule["low"]["tested"], by_rule


def case_untested(work):
    rows, said = test(write(work, RULES + HEALTH), "--archive", archive(work), *within(0, 1800), code=PARTLY)
    check_low(rows)
    assert "rule gone was not tested" in said and "host_health" in said, said


def case_defaults(work):
    """A section of the file that changes a rule of ours is a rule of the file: wholly, or a little of it."""
    changed = ('rule disk-full { query = "SELECT host, host AS mount, free FROM space_latest WHERE free < 100" clear_query = "" '
               'for = "0s" clear_for = "0s" trust = {"space"} }\n'
               'rule memory-low { on_fire = {"note"} }\n')
    rows, said = test(write(work, changed), "--archive", archive(work), "--summary", *within(0, 1800), code=PARTLY)
    assert [r["rule"] for r in rows] == ["disk-full", "memory-low"], rows
    assert rows[0]["fires"] > 0 and "memory-low was not tested" in said, (rows, said)


def case_gateway(work):
    g = Gateway(GATEWAY, work, "gateway", "127.0.0.1:0", settings=[f"archive.dir={work}/archive", KEEP]).start()
    path = work + "/events.ndjson"
    with open(path, "w") as f:
        f.write("\n".join(history()) + "\n")
    out = g.gridline("import", path)
    n = sum(1 for _ in history())
    wait_for(lambda: g.gridline("sql", "-t", "ndjson", "SELECT count(*) AS n FROM space", check=False).stdout == '{"n":%d}\n' % n,
             "the events")
    rows, said = test(write(work, RULES + FORECAST), "--gateway", "unix:" + g.socket, *within(0, 1800), code=PARTLY)
    check_low(rows)
    assert "rule soon was not tested: it is asked at the gateway" in said, said
    g.stop()


def case_same(work):
    """A real guard hears events as they come; a back-test over the archive of them says the same, in the same order."""
    g = Gateway(GATEWAY, work, "gateway", "127.0.0.1:0", settings=[f"archive.dir={work}/archive"]).start()
    rule = """rule hot { query = "SELECT host, degrees FROM heat_latest WHERE degrees > 80"  key = {"host"}  every = "100ms"  for = "0s"
        clear_for = "0s"  fresh = "1h" }"""
    begun = time.time()
    guard = Guard(GUARD, work, "unix:" + g.socket, "default_rules = false\n" + rule).start()
    wait_for(lambda: "listening" in guard.log(), "a subscription")
    state = lambda host: {f["host"]: f["state"] for f in guard.faults("--all")}.get(host)
    rules = lambda: map(json.loads, guard.gridline("rule", "list", "--format", "json").stdout.splitlines())
    evaluations = lambda: next(r["evaluations"] for r in rules() if r["rule"] == "hot")
    want = []
    for host, degrees, then in (("a", 90, "firing"), ("b", 95, "firing"), ("a", 10, "cleared"), ("a", 99, "firing"), ("b", 1, "cleared"),
                                ("a", 2, "cleared")):
        subprocess.run([GRIDLINE, "log", "--to", "unix:" + g.socket, "--host", host, "heat", f"degrees={degrees}"], check=True)
        wait_for(lambda: state(host) == then, f"{host} {then}")
        # The back-test's evaluations are at other moments: some of them lie between any two events.
        before = evaluations()
        wait_for(lambda: evaluations() >= before + 3, "evaluations")
        want.append((host, "fires" if then == "firing" else "clears"))
    wait_for(lambda: g.gridline("sql", "-t", "ndjson", "SELECT count(*) AS n FROM heat").stdout == '{"n":6}\n', "the archive")
    rows, _ = test(guard.file, "--gateway", "unix:" + g.socket, "--from", stamp(begun))
    got = [(r["summary"].split()[0].split("=")[1], r["what"]) for r in rows]
    assert got == want, (got, want)
    guard.stop()
    g.stop()


def case_wrong(work):
    dir = archive(work)
    path = write(work, RULES.replace("free < 100", "free <"))
    test(path, "--archive", dir, code=USAGE)
    test(work + "/none.conf", "--archive", dir, code=NOT_FOUND)
    test(write(work, RULES), "--archive", work + "/none", code=NOT_FOUND)
    test(write(work, RULES), "--archive", dir, *within(10, 10), code=USAGE)
    _, said = test(write(work, RULES.replace('  trust = {"space"}', "")), "--archive", dir, code=NOT_ALLOWED)
    assert "trust" in said, said


def case_day(work):
    """A day of 100 hosts, a sample every ten seconds, ten rules: how long it takes is printed."""
    path = work + "/events.ndjson"
    hosts, step = 100, 10 * (1 if os.environ.get("GRIDLINE_TEST_LONG") else 12)
    with open(path, "w") as f:
        for t in range(0, 86400, step):
            for h in range(hosts):
                f.write(event(t, f"h{h}", 50.0 if (t // 3600 + h) % 24 == 0 else 500.0) + "\n")
    out = subprocess.run([GRIDLINE, "import", "--archive", work + "/archive", path], capture_output=True, text=True)
    assert out.returncode == OK, out
    rules = "".join('rule r%d { query = "SELECT host, free FROM space_latest WHERE free < %d"  key = {"host"}  every = "10s"  '
                    'for = "2m"  clear_for = "2m"  fresh = "5m" }\n' % (i, 100 + i) for i in range(10))
    begun = time.monotonic()
    rows, said = test(write(work, rules), "--archive", work + "/archive", "--summary", *within(0, 86400))
    print(f"{hosts * 86400 // step} events, 10 rules every 10 s: {time.monotonic() - begun:.1f} s;", said.strip().split("\n")[-1])
    assert all(r["fires"] == hosts and r["evaluations"] == 8640 for r in rows), rows


if __name__ == "__main__":
    grid.main(globals(), sys.argv)
