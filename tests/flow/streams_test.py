#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The newest event of every stream, and summaries, with a real gateway and agents: against what its journal has.

    streams_test.py CASE AGENT GATEWAY"""
import datetime
import json
import math
import os
import signal
import socket
import subprocess
import sys

from grid import Agent, Gateway, main, wait_for

AGENT, GATEWAY = sys.argv[2:4]
USAGE, NOT_FOUND, NOT_ALLOWED = 2, 3, 5
HEAD = {"time", "host", "prog", "level", "name", "@"}
KEYS = {"cpu": ["cpu"], "disk": ["device"], "network": ["interface"]}
SENSORS = "".join(f"{s} {{ every = 1s }}\n" for s in ("cpu", "disk", "load", "memory"))


def ns(text):
    """2026-11-15T21:20:28.123456789Z, exactly."""
    head, fraction = text.rstrip("Z").split(".")
    seconds = datetime.datetime.fromisoformat(head).replace(tzinfo=datetime.timezone.utc).timestamp()
    return int(seconds) * 10**9 + int(fraction.ljust(9, "0"))


def stream(event):
    return (event["host"], event["prog"], event["name"], ",".join(f"{k}={event[k]}" for k in KEYS.get(event["name"], ())
                                                                  if k in event))


def grid(work, *settings):
    """Two hosts; an address each, as one agent of a host and gateway is enough."""
    gateway = Gateway(GATEWAY, work, "gateway", "tcp://127.0.0.1:0,tcp://127.0.0.1:0", settings=settings).start()
    agents = [Agent(AGENT, work, host, [address], f'state_dir = "{work}/{host}/state"\ndefaults = false\n{SENSORS}').start()
              for host, address in zip(("node1", "node2"), gateway.addresses)]
    return gateway, agents


def has_come(gateway, n):
    """At least n loads of each host."""
    out = gateway.gridline("summary", "--event", "load", "--field", "load1", "--window", "60m", "--format", "json", check=False)
    counts = {row["host"]: row["count"] for row in map(json.loads, out.stdout.splitlines())}
    return min(counts.get("node1", 0), counts.get("node2", 0)) >= n


def quiet(gateway, agents):
    """Nothing comes any more, and everything that came is in the journal and was given to the consumers' side."""
    for a in agents:
        a.stop()
    wait_for(lambda: {gateway.state("node1"), gateway.state("node2")} == {"deregistered"}, "goodbyes")
    wait_for(lambda: status(gateway)["latest.taken"] == journalled(gateway), "all events")


def journalled(gateway):
    """Events of everybody, the gateway too."""
    dump = subprocess.run([GATEWAY, "--dump", gateway.journal, "--print", "ndjson"], stdout=subprocess.PIPE, text=True,
                          check=True)
    return len(dump.stdout.splitlines())


def status(gateway):
    """As the ledger file has it."""
    file = gateway.folder + "/ledger.json"
    if os.path.exists(file):
        os.unlink(file)
    gateway.process.send_signal(signal.SIGUSR1)
    wait_for(lambda: os.path.exists(file), "the status")
    with open(file) as f:
        return json.load(f)["status"]


def case_latest(work):
    """Each sensor's newest event, as the journal has it; and one that is late changes nothing."""
    gateway, agents = grid(work)
    wait_for(lambda: has_come(gateway, 3), "samples")
    quiet(gateway, agents)
    newest = {}
    for e in gateway.events():
        if stream(e) not in newest or ns(e["time"]) >= ns(newest[stream(e)]["time"]):
            newest[stream(e)] = e
    rows = [r for r in gateway.rows("latest") if r["prog"] != "gridline-gateway"]
    assert len(rows) == len(newest), (len(rows), len(newest))
    assert {stream(r): r for r in rows} == newest
    names = {(host, name) for host, _, name, _ in newest}
    assert {(h, s) for h in ("node1", "node2") for s in ("cpu", "disk", "load", "memory")} <= names, names

    assert gateway.rows("latest", "--event", "load", "--host", "node2") == [newest["node2", "gridline-agent", "load", ""]]
    cpus = [s for s in newest if s[2] == "cpu" and s[0] == "node1"]
    rows = gateway.rows("latest", "--host", "node1", "--where", "name = 'cpu' AND user >= 0")
    assert {stream(r) for r in rows} == set(cpus) and len(rows) == len(cpus)
    assert gateway.gridline("latest", "--event", "nothing", check=False).returncode == NOT_FOUND
    assert gateway.gridline("latest", "--where", "load1 >", check=False).returncode == USAGE

    table = gateway.gridline("latest", "--event", "load").stdout.splitlines()
    assert table[0].split()[:4] == ["TIME", "HOST", "PROG", "LOAD1"] and len(table) == 3, table
    assert len(gateway.gridline("latest", "--event", "load", "--format", "csv").stdout.splitlines()) == 3
    for form in ("ulm", "bp", "xml"):
        assert gateway.gridline("latest", "--event", "load", "--format", form).stdout.count("load15") == 2, form


def send_lines(gateway, lines):
    """Lines of ULM have no acknowledgement."""
    with socket.create_connection(gateway.addresses[0].removeprefix("tcp://").split(":")) as s:
        s.sendall("".join(line + "\n" for line in lines).encode())
        s.shutdown(socket.SHUT_WR)
        while s.recv(4096):
            pass


def ulm_date(at_ns):
    t = datetime.datetime.fromtimestamp(at_ns // 10**9, datetime.timezone.utc)
    return f"{t:%Y%m%d%H%M%S}.{at_ns % 10**9 // 1000:06d}"


def send_out_of_order(gateway):
    """A stream that comes backwards, reaching out of every window but the longest, and one reading far ahead."""
    now = int(datetime.datetime.now(datetime.timezone.utc).timestamp()) * 10**9
    ages = [0, 3, 1, 2, 20, 10, 40, 90, 300, 1, -1200]
    send_lines(gateway, [f"DATE={ulm_date(now - age * 10**9)} HOST=node9 PROG=app LVL=Info NL.EVNT=app.turn n={i} x={i}.25"
                         for i, age in enumerate(ages)])
    wait_for(lambda: len(gateway.events("app.turn")) == len(ages), "the lines")


def numeric_fields(event):
    return [k for k, v in event.items()
            if k not in HEAD and k not in KEYS.get(event["name"], ()) and isinstance(v, (int, float)) and not isinstance(v, bool)]


def recompute(events, field, start, end):
    """What a row should say, of the events of its stream in the order in which they came."""
    inside = [e for e in events if field in e and start <= ns(e["time"]) < end]
    if not inside:
        return None
    values = [e[field] for e in inside]
    least, most = min(ns(e["time"]) for e in inside), max(ns(e["time"]) for e in inside)
    gain = over = 0
    before = None
    for e in events:
        if field not in e or (before and ns(e["time"]) <= ns(before["time"])):
            continue
        if before and e in inside and e[field] >= before[field]:
            gain += e[field] - before[field]
            over += ns(e["time"]) - ns(before["time"])
        before = e
    return {"count": len(values), "min": min(values), "max": max(values), "sum": math.fsum(values),
            "mean": math.fsum(values) / len(values), "first": min(e[field] for e in inside if ns(e["time"]) == least),
            "last": max(e[field] for e in inside if ns(e["time"]) == most), "rate": gain * 1e9 / over if over else None}


def case_summary(work):
    """Rows equal what the journal's events with those times give; every field that has any in a window has a row."""
    gateway, agents = grid(work, "summary.windows=12s,1m,60m")
    wait_for(lambda: has_come(gateway, 5), "samples")
    send_out_of_order(gateway)
    wait_for(lambda: has_come(gateway, 15), "samples that are older than 12 seconds")
    quiet(gateway, agents)
    rows = [r for r in gateway.rows("summary") if r["prog"] != "gridline-gateway"]
    streams = {}
    for e in gateway.events():
        if ns(e["time"]) < ns(rows[0]["time"]) + 600 * 10**9:  # what was far ahead is in no window, and counted
            streams.setdefault(stream(e), []).append(e)
    seen = set()
    rates = 0
    for r in rows:
        key = (r["host"], r["prog"], r["event"], r.get("keys", ""))
        assert ns(r["to"]) - ns(r["from"]) == {"12s": 12, "1m": 60, "60m": 3600}[r["window"]] * 10**9, r
        should = recompute(streams[key], r["field"], ns(r["from"]), ns(r["to"]))
        assert should, r
        for k in ("count", "min", "max", "first", "last"):
            assert r[k] == should[k], (k, should, r)
        for k in ("mean", "sum"):
            assert math.isclose(r[k], should[k], rel_tol=1e-12), (k, should, r)
        if "rate" in r:
            rates += 1
            assert math.isclose(r["rate"], should["rate"], abs_tol=0.00500001), (should, r)
        assert (*key, r["field"], r["window"]) not in seen, r
        seen.add((*key, r["field"], r["window"]))
    ranges = {r["window"]: (ns(r["from"]), ns(r["to"])) for r in rows}
    missing = {(*key, f, w) for key, events in streams.items() for e in events for f in numeric_fields(e)
               for w, (start, end) in ranges.items() if w == "60m" and start <= ns(e["time"]) < end} - seen
    assert not missing, missing
    assert {"1m", "60m"} <= set(ranges) and rates > 20, (ranges, rates)
    assert {r["window"]: r["ahead"] for r in rows if r["host"] == "node9"}["60m"] == 1, rows
    late = {(r["window"]): r.get("late", 0) for r in rows if r["host"] == "node9" and r["field"] == "n"}
    assert late["60m"] == 0 and late["1m"] == 2, late  # 90 and 300 seconds
    assert status(gateway)["summary.left_out"] == 0


def case_questions(work):
    """Choices, formats, and what is wrong with a question."""
    gateway, agents = grid(work)
    wait_for(lambda: has_come(gateway, 2), "samples")
    rows = gateway.rows("summary", "--event", "load,cpu", "--host", "node1", "--window", "1m", "--field", "load1,user")
    assert {(r["event"], r["field"]) for r in rows} == {("load", "load1"), ("cpu", "user")}, rows
    assert {r["host"] for r in rows} == {"node1"} and {r["window"] for r in rows} == {"1m"}, rows
    rows = gateway.rows("summary", "--where", "cpu = 'all' AND window = '10m' AND field GLOB 's*'")
    assert {r["keys"] for r in rows} == {"cpu=all"} and {r["field"] for r in rows} == {"system", "softirq", "steal"}, rows
    table = gateway.gridline("summary", "--event", "load", "--window", "1h").stdout.splitlines()
    assert table[0].split() == ["HOST", "EVENT", "KEYS", "FIELD", "UNIT", "WINDOW", "COUNT", "MIN", "MEAN", "MAX", "LAST",
                                "RATE"], table
    assert len(gateway.gridline("summary", "--event", "load", "--window", "1h", "--format", "csv").stdout.splitlines()) == \
        len(table)
    out = gateway.gridline("summary", "--window", "5m", check=False)
    assert out.returncode == USAGE and "there are 1m, 10m, 60m" in out.stderr, out.stderr
    assert gateway.gridline("summary", "--event", "nothing", check=False).returncode == NOT_FOUND

    # Whoever comes by TCP on loopback gets summaries, and nothing else of the data.
    by_tcp = [gateway.command, "summary", "--gateway", gateway.addresses[0], "--event", "load"]
    assert "load15" in subprocess.run(by_tcp, stdout=subprocess.PIPE, text=True, check=True).stdout
    by_tcp[1] = "latest"
    out = subprocess.run(by_tcp, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert out.returncode == NOT_ALLOWED and not out.stdout, out
    for a in agents:
        a.stop()


def case_off(work):
    """Switched off, nothing is kept, and the asker is told which key says so."""
    gateway = Gateway(GATEWAY, work, "gateway", "tcp://127.0.0.1:0",
                      settings=("latest.streams=0", "summary.streams=0")).start()
    for verb in ("latest", "summary"):
        out = gateway.gridline(verb, check=False)
        assert out.returncode == 1 and verb + ".streams" in out.stderr, out.stderr
    numbers = status(gateway)
    assert numbers["latest.streams"] == numbers["summary.streams"] == 0, numbers


if __name__ == "__main__":
    main(globals(), sys.argv)
