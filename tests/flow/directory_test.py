#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The directory with real processes: a gateway, agents, and gridline hosts, sensors, schemas, with --watch.

    directory_test.py CASE AGENT GATEWAY"""
import json
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True  # the tree stays as it is
from grid import Agent, Gateway, start, stop, stop_all, wait_for

AGENT, GATEWAY = sys.argv[2:4]
SENSORS = """defaults = false
cpu { every = 1s }
load { every = 500ms }
memory { every = 1s  mode = on-request }
tcp { every = 1s  mode = port  ports = {9}  hold = 1s }
exec there { command = {"/bin/true"}  format = nagios  every = 1s }
exec broken { command = {"/nowhere/at-all"}  every = 1s }
"""


class Watch:
    """A command with --watch, and the rows it has printed."""

    def __init__(self, gateway, verb, *argv):
        self.file = tempfile.NamedTemporaryFile("r", dir=gateway.folder)
        with open(self.file.name, "wb") as out:
            self.process = start([gateway.command, verb, "--gateway", "unix:" + gateway.socket, "--watch", "--format", "json",
                                  *argv], stdout=out)

    def rows(self):
        assert self.process.poll() is None, "the watch has ended"
        with open(self.file.name) as f:
            return [json.loads(line) for line in f if line.endswith("\n")]

    def wait(self, what, **columns):
        """A row with these values, and its place among all."""
        def look():
            for i, row in enumerate(self.rows()):
                if all(row.get(k) == v for k, v in columns.items()):
                    return i + 1
            return None
        return wait_for(look, f"{what}: {columns}") - 1

    def stop(self):
        stop(self.process, signal.SIGINT)


class Directory(Gateway):
    def __init__(self, work, expect="", keep="1d", lease="5s"):
        super().__init__(GATEWAY, work, "gateway", "tcp://127.0.0.1:0", config=f"""domain = "example.org"
directory {{ keep = {keep} }}
lease {{ time = {lease} }}
{expect}
""")

    def sensors(self, *argv):
        return {(r["host"], r["sensor"]): r for r in self.rows("sensors", *argv)}

    def sensor(self, host, name):
        return self.sensors().get((host, name), {})

    def status(self, host, name):
        return self.sensor(host, name).get("status")


def end(*parts):
    """Stops them; a sanitizer that has found something makes that fail."""
    for p in parts:
        code = p.stop()
        assert code == 0, (code, p.log()[-4000:])


def own_events(g, name, **fields):
    out = subprocess.run([GATEWAY, "--dump", g.journal, "--print", "ndjson"], stdout=subprocess.PIPE, text=True, check=True).stdout
    events = [json.loads(line) for line in out.splitlines()]
    return [e for e in events if e["name"] == name and e["prog"] == "gridline-gateway" and
            all(e.get(k) == v for k, v in fields.items())]


def listed(work):
    """Modes, periods, rates, consumers, what failed and what nobody announced."""
    g = Directory(work).start()
    agent = Agent(AGENT, work, "node1", g.addresses[:1], SENSORS).start()
    wait_for(lambda: g.status("node1", "cpu") == "running" and g.sensor("node1", "cpu").get("rate", 0) > 0, "cpu is heard")
    wait_for(lambda: g.status("node1", "exec/broken") == "failed", "a sensor that can't run")
    rows = g.sensors()
    expected = {"cpu": ("always", 1000, "running"), "load": ("always", 500, "running"),
                "memory": ("on-request", 1000, "idle"), "tcp": ("port", 1000, "idle"),
                "exec/there": ("always", 1000, "running"), "exec/broken": ("always", 1000, "failed")}
    for name, (mode, every, status) in expected.items():
        r = rows["node1", name]
        assert (r["mode"], r["every_ms"], r["status"]) == (mode, every, status), r
        assert r["domain"] == "example.org" and r["host_state"] == "live" and not r["expected"], r
        assert r["started"] <= r["time"], r
    assert "nowhere" in rows["node1", "exec/broken"]["why"], rows["node1", "exec/broken"]
    assert "age_ms" not in rows["node1", "memory"] and rows["node1", "memory"]["rate"] == 0, rows["node1", "memory"]
    assert rows["node1", "gridline-agent"]["mode"] == "program", rows["node1", "gridline-agent"]
    assert len(rows["node1", "cpu"]["schemas"].split(",")) == len(rows["node1", "cpu"]["events"].split(","))
    wait_for(lambda: g.sensor("node1", "load")["rate"] > 1.2, "two a second, as far as a minute tells")
    assert g.sensor("node1", "cpu")["age_ms"] < 60000

    only = g.sensors("--where", "mode = 'on-request' AND every_ms = 1000 AND age_ms IS NULL")
    assert set(only) == {("node1", "memory")}, only
    only = g.sensors("exec/*", "--host", "node*")
    assert set(only) == {("node1", "exec/there"), ("node1", "exec/broken")}, only
    assert set(g.sensors("--event", "mem*")) == {("node1", "memory")}
    assert g.gridline("sensors", "nothing", check=False).returncode == 3
    assert g.gridline("sensors", "--where", "status ==", check=False).returncode == 2

    hosts = g.hosts()
    h = hosts["node1"]
    assert h["sensors"] == 6 and h["domain"] == "example.org" and h["address"].startswith("127.0.0.1:"), h
    wait_for(lambda: "clock_bound_ns" in g.hosts()["node1"], "the clock's bound")
    reader = start([g.command, "tail", "--gateway", "unix:" + g.socket, "--event", "memory"], stdout=subprocess.DEVNULL)
    wait_for(lambda: g.sensor("node1", "memory").get("consumers") == 1, "a consumer is counted")
    assert g.sensor("node1", "cpu")["consumers"] == 0
    wait_for(lambda: g.status("node1", "memory") == "running", "it runs for it")
    stop(reader)
    wait_for(lambda: g.status("node1", "memory") == "idle", "and stops")
    end(agent)
    wait_for(lambda: g.status("node1", "cpu") == "stopped", "the host said goodbye")
    end(g)


def watched(work):
    """Rows, then changes as they come: a sensor that is stopped, an agent that is killed, one that comes back."""
    g = Directory(work, lease="2s").start()
    sensors = "defaults = false\ncpu { every = 1s }\nload { every = 1s }\n"
    agent = Agent(AGENT, work, "node1", g.addresses[:1], sensors).start()
    wait_for(lambda: g.status("node1", "load") == "running", "load runs")
    watch, hosts = Watch(g, "sensors", "--host", "node1"), Watch(g, "hosts")
    first = watch.wait("the rows that there are", sensor="load", status="running")
    hosts.wait("the host", host="node1", state="live")
    g.gridline("sensor", "stop", "load", "node1")
    stopped = watch.wait("it is stopped", sensor="load", status="stopped", mode="off")
    assert stopped > first
    wait_for(lambda: own_events(g, "directory.sensor", target="node1", sensor="load", status="stopped", before="running"),
             "an event tells it")
    g.gridline("sensor", "start", "load", "node1", "every=500ms")
    again = watch.wait("it runs again, faster", sensor="load", status="running", every_ms=500)
    assert again > stopped
    agent.stop(signal.SIGKILL)
    late = watch.wait("nobody knows", sensor="load", status="unknown", host_state="late")
    missing = watch.wait("the lease is over", sensor="load", status="missing", host_state="expired")
    assert missing > late > again
    assert hosts.wait("the host is late", host="node1", state="late") < hosts.wait("and gone", host="node1", state="expired")
    assert own_events(g, "directory.sensor", target="node1", sensor="cpu", status="missing")
    assert not own_events(g, "directory.sensor", target="node1", status="unknown"), "worker.state says that"
    n = len(watch.rows())
    agent.start()
    wait_for(lambda: any(r["sensor"] == "cpu" and r["status"] == "running" for r in watch.rows()[n:]), "it is back")
    for w in (watch, hosts):
        w.stop()
    end(agent, g)


def expected(work):
    """What has to be there and is not is in every listing, before, between and after."""
    g = Directory(work, expect='expect = {"node1 cpu ghost", "node9", "node* heartbeat"}', keep="2s", lease="1s").start()
    assert g.status("node1", "cpu") == "missing" and g.status("node9", "*") == "missing", g.sensors()
    assert g.hosts()["node9"]["state"] == "missing" and g.hosts()["node1"]["state"] == "missing"
    assert [r["host"] for r in g.rows("hosts", "--where", "state = 'missing'", "node9")] == ["node9"]
    watch = Watch(g, "sensors", "--where", "expected")
    watch.wait("it is missing", host="node1", sensor="cpu", status="missing")
    agent = Agent(AGENT, work, "node1", g.addresses[:1], SENSORS).start()
    watch.wait("it came", host="node1", sensor="cpu", status="running")
    wait_for(lambda: g.status("node1", "cpu") == "running", "it came")
    rows = g.sensors()
    assert rows["node1", "ghost"]["status"] == "missing" and rows["node1", "heartbeat"]["status"] == "missing", rows
    assert rows["node1", "cpu"]["expected"] and not rows["node1", "load"]["expected"], rows
    assert g.hosts()["node1"]["state"] == "live" and g.hosts()["node1"]["missing"] == 2
    assert [s for s in g.sensors("--where", "status = 'missing'") if s[0] == "node1"] == [("node1", "ghost"), ("node1", "heartbeat")]
    agent.stop(signal.SIGKILL)
    wait_for(lambda: g.status("node1", "cpu") == "missing", "its lease is over")
    wait_for(lambda: g.status("node1", "load") is None, "what nobody expects is forgotten")
    assert g.status("node1", "cpu") == "missing"
    watch.stop()
    end(g)


def schemas(work):
    """Versions, fields, conflicts; by --watch, too."""
    g = Directory(work).start()
    watch = Watch(g, "schemas")
    with socket.create_connection(("127.0.0.1", int(g.addresses[0].rsplit(":", 1)[1]))) as s:
        s.sendall(b"DATE=20260101000000 HOST=h1 PROG=app LVL=Info NL.EVNT=app.note size=7 who=ann\n")
        watch.wait("the first version", event="app.note", fields=2)
    with socket.create_connection(("127.0.0.1", int(g.addresses[0].rsplit(":", 1)[1]))) as s:
        s.sendall(b"DATE=20260101000000 HOST=h2 PROG=app LVL=Info NL.EVNT=app.note size=large\n")
        watch.wait("two types", event="app.note", conflict="size")
    rows = g.rows("schemas", "app.*")
    assert rows and any(r.get("conflict") == "size" for r in rows), rows
    fields = g.rows("schemas", "app.note", "--fields", "--where", "conflict")
    assert {(f["field"], f["type"]) for f in fields} == {("size", "int"), ("size", "text")}, fields
    assert wait_for(lambda: own_events(g, "directory.schema", event="app.note", conflict=True), "an event tells it")
    agent = Agent(AGENT, work, "node1", g.addresses[:1], SENSORS).start()
    watch.wait("a sensor's", event="cpu")
    declared = {f["field"]: f for f in wait_for(lambda: g.gridline("schemas", "cpu", check=False).returncode == 0 and
                                                g.rows("schemas", "cpu", "--fields"), "its fields")}
    assert declared["cpu"]["role"] == "key" and declared["user"]["kind"] == "counter" and declared["user"]["unit"], declared
    [idle] = g.rows("schemas", "memory")
    assert "fields" not in idle and idle["makers"] == 1 and idle["events"] == 0, idle  # announced, and never read
    watch.stop()
    end(agent, g)


def restarted(work):
    """Soft state: after a restart of the gateway agents announce again, and nothing of that is news."""
    g = Directory(work, lease="2s").start()
    address = g.addresses[0]
    agent = Agent(AGENT, work, "node1", [address], "defaults = false\ncpu { every = 1s }\n").start()
    wait_for(lambda: g.status("node1", "cpu") == "running", "cpu runs")
    wait_for(lambda: own_events(g, "directory.sensor", target="node1", sensor="cpu"), "an event tells that it came")
    end(g)
    told = len(own_events(g, "directory.sensor", target="node1", sensor="cpu"))
    g.address = address
    g.start()
    wait_for(lambda: g.status("node1", "cpu") == "running", "it is announced again", 120)
    g.gridline("sensor", "stop", "cpu", "node1")
    wait_for(lambda: g.status("node1", "cpu") == "stopped", "it is stopped")
    wait_for(lambda: own_events(g, "directory.sensor", target="node1", sensor="cpu", status="stopped"), "that is news")
    assert len(own_events(g, "directory.sensor", target="node1", sensor="cpu")) == told + 1
    end(agent, g)


cases = {f.__name__: f for f in (listed, watched, expected, schemas, restarted)}
folder = tempfile.mkdtemp()
try:
    cases[sys.argv[1]](folder)
finally:
    stop_all()
    shutil.rmtree(folder, ignore_errors=True)
