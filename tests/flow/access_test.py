#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who may do what, cell by cell: every action, by every interface, for identities that differ in what the table gives them. What
is expected is worked out here from the same rows that the gateway gets, by the rule of docs/access.md: the first row that fits
decides. What a gateway may not tell is looked for in every byte that it sent.

    access_test.py CASE GATEWAY SOURCE"""
import fnmatch
import glob
import json
import os
import pwd
import re
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import xmlrpc.client

import grid
import peer
from frames import EVENTS, text
from grid import Gateway
from peer import AGENT, CONSUMER, PROGRAM, Connection, Gone

GATEWAY, SOURCE = sys.argv[2:4]
GRIDLINE = os.path.join(os.path.dirname(GATEWAY), "gridline")
ACTIONS = ("join", "publish", "register", "lookup", "subscribe", "query", "summary", "control", "test")
DONE, USAGE, NOT_FOUND, NOT_ALLOWED = 0, 2, 3, 5
HOSTS = ("web1", "db1")
SECRET = "os-secret-4711"
FIRST_MARK = 1000  # loads from here on are events that a test waits for
OTHER_USER = "nobody"  # of this system

# The table. Built-in rows come behind.
ROWS = (
    {"name": "ann", "who": "operator:ann", "may": "publish,lookup,subscribe,query,summary", "hosts": "web*", "hide": "os*"},
    {"name": "ann-control", "who": "operator:ann", "may": "register,control", "hosts": "web*"},
    {"name": "ann-rest", "who": "operator:ann", "may_not": "all"},
    {"name": "sum", "who": "operator:sum,token:sum", "may": "summary"},
    {"name": "sum-rest", "who": "operator:sum", "may_not": "all"},
    {"name": "streams", "who": "operator:streams,token:streams", "may": "subscribe", "events": "memory,cpu"},
    {"name": "streams-rest", "who": "operator:streams", "may_not": "all"},
    {"name": "none", "who": "operator:none", "may_not": "all"},
    {"name": "user", "who": "local:%d" % pwd.getpwnam(OTHER_USER).pw_uid, "may_not": "publish,register,lookup,summary"},
    {"name": "token", "who": "token:dash", "may": "lookup,summary,query", "hosts": "db1", "hide": "cpu.os*"},
)
BUILT_IN = (
    {"who": "owner", "may": "all"},
    {"who": "operator", "may": "join,publish,register,lookup,subscribe,query,summary,control"},
    {"who": "local,insecure", "may_not": "publish", "events": "cpu,memory,heartbeat,fault.*,rule.*,guard.*"},  # of those here
    {"who": "local", "may": "publish,register,lookup,summary"},
    {"who": "insecure", "may": "publish,register"},
    {"who": "agent", "may": "publish,register", "hosts": "@own"},
    {"who": "gateway", "may": "publish,register,lookup"},
    {"who": "nobody", "may": "join"},
)

# What every question of a gateway needs. A verb that is in the sources and not here fails the test.
VERBS = {
    "hosts": "lookup", "ledger": "lookup", "status": "lookup", "sensors": "lookup", "schemas": "lookup",
    "subscriptions": "lookup", "latest": "query", "summary": "summary", "subscription.remove": "subscribe",
    "subscription.consumed": "subscribe",
    "worker.suspend": "control", "worker.resume": "control", "worker.kill": "control", "worker.set": "control",
    "sensor.start": "control", "sensor.stop": "control", "sensor.set": "control", "sensor.list": "control",
    "activate": "control", "access": None, "viewer.key": None,
    "archive": "lookup", "baseline.set": "control", "baseline.remove": "control", "schema.set": "control",
    "faults": "query", "rules": "query", "ack": "control", "unack": "control", "silence": "control", "unsilence": "control",
}
WHOLE = ("status", "archive")  # about everything at once: for those who may look up everything
# Enough to be understood, nothing that is done. The workers here answer to nobody, so they are not waited for.
VERB_VALUES = {
    "worker.suspend": {"dry_run": True}, "worker.resume": {"dry_run": True}, "worker.kill": {"dry_run": True},
    "worker.set": {"dry_run": True, "set.vector.every": "2s"},
    "sensor.start": {"dry_run": True, "sensor": "cpu", "timeout_ms": 1},
    "sensor.stop": {"dry_run": True, "sensor": "cpu", "timeout_ms": 1},
    "sensor.set": {"dry_run": True, "sensor": "cpu", "set.every": "2s", "timeout_ms": 1},
    "sensor.list": {"timeout_ms": 1}, "activate": {"dry_run": True, "pattern": "x", "level": "info", "timeout_ms": 1},
    "subscription.remove": {"durable": "none"}, "subscription.consumed": {"durable": "none", "position": "1"},
    "baseline.remove": {"name": "none"},
}


def fits_one(patterns, value):
    return any(fnmatch.fnmatchcase(value, p) for p in patterns.split(","))


def is_about(row, who):
    kind, _, name = who.partition(":")
    for word in row["who"].split(","):
        of, _, pattern = word.partition(":")
        if word == "everybody" or (of == kind and (not pattern or fnmatch.fnmatchcase(name, pattern))):
            return True
    return False


def deciding(who, action, host, event):
    """The row that decides; None: there is none."""
    for row in (*ROWS, *BUILT_IN):
        actions = (row.get("may") or row.get("may_not")).split(",")
        hosts = row.get("hosts", "*").replace("@own", who.partition(":")[2])
        if is_about(row, who) and (action in actions or actions == ["all"]) and fits_one(hosts, host) and \
                fits_one(row.get("events", "*"), event):
            return row
    return None


def allows(who, action, host, event="cpu"):
    row = deciding(who, action, host, event)
    return bool(row and row.get("may"))


def allows_some(who, action):
    """Of any host and event that there is in this test, or might be."""
    return any(allows(who, action, h, e) for h in (*HOSTS, "web9", "else", who.partition(":")[2])
               for e in ("cpu", "memory", "worker", "other"))


class Bench:
    """A gateway with TLS, TCP and a Unix socket, two workers and an event of each."""

    def __init__(self, work):
        self.work = work
        self.site = work + "/site"
        self.gridline("init", "--dir", self.site, "--name", "gw", "--host", "127.0.0.1", "--operator", "first",
                      env={**os.environ, "HOME": work, "XDG_CONFIG_HOME": work + "/config"})
        os.chmod(work, 0o755)  # for the other user
        self.gateway = Gateway(GATEWAY, work, "gateway", "tls://127.0.0.1:0,tcp://127.0.0.1:0",
                               settings=[f"identity={self.site}", "lease.time=1h", "udp=", "http=127.0.0.1:0",
                                         f"run_dir={work}/gateway", f"archive.dir={work}/archive"], config=self.make_config())
        os.chmod(self.gateway.folder, 0o755)
        self.gateway.start()
        tls, tcp = self.gateway.addresses[:2]
        self.addresses = {"unix": "unix:" + self.gateway.socket, "tcp": tcp, "tls": tls}
        self.url = next(a for a in self.gateway.addresses if a.startswith("http://"))
        with open(self.gateway.folder + "/http.token") as f:
            self.tokens["owner"] = f.read().strip()
        os.chmod(self.gateway.socket, 0o777)
        self.identities = {}
        for kind, option, name in (("operator", "--operator", "ann"), ("operator", "--operator", "sum"),
                                   ("operator", "--operator", "streams"), ("operator", "--operator", "none"),
                                   ("operator", "--operator", "boss"), ("agent", "--host", "web1"),
                                   ("gateway", "--gateway-name", "gw2")):
            self.join(kind, option, name)
        self.workers = [self.start_worker(host) for host in HOSTS]
        self.mark = self.publish_all()
        self.marks = FIRST_MARK

    def gridline(self, *argv, check=True, **kw):
        done = subprocess.run([GRIDLINE, *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **kw)
        assert not check or done.returncode == 0, (argv, done.returncode, done.stderr)
        return done

    def make_config(self):
        """The rows, and a token for each that they name."""
        config = ""
        for row in ROWS:
            values = "  ".join(f'{k} = "{v}"' for k, v in row.items() if k != "name")
            config += f"access {row['name']} {{ {values} }}\n"
        self.tokens = {}
        for name in sorted({w[6:] for r in ROWS for w in r["who"].split(",") if w.startswith("token:")}):
            done = self.gridline("token", "--http", name)
            self.tokens[name] = done.stdout.strip()
            assert f"token {name} {{ sha256 = " in done.stderr, done.stderr
            config += done.stderr.split("gateway.conf: ", 1)[1]
        return config

    def join(self, kind, option, name):
        folder = f"{self.work}/id-{kind}-{name}"
        token = self.gridline("token", "--dir", self.site, "--gateway", self.addresses["tls"], option, name).stdout.strip()
        self.gridline("join", token, "--dir", folder)
        self.identities[f"{kind}:{name}"] = folder

    def ways(self):
        """(identity, interface): everybody there is, by every way it can come."""
        yield "owner", "unix"
        yield "local", "tcp"
        yield "nobody", "tls"
        for who in self.identities:
            yield who, "tls"
        for interface in ("http", "xmlrpc"):
            for who in ("owner", "local", *(f"token:{name}" for name in self.tokens if name != "owner")):
                yield who, interface
        if os.geteuid() == 0:
            yield "local:%d" % pwd.getpwnam(OTHER_USER).pw_uid, "unix"

    def connect(self, who, interface):
        uid = int(who[6:]) if who.startswith("local:") else None
        if uid is not None:
            os.seteuid(uid)
        try:
            return Connection(self.addresses[interface], self.identities.get(who))
        finally:
            if uid is not None:
                os.seteuid(0)

    def start_worker(self, host):
        c = Connection(self.addresses["unix"])
        producer = c.hello(AGENT, host)
        assert c.register(host, producer, {"os": SECRET + host, "cpus": 4}) == 0
        return c

    def event(self, host, n):
        return {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "host": host, "prog": "p", "level": "info", "name": "cpu", "load": n,
                "os.version": SECRET + host}

    def publish(self, c, host, n=1, name="cpu", role=PROGRAM):
        """What became of it: "ack" or "refused"; Gone."""
        producer = c.hello(role, host)
        c.send(peer.BATCH, peer.block(GRIDLINE, [{**self.event(host, n), "name": name}], producer, 1))
        kind, r = c.read(peer.ACK, peer.REFUSE)
        if kind == peer.REFUSE:
            r.take(16 + 8 + 8 + 4)
            assert r.number("H") == 5, "not allowed"
        return "ack" if kind == peer.ACK else "refused"

    def publish_all(self):
        """An event of every host, and the record of the journal behind which all of them are."""
        with Connection(self.addresses["unix"]) as reader:
            reader.hello(CONSUMER, "here")
            assert reader.subscribe("cpu", format="ndjson", **{"from": "oldest"})[0] == DONE
            for n, host in enumerate(HOSTS):
                with Connection(self.addresses["unix"]) as c:
                    assert self.publish(c, host, n) == "ack"
            seen, record = set(), 0
            while not seen.issuperset(HOSTS):
                _, r = reader.read(EVENTS)
                r.number("I")
                record = peer.position(r)[0]
                r.number("I")
                seen |= {json.loads(line)["host"] for line in r.data[r.at:].splitlines()}
            return record

    def verbs(self):
        """Those of the sources that this gateway knows."""
        with self.connect("owner", "unix") as c:
            c.hello(CONSUMER, "here")
            return {v for v in verbs_in_source() if "does not know" not in c.ask(v, VERB_VALUES.get(v, {}))[1]}

    def events(self, c):
        """Everything that was published, as far as c's subscription shows it."""
        with Connection(self.addresses["unix"]) as other:
            producer = other.hello(PROGRAM, "else")
            other.send(peer.BATCH, peer.block(GRIDLINE, [{**self.event("else", 0), "name": "tick"}], producer, 1))
            other.read(peer.ACK)
        return c.events_until(self.mark)

    def events_where(self, c, where):
        """The same with a filter: up to an event that passes in any case."""
        self.marks += 1
        assert c.subscribe("cpu", f"({where}) OR load = {self.marks}", format="ndjson", **{"from": "oldest"})[0] == DONE
        with Connection(self.addresses["unix"]) as other:
            assert self.publish(other, "web1", self.marks) == "ack"
        events = []
        while not any(e["load"] == self.marks for e in events):
            _, r = c.read(EVENTS)
            r.number("I")
            peer.position(r)
            r.number("I")
            events += [json.loads(line) for line in r.data[r.at:].splitlines()]
        return [e for e in events if e["load"] < FIRST_MARK]

    # ------------------------------------------------------------ one probe an action: the hosts of which it was possible

    def each_host(self, who, interface, probe):
        found = set()
        for host in HOSTS:
            with self.connect(who, interface) as c:
                try:
                    if probe(c, host):
                        found.add(host)
                except Gone as e:
                    assert e.args[0] == 3, (who, interface, host, e.args)  # not allowed, and nothing else
                self.check_bytes(who, c)
        return found

    def try_join(self, who, interface):
        def probe(c, host):
            c.send(peer.JOIN, text("no-token") + text(host) + text(b"no request"))
            return c.read(peer.CERTIFIED)[1].number("H") != 0
        return self.each_host(who, interface, probe)

    def try_publish(self, who, interface):
        return self.each_host(who, interface, lambda c, host: self.publish(c, host) == "ack")

    def try_register(self, who, interface):
        def probe(c, host):
            producer = c.hello(AGENT, host)
            return c.register(host, producer, {"os": SECRET + host, "cpus": 4}) == 0
        found = self.each_host(who, interface, probe)
        for host in found:  # it had another connection for a while
            self.workers[HOSTS.index(host)].close()
            self.workers[HOSTS.index(host)] = self.start_worker(host)
        return found

    def try_lookup(self, who, interface):
        def probe(c, host):
            c.hello(CONSUMER, "here")
            status, words, rows, _ = c.ask("hosts", {"workers": host})
            return status == DONE and [r["host"] for r in rows] == [host]
        return self.each_host(who, interface, probe)

    def try_subscribe(self, who, interface):
        with self.connect(who, interface) as c:
            try:
                c.hello(CONSUMER, "here")
                status, words = c.subscribe("cpu", format="ndjson", **{"from": "oldest"})
                assert status in (DONE, NOT_ALLOWED), (status, words)
                return {e["host"] for e in self.events(c)} if status == DONE else set()
            except Gone as e:
                assert e.args[0] == 3, e.args
                return set()
            finally:
                self.check_bytes(who, c)

    def try_verb(self, verb):
        def probe(c, host):
            c.hello(CONSUMER, "here")
            status, words, rows, _ = c.ask(verb, {"host": host, "event": "cpu"})
            assert status in (DONE, NOT_FOUND, NOT_ALLOWED), (verb, status, words)
            return status == DONE and len(rows) > 0
        return lambda who, interface: self.each_host(who, interface, probe)

    def try_control(self, who, interface):
        def probe(c, host):
            c.hello(CONSUMER, "here")
            status, words, rows, _ = c.ask("worker.suspend", {"workers": host, "dry_run": True})
            return status == DONE and any(r.get("host") == host and r.get("answer") == "would_ask" for r in rows)
        return self.each_host(who, interface, probe)

    # ------------------------------------------------------------ HTTP and XML-RPC: what came back, as a status and bytes

    def http(self, who, path, body=None, lines=None, **parameters):
        """(status, bytes); of a stream the first lines only."""
        url = self.url + path + ("?" + urllib.parse.urlencode(parameters) if parameters else "")
        request = urllib.request.Request(url, data=body, headers=self.headers(who))
        try:
            with urllib.request.urlopen(request, timeout=60) as f:
                return f.status, b"".join(f.readline() for _ in range(lines)) if lines else f.read()
        except urllib.error.HTTPError as e:
            return e.code, e.read()

    def headers(self, who):
        token = self.tokens.get("owner" if who == "owner" else who.partition(":")[2])
        return {"Authorization": "Bearer " + token, "Content-Type": "application/json"} if token else \
            {"Content-Type": "application/json"}

    def by_http(self, who, action, host):
        """(status, bytes) of that action; None: HTTP has no such thing."""
        if action in ("join", "register"):
            return None
        if action == "publish":
            return self.http(who, "/api/v1/events", json.dumps(self.event(host, 1)).encode() + b"\n", format="ndjson")
        if action == "subscribe":
            return self.http(who, "/api/v1/events", lines=len(HOSTS), event="cpu", host=",".join(HOSTS), format="ndjson",
                             **{"from": "oldest"})
        if action == "control":
            return self.http(who, "/api/v1/control",
                             json.dumps({"verb": "worker.suspend", "args": {"workers": host, "dry_run": True}}).encode())
        if action == "lookup":
            return self.http(who, "/api/v1/directory/hosts", workers=host)
        return self.http(who, {"query": "/api/v1/latest", "summary": "/api/v1/summary"}[action], host=host, event="cpu")

    def by_xmlrpc(self, who, action, host):
        """The same; a fault's code is in place of the status."""
        if action in ("join", "register"):
            return None
        headers = [h for h in self.headers(who).items() if h[0] == "Authorization"]
        with xmlrpc.client.ServerProxy(self.url + "/RPC2", headers=headers, allow_none=True) as server:
            calls = {"publish": lambda: server.gridline.publish(json.dumps(self.event(host, 1)) + "\n", "ndjson"),
                     "subscribe": lambda: server.gridline.events({"event": "cpu", "from": "oldest", "wait": 5}),
                     "control": lambda: server.gridline.control("worker.suspend", {"workers": host, "dry_run": True}),
                     "lookup": lambda: server.gridline.hosts({"workers": host}),
                     "query": lambda: server.gridline.latest({"host": host, "event": "cpu"}),
                     "summary": lambda: server.gridline.summary({"host": host, "event": "cpu"})}
            try:
                return 200, repr(calls[action]()).encode()
            except xmlrpc.client.Fault as e:
                return {NOT_ALLOWED: 403, NOT_FOUND: 404}.get(e.faultCode, e.faultCode), e.faultString.encode()

    def try_test(self, who):
        """Of a rule that nobody knows: whether that is all that is said."""
        status, data = self.http(who, "/api/v1/control", json.dumps({"verb": "rule.test", "args": {"rule": "none"}}).encode())
        assert status in (401, 403, 404), (who, status, data)
        return set(HOSTS) if status == 404 else set()

    def try_web(self, who, interface, action):
        found = set()
        if action == "test":
            return self.try_test(who) if interface == "http" else set()
        for host in HOSTS:
            answer = (self.by_http if interface == "http" else self.by_xmlrpc)(who, action, host)
            if not answer:
                continue
            status, data = answer
            assert status in (200, 401, 403, 404), (who, interface, action, status, data)
            self.check_data(who, data)
            if status != 200:  # then the answer is the same for a host that there is not
                assert host.encode() not in data or action == "publish", (who, interface, action, data)
            elif action == "publish" or host.encode() in data:
                found.add(host)
        return found

    # ------------------------------------------------------------ what may not be in any answer

    def check_bytes(self, who, c):
        """Nothing of a host that may not be seen, by whatever was asked; and nothing that is hidden."""
        self.check_data(who, c.received)

    def check_data(self, who, data):
        for host in HOSTS:
            seeing = [deciding(who, a, host, e) for a in ("lookup", "subscribe", "query", "summary", "control")
                      for e in ("cpu", "worker")]
            if not any(row and row.get("may") and not fits_one(row.get("hide", "-"), "os") for row in seeing):
                assert (SECRET + host).encode() not in data, (who, host, data)


def verbs_in_source():
    found = set()
    for path in glob.glob(SOURCE + "/src/gateway/*.c"):
        with open(path) as f:
            code = f.read()
        found |= set(re.findall(r'\{"([a-z.]+)",\s*ACCESS_[A-Z]+,', code))
        if path.endswith("/control.c"):
            table = code[code.index("} verbs[] = {"):]
            found |= set(re.findall(r'\{(?:\.name = )?"([a-z.]+)"', table[:table.index("};")]))
    return found


def case_complete(work):
    """What there is in the sources has its place in this test."""
    with open(SOURCE + "/src/gateway/access.h") as f:
        header = f.read()
    body = header[header.index("enum access_action {"):]
    actions = re.findall(r"ACCESS_([A-Z]+),", body[:body.index("ACCESS_ACTIONS")])
    assert tuple(a.lower() for a in actions) == ACTIONS, actions
    found = verbs_in_source()
    assert found - VERBS.keys() == set(), f"verbs without a row here: {found - VERBS.keys()}"
    assert {"hosts", "ledger", "status", "worker.kill", "access", "subscriptions"} <= found, found
    # Who makes identities: each has an interface here, and gives them the table.
    makers, interfaces = set(), set()
    for path in glob.glob(SOURCE + "/src/gateway/*.c"):
        with open(path) as f:
            code = f.read()
        if re.search(r"kind\w* = [^;]*ACCESS_(NOBODY|OWNER|LOCAL|INSECURE|AGENT|GATEWAY|OPERATOR|TOKEN)\b", code) or \
                re.search(r"\] = ACCESS_(NOBODY|OWNER|LOCAL)", code):
            makers.add(os.path.basename(path))
        for words in re.findall(r"interface = ([^,;}]+)", code):
            interfaces |= set(re.findall(r'"([a-z]+)"', words))
    known = {"access.c", "access_table.c", "access_verb.c", "door.c", "http_connection.c", "http_who.c"}
    assert makers <= known, f"identities are made in {makers - known}: give them a way in this test"
    assert interfaces == INTERFACES, interfaces


INTERFACES = {"unix", "tcp", "tls", "http", "xmlrpc"}


def case_cells(work):
    """Every action by every interface for everybody, and that what was refused is in the audit."""
    bench = Bench(work)
    probes = {"join": bench.try_join, "publish": bench.try_publish, "register": bench.try_register, "lookup": bench.try_lookup,
              "subscribe": bench.try_subscribe, "query": bench.try_verb("latest"), "summary": bench.try_verb("summary"),
              "control": bench.try_control, "test": lambda who, interface: set()}  # which is HTTP's alone
    assert tuple(probes) == ACTIONS
    there = bench.verbs()
    cells = denied = 0
    for who, interface in bench.ways():
        for action, probe in probes.items():
            if {"query": "latest", "summary": "summary"}.get(action, "hosts") not in there:
                continue  # nobody answers that yet
            expected = {h for h in HOSTS if allows(who, action, h)}
            if action == "join":
                expected = set(HOSTS) if allows_some(who, "join") else set()
            is_web = interface in ("http", "xmlrpc")
            if is_web and action in ("join", "register"):
                expected = set()  # there is no such thing by HTTP
            if action == "test" and interface != "http":
                expected = set()
            found = bench.try_web(who, interface, action) if is_web else probe(who, interface)
            assert found == expected, f"{who} by {interface}: {action} was possible of {found}, not of {expected}"
            cells += 1
            denied += len(HOSTS) - len(expected)
    bench.gateway.stop()
    events = bench.gateway.events("access.denied")
    told = [e for e in events if "who" in e]
    count = len(told) + sum(e["not_told"] for e in events if "not_told" in e)
    assert count > 0 and {e["interface"] for e in told} <= INTERFACES, events
    assert {e["action"] for e in told} <= set(ACTIONS), told
    print(f"{cells} cells, {denied} refusals, {count} in the audit, {len(told)} one by one")


def check_web(bench, who):
    """Every verb by HTTP's control, and every address that tells something."""
    for verb in bench.verbs():
        action = VERBS[verb]
        body = json.dumps({"verb": verb, "args": VERB_VALUES.get(verb, {})}).encode()
        status, data = bench.http(who, "/api/v1/control", body)
        is_denied = action and not allows_some(who, action)
        whole = verb not in WHOLE or allows(who, "lookup", "anything", "anything")
        assert (status in (401, 403)) == bool(is_denied or not whole), (who, verb, status, data)
        bench.check_data(who, data)
    with open(SOURCE + "/docs/openapi.json") as f:
        paths = json.load(f)["paths"]
    for path in paths:
        if "get" not in paths[path] or path.endswith(("/events", "/watch")):
            continue  # streams: the cells have them
        status, data = bench.http(who, path)
        bench.check_data(who, data)
        if not allows_some(who, "lookup") and ("directory" in path or path == "/metrics"):
            assert status in (401, 403), (who, path, status, data)
    if not allows_some(who, "lookup"):
        status, data = bench.http(who, "/api/v1/directory/watch", lines=1)
        assert status in (401, 403), (who, status, data)


def case_verbs(work):
    """Every question: without its right the answer is "not allowed", in words that do not depend on what there is."""
    bench = Bench(work)
    for who, interface in bench.ways():
        if interface in ("http", "xmlrpc"):
            check_web(bench, who)
            continue
        asks = any(allows_some(who, a) for a in ("lookup", "subscribe", "query", "summary", "control"))
        with bench.connect(who, interface) as c:
            try:
                c.hello(CONSUMER, "here")
            except Gone as e:
                assert not asks and e.args[0] == 3, (who, e.args)
                continue
            assert asks, who
            for verb in sorted(bench.verbs()):
                action = VERBS[verb]
                for workers in ("db1", "nope"):  # one that there is, and one that there is not
                    key = "workers" if action == "control" or verb in ("hosts", "ledger") else "host"
                    values = {**VERB_VALUES.get(verb, {}), **({key: workers} if action and verb != "status" else {})}
                    status, words, rows, last = c.ask(verb, values)
                    if action and not allows_some(who, action):
                        assert status == NOT_ALLOWED and not rows and not last, (who, verb, status, words, rows)
                    elif verb not in WHOLE:
                        assert status != NOT_ALLOWED, (who, verb, workers, words)
                    if action and not allows(who, action, "db1", "worker") and not allows(who, action, "db1"):
                        assert "db1" not in str((words, rows, last)), (who, verb, words, rows, last)
                    if workers == "db1":
                        before = (status, words)
                    elif action and not allows(who, action, "db1") and not allows(who, action, "db1", "worker"):
                        assert before == (status, words), (who, verb, before, status, words)
            bench.check_bytes(who, c)


def case_hidden(work):
    """What is hidden is in no stream and no row, and can't be found by asking for it."""
    bench = Bench(work)
    with bench.connect("operator:ann", "tls") as c:
        c.hello(CONSUMER, "here")
        assert c.subscribe("cpu", format="ndjson", **{"from": "oldest"})[0] == DONE
        events = bench.events(c)
        assert events and all(e["host"] == "web1" and "os.version" not in e and "load" in e for e in events), events
        for where, n in ((f"\"os.version\" = '{SECRET}web1'", 0), ("\"os.version\" IS NULL", len(events)),
                         ("\"os.version\" IS NOT NULL", 0), ("load IS NOT NULL", len(events))):
            found = bench.events_where(c, where)
            assert len(found) == n, (where, found)
        _, _, rows, _ = c.ask("hosts", {})
        assert [r["host"] for r in rows] == ["web1"] and "os" not in rows[0] and rows[0]["cpus"] == 4, rows
        for where, n in ((f"os = '{SECRET}web1'", 0), ("os IS NULL", 1), ("cpus = 4", 1), ("host = 'db1'", 0)):
            status, words, rows, _ = c.ask("hosts", {"where": where})
            assert len(rows) == n and status == (DONE if n else NOT_FOUND), (where, status, words, rows)
        _, _, rows, _ = c.ask("ledger", {})
        assert {r.get("host") for r in rows} <= {"web1"}, rows
        assert c.ask("status", {})[0] == NOT_ALLOWED
        bench.check_bytes("operator:ann", c)
    with bench.connect("owner", "unix") as c:  # the secrets were there to be found
        c.hello(CONSUMER, "here")
        _, _, rows, _ = c.ask("hosts", {"where": f"os = '{SECRET}web1'"})
        assert [r["host"] for r in rows] == ["web1"], rows
        assert c.ask("status", {})[0] == DONE


def case_publish(work):
    """Who may not publish can't, in whatever role it came; and nobody says what others may say only."""
    bench = Bench(work)
    with bench.connect("operator:sum", "tls") as c:
        producer = c.hello(CONSUMER, "web1")
        c.send(peer.BATCH, peer.block(GRIDLINE, [bench.event("web1", 1)], producer, 1))
        kind, _ = c.read(peer.ACK, peer.REFUSE)
        assert kind == peer.REFUSE
    with bench.connect("operator:ann", "tls") as c:  # a block with one event of another host is refused as a whole
        producer = c.hello(PROGRAM, "web1")
        c.send(peer.BATCH, peer.block(GRIDLINE, [bench.event("web1", 7), bench.event("db1", 7)], producer, 1))
        kind, _ = c.read(peer.ACK, peer.REFUSE)
        assert kind == peer.REFUSE
        c.send(peer.BATCH, peer.block(GRIDLINE, [bench.event("web2", 8)], producer, 3))
        kind, _ = c.read(peer.ACK, peer.REFUSE)
        assert kind == peer.ACK
    with bench.connect("agent:web1", "tls") as c:  # lines say of themselves whose they are
        c.buffer = b""
        try:
            c.hello(PROGRAM, "db1")
            raise AssertionError("an agent spoke for another host")
        except Gone as e:
            assert e.args[0] == 3, e.args
    bench.gateway.stop()
    assert {(e["host"], e["load"]) for e in bench.gateway.events("cpu") if e["load"] >= 7} == {("web2", 8)}


def case_reserved(work):
    """What sensors and guards say is not said by any user of this host; orders to guards by nobody at all."""
    global ROWS
    ROWS = tuple(r for r in ROWS if r["name"] != "user")  # the other user may what `local` may
    bench = Bench(work)
    ways = [("local", "tcp")]
    if os.geteuid() == 0:
        ways.append(("local:%d" % pwd.getpwnam(OTHER_USER).pw_uid, "unix"))

    def outcome(who, interface, name, role=PROGRAM):
        with bench.connect(who, interface) as c:
            return bench.publish(c, "web1", 50, name, role)

    refused = 0
    for name in ("cpu", "heartbeat", "fault.state", "rule.state", "guard.state", "fault.order"):
        for who, interface in ways:
            assert outcome(who, interface, name) == "refused", (who, name)
            refused += 1
            if name != "fault.order":
                assert outcome(who, interface, name, AGENT) == "ack", (who, name)
        for who, interface in (("owner", "unix"), ("operator:boss", "tls")):
            assert outcome(who, interface, name) == ("refused" if name == "fault.order" else "ack"), (who, name)
    for who, interface in ways:
        assert outcome(who, interface, "mine") == "ack", who
        assert outcome(who, interface, "process.signal") == "ack", who
    with bench.connect("owner", "unix") as c:
        c.hello(CONSUMER, "here")
        _, _, rows, _ = c.ask("ledger", {})
    assert sum(r["refused"] for r in rows) == refused + 2, rows  # and two of fault.order
    with open(work + "/kept", "w") as f:  # an archive that was exported has orders: they are left out, nothing else is
        for n, name in enumerate(("old", "old", "fault.order", "old", "fault.order", "fault.order", "old")):
            f.write(json.dumps({**bench.event("web1", n), "name": name}) + "\n")
    done = bench.gateway.gridline("import", work + "/kept", check=False)
    assert done.returncode == 4 and "3" in done.stderr, (done.returncode, done.stderr)
    bench.gateway.stop()
    assert [e["load"] for e in bench.gateway.events("old")] == [0, 1, 3, 6]
    users = ("a local program", "user %d here" % pwd.getpwnam(OTHER_USER).pw_uid)
    told = [e for e in bench.gateway.events("access.denied") if e.get("event") in ("cpu", "fault.state")]
    assert len(told) >= 2 and all(e["action"] == "publish" and e["who"] in users for e in told), told
    assert bench.gateway.events("fault.order") == []


def case_orders(work):
    """ack and silence by a gateway: an event of its own, in the name of who asked."""
    bench = Bench(work)
    fault = "00000000000000a1"
    told = {**bench.event("guardian", 1), "prog": "gridline-guard", "name": "fault.state", "rule": "disk-full", "fault": fault,
            "target": "web1", "state": "firing", "severity": "error"}
    with bench.connect("owner", "unix") as c:
        producer = c.hello(PROGRAM, "guardian")
        c.send(peer.BATCH, peer.block(GRIDLINE, [told], producer, 1))
        assert c.read(peer.ACK, peer.REFUSE)[0] == peer.ACK
    rows = grid.wait_for(lambda: bench.gateway.rows("faults"), "the fault")
    assert [(r["fault"], r["host"], r["guard"]) for r in rows] == [(fault, "web1", "guardian")], rows
    sql = bench.gateway.gridline("sql", "SELECT fault, state, host FROM faults WHERE state <> 'cleared'", "--format", "csv").stdout
    assert f"{fault},firing,web1" in sql, sql
    assert bench.gateway.gridline("sql", "SELECT count(*) AS n FROM rules", "--format", "csv").stdout.split() == ["n", "0"]
    boss, ann = (["--gateway", bench.addresses["tls"], "--identity", bench.identities["operator:" + name]] for name in ("boss", "ann"))
    grid.run(GRIDLINE, "ack", "disk-full:web1", "--note", "mine", *boss)
    assert grid.run(GRIDLINE, "ack", "disk-full:web1", *ann, check=False).returncode == NOT_FOUND  # she does not see the guard's host
    with bench.connect("operator:ann", "tls") as c:  # but it is about hers
        c.hello(CONSUMER, "here")
        assert c.ask("unack", {"fault": fault})[0] == DONE
    body = json.dumps({"verb": "silence", "args": {"host": "db1", "until": time.time_ns() + 3600 * 10**9, "by": "root"}}).encode()
    status, data = bench.http("owner", "/api/v1/control", body)
    assert status == 200, (status, data)
    status, data = bench.http("local", "/api/v1/control", body)
    assert status in (401, 403), (status, data)
    assert grid.run(GRIDLINE, "silence", "--host", "db1", "--for", "1h", *ann, check=False).returncode == NOT_ALLOWED
    bench.gateway.stop()
    orders = bench.gateway.events("fault.order")
    assert [(e["order"], e["by"], e.get("target"), e["prog"]) for e in orders] == [
        ("ack", "operator boss", "web1", "gridline-gateway"), ("unack", "operator ann", "web1", "gridline-gateway"),
        ("silence", orders[2]["by"], "db1", "gridline-gateway")], orders
    assert orders[2]["by"] != "root" and orders[0]["fault"] == fault and orders[0]["note"] == "mine", orders


def case_command(work):
    """gridline access: one's own rows, others' for those who may give orders; a mistake in the table is told with its line."""
    bench = Bench(work)
    rows = bench.gateway.rows("access")
    assert {r["action"]: r["may"] for r in rows} == {a: "yes" for a in ACTIONS}, rows
    assert all(r["from"] == "built in" for r in rows), rows
    rows = [r for r in bench.gateway.rows("access", "operator:ann") if r["action"] == "lookup"]
    assert [(r["may"], r["hosts"], r["hide"], r["row"], r["from"]) for r in rows] == [
        ("yes", "web*", "os*", "ann", bench.gateway.file + ":1"), ("no", "*", "-", "ann-rest", bench.gateway.file + ":3")], rows
    rows = {r["action"]: r for r in bench.gateway.rows("access", "token:sum")}
    assert {a for a, r in rows.items() if r["may"] == "yes"} == {"summary"} and rows.keys() == set(ACTIONS), rows

    def ask(who, *words):
        return bench.gridline("access", "--gateway", bench.addresses["tls"], "--identity", bench.identities[who], "--format",
                              "json", *words, check=False)
    done = ask("operator:sum")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0 and {r["action"] for r in rows if r["may"] == "yes"} == {"summary"}, done
    assert not any("from" in r or "who" in r or "row" in r for r in rows), rows  # the table is not its business
    assert ask("operator:sum", "operator:ann").returncode == NOT_ALLOWED
    assert ask("operator:boss", "operator:ann").returncode == 0
    assert ask("operator:boss", "somebody").returncode == USAGE
    assert ask("operator:none").returncode == NOT_ALLOWED
    with open(work + "/bad.conf", "w") as f:
        f.write("listen = \"tcp://127.0.0.1:0\"\naccess a {\n  who = local\n  may = {everything}\n}\n")
    done = subprocess.run([GATEWAY, "--config", work + "/bad.conf", "--journal", work + "/j"], stderr=subprocess.PIPE, text=True,
                          timeout=60, check=False)
    assert done.returncode == 1 and "bad.conf:4: access.a.may: \"everything\" is not an action" in done.stderr, done.stderr


def case_audit(work):
    """Refusals are events: who, what, by which way; a flood of them is counted, not lost."""
    bench = Bench(work)
    flood = 200
    with bench.connect("operator:sum", "tls") as c:
        c.hello(CONSUMER, "here")
        for _ in range(flood):
            assert c.ask("hosts", {})[0] == NOT_ALLOWED
    with bench.connect("local", "tcp") as c:
        c.hello(CONSUMER, "here")
        assert c.ask("worker.kill", {"workers": "web1"})[0] == NOT_ALLOWED
        assert c.subscribe()[0] == NOT_ALLOWED
    bench.gateway.stop()
    events = bench.gateway.events("access.denied")
    of_sum = [e for e in events if e.get("who") == "operator sum"]
    assert of_sum and all((e["action"], e["interface"]) == ("lookup", "tls") for e in of_sum), of_sum
    count = sum(1 for e in events if "who" in e) + sum(e.get("not_told", 0) for e in events)
    assert count == flood + 2, (count, events)
    assert len(of_sum) < flood, "told one by one in a flood"


if __name__ == "__main__":
    grid.main(globals(), sys.argv)
