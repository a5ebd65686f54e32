#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SQL at a real gateway with real agents: live rows, system tables beside events, what each may see, limits, cancelling, slow
readers, and that nobody's query delays a lease. By HTTP, by frames, by the command and by the library.

    sql_test.py CASE GATEWAY AGENT SOURCE [EXAMPLE]"""
import http.client
import json
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.parse

import grid
from frames import Consumer, Reader, args, frame, text
from grid import Agent, Gateway, stop, wait_for

GATEWAY, AGENT, SOURCE = sys.argv[2:5]
GRIDLINE = os.path.join(os.path.dirname(GATEWAY), "gridline")
QUERY, ROWS, QUERY_END, QUERY_CANCEL, QUERY_PROGRESS = 34, 35, 36, 37, 38
FOREVER = "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c) SELECT count(*) FROM c"
NUMBERS = "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c LIMIT %d) SELECT i, '%s' AS t FROM c"
LONG = "x" * 100
ACCESS = """
token some { sha256 = "%s" }
token sums { sha256 = "%s" }
token nobody { sha256 = "%s" }
access some { who = "token:some"  may = {query, lookup}  hosts = {"web*"}  hide = {"load.one", "secret"} }
access sums { who = "token:sums"  may = {summary, lookup} }
access no-plan { who = "token:some"  may_not = query  events = plan }
"""


class Site:
    def __init__(self, work, config="", settings=()):
        import hashlib
        self.work = work
        tokens = {name: name * 8 for name in ("some", "sums", "nobody")}
        hashes = tuple(hashlib.sha256(t.encode()).hexdigest() for t in tokens.values())
        # A row that takes something away stands before what gives it.
        rows = (ACCESS % hashes).strip().split("\n")
        rows.insert(3, rows.pop())
        self.tokens = tokens
        self.gateway = Gateway(GATEWAY, work, "gateway", ",".join(["tcp://127.0.0.1:0"] * 3), settings=(
            "http=127.0.0.1:0", f"state_dir={work}/state", f"run_dir={work}/run", f"archive.dir={work}/archive",
            "archive.keep=*=36600d", *settings),
            config="\n".join(rows) + "\n" + config)
        self.start()

    def start(self):
        self.gateway.start()
        self.native, self.url = self.gateway.addresses[:3], self.gateway.addresses[-1]
        self.agents = 0
        path = next(p for p in (self.work + "/run/http.token", self.work + "/state/http.token") if os.path.exists(p))
        with open(path) as f:
            self.tokens["owner"] = f.read().strip()

    def request(self, path, method="GET", body=None, who="owner", **headers):
        c = http.client.HTTPConnection(self.url.split("//")[1], timeout=120)
        headers = {k.replace("_", "-"): v for k, v in headers.items()}
        if who:
            headers["Authorization"] = "Bearer " + self.tokens[who]
        c.request(method, path, body, headers)
        r = c.getresponse()
        try:
            return r.status, r.headers, r.read()
        finally:
            c.close()

    def sql(self, statement, status=200, who="owner", **parameters):
        query = urllib.parse.urlencode({"q": statement, **parameters})
        got, headers, body = self.request("/api/v1/sql?" + query, who=who)
        assert got == status, (statement[:200], got, body[:500])
        return json.loads(body) if "json" in headers["Content-Type"] and "ndjson" not in headers["Content-Type"] else body.decode()

    def rows(self, statement, who="owner", **parameters):
        answer = self.sql(statement, who=who, **parameters)
        assert "error" not in answer and answer["lost"] == 0 and answer["rows_count"] == len(answer["rows"]), answer
        return answer["rows"]

    def publish(self, events):
        body = "".join(json.dumps(e) + "\n" for e in events)
        status, _, answer = self.request("/api/v1/events", "POST", body, Content_Type="application/x-ndjson")
        assert status == 200, answer

    def command(self, *argv, **more):
        return subprocess.run([GRIDLINE, "sql", "--gateway", "unix:" + self.gateway.socket, *argv], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, **more)

    def agent(self, host, config="defaults = false\nload { every = 200ms }\n"):
        self.agents += 1  # an address for each: those of one host with the same gateway would be one
        return Agent(AGENT, self.work, host, [self.native[self.agents - 1]], config).start()


def event(name, host, second, **fields):
    return {"time": "2026-11-15T10:%02d:%02dZ" % divmod(second, 60), "name": name, "host": host, "prog": "test", **fields}


class Queries(Consumer):
    """Queries by frames."""

    def ask(self, statement, number=1, **options):
        self.socket.sendall(frame(QUERY, struct.pack("<I", number) + text(statement) + args(options)))

    def cancel(self, number=1):
        self.socket.sendall(frame(QUERY_CANCEL, struct.pack("<I", number)))

    def answer(self, number=1):
        """Columns, rows, (status, text, column, rows, lost), and how often progress was told."""
        columns, rows, told = None, [], 0
        while True:
            kind, payload = self.next()
            r = Reader(payload)
            if kind not in (ROWS, QUERY_END, QUERY_PROGRESS) or r.number("I") != number:
                continue
            if kind == QUERY_END:
                status, why = r.number("H"), r.text().decode()
                return columns, rows, (status, why, r.number("I"), r.number("Q"), r.number("Q")), told
            if kind == QUERY_PROGRESS:
                told += 1
                continue
            version, flags = r.take(2)
            assert version == 1
            if flags & 1:
                assert columns is None
                columns = [r.text().decode() for _ in range(r.varint())]
            while r.at < len(r.data):
                rows.append([self.value(r) for _ in columns])

    def next(self):
        """The next frame, whichever it is."""
        until = time.monotonic() + grid.PATIENCE
        while True:
            if len(self.buffer) >= 16:
                n, kind = struct.unpack_from("<IB", self.buffer)
                if len(self.buffer) >= 16 + n:
                    payload, self.buffer = self.buffer[16:16 + n], self.buffer[16 + n:]
                    return kind, payload
            assert time.monotonic() < until, "no frame"
            more = self.socket.recv(1 << 16)
            assert more, "the gateway hung up"
            self.buffer += more

    @staticmethod
    def value(r):
        kind = r.take(1)[0]
        if kind == 0:
            return None
        if kind == 1:
            n = r.varint()
            return (n >> 1) ^ -(n & 1)
        if kind == 3:
            return r.number("d")
        return r.text().decode() if kind == 5 else r.text()


def case_live(work):
    """What an agent sends is there at once, and what the gateway knows beside it."""
    site = Site(work)
    site.agent("web1")
    site.agent("db1")
    wait_for(lambda: site.request("/api/v1/sql?q=SELECT+1+FROM+load")[0] == 200 and
             len(site.rows("SELECT DISTINCT host FROM load")) == 2, "rows of both")
    before = site.rows("SELECT count(*) FROM load")[0][0]
    wait_for(lambda: site.rows("SELECT count(*) FROM load")[0][0] > before, "more rows")
    latest = site.rows("SELECT host, time FROM load_latest ORDER BY host")
    assert [r[0] for r in latest] == ["db1", "web1"], latest
    newest = dict(site.rows("SELECT host, max(time) FROM load GROUP BY host"))
    assert all(newest[host] >= t for host, t in latest)
    joined = site.rows("SELECT w.host, w.state, s.sensor, count(*) FROM workers w JOIN sensors s USING (host) "
                       "JOIN load l USING (host) WHERE s.sensor = 'load' GROUP BY 1, 2, 3 ORDER BY 1")
    assert [r[:3] for r in joined] == [["db1", "live", "load"], ["web1", "live", "load"]], joined
    assert site.rows("SELECT DISTINCT field FROM schema_fields WHERE event = 'load' AND field = 'load1'") == [["load1"]]
    assert site.rows("SELECT sum(taken) = sum(passed + duplicate + refused + too_old + too_new + no_schema + queued) FROM ledger") == [[1]]
    assert site.rows("SELECT hosts, live FROM domains") == [[2, 2]]
    assert ["load", "load"] in [r[:2] for r in site.rows("SELECT name, event FROM tables")]
    consumer = Consumer(site.gateway.socket).subscribe(events="load", where="load1 > 1000")
    assert [["load", "load1 > 1000"]] == site.rows("SELECT event, \"where\" FROM subscriptions")
    consumer.socket.close()
    assert site.gateway.stop() == 0


def case_formats(work):
    """The same answer by every way."""
    site = Site(work)
    site.publish([event("job.start", "web1", 1, id=1, who="ann"), event("job.start", "db1", 2, id=2, x=1.5),
                  event("job.start", "db1", 3, id=3, who='a "b", c')])
    statement = "SELECT host, id, who, x FROM job_start ORDER BY id"
    expected = [["web1", "1", "ann", None], ["db1", "2", None, 1.5], ["db1", "3", 'a "b", c', None]]  # ids are text
    wait_for(lambda: site.request("/api/v1/sql?q=SELECT+1+FROM+job_start")[0] == 200 and len(site.rows(statement)) == 3, "rows")
    assert site.sql(statement) == {"columns": ["host", "id", "who", "x"], "rows": expected, "rows_count": 3, "lost": 0}
    lines = [json.loads(line) for line in site.sql(statement, format="ndjson").splitlines()]
    assert [list(r.values()) for r in lines[:-1]] == expected and lines[-1] == {"end": {"status": "done", "rows": 3, "lost": 0}}
    assert site.sql(statement, format="csv") == 'host,id,who,x\r\nweb1,1,ann,\r\ndb1,2,,1.5\r\ndb1,3,"a ""b"", c",\r\n'
    by_accept = site.request("/api/v1/sql?q=" + urllib.parse.quote(statement), Accept="text/csv")
    assert by_accept[2].decode() == site.sql(statement, format="csv") and "Content-Length" in by_accept[1]
    for body, kind in ((statement, "text/plain"), (json.dumps({"q": statement, "rows": 10, "time": "5s"}), "application/json"),
                       (urllib.parse.urlencode({"q": statement}), "application/x-www-form-urlencoded")):
        status, _, answer = site.request("/api/v1/sql", "POST", body, Content_Type=kind)
        assert status == 200 and json.loads(answer)["rows"] == expected, (kind, answer)
    columns, rows, end, _ = (lambda q: (q.ask(statement), q.answer())[1])(Queries(site.gateway.socket))
    assert columns == ["host", "id", "who", "x"] and rows == expected and end == (0, "", 0, 3, 0)
    out = site.command("--format", "json", statement)
    assert out.returncode == 0 and json.loads(out.stdout) == site.sql(statement), out
    out = site.command("--format", "ndjson", statement)
    assert [list(json.loads(line).values()) for line in out.stdout.splitlines()] == expected
    with open(work + "/statement.sql", "w") as f:
        f.write("-- two of them\n" + statement + ";\nSELECT 1 AS one")
    out = site.command("--format", "csv", "-f", work + "/statement.sql")
    csv = site.sql(statement, format="csv").replace("\r\n", "\n")  # as Python reads the command's
    assert out.stdout == csv + "one\n1\n", out
    out = site.command("--format", "csv", input=statement)
    assert out.stdout == csv, out
    out = site.command("SELECT time, host, id FROM job_start WHERE id < 3 ORDER BY id")
    assert out.stdout == ("time                         host  id\n2026-11-15T10:00:01.000000Z  web1  1\n"
                          "2026-11-15T10:00:02.000000Z  db1   2\n"), out.stdout
    out = site.command("--format", "ulm", "--event", "again", "SELECT * FROM job_start WHERE id = 2")
    assert out.stdout == "DATE=20261115100002.000000 HOST=db1 PROG=test LVL=Info NL.EVNT=again id=\"2\" x=1.5\n", out
    out = site.command("--format", "xml", "SELECT time, host, 'again' AS name, id FROM job_start WHERE id = 1")
    assert '<event time="2026-11-15T10:00:01.000000Z" host="web1" level="info" name="again"><f n="id" t="text">1</f>' in out.stdout
    for wrong in ("SELECT host FROM job_start", "SELECT time, host, count(*), 'n' AS name FROM job_start"):
        out = site.command("--format", "ulm", wrong)
        assert out.returncode == 2 and out.stdout == "", out
    # From its files, without a gateway.
    assert site.gateway.stop() == 0
    argv = [GRIDLINE, "sql", "--archive", work + "/archive"]
    out = subprocess.run([*argv, "--format", "json", statement], capture_output=True, text=True)
    assert out.returncode == 0 and json.loads(out.stdout)["rows"] == expected, out
    out = subprocess.run([*argv, "SELECT * FROM workers"], capture_output=True, text=True)
    assert out.returncode == 1 and "gateway" in out.stderr, out
    out = subprocess.run([*argv, "SELECT id FROM job_start_latest ORDER BY id"], capture_output=True, text=True)
    assert out.returncode == 0 and out.stdout.split() == ["id", "1", "3"], out


def case_wrong(work):
    """What is wrong has a status, a place and an exit code."""
    site = Site(work, settings=())
    for statement, status, word in (("SELECT * FORM x", 400, "FORM"), ("SELECT * FROM nothing", 400, "nothing"),
                                    ("SELECT 1; SELECT 2", 400, "one statement"), ("", 400, "q:"),
                                    ("DROP TABLE tables", 403, ""), ("ATTACH 'x' AS y", 403, ""),
                                    ("SELECT " + "1," * 40000 + "1", 400, "")):
        status_got, _, body = site.request("/api/v1/sql", "POST", statement)
        problem = json.loads(body)
        assert status_got in (status, 400, 403, 422) and word in problem["detail"], (statement[:50], status_got, problem)
    assert "at character 10" in site.sql("SELECT * FORM x", status=400)["detail"]
    assert site.sql("SELECT 1", status=400, time="soon") and site.sql("SELECT 1", status=400, rows="0")
    assert site.sql("SELECT 1", status=400, more="1") and site.sql("SELECT 1", status=422, time="1d")
    assert "2 rows" in site.sql(NUMBERS % (3, "x"), status=422, rows=2)["detail"]
    assert site.sql(FOREVER, status=504, time="300ms")
    out = site.command("SELECT * FORM x")
    assert out.returncode == 2 and "  SELECT * FORM x\n           ^\n" in out.stderr and out.stdout == "", out
    out = site.command("--time", "300ms", FOREVER)
    assert out.returncode == 1 and "300 ms" in out.stderr, out
    out = site.command("--rows", "5k", "--format", "csv", NUMBERS % (6000, LONG))
    assert out.returncode == 4 and "5000 rows" in out.stderr and 0 < out.stdout.count("\n") <= 5001, (out.returncode, out.stderr)
    out = subprocess.run([GRIDLINE, "sql", "--gateway", "unix:/nonexistent", "SELECT 1"], capture_output=True, text=True)
    assert out.returncode == 1 and "/nonexistent" in out.stderr, out
    # Behind the first page JSON and NDJSON say it, and CSV is cut off.
    answer = site.sql(NUMBERS % (6000, LONG), rows=5000)
    assert "5000 rows" in answer["error"] and answer["rows_count"] == len(answer["rows"]) > 500
    last = json.loads(site.sql(NUMBERS % (6000, LONG), rows=5000, format="ndjson").splitlines()[-1])
    assert last["end"]["status"] == "failed" and "5000 rows" in last["end"]["text"]
    try:
        site.sql(NUMBERS % (6000, LONG), rows=5000, format="csv")
        raise AssertionError("a result that lacks rows looks whole")
    except (http.client.IncompleteRead, ConnectionError):
        pass
    # Frames.
    q = Queries(site.gateway.socket)
    q.ask("SELECT * FORM x")
    assert q.answer()[2][:3] == (2, 'near "FORM": syntax error', 10)
    q.ask("SELECT 1", nonsense=1)
    assert q.answer()[2][0] == 2
    for number in range(1, 6):
        q.ask(FOREVER, number, time_ms=100000)
    status, why = q.answer(5)[2][:2]
    assert status == 1 and "4 queries" in why
    for number in range(1, 5):
        q.cancel(number)
        assert q.answer(number)[2][0] == 1
    q.ask("SELECT 5")
    assert q.answer()[1] == [[5]]
    q.ask(FOREVER, 7)
    q.ask(FOREVER, 7)  # an id that is in use
    q.wait(16)
    assert site.gateway.stop() == 0


def case_access(work):
    """Rows, tables and columns by the access table; and nobody asks who may not."""
    site = Site(work)
    site.publish([event("load", h, i, one=i, five=i, secret="hush") for i, h in enumerate(("web1", "db1", "web2"))])
    site.publish([event("plan", "web1", 1, n=1), event("other", "db1", 1, n=1)])
    wait_for(lambda: site.request("/api/v1/sql?q=SELECT+1+FROM+other")[0] == 200, "rows")
    assert len(site.rows("SELECT * FROM load")) == 3
    for table in ("load", "load_latest"):
        got = site.sql(f"SELECT host, one, five, secret FROM {table} ORDER BY host", who="some")["rows"]
        assert got == [["web1", None, 0, None], ["web2", None, 2, None]], (table, got)
        assert site.rows(f"SELECT count(*) FROM {table} WHERE one > 0 OR secret = 'hush' OR host = 'db1'", who="some") == [[0]]
    for table in ("plan", "plan_latest"):
        assert "no such table" in site.sql(f"SELECT * FROM {table}", status=400, who="some")["detail"]
    assert site.rows("SELECT * FROM other", who="some") == []
    names = {r[0] for r in site.rows("SELECT name FROM tables", who="some")}
    assert "load" in names and "plan" not in names, names
    events = {r[0] for r in site.rows("SELECT event FROM schemas", who="some")}
    assert events == {"load", "plan"}, events  # by lookup, of the hosts it may look up
    assert "you may not" in site.sql("SELECT 1", status=403, who="sums")["detail"]  # summaries are no rows
    assert site.sql("SELECT 1", status=403, who="nobody")
    assert site.sql("SELECT 1", status=403, who=None)  # anybody else here
    denied = wait_for(lambda: [e for e in site.gateway.events("access.denied") if e.get("action") == "query"], "the audit")
    assert {"http"} == {e["interface"] for e in denied}
    assert site.gateway.stop() == 0


def case_many(work):
    """Queries beyond those that run wait, those beyond those are told so, and one that is cancelled makes room."""
    site = Site(work)
    held = [Queries(site.gateway.socket) for _ in range(17)]
    for q in held:
        for number in range(1, 5 if q is not held[-1] else 3):
            q.ask(FOREVER, number, time_ms=600000)

    def numbers():
        return json.loads(site.request("/api/v1/directory/status")[2])["rows"][0]

    wait_for(lambda: (numbers()["query.open"], numbers()["query.waiting"]) == (2, 64), "2 that run and 64 that wait")
    held[-1].ask("SELECT 1", 3)
    status, why = held[-1].answer(3)[2][:2]
    assert status == 1 and "too many queries" in why, why
    assert "too many queries" in site.sql("SELECT 1", status=503)["detail"]
    out = site.command("SELECT 1")
    assert out.returncode == 1 and "too many queries" in out.stderr
    assert numbers()["query.refused"] == 3
    for q in held:
        q.socket.close()
    wait_for(lambda: site.request("/api/v1/sql?q=SELECT+1")[0] == 200, "room again")
    # HTTP: who leaves is not worked for.
    for _ in range(8):
        c = http.client.HTTPConnection(site.url.split("//")[1], timeout=60)
        c.request("GET", "/api/v1/sql?" + urllib.parse.urlencode({"q": FOREVER, "time": "10m"}),
                  headers={"Authorization": "Bearer " + site.tokens["owner"]})
        c.sock.close()
        c.close()
    assert site.rows("SELECT 1") == [[1]]
    assert site.gateway.stop() == 0


def case_slow(work):
    """Readers that do not read hold up nobody, cost the gateway little, and get all of it when they do read."""
    site = Site(work)
    slow = []
    rows = 300000
    for _ in range(6):
        q = Queries(site.gateway.socket)
        q.ask(NUMBERS % (rows, LONG), time_ms=300000)
        slow.append(q)
    c = http.client.HTTPConnection(site.url.split("//")[1], timeout=120)
    c.request("GET", "/api/v1/sql?" + urllib.parse.urlencode({"q": NUMBERS % (rows, LONG), "time": "5m", "format": "csv"}),
              headers={"Authorization": "Bearer " + site.tokens["owner"]})
    for _ in range(20):
        assert site.rows("SELECT 7") == [[7]]
    with open(f"/proc/{site.gateway.process.pid}/status") as f:
        memory = int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1)) / 1024
    assert memory < 150 * grid.memory_scale(GATEWAY), f"{memory} MiB"  # a result has 30 MiB
    for q in slow[:2]:
        got = q.answer()
        assert got[2][0] == 0 and len(got[1]) == rows and got[1][-1] == [rows, LONG]
    assert c.getresponse().read().count(b"\n") == rows + 1
    for q in slow:
        q.socket.close()
    assert site.rows("SELECT 7") == [[7]]
    assert site.gateway.stop() == 0


def case_lease(work):
    """Queries for 30 seconds: leases are renewed, nobody is late, and events go on."""
    site = Site(work, settings=("lease.time=3s", "lease.renew=1s"))
    for n in range(3):
        site.agent(f"web{n}")
    wait_for(lambda: [w["state"] for w in site.gateway.hosts().values()] == ["live"] * 3, "workers")
    wait_for(lambda: site.request("/api/v1/sql?q=SELECT+1+FROM+load")[0] == 200, "rows")
    threads, ended = [], []

    def ask():
        ended.append(site.request("/api/v1/sql?" + urllib.parse.urlencode({"q": FOREVER, "time": "30s"}))[0])

    for _ in range(4):
        threads.append(threading.Thread(target=ask))
        threads[-1].start()
    before = site.gateway.gridline("ledger", "--format", "json").stdout
    counted, last = 0, 0
    while any(t.is_alive() for t in threads):
        # The loop answers, and the workers are live, all the while.
        assert [w["state"] for w in site.gateway.hosts().values()] == ["live"] * 3
        taken = sum(a["taken"] for a in site.gateway.rows("ledger"))
        counted += taken > last
        last = taken
        time.sleep(0.2)
    for t in threads:
        t.join()
    assert ended == [504] * 4, ended
    assert before and counted > 20
    states = [e for e in site.gateway.events("worker.state") if e.get("state") in ("late", "expired")]
    assert not states, states
    for a in site.gateway.rows("ledger"):
        assert a["lost"] == 0, a
    assert site.gateway.stop() == 0


class Terminal:
    def __init__(self, site, work, *argv):
        self.out = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(XDG_STATE_HOME=work + "/xdg", TERM="xterm", HOME=work)
            os.execv(GRIDLINE, [GRIDLINE, "sql", "--gateway", "unix:" + site.gateway.socket, *argv])

    def type(self, data):
        os.write(self.fd, data)

    def expect(self, *words):
        """Reads until all have come, one behind the other; what came."""
        until = time.monotonic() + grid.PATIENCE
        while True:
            at, found = 0, True
            for w in words:
                at = self.out.find(w, at)
                found = found and at >= 0
                at += len(w) if at >= 0 else 1
            if found:
                got, self.out = self.out[:at], self.out[at:]
                return got
            assert time.monotonic() < until, (words, self.out)
            if select.select([self.fd], [], [], 1)[0]:
                try:
                    self.out += os.read(self.fd, 1 << 16)
                except OSError:
                    raise AssertionError((words, self.out))

    def end(self):
        """Its exit status; what it said is in out."""
        until = time.monotonic() + grid.PATIENCE
        while time.monotonic() < until:
            if select.select([self.fd], [], [], 0.1)[0]:
                try:
                    self.out += os.read(self.fd, 1 << 16)
                except OSError:
                    pass
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return status
        raise AssertionError("it does not end")


def case_terminal(work):
    """Lines, several to a statement; history; completion; Ctrl-C that cancels the query and not the program."""
    with open(GRIDLINE, "rb") as f:
        has_editor = b"libedit.so" in f.read()
    site = Site(work)
    site.publish([event("job.start", "web1", 1, identity=4711)])
    wait_for(lambda: site.request("/api/v1/sql?q=SELECT+1+FROM+job_start")[0] == 200, "rows")
    t = Terminal(site, work)
    t.expect(b"gridline> ")
    t.type(b"SELECT host,\n")
    t.expect(b"...> ")
    t.type(b" identity FROM job_start; SELECT 'a;b' AS two;\n")
    t.expect(b"web1", b"4711", b"a;b", b"gridline> ")
    if has_editor:
        t.type(b"SELECT ident\t")
        t.expect(b"ity ")
        t.type(b"FROM job_st\t")
        t.expect(b"art")
        t.type(b" WHERE host = 'web1';\n")
        t.expect(b"4711", b"gridline> ")
        t.type(b"SELECT * FROM job_start\t")  # there is more than one
        t.expect(b"job_start", b"job_start_bucket", b"job_start_latest")
        t.type(b"\x03")
        t.expect(b"gridline> ")
        t.type(b"\x1b[A\n")  # the statement before
        t.expect(b"WHERE host", b"4711", b"gridline> ")
    t.type(b".tables\n")
    t.expect(b"job_start", b"job.start", b"gridline> ")
    t.type(b".schema job_start\n")
    t.expect(b"time, host, prog, level, identity", b"gridline> ")
    t.type(b".nonsense\n")
    t.expect(b"there is no .nonsense", b"gridline> ")
    t.type(b"SELECT * FORM x;\n")
    t.expect(b"syntax error", b"^", b"gridline> ")
    t.type(FOREVER.encode() + b";\n")
    t.expect(b"looked at; Ctrl-C cancels")
    t.type(b"\x03")
    t.expect(b"cancelled", b"gridline> ")
    t.type(b".timer on\n")
    t.expect(b"gridline> ")
    t.type(b"SELECT 42 AS answer;\n")
    t.expect(b"answer", b"42", b" s\r\n", b"gridline> ")
    t.type(b".quit\n")
    assert t.end() == 0, t.out
    if has_editor:
        path = work + "/xdg/gridline/sql_history"
        with open(path) as f:
            assert "4711" not in f.read()
        assert os.stat(path).st_mode & 0o777 == 0o600
        t = Terminal(site, work)
        t.expect(b"gridline> ")
        t.type(b"\x1b[A\x1b[A\n")  # behind .quit
        t.expect(b"42", b"gridline> ")
        t.type(b"\x04")
        assert t.end() == 0, t.out
    # Not at a terminal Ctrl-C ends the program, as it ends others.
    p = subprocess.Popen([GRIDLINE, "sql", "--gateway", "unix:" + site.gateway.socket, "--time", "10m", FOREVER])
    wait_for(lambda: "gridline-sql" in site.gateway.log(), "the command")
    p.send_signal(signal.SIGINT)
    assert p.wait(grid.PATIENCE) == -signal.SIGINT
    assert site.gateway.stop() == 0


def case_library(work):
    """The consumer library, by its example."""
    example = sys.argv[5]
    site = Site(work)
    site.publish([event("job.start", "web1", i, id=i, who="ann") for i in range(3)])
    wait_for(lambda: site.request("/api/v1/sql?q=SELECT+1+FROM+job_start")[0] == 200 and
             len(site.rows("SELECT 1 FROM job_start")) == 3, "rows")
    gateway = "unix:" + site.gateway.socket

    def run(*argv):
        return subprocess.run([example, gateway, *argv], capture_output=True, text=True, timeout=grid.PATIENCE)

    out = run("SELECT host, id, NULL AS missing, 1.5 AS x FROM job_start ORDER BY id")
    assert out.returncode == 0 and out.stdout == "host\tid\tmissing\tx\n" + "".join(f"web1\t{i}\t\t1.5\n" for i in range(3)), out
    out = run("SELECT host FROM job_start WHERE id > 5")
    assert out.returncode == 0 and out.stdout == "host\n", out
    out = run("SELECT * FORM x")
    assert out.returncode == 2 and "syntax error" in out.stderr, out
    out = run(NUMBERS % (200000, LONG))
    assert out.returncode == 0 and out.stdout.count("\n") == 200001
    out = run(FOREVER, "1500")  # gives up after so many ms
    assert out.returncode == 1 and "rows looked at" in out.stderr and "cancelled" in out.stderr, out
    assert site.gateway.stop() == 0


if __name__ == "__main__":
    grid.main(globals(), sys.argv)
