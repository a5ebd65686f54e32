#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Other people's logs, as they are: through the sensor logfile of an agent, and through convert and import.

    filters_test.py CASE gridline gridline-agent gridline-gateway SOURCE"""
import datetime
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import zoneinfo

import grid
from grid import Agent, Gateway, wait_for

GRIDLINE, AGENT, GATEWAY, SOURCE = sys.argv[2:6]
OK, FAILED, USAGE, NOT_FOUND, PARTLY = range(5)


def append(path, text):
    with open(path, "a") as f:
        f.write(text)



def case_netsolve(work):
    """Three calls farmed out at once, followed live: a lifeline each; the last record comes without another behind it; who calls
    whom is client, agent, server, and nobody calls himself."""
    gateway = Gateway(GATEWAY, work, "gateway", "127.0.0.1:0", settings=[f"archive.dir={work}/archive", "archive.flush=1s"]).start()
    log = work + "/nsagent.log"
    append(log, "")
    agent = Agent(AGENT, work, "agent1", [gateway.addresses[0]], "defaults = false\n"
                  f'logfile ns {{ path = "{log}"  filter = "{SOURCE}/share/filters/netsolve.conf"  from = start  every = 100ms }}\n')
    agent.start()
    now = int(time.time())
    submit = (f"NS_PROT_PROBLEM_SUBMIT: Time {now} (whenever),\nNickname mandel, Input size 4, Output Size 800, Problem Size 1,\n"
              "ID leepro@anaka.cs.utk.edu\n")
    offer = "Server List for problem mandel:\n{}.sinrg.cs.utk.edu\nneo9.sinrg.cs.utk.edu\n"
    append(log, (submit + offer.format("neo15")) * 2 + submit + offer.format("neo13"))
    wait_for(lambda: len(gateway.events("netsolve.offer")) == 3, "the last offer, with nothing behind it")
    for server in ("neo13", "neo15", "neo15"):
        append(log, f"NS_PROT_JOB_COMPLETED_FROM_SERVER: {server}.cs.utk.edu mandel 0\n")
    wait_for(lambda: len(gateway.events("netsolve.complete")) == 3, "the completions")
    calls = {}
    for e in gateway.events():
        if e["name"].startswith("netsolve."):
            calls.setdefault(e["id"], {})[e["name"]] = e
    assert len(calls) == 3, calls.keys()
    for call in calls.values():
        assert set(call) == {"netsolve.request", "netsolve.offer", "netsolve.complete"}, call
        request, offer, complete = (call["netsolve." + n] for n in ("request", "offer", "complete"))
        assert request["time"] == time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime(now)), request
        assert offer["server"].split(".")[0] == complete["server"].split(".")[0], (offer, complete)
        assert request["time"] <= offer["time"] <= complete["time"], call
        assert complete["submitted"] == now and complete["elapsed"] >= 0 and complete["user"] == "leepro", complete

    def edges():
        out = gateway.gridline("sql", "--format", "ndjson", "SELECT src, dst, sum(count) AS n FROM lifeline_edge "
                               "WHERE 20 BETWEEN serves_from AND serves_to GROUP BY 1, 2", check=False)  # no such table yet
        return {(r["src"], r["dst"]): r["n"] for r in map(json.loads, out.stdout.splitlines())}
    want = {("anaka.cs.utk.edu", "agent1"): 3, ("agent1", "neo13.cs.utk.edu"): 1, ("agent1", "neo15.cs.utk.edu"): 2}
    wait_for(lambda: edges() == want, "the edges")
    assert agent.stop() == 0, agent.log()
    assert gateway.stop() == 0


def convert(*argv, code=OK, **kw):
    out = subprocess.run([GRIDLINE, "convert", *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **kw)
    assert out.returncode == code, (out.returncode, out.stderr, out.stdout[-300:])
    return [json.loads(line) for line in out.stdout.splitlines()], out.stderr


def as_dcache(text):
    """As dCache's NetLogger lines quote a value."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r") + '"'


def as_others(text):
    """As those who only think of quotes."""
    return '"' + text.replace('"', '\\"') + '"'


def case_escapes(work):
    """Files of both dialects: every value as its writer meant it, by convert, import, merge and a gateway; a file shows which it has
    wherever in it the evidence is."""
    c = ["one\ntwo", "tab\\t is two characters", "C:\\temp\\new", 'a "quoted" word', "end\r\n", "no escapes"] * 5000
    plain = ["C:\\temp\\new", "rate\\nominal", "\\d+ \\w*", 'a "quoted" word', "no escapes"] * 5000
    plain[:2000] = ["rate\\nominal"] * 2000  # as in the other dialect, for longer than a buffer
    values = {"c": c, "plain": plain}
    for name, quote in (("c", as_dcache), ("plain", as_others)):
        for ending, line in (("bp", "ts=2026-11-15T21:20:{:02}Z event=e host=h prog=p n={} m={}\n"),
                             ("ulm", "DATE=202611152120{:02} HOST=h PROG=p LVL=Info NL.EVNT=e n={} m={}\n")):
            with open(f"{work}/{name}.{ending}", "w", newline="") as f:
                f.writelines(line.format(i % 60, i, quote(v)) for i, v in enumerate(values[name]))
    subprocess.run(["gzip", "-k", f"{work}/c.bp", f"{work}/plain.ulm"], check=True)
    for name, path in (("c", "c.bp"), ("c", "c.ulm"), ("c", "c.bp.gz"), ("plain", "plain.bp"), ("plain", "plain.ulm"), ("plain", "plain.ulm.gz")):
        events, _ = convert(f"{work}/{path}")
        wrong = [(e["m"], v) for e, v in zip(events, values[name], strict=True) if e["m"] != v]
        assert not wrong, (path, len(wrong), wrong[:3])
    other, _ = convert("--escapes", "plain", f"{work}/c.bp")
    assert other[0]["m"] == "one\\ntwo" and other[2]["m"] == "C:\\temp\\new", other[:3]
    forced, _ = convert("--escapes", "c", "-", input='ts=1 event=e m="a\\tb"\n')
    assert forced[0]["m"] == "a\tb", forced
    convert("--escapes", "d", f"{work}/c.bp", code=USAGE)

    # Merged, lines of both are of one dialect.
    subprocess.run([GRIDLINE, "merge", "-q", "-o", f"{work}/both.bp", f"{work}/c.bp", f"{work}/plain.bp"], check=True)
    events, _ = convert(f"{work}/both.bp")
    assert sorted(e["m"] for e in events) == sorted(c + [v.replace("\\\\", "\\") for v in plain])

    gateway = Gateway(GATEWAY, work, "gateway", "127.0.0.1:0", settings=["escapes=c"]).start()
    out = subprocess.run([GRIDLINE, "import", "-q", "--gateway", "unix:" + gateway.socket, f"{work}/c.ulm"], stdout=subprocess.PIPE)
    assert out.returncode == OK
    host, port = gateway.addresses[0].removeprefix("tcp://").rsplit(":", 1)
    with socket.create_connection((host, int(port))) as s:
        s.sendall(b'ULM\0    DATE=20261115212028 HOST=h PROG=p LVL=Info NL.EVNT=line m="a\\nb"\n')
    wait_for(lambda: gateway.events("line"), "the line")
    assert gateway.events("line")[0]["m"] == "a\nb"
    assert [e["m"] for e in sorted(gateway.events("e"), key=lambda e: e["n"])] == c


def case_limits(work):
    """A field over a limit costs the field, not the event: the event says which, and every path counts it."""
    big, wide = "x" * 70000, {f"f{i:03}": i for i in range(300)}
    events = [{"time": 1700000000 + i, "name": "e", "host": "h", "prog": "p", "n": i} for i in range(4)]
    events[1]["msg"] = big
    events[2].update(wide)
    events[3].update({f"part{i}": "y" * 60000 for i in range(6)})
    ndjson = work + "/in.ndjson"
    with open(ndjson, "w") as f:
        f.writelines(json.dumps(e) + "\n" for e in events)
    ulm = work + "/in.ulm"
    with open(ulm, "w") as f:
        for e in events:
            fields = " ".join(f"{k}={v}" for k, v in e.items() if k not in ("time", "name", "host", "prog"))
            f.write(f"DATE=20231114221320 HOST=h PROG=p LVL=Info NL.EVNT=e {fields}\n")
    xml = work + "/in.xml"
    with open(xml, "w") as f:
        f.write("<events>")
        for e in events:
            fields = "".join(f'<f n="{k}" t="{"text" if isinstance(v, str) else "int"}">{v}</f>' for k, v in e.items()
                             if k not in ("time", "name", "host", "prog"))
            f.write(f'<event time="2023-11-14T22:13:20Z" host="h" prog="p" level="info" name="e">{fields}</event>\n')
        f.write("</events>")

    def check(got):
        assert [e["n"] for e in got] == [0, 1, 2, 3], got
        assert "dropped_fields" not in got[0] and "msg" not in got[1] and got[1]["dropped_fields"] == "msg", got[1]
        kept = [k for k in got[2] if k.startswith("f")]
        assert kept == sorted(wide)[:len(kept)] and len(kept) == 254, len(kept)  # n and the mark are two more
        assert sorted(kept + got[2]["dropped_fields"].split(",")) == sorted(wide), got[2]["dropped_fields"]
        assert got[3]["part3"] == "y" * 60000 and got[3]["dropped_fields"] == "part4,part5", got[3].keys()

    for path in (ndjson, ulm, xml):
        got, said = convert(path, code=PARTLY)
        check(got)
        assert "of 3 events are over a limit" in said, said
    subprocess.run([GRIDLINE, "merge", "-q", "-t", "ndjson", "-o", work + "/merged.ndjson", ndjson], check=False)
    check(convert(work + "/merged.ndjson")[0])

    gateway = Gateway(GATEWAY, work, "gateway", "127.0.0.1:0").start()
    out = subprocess.run([GRIDLINE, "import", "--gateway", "unix:" + gateway.socket, "--format", "json", ndjson],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    row = json.loads(out.stdout)
    assert out.returncode == PARTLY and row["stored"] == 4 and row["trimmed"] == 3, (row, out.stderr)
    check(sorted(gateway.events("e"), key=lambda e: e["n"]))
    host, port = gateway.addresses[0].removeprefix("tcp://").rsplit(":", 1)
    with socket.create_connection((host, int(port))) as s, open(ulm, "rb") as f:
        s.sendall(f.read())
    wait_for(lambda: len(gateway.events("e")) == 8, "the lines")
    check(sorted(gateway.events("e"), key=lambda e: e["n"])[1::2])
    assert gateway.stop() == 0
    with open(gateway.folder + "/ledger.json") as f:
        ledger = json.load(f)["ledger"]
    assert ledger["trimmed_events"] == 3 and ledger["trimmed_fields"] == 49, {k: v for k, v in ledger.items() if k != "accounts"}


def filter_of(name):
    return f"{SOURCE}/share/filters/{name}.conf"


def iso(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime(seconds))


def import_log(work, path, *argv):
    """Through import into a folder, and out of it again."""
    archive = tempfile.mkdtemp(dir=work)
    out = subprocess.run([GRIDLINE, "import", "--archive", archive, "--format", "json", *argv, path], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True)
    assert out.returncode == OK, (out.returncode, out.stdout, out.stderr)
    row = json.loads(out.stdout)
    assert row["stored"] == row["events"] and row["bad"] == 0, row
    events = subprocess.run([GRIDLINE, "export", "--archive", archive, "-t", "ndjson"], check=True, stdout=subprocess.PIPE, text=True)
    return archive, [json.loads(line) for line in events.stdout.splitlines()]


def case_syslog(work):
    """A year of syslog in Berlin, without years, through both changes of the clock and New Year: every time as it was."""
    berlin = zoneinfo.ZoneInfo("Europe/Berlin")
    first = int(datetime.datetime(2023, 9, 1, tzinfo=datetime.timezone.utc).timestamp())
    times = [first + i * 1777 for i in range(17000)]  # to August 2024
    log = work + "/messages"
    with open(log, "w") as f:
        for i, t in enumerate(times):
            local = datetime.datetime.fromtimestamp(t, berlin)
            f.write(f"{local:%b} {local.day:2} {local:%H:%M:%S} node{i % 3} app[{100 + i}]: message {i}: it's \\n \"well\"\n")
    os.utime(log, (times[-1] + 60, times[-1] + 60))
    subprocess.run(["gzip", "-k", log], check=True)
    options = ("--filter", filter_of("syslog"), "--zone", "Europe/Berlin")
    by_time, said = convert(*options, log)
    by_year, _ = convert(*options, "--year", "2023", "-", stdin=open(log))
    packed, _ = convert(*options, log + ".gz")
    assert by_time == by_year == packed and not said, said
    assert [e["time"] for e in by_time] == [iso(t) for t in times], [p for p in zip(by_time, map(iso, times)) if p[0]["time"] != p[1]][:2]
    assert all(e["host"] == f"node{i % 3}" and e["prog"] == "app" and e["pid"] == 100 + i and e["text"] == f"message {i}: it's \\n \"well\""
               for i, e in enumerate(by_time))
    _, imported = import_log(work, log, *options)
    assert sorted(e["text"] for e in imported) == sorted(e["text"] for e in by_time)
    assert sorted(e["time"] for e in imported) == sorted(map(iso, times))
    convert("--filter", "no-such", log, code=NOT_FOUND)
    convert("--filter", filter_of("syslog"), "--zone", "Mars/Base", log, code=FAILED)
    convert("--filter", filter_of("syslog"), "--year", "23", log, code=USAGE)


def case_logs(work):
    """dpkg's log of this machine, an access log that is made up, Slurm's: counts and values as plain Python has them."""
    log = "/var/log/dpkg.log"
    if not os.path.exists(log) or os.path.getsize(log) == 0:
        log = work + "/dpkg.log"
        append(log, "2025-06-24 14:36:25 startup archives unpack\n2025-06-24 14:36:25 upgrade libc6:amd64 2.36-9 2.36-10\n"
               "2025-10-26 02:30:00 install tree:amd64 <none> 2.1\n2025-10-26 02:30:01 status installed tree:amd64 2.1\n")
    shutil.copy(log, work + "/dpkg.txt")
    berlin, want = zoneinfo.ZoneInfo("Europe/Berlin"), []
    with open(work + "/dpkg.txt") as f:
        for line in f:
            words = line.split()
            t = datetime.datetime.fromisoformat(f"{words[0]} {words[1]}").replace(tzinfo=berlin).timestamp()
            if words[2] == "status":
                want.append(("package.status", iso(t), words[3], words[4].split(":")[0], words[5]))
            elif words[2] == "startup":
                want.append(("package.run", iso(t), words[3], words[4], None))
            elif words[2] == "conffile":
                want.append(("package.conffile", iso(t), words[3], words[4], None))
            else:
                want.append(("package.action", iso(t), words[2], words[3].split(":")[0], words[5] if words[5] != "<none>" else None))

    def row(e):
        if e["name"] == "package.status":
            return (e["name"], e["time"], e["status"], e["package"], str(e["version"]))
        if e["name"] == "package.run":
            return (e["name"], e["time"], e["what"], e["step"], None)
        if e["name"] == "package.conffile":
            return (e["name"], e["time"], e["file"], e["choice"], None)
        return (e["name"], e["time"], e["action"], e["package"], e.get("version"))

    options = ("--filter", filter_of("dpkg"), "--zone", "Europe/Berlin", "--host", "here")
    events, _ = convert(*options, work + "/dpkg.txt")
    assert [row(e) for e in events] == want, [p for p in zip(map(row, events), want) if p[0] != p[1]][:3]
    _, imported = import_log(work, work + "/dpkg.txt", *options)
    key = lambda r: tuple(str(x) for x in r)
    assert sorted(map(row, imported), key=key) == sorted(want, key=key)
    print(len(want), "lines of", log)

    r, bytes_by_status, lines = random.Random(5), {}, []
    for i in range(5000):
        status, size = r.choice([200, 200, 304, 404, 500]), r.choice(["-", str(r.randrange(10**6))])
        agent = r.choice(['curl/8', 'Mozilla/5.0 (X11; \\"odd\\")', "-"])
        lines.append(f'192.0.2.{i % 250} - {r.choice(["-", "ann"])} [{i % 28 + 1:02}/Feb/2026:10:{i // 60 % 60:02}:{i % 60:02} +0530] '
                     f'"GET /p/{i}?q=a%20b HTTP/1.1" {status} {size} "-" "{agent}"')
        n, total = bytes_by_status.get(status, (0, 0))
        bytes_by_status[status] = (n + 1, total + (int(size) if size != "-" else 0))
    append(work + "/access.log", "\n".join(lines) + "\nnot a request\n")
    events, said = convert("--filter", filter_of("access"), work + "/access.log")
    assert len(events) == 5000 and "1 of 5001 records match no rule" in said, said
    got = {}
    for e in events:
        n, total = got.get(e["status"], (0, 0))
        got[e["status"]] = (n + 1, total + e.get("bytes", 0))
    assert got == bytes_by_status, (got, bytes_by_status)
    assert events[61]["time"] == "2026-02-06T04:31:01.000000Z", events[61]
    archive, _ = import_log(work, work + "/access.log", "--filter", filter_of("access"), "--host", "web1")
    out = subprocess.run([GRIDLINE, "sql", "--archive", archive, "--format", "ndjson", "SELECT status, count(*) AS n, sum(bytes) AS b "
                          "FROM http_access GROUP BY status"], check=True, stdout=subprocess.PIPE, text=True)
    assert {x["status"]: (x["n"], x["b"]) for x in map(json.loads, out.stdout.splitlines())} == bytes_by_status, out.stdout

    for name in ("slurmctld", "slurm-jobcomp", "netsolve", "boinc"):
        with open(f"{SOURCE}/tests/fixtures/logs/{name}.ndjson") as f:
            want = [json.loads(line) for line in f]
        events, _ = convert("--filter", filter_of(name), "--zone", "utc", f"{SOURCE}/tests/fixtures/logs/{name}.log")
        values = [[(k, v) for k, v in e.items() if k != "time"] for e in events]
        assert values == [[(k, v) for k, v in e.items() if k != "time"] for e in want], name


if __name__ == "__main__":
    grid.main(globals(), sys.argv)
