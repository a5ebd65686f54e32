#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The HTTP API of a real gateway: every address, format and limit that docs/http.md promises.

    http_test.py CASE GRIDLINE AGENT GATEWAY SOURCE"""
import http.client
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as ElementTree
import xmlrpc.client

from grid import start, stop, stop_all, wait_for

GRIDLINE, AGENT, GATEWAY, SOURCE = sys.argv[2:6]


sites = []


class Site:
    def __init__(self, work, *settings, address="127.0.0.1:0"):
        self.work, self.settings, self.address = work, settings, address
        sites.append(self)
        self.start()

    def start(self):
        ready = self.work + "/ready"
        if os.path.exists(ready):
            os.unlink(ready)
        argv = [GATEWAY, "--listen", "tcp://127.0.0.1:0,tcp://127.0.0.1:0", "--state-dir", self.work + "/state", "--ready-file", ready,
                "-s", "http=" + self.address, "-s", "socket=" + self.work + "/g.sock", "-s", "archive.keep=*=36600d"]
        for s in self.settings:
            argv += ["-s", s]
        with open(self.work + "/log", "ab") as log:
            self.process = start(argv, stderr=log)
        wait_for(lambda: self.process.poll() is not None or (os.path.exists(ready) and os.path.getsize(ready)), "the gateway")
        assert self.process.poll() is None, open(self.work + "/log").read()
        with open(ready) as f:
            lines = f.read().split()
        self.native, self.url = lines[:2], lines[-1]  # an address for each agent: they must not look alike
        assert self.url.startswith("http"), lines
        self.host, _, port = self.url.split("://")[1].rpartition(":")
        self.port = int(port)
        with open(self.work + "/state/http.token") as f:
            self.token = f.read().strip()

    def stop(self):
        """In good order: a sanitizer's complaint is a failure, too."""
        code = stop(self.process)
        assert code == 0, code

    def connect(self):
        return http.client.HTTPConnection(self.host, self.port, timeout=60)

    def ask(self, path, method="GET", body=None, token=True, **headers):
        """Status, headers, body."""
        c = self.connect()
        headers = {k.replace("_", "-"): v for k, v in headers.items()}
        if token:
            headers.setdefault("Authorization", "Bearer " + (self.token if token is True else token))
        c.request(method, path, body, headers)
        r = c.getresponse()
        try:
            return r.status, r.headers, r.read()
        finally:
            c.close()

    def ask_head(self, path, method="GET", body=None, token=True, **headers):
        """The same of an answer that does not end: its body is that of a problem, or nothing."""
        c = self.connect()
        headers = {k.replace("_", "-"): v for k, v in headers.items()}
        headers.setdefault("Authorization", "Bearer " + (self.token if token is True else token))
        c.request(method, path, body, headers)
        r = c.getresponse()
        try:
            return r.status, r.headers, r.read() if r.status != 200 else b""
        finally:
            r.close()
            c.close()

    def get(self, path, status=200, **more):
        got, headers, body = self.ask(path, **more)
        assert got == status, (path[:200], got, body[:500])
        kind = headers["Content-Type"]
        return json.loads(body) if "json" in kind and "ndjson" not in kind else body.decode()

    def publish(self, events, status=200, **headers):
        text = "".join(json.dumps(e) + "\n" for e in events)
        return self.get("/api/v1/events", status, method="POST", body=text, Content_Type="application/x-ndjson", **headers)

    def stream(self, query, **headers):
        return Stream(self, "/api/v1/events?" + query, headers)

    def agent(self, host, number=0):
        conf = f"{self.work}/{host}.conf"
        with open(conf, "w") as f:
            f.write(f'hostname = "{host}"\ngateway = {{"{self.native[number]}"}}\nstate_dir = "{self.work}/{host}.state"\n'
                    f'run_dir = "{self.work}/{host}.run"\ndefaults = false\nload {{ every = 200ms }}\n')
        with open(f"{self.work}/{host}.log", "ab") as log:
            return start([AGENT, "-c", conf], stderr=log, stdout=log)


class Stream:
    """An answer that does not end, a line at a time."""

    def __init__(self, site, path, headers):
        self.connection = site.connect()
        self.connection.request("GET", path, headers={"Authorization": "Bearer " + site.token,
                                                      **{k.replace("_", "-"): v for k, v in headers.items()}})
        self.answer = self.connection.getresponse()
        assert self.answer.status == 200, (self.answer.status, self.answer.read())

    def line(self):
        line = self.answer.readline()
        assert line, "the stream has ended"
        return line.decode().rstrip("\n")

    def json(self):
        return json.loads(self.line())

    def block(self):
        """A message of Server-Sent Events as a dict; comments are left out."""
        out = {}
        while True:
            line = self.line()
            if line == "" and out:
                return out
            if line and not line.startswith(":"):
                name, _, value = line.partition(": ")
                out[name] = value

    def close(self):
        self.answer.close()  # it has the socket, too
        self.connection.close()


def event(name, n, host="h", **fields):
    return {"time": 1700000000 + n, "name": name, "host": host, "n": n, **fields}


def case_formats(work):
    """Each format of a stream has the same events; publishing takes each format."""
    site = Site(work)
    sent = [event("x.a", i, text='quo"te <&> \t', ok=True, f=0.5) for i in range(20)]
    assert site.publish(sent) == {"taken": 20, "refused": 0, "errors": []}
    kinds = {"ndjson": "application/x-ndjson", "ulm": "text/x-ulm", "bp": "text/x-netlogger-bp", "xml": "application/xml",
             "binary": "application/vnd.gridline.block"}
    reference = None
    for name, kind in kinds.items():
        for path, accept in ((f"format={name}", "*/*"), ("", kind)):
            status, headers, body = site.ask(f"/api/v1/events?from=oldest&event=x.*&timeout=500ms&{path}", Accept=accept)
            assert status == 200 and headers["Content-Type"].startswith(kind), (name, headers)
            file = f"{work}/out.{'glb' if name == 'binary' else name}"
            with open(file, "wb") as f:
                f.write(body)
            back = subprocess.run([GRIDLINE, "convert", "-t", "ndjson", file], check=True, stdout=subprocess.PIPE).stdout
            events = [json.loads(line) for line in back.splitlines()]
            assert [e["n"] for e in events] == list(range(20)), (name, events)
            assert all(e["text"] == sent[0]["text"] and e["ok"] is True and e["f"] == 0.5 for e in events), (name, events[0])
            reference = reference or events
            assert events == reference, name
            if name == "xml":
                ElementTree.fromstring(body)
        # and back in, under another name
        text = body.replace(b"x.a", b"y.a") if name != "binary" else body
        answer = site.get(f"/api/v1/events?format={name}", method="POST", body=text)
        assert answer["taken"] == 20 and answer["refused"] == 0, (name, answer)
        answer = site.get("/api/v1/events", method="POST", body=text, Content_Type=kind)
        assert answer["taken"] == 20, (name, answer)
    lines = site.ask("/api/v1/events?from=oldest&event=y.*&timeout=500ms")[2].splitlines()
    assert len(lines) == 20 * 2 * 4, len(lines)
    site.get("/api/v1/events", 415, method="POST", body="what is this", Content_Type="image/png")


def case_stream(work):
    """Live, with a filter, count and timeout; positions; gone when the client leaves."""
    site = Site(work)
    s = site.stream("event=x.*&where=n>=2&count=3")
    wait_for(lambda: site.get("/api/v1/directory/subscriptions")["rows"], "the subscription")
    site.publish([event("x.a", i) for i in range(10)] + [event("z", 99)])
    assert [s.json()["n"] for _ in range(3)] == [2, 3, 4]
    assert s.answer.readline() == b"", "it ends after three"
    began = time.monotonic()
    status, headers, body = site.ask("/api/v1/events?event=x.*&timeout=300ms")
    assert status == 200 and body == b"" and time.monotonic() - began >= 0.3
    for bad in ("nix=1", "count=0", "timeout=x", "where=((", "from=yesterday", "format=csv", "event=a&event=b", "on_change="
                + "a" * 8000, "format=binary&count=2", "host=%zz", "host=%00"):
        problem = site.get("/api/v1/events?" + bad, 400)
        assert problem["status"] == 400 and problem["detail"], bad[:100]
    # positions, and where to go on
    s = site.stream("event=x.*&from=oldest&positions=true&count=10")
    lines = [s.json() for _ in range(10)]
    assert [e["n"] for e in lines] == list(range(10))
    s = site.stream("event=x.*&from=oldest&positions=true")
    lines = [s.json() for _ in range(11)]
    place = lines[10]["position"]
    s.close()
    site.publish([event("x.b", 10)])
    s = site.stream(f"event=x.*&from={place}")
    assert s.json()["n"] == 10
    s.close()
    # of another journal: a gap, then all there is
    other = "deadbeef." + place.partition(".")[2]
    s = site.stream(f"event=x.*&from={other}")
    gap = s.json()["gap"]
    assert gap["reason"] == "gone" and s.json()["n"] == 0
    s.close()
    wait_for(lambda: not site.get("/api/v1/directory/subscriptions")["rows"], "nobody reads any more")
    numbers = metrics(site)
    assert numbers["gridline_http_streams"] == 0 and numbers["gridline_http_events_given_total"] >= 35


def case_sse(work):
    """Server-Sent Events: ids, resuming by Last-Event-ID over a restart, gaps."""
    site = Site(work)
    s = site.stream("event=x", Accept="text/event-stream")
    assert s.answer.headers["Content-Type"] == "text/event-stream"
    wait_for(lambda: site.get("/api/v1/directory/subscriptions")["rows"], "the subscription")
    site.publish([event("x", i) for i in range(5)])
    got = [s.block() for _ in range(5)]
    assert [json.loads(b["data"])["n"] for b in got] == list(range(5))
    third = got[2]["id"]
    s.close()
    site.publish([event("x", 5)])
    s = site.stream("event=x&format=sse", Last_Event_ID=third)
    assert [json.loads(s.block()["data"])["n"] for _ in range(3)] == [3, 4, 5]
    s.close()
    site.stop()
    site.start()
    site.publish([event("x", 6)])
    s = site.stream("event=x&format=sse", Last_Event_ID=third)
    assert [json.loads(s.block()["data"])["n"] for _ in range(4)] == [3, 4, 5, 6]
    s.close()
    s = site.stream("event=x&format=sse", Last_Event_ID="1234.1-0-1")
    gap = s.block()
    assert gap["event"] == "gap" and json.loads(gap["data"])["reason"] == "gone"
    assert json.loads(s.block()["data"])["n"] == 0
    s.close()
    # filtered pieces have the id of their last
    s = site.stream("event=x&format=sse&from=oldest&where=n>3")
    b = s.block()
    assert json.loads(b["data"])["n"] == 4
    s.close()


def case_slow(work):
    """A consumer that does not read loses only its own, and is told exactly how much; others get all."""
    site = Site(work)
    total, size = 60000, 500
    slow = socket.create_connection((site.host, site.port))
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16384)
    slow.sendall(f"GET /api/v1/events?event=x&queue=64KiB HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {site.token}\r\n\r\n"
                 .encode())
    fast = site.stream(f"event=x&count={total}&queue=64MiB")
    wait_for(lambda: len(site.get("/api/v1/directory/subscriptions")["rows"]) == 2, "both")
    seen = []
    reader = threading.Thread(target=lambda: seen.extend(fast.json()["n"] for _ in range(total)))
    reader.start()
    for at in range(0, total, 1500):
        site.publish([event("x", n, pad="p" * size) for n in range(at, at + 1500)])
    reader.join(60)
    assert seen == list(range(total)), (len(seen), seen[:3])
    # now the slow one reads: the sum is right, and the gaps are where events are missing
    f = slow.makefile("rb")
    while f.readline() != b"\r\n":
        pass
    expected, lost, n_gaps = 0, 0, 0
    slow.settimeout(60)
    site.publish([event("x", total)])
    buffer = b""
    while expected <= total:
        length = int(f.readline(), 16)
        buffer += f.read(length)
        f.readline()
        *lines, buffer = buffer.split(b"\n")
        for line in map(json.loads, lines):
            if "gap" in line:
                assert line["gap"]["reason"] == "slow"
                lost += line["gap"]["lost"]
                n_gaps += 1
                expected += line["gap"]["lost"]
            else:
                assert line["n"] == expected, (line["n"], expected)
                expected += 1
    assert lost > 0 and n_gaps > 0, "it lost nothing: the test is too small"
    slow.close()
    assert metrics(site)["gridline_http_events_lost_total"] == lost


def case_times(work):
    """Events that the archive would not keep are refused and counted by reason; the others of the body are taken, and can
    be selected when the answer is there."""
    site = Site(work, "archive.keep=*=7d")
    now = int(time.time())

    def at(*ages):
        return [{**event("x", i), "time": now - age} for i, age in enumerate(ages)]

    day = 86400
    for origin in ({}, {"Gridline_Producer": "00112233445566778899aabbccddeeff", "Gridline_Epoch": "3", "Gridline_Seq": "1"}):
        answer = site.publish(at(1, 8 * day, -2 * day, 2, 3, 30 * day), **origin)
        assert {**answer, "errors": 0} == {"taken": 3, "refused": 3, "too_old": 2, "too_new": 1, "errors": 0}, answer
        assert "older than the archive keeps" in answer["errors"][0]["text"], answer
        rows = site.ask("/api/v1/sql?format=csv&q=SELECT+count(*)+AS+n+FROM+x")[2].split()
        assert rows == [b"n", b"3" if not origin else b"6"], rows
    answer = site.get("/api/v1/events?format=ndjson", 409, method="POST", body=json.dumps(at(9 * day)[0]) + "\n")
    assert "older than the archive keeps" in answer["detail"], answer


def case_publish(work):
    """Origins: once however often; lines that can't be read; nothing of a body with an origin is half taken."""
    site = Site(work)
    good = "".join(json.dumps(event("x", i)) + "\n" for i in range(3))
    answer = site.get("/api/v1/events", method="POST", body=good + "nonsense\n" * 12 + good)
    assert answer["taken"] == 6 and answer["refused"] == 12 and len(answer["errors"]) == 10, answer
    assert answer["errors"][0]["line"] == 4 and answer["errors"][0]["text"], answer
    answer = site.get("/api/v1/events?format=ndjson", 400, method="POST", body="nonsense\n")
    assert answer["taken"] == 0 and answer["refused"] == 1
    origin = {"Gridline_Producer": "00112233445566778899aabbccddeeff", "Gridline_Epoch": "3", "Gridline_Seq": "1"}
    for _ in range(3):
        assert site.publish([event("o", i) for i in range(5)], **origin)["taken"] == 5
    assert site.publish([event("o", i) for i in range(3, 8)], **{**origin, "Gridline_Seq": "4"})["taken"] == 5
    lines = site.ask("/api/v1/events?from=oldest&event=o&timeout=500ms")[2].splitlines()
    assert [json.loads(line)["n"] for line in lines] == list(range(8)), lines
    account = [a for a in site.get("/api/v1/directory/ledger")["rows"] if a["producer"] == origin["Gridline_Producer"]][0]
    assert account["passed"] == 8 and account["duplicate"] == 12, account
    problem = site.get("/api/v1/events", 400, method="POST", body=good + "bad\n", **{**origin, "Gridline_Epoch": "4"})
    assert "nothing is taken" in problem["detail"]
    assert not [a for a in site.get("/api/v1/directory/ledger")["rows"] if a["epoch"] == 4]
    for bad in ({"Gridline_Producer": "00"}, {"Gridline_Epoch": "0"}, {"Gridline_Seq": "x"}, {"Gridline_Producer": "0" * 32}):
        site.get("/api/v1/events", 400, method="POST", body=good, **{**origin, **bad})
    block = site.ask("/api/v1/events?from=oldest&event=o&timeout=500ms&format=binary")[2]
    site.get("/api/v1/events?format=binary", 400, method="POST", body=block[:-3])
    # what is answered is in the journal, even after a kill
    site.publish([event("k", 1)])
    stop(site.process, 9)
    site.start()
    assert b'"name":"k"' in site.ask("/api/v1/events?from=oldest&event=k&count=1")[2]


def case_directory(work):
    """Hosts, ledger, status, subscriptions, control with real agents; json, ndjson, csv and columns."""
    site = Site(work)
    agents = {h: site.agent(h, i) for i, h in enumerate(("n1", "n2"))}
    wait_for(lambda: {r["host"] for r in site.get("/api/v1/directory/hosts")["rows"] if r["state"] == "live"} == set(agents),
             "both agents")
    rows = site.get("/api/v1/directory/hosts?host=n1")["rows"]
    assert [r["host"] for r in rows] == ["n1"]
    assert site.get("/api/v1/directory/hosts?host=nobody", 404)["status"] == 404
    assert site.get("/api/v1/directory/hosts?where=((", 400)["detail"]
    lines = site.get("/api/v1/directory/hosts?format=ndjson").splitlines()
    assert json.loads(lines[-1])["end"]["rows"] == 2 and {json.loads(line)["host"] for line in lines[:2]} == {"n1", "n2"}
    block, end = map(json.loads, site.get("/api/v1/directory/hosts?format=columns&columns=host,state,none").splitlines())
    assert block["rows"] == end["end"]["rows"] == 2 and set(block["columns"]) == {"host", "state"}, block
    hosts = block["columns"]["host"]
    assert [hosts["of"][i] for i in hosts["at"]] == [json.loads(line)["host"] for line in lines[:2]], block
    assert block["columns"]["state"] == {"all": "live"}, block
    assert site.get("/api/v1/directory/hosts?format=columns&host=nobody", 404)["status"] == 404
    status, headers, body = site.ask("/api/v1/directory/hosts", Accept="text/csv")
    table = body.decode().split("\r\n")
    assert headers["Content-Type"].startswith("text/csv") and "host" in table[0].split(",") and len(table) == 4, table
    # stream of what the agents measure
    s = site.stream("event=load&count=3")
    assert all(s.json()["host"] in agents for _ in range(3))
    # orders
    verbs = {v["verb"] for v in site.get("/api/v1/control")["rows"]}
    assert {"hosts", "worker.suspend", "sensor.list"} <= verbs, verbs
    order = lambda verb, status=200, query="", **args: site.get(
        "/api/v1/control" + query, status, method="POST", body=json.dumps({"verb": verb, "args": args}))
    answer = order("worker.suspend", workers="n*")
    assert {r["host"]: r["answer"] for r in answer["rows"]} == {"n1": "done", "n2": "done"}
    assert answer["end"]["values"] == {"asked": 2, "done": 2} and answer["end"]["status"] == "done"
    answer = order("worker.set", workers="n1", set={"load.every": "2s"})
    assert answer["end"]["status"] == "done", answer
    lines = order("worker.resume", query="?format=ndjson", workers="").splitlines()
    assert len(lines) == 3 and json.loads(lines[2])["end"]["status"] == "done"
    stop(agents["n2"], 9)
    wait_for(lambda: order("worker.suspend", workers="*", timeout_ms=500)["end"]["status"] == "partly", "n2 is gone")
    for body in ("", "[]", "{", '{"args":{}}', '{"verb":"hosts","x":1}', '{"verb":"hosts","args":{"a":[1]}}',
                 '{"verb":1}', '{"verb":"hosts"} x', '{"verb":"' + "v" * 100 + '"}', '{"verb":"no.such"}'):
        assert site.get("/api/v1/control", 400, method="POST", body=body)["detail"], body
    assert order("worker.suspend", 404, workers="elsewhere")["status"] == 404
    # others than the owner
    assert site.get("/api/v1/directory/hosts", token=None)["rows"]
    assert site.get("/api/v1/control", 403, token=None, method="POST", body='{"verb":"worker.kill","args":{}}')["status"] == 403
    assert {v["action"] for v in site.get("/api/v1/control", token=None)["rows"]} <= {"", "lookup", "summary"}
    assert site.get("/api/v1/events", 403, token=None)["status"] == 403
    row = site.get("/api/v1/directory/status")["rows"][0]
    assert row["workers"] == 2 and row["connections.open"] >= 1
    # changes
    s = Stream(site, "/api/v1/directory/watch?from=oldest", {})
    assert s.json()["name"] in ("worker.state", "directory.sensor", "directory.schema")


def metrics(site):
    """/metrics, checked as promtool does: names, types, suffixes, order, the end."""
    text = site.get("/metrics")
    assert text.endswith("# EOF\n") and text.count("# EOF") == 1
    name = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
    sample = re.compile(rf'^({name})(\{{{name}="(?:[^"\\\n]|\\.)*"(?:,{name}="(?:[^"\\\n]|\\.)*")*\}})? (\S+)$')
    families, current, numbers = {}, None, {}
    for line in text.splitlines()[:-1]:
        if line.startswith("# TYPE "):
            _, _, family, kind = line.split(" ")
            assert family not in families, f"{family} comes twice"
            assert kind in ("counter", "gauge", "unknown"), line
            families[family], current = kind, family
        elif line.startswith("# HELP "):
            assert line.split(" ")[2] == current and len(line.split(" ", 3)[3]) > 5, line
        else:
            m = sample.match(line)
            assert m, line
            want = current + "_total" if families[current] == "counter" else current
            assert m[1] == want, f"{line}: not of {current}"
            assert m[1] + (m[2] or "") not in numbers, f"{line} comes twice"
            numbers[m[1] + (m[2] or "")] = float(m[3])
    assert not [f for f in families if f.endswith("_total")]
    return numbers


def case_metrics(work):
    site = Site(work)
    site.publish([event("x", i) for i in range(7)])
    numbers = metrics(site)
    assert numbers['gridline_ledger_events{class="events",outcome="passed"}'] >= 7
    assert numbers["gridline_http_requests_total"] >= 1 and numbers["process_resident_memory_bytes"] > 1e6
    assert numbers["gridline_journal_bytes"] > 0 and "process_cpu_seconds_total" in numbers
    before = numbers["gridline_http_requests_total"]
    site.get("/nothing", 404)
    after = metrics(site)
    assert after["gridline_http_requests_total"] == before + 2
    assert after['gridline_http_replies_total{status="4xx"}'] == numbers['gridline_http_replies_total{status="4xx"}'] + 1
    assert site.get("/livez") == "ok\n" and site.get("/readyz") == "ok\n"
    if shutil.which("promtool"):
        done = subprocess.run(["promtool", "check", "metrics"], input=site.get("/metrics").replace("# EOF\n", "").replace(" unknown\n", " untyped\n"), text=True,
                              capture_output=True)
        assert "error" not in done.stderr.lower() or done.returncode in (0, 3), done


def raw(site, data, until=None, seconds=60):
    """Sends bytes as they are; all that comes until the gateway closes."""
    s = socket.create_connection((site.host, site.port))
    s.settimeout(seconds)
    try:
        s.sendall(data)
        out = b""
        while until is None or until not in out:
            piece = s.recv(65536)
            if not piece:
                break
            out += piece
        return out
    except ConnectionResetError:
        return out
    finally:
        s.close()


def all_places(site):
    """530 connections that say nothing: how long that took, and how many were told that there is no place."""
    began = time.monotonic()
    many = [socket.create_connection((site.host, site.port), source_address=(f"127.0.1.{n % 17 + 1}", 0)) for n in range(530)]
    answers = 0
    for s in many[512:]:
        s.settimeout(60)
        answers += s.recv(100).startswith(b"HTTP/1.1 503")
    took = time.monotonic() - began
    for s in many:
        s.close()
    wait_for(lambda: site.ask("/livez")[0] == 200, "room again")
    return took, answers


def case_limits(work):
    """Headers, body, address, connections of an address, slow requests; and the gateway goes on."""
    site = Site(work)
    assert b" 400 " in raw(site, b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 17000 + b"\r\n\r\n").split(b"\r\n")[0]
    assert b" 400 " in raw(site, b"GET /" + b"x" * 17000).split(b"\r\n")[0]
    assert site.get("/livez?" + "x" * 9000, 414)["status"] == 414
    assert site.get("/api/v1/directory/hosts?" + "&".join(f"a{i}=1" for i in range(65)), 400)["detail"]
    assert site.ask("/api/v1/events", "POST", b"x" * (1 << 20 | 1))[0] == 413
    chunked = b"POST /api/v1/events HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert b" 413 " in raw(site, chunked + b"200000\r\n").split(b"\r\n")[0]
    assert b"HTTP/1." in raw(site, b"not http at all\r\n\r\n")[:7]
    # a chunk's length without an end does not grow for ever: it is cut off by time
    slow = [b"GET /livez HTTP/1.1\r\nHost: loc", b"", chunked + b"1" * 100000,
            b"POST /RPC2 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n<a>"]
    sockets = []
    for data in slow:
        s = socket.create_connection((site.host, site.port))
        s.settimeout(60)
        s.sendall(data)
        sockets.append(s)
    drip = socket.create_connection((site.host, site.port))
    drip.settimeout(60)
    stop_dripping = threading.Event()

    def drip_bytes():
        try:
            for b in b"GET /livez HTTP/1.1\r\nX: " + b"y" * 10000:
                drip.sendall(bytes([b]))
                if stop_dripping.wait(0.2):
                    return
        except OSError:
            pass

    dripper = threading.Thread(target=drip_bytes)
    dripper.start()
    assert site.get("/livez") == "ok\n"

    def ended(s):
        try:
            return s.recv(65536) == b"" or ended(s)
        except OSError:
            return True
    for s in sockets + [drip]:
        assert ended(s)
        s.close()
    stop_dripping.set()
    dripper.join()
    assert metrics(site)["gridline_http_connections_timed_out_total"] >= 5
    # 32 of one address
    idle = [socket.create_connection((site.host, site.port)) for _ in range(32)]
    late = socket.create_connection((site.host, site.port))
    late.settimeout(60)
    assert late.recv(100).startswith(b"HTTP/1.1 503"), "one too many"
    late.close()
    for s in idle:
        s.close()
    wait_for(lambda: site.ask("/livez")[0] == 200, "room again")
    assert metrics(site)["gridline_http_connections_turned_away_total"] >= 1
    # 512 of all, from many addresses of this host; those beyond are told
    for _ in range(5):
        took, answers = all_places(site)
        if took < 8:
            break  # else the first had their ten seconds while the last came, and there was room again
    assert answers == 18, (took, answers)
    # pipelining, keep-alive, HEAD, HTTP/1.0
    two = raw(site, b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\nGET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert two.count(b"HTTP/1.1 200") == 2 and two.count(b"ok\n") == 2
    head = raw(site, b"HEAD /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert b"200 OK" in head and head.endswith(b"\r\n\r\n")
    assert raw(site, b"GET /livez HTTP/1.0\r\nHost: localhost\r\n\r\n").endswith(b"ok\n")
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS"):
        status, headers, _ = site.ask("/livez", method)
        assert status == 405 and headers["Allow"] == "GET, HEAD", method


def case_origin(work):
    """Host, Origin, tokens: what a page of another site, or a rebound name, gets."""
    site = Site(work, 'http_names=monitor.example.org')
    port = site.port
    for host, status in ((f"127.0.0.1:{port}", 200), ("localhost", 200), ("[::1]:99", 200), ("LOCALHOST:1", 200),
                         ("monitor.example.org", 200), (f"{socket.gethostname()}:{port}", 200), ("evil.example", 421),
                         ("localhost.evil.example", 421), ("127.0.0.1.evil.example", 421), ("localhost:x", 421), ("", 421)):
        got = site.ask("/livez", Host=host)[0]
        assert got == status or (host == "" and got == 400), (host, got)
    for origin, status in ((f"http://127.0.0.1:{port}", 200), ("http://evil.example", 403), ("null", 403),
                           (f"http://127.0.0.1:{port + 1}", 403), (f"http://localhost:{port}", 403)):
        assert site.ask("/livez", Origin=origin)[0] == status, origin
        body = json.dumps(event("x", 1))
        assert site.ask("/api/v1/events?format=ndjson", "POST", body, Origin=origin)[0] == status, origin
    assert site.ask("/livez", Sec_Fetch_Site="cross-site")[0] == 403
    assert site.ask("/livez", Sec_Fetch_Site="same-origin")[0] == 200
    assert raw(site, b"GET /livez HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\nConnection: close\r\n\r\n").startswith(b"HTTP/1.1 400")
    assert raw(site, b"GET http://localhost/livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").startswith(b"HTTP/1.1 400")
    for header in ({"Authorization": "Bearer " + "x" * 43}, {"Authorization": "Basic abc"}, {"Authorization": "Bearer "},
                   {"Cookie": "gridline-token=nope"}, {"Authorization": "Bearer " + "x" * 5000}):
        status, headers, body = site.ask("/api/v1/directory/hosts", token=None, **header)
        assert status == 401 and headers["WWW-Authenticate"].startswith("Bearer"), header
        assert b"rows" not in body
    assert site.ask("/api/v1/events?timeout=100ms", token=None, Cookie="a=b; gridline-token=" + site.token)[0] == 200
    mode = os.stat(work + "/state/http.token").st_mode & 0o777
    assert mode == 0o600, oct(mode)
    headers = site.ask("/livez")[1]
    assert headers["X-Content-Type-Options"] == "nosniff" and headers["Cache-Control"] == "no-store"
    assert "Access-Control-Allow-Origin" not in headers
    before = site.token
    site.stop()
    site.start()
    assert site.token == before, "a good token is kept"
    site.stop()
    os.chmod(work + "/state/http.token", 0o644)
    site.start()
    assert site.token != before, "one that others could read is replaced"


def case_rpc(work):
    """XML-RPC with Python's standard client."""
    site = Site(work)
    site.agent("n1")

    class WithToken(xmlrpc.client.Transport):
        def send_headers(self, connection, headers):
            super().send_headers(connection, headers)
            connection.putheader("Authorization", "Bearer " + site.token)

    owner = xmlrpc.client.ServerProxy(site.url + "/RPC2", transport=WithToken(), allow_none=True)
    local = xmlrpc.client.ServerProxy(site.url + "/RPC2")
    names = owner.system.listMethods()
    assert {"gridline.latest", "gridline.summary", "gridline.directory", "gridline.hosts", "gridline.schemas",
            "gridline.control", "gridline.publish", "gridline.events"} <= set(names)
    for name in names:
        assert len(owner.system.methodHelp(name)) > 5 and owner.system.methodSignature(name)[0], name
    wait_for(lambda: [r for r in owner.gridline.hosts({"workers": "n1"})["rows"] if r["state"] == "live"]
             if owner.gridline.hosts()["rows"] else None, "the agent")
    place = owner.gridline.events({"event": "x*", "wait": 0})["position"]
    values = {"big": 2 ** 53 + 1, "neg": -2 ** 40, "small": 7, "huge": 2 ** 64 - 1, "f": 0.1, "b": False, "t": "ä<&>\r\n"}
    answer = owner.gridline.publish("\n".join(json.dumps(event("x", i, **values)) for i in range(5)) + "\nbad\n")
    assert answer["taken"] == 5 and answer["refused"] == 1 and answer["errors"][0]["line"] == 6
    got = owner.gridline.events({"event": "x*", "from": place, "wait": 20})
    first = got["events"][0]
    assert [e["n"] for e in got["events"]] == list(range(5)) and got["gaps"] == []
    assert first["big"] == values["big"] and first["neg"] == values["neg"] and first["small"] == 7 and first["f"] == 0.1
    assert first["huge"] == str(2 ** 64 - 1) and first["b"] is False and first["t"] == values["t"], first
    pieces, at = [], place
    while len(pieces) < 5:
        step = owner.gridline.events({"event": "x*", "from": at, "wait": 20, "max": 2})
        assert 0 < len(step["events"]) <= 2
        pieces += [e["n"] for e in step["events"]]
        at = step["position"]
    assert pieces == list(range(5))
    assert owner.gridline.events({"event": "x*", "from": got["position"], "wait": 0.1})["events"] == []
    assert owner.gridline.events({"event": "x*", "from": "abc." + place.partition(".")[2], "wait": 9})["gaps"][0]["reason"] == "gone"
    # one who waits gets what is published meanwhile
    result = []
    waiter = threading.Thread(target=lambda: result.append(xmlrpc.client.ServerProxy(
        site.url + "/RPC2", transport=WithToken()).gridline.events({"event": "late", "wait": 30})))
    waiter.start()
    wait_for(lambda: [s for s in site.get("/api/v1/directory/subscriptions")["rows"] if s["event"] == "late"], "the waiter")
    site.publish([event("late", 1)])
    waiter.join(60)
    assert result[0]["events"][0]["n"] == 1
    answer = owner.gridline.control("sensor.list", {"workers": "n1", "timeout_ms": 20000})
    assert [r for r in answer["rows"] if r.get("sensor") == "load"], answer
    assert owner.gridline.status()["values"]["workers"] == 1

    def code_of(call):
        try:
            call()
        except xmlrpc.client.Fault as e:
            assert e.faultString
            return e.faultCode
        raise AssertionError("no fault")
    assert code_of(lambda: owner.no.such()) == -32601
    assert code_of(lambda: owner.gridline.hosts({"where": "(("})) == 2
    assert code_of(lambda: owner.gridline.hosts({"workers": "nobody"})) == 3
    assert code_of(lambda: owner.gridline.control("no.such", {})) == 2
    assert code_of(lambda: owner.gridline.events({"nix": "1"})) == -32602
    assert code_of(lambda: owner.gridline.hosts({"a": [1]})) == -32700
    assert code_of(lambda: local.gridline.events({"wait": 0})) == 5
    assert code_of(lambda: local.gridline.control("worker.kill", {})) == 5
    assert local.gridline.hosts()["rows"]
    bomb = '<!DOCTYPE a [<!ENTITY b "x"><!ENTITY c "&b;&b;">]><methodCall><methodName>&c;</methodName></methodCall>'
    for body in (bomb, "", "<a>", "<methodCall/>", "<methodCall>" * 100, "\xff", "<methodCall><params/></methodCall>"):
        status, _, answer = site.ask("/RPC2", "POST", body.encode("latin-1"))
        assert status == 200 and b"-32700" in answer, (body, answer)
    assert site.ask("/RPC2")[0] == 405


def case_tls(work):
    """https with the site's certificates: who comes with one is whom it names; plain HTTP off loopback is refused."""
    identity, operator = work + "/site", work + "/.config/gridline/identity"
    subprocess.run([GRIDLINE, "init", "--dir", identity, "--host", "127.0.0.1", "--operator", "ann"], check=True,
                   env={**os.environ, "HOME": work, "XDG_CONFIG_HOME": ""}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    site = Site(work, f"identity={identity}", address="https://127.0.0.1:0")
    assert site.url.startswith("https://")

    def ask(path, cert=None, token=None):
        context = ssl.create_default_context(cafile=identity + "/ca.pem")
        if cert:
            context.load_cert_chain(cert + "/cert.pem", cert + "/key.pem")
        c = http.client.HTTPSConnection(site.host, site.port, context=context, timeout=60)
        c.request("GET", path, headers={"Authorization": "Bearer " + token} if token else {})
        r = c.getresponse()
        return r.status, r.read()
    assert ask("/livez") == (200, b"ok\n")
    assert ask("/api/v1/events?timeout=100ms")[0] == 403, "nobody, but of this host"
    assert ask("/api/v1/events?timeout=100ms", operator)[0] == 200
    assert ask("/api/v1/events?timeout=100ms", token=site.token)[0] == 200
    assert b'"verb":"worker.kill"' in ask("/api/v1/control", operator)[1]
    # An operator signs a browser in: the session is the operator, and its cookie is for https alone.
    context = ssl.create_default_context(cafile=identity + "/ca.pem")
    context.load_cert_chain(operator + "/cert.pem", operator + "/key.pem")
    c = http.client.HTTPSConnection(site.host, site.port, context=context, timeout=60)
    c.request("POST", "/api/v1/control", '{"verb":"viewer.key"}', {"Content-Type": "application/json"})
    address = json.loads(c.getresponse().read())["rows"][0]["address"]
    assert address.startswith(site.url + "/#key="), address
    c = http.client.HTTPSConnection(site.host, site.port, context=ssl.create_default_context(cafile=identity + "/ca.pem"), timeout=60)
    c.request("POST", "/api/v1/session", json.dumps({"key": address.split("#key=")[1]}), {"Content-Type": "application/json"})
    r = c.getresponse()
    me = json.loads(r.read())
    assert r.status == 200 and me["kind"] == "operator" and "test" not in me["may"] and "control" in me["may"], me
    assert r.headers["Set-Cookie"].endswith("; HttpOnly; SameSite=Strict; Secure"), r.headers["Set-Cookie"]
    assert raw(site, b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")[:4] != b"HTTP"
    for address, word in (("0.0.0.0:0", "insecure"), ("https://0.0.0.0:0", "identity")):
        check = subprocess.run([GATEWAY, "--check", "-s", "state_dir=" + work + "/n", "-s", "http=" + address],
                               capture_output=True, text=True)
        assert check.returncode == 1 and word in check.stderr, check


def case_openapi(work):
    """docs/openapi.json is what the server does: every path and method answers as it says, and no other path is there."""
    site = Site(work)
    with open(SOURCE + "/docs/openapi.json") as f:
        text = f.read()
    doc = json.loads(text)
    assert site.get("/api/v1/openapi.json") == doc and doc["openapi"].startswith("3.1")
    with open(SOURCE + "/src/gateway/api.c") as f:
        routes = set(re.findall(r'^\s*\{"(/[^"]*)",', f.read(), re.M))
    assert routes == set(doc["paths"]), routes ^ set(doc["paths"])

    def resolve(x):
        while "$ref" in x:
            at = doc
            for key in x["$ref"][2:].split("/"):
                at = at[key]
            x = at
        return x

    def check(schema, value, where):
        schema = resolve(schema)
        kinds = {"object": dict, "array": list, "string": str, "integer": int}
        if "type" in schema:
            assert isinstance(value, kinds[schema["type"]]), (where, schema["type"], value)
        if "enum" in schema:
            assert value in schema["enum"], (where, value)
        if "const" in schema:
            assert value == schema["const"], (where, value)
        for key in schema.get("required", []):
            assert key in value, f"{where}: {key} is missing: {value}"
        if schema.get("type") == "object":
            for key, one in schema.get("properties", {}).items():
                if key in value:
                    check(one, value[key], f"{where}.{key}")
        if schema.get("type") == "array":
            for one in value:
                check(schema.get("items", {}), one, where + "[]")

    bodies = {"publish": (json.dumps(event("x", 1)), "application/x-ndjson"), "control": ('{"verb":"status"}', "application/json"),
              "sqlPost": ("SELECT 1", "text/plain"),
              "livePost": ('{"lanes":[{"lane":1,"kind":"points","name":"*","level":14}]}', "application/json"),
              "rpc": ("<methodCall><methodName>system.listMethods</methodName></methodCall>", "text/xml")}
    needed = {"subscribe": "timeout=100ms", "watch": "timeout=100ms", "sql": "q=SELECT+1",
              "live": "lanes=%5B%7B%22lane%22:1,%22kind%22:%22points%22,%22name%22:%22*%22,%22level%22:14%7D%5D"}

    def answered(path, method, operation, **more):
        body, kind = bodies.get(operation["operationId"], (None, None)) if method == "POST" else (None, None)
        if operation["operationId"] == "signIn":
            made = site.get("/api/v1/control", method="POST", body='{"verb":"viewer.key"}', Content_Type="application/json")
            body, kind = json.dumps({"key": made["rows"][0]["address"].split("#key=")[1]}), "application/json"
        if "body" in more:
            body = more.pop("body")
        query = more.pop("query", needed.get(operation["operationId"], ""))
        headers = {"Content_Type": kind} if kind else {}
        ask = site.ask_head if operation["operationId"] in ("live", "livePost") else site.ask
        status, head, data = ask(f"{path}?{query}" if query else path, method, body, **headers, **more)
        said = operation["responses"].get(str(status))
        assert said, f"{method} {path}: {status} is not in the document: {data[:300]}"
        content = resolve(said).get("content", {})
        kind = head["Content-Type"].split(";")[0]
        assert kind in content, (method, path, status, kind)
        if "json" in kind and kind != "application/x-ndjson":
            check(content[kind]["schema"], json.loads(data), f"{method} {path} {status}")
        return status

    known = {v["verb"] for v in site.get("/api/v1/control")["rows"]}
    for template, item in doc["paths"].items():
        path = re.sub(r"\{(\w+)\}", lambda m: str(next(p["example"] for p in item["get"]["parameters"] if p.get("name") == m[1])), template)
        methods = {m.upper() for m in item}
        for method, operation in item.items():
            method = method.upper()
            status = answered(path, method, operation)
            # verbs of other parts may need more than nothing, or answer that there is nothing yet
            assert status == 200 or (operation["operationId"] in ("latest", "summary", "sensors", "schemas", "access")), (path, status)
            if operation["operationId"] in known:
                assert status in (200, 404, 400), (path, status)
            is_public = operation.get("security") == [{}]
            assert answered(path, method, operation, token="nobody's") == (status if is_public else 401)
            assert answered(path, method, operation, Host="evil.example") == 421
            assert answered(path, method, operation, Origin="http://evil.example") == 403
            if "400" in operation["responses"]:
                assert answered(path, method, operation, query="a=%") == 400
            if method == "GET":
                assert site.ask(path + "?" + needed.get(operation["operationId"], ""), "HEAD")[0] == status
            content = resolve(operation["responses"]["200"])["content"]
            for p in map(resolve, operation.get("parameters", [])):
                if p["name"] == "format" and method == "GET":
                    for name in p["schema"]["enum"]:
                        extra = needed.get(operation["operationId"], "")
                        assert answered(path, method, operation, query=f"format={name}&{extra}".rstrip("&")) in (200, 400, 404)
            assert content
        for method in {"GET", "POST", "PUT"} - methods:
            assert site.ask(path, method)[0] == 405, (path, method)
    # parameters that the document names are taken
    for operation, path in (("subscribe", "/api/v1/events"), ("watch", "/api/v1/directory/watch")):
        good = {"event": "x", "host": "h", "where": "n > 1", "on_change": "n", "cross": "n:5:1", "delta": "n:10%", "every": "1s",
                "period": "1s", "from": "oldest", "queue": "1M", "durable": "d", "hold": "1M&durable=d", "format": "ndjson", "count": "1",
                "positions": "true"}
        for p in map(resolve, doc["paths"][path]["get"]["parameters"]):
            if p["in"] == "query" and p["name"] != "timeout":
                status, _, data = site.ask(f"{path}?timeout=50ms&{p['name']}=" + good[p["name"]].replace(" ", "+").replace("%", "%25"))
                assert status == 200, (p["name"], data)
    assert site.ask("/api/v1/events", "POST", "x" * (1 << 20 | 1))[0] == 413
    site.get("/api/v1/events", 415, method="POST", body="?", Content_Type="image/png")


def case_durable(work):
    """A durable subscription by HTTP: goes on where its consumer has said, by control, also over a restart."""
    site = Site(work)
    s = site.stream("event=x&durable=mine&positions=true")
    site.publish([event("x", 0), event("x", 1)])
    assert [s.json()["n"] for _ in range(2)] == [0, 1]
    place = s.json()["position"]
    s.close()
    site.publish([event("x", 2)])
    s = site.stream("event=x&durable=mine")
    assert [s.json()["n"] for _ in range(3)] == [0, 1, 2], "nothing was said: all again"
    s.close()
    move = lambda status=200, **args: site.get("/api/v1/control", status, method="POST",
                                               body=json.dumps({"verb": "subscription.consumed", "args": args}))
    move(durable="mine", position=place)
    move(404, durable="yours", position=place)
    move(400, durable="mine", position="99999999-0-0")
    s = site.stream("event=x&durable=mine")
    assert s.json()["n"] == 2
    s.close()
    site.stop()
    site.start()
    s = site.stream("event=x&durable=mine")
    assert s.json()["n"] == 2
    s.close()


def main():
    work = tempfile.mkdtemp(prefix="gridline-http-")
    try:
        globals()["case_" + sys.argv[1]](work)
        for site in sites:
            site.stop()
    except BaseException:
        print("the files are in", work)
        if os.path.exists(work + "/log"):
            print(open(work + "/log").read()[-3000:])
        raise
    stop_all()
    shutil.rmtree(work)


main()
