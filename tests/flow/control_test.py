#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Control and the commands of people with real processes: a gateway, agents, and gridline hosts, worker, sensor, activate,
ledger, doctor.

    control_test.py CASE GRIDLINE AGENT GATEWAY EMITTER"""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from grid import running, start, stop, wait_for

GRIDLINE, AGENT, GATEWAY, EMITTER = sys.argv[2:6]
OK, FAILED, USAGE, NOT_FOUND, PARTLY, NOT_ALLOWED = range(6)


def free_addresses(scheme, n):
    sockets = [socket.socket() for _ in range(n)]
    try:
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        return [f"{scheme}://127.0.0.1:{s.getsockname()[1]}" for s in sockets]
    finally:
        for s in sockets:
            s.close()


class Site:
    """A gateway with an address for each agent: one agent of a host and gateway is enough, so they must not look alike."""

    def __init__(self, work, hosts, *flags, scheme="tcp"):
        self.work, self.hosts, self.flags, self.scheme = work, hosts, flags, scheme
        self.socket = work + "/g.sock"
        self.addresses = {}
        self.agents = {}

    def start(self):
        """With ports that are free; somebody may be faster, then with others."""
        for _ in range(5):
            is_first = not self.addresses
            if is_first:
                self.addresses = dict(zip(self.hosts, free_addresses(self.scheme, len(self.hosts))))
            if self.try_start():
                return self
            if is_first:
                self.addresses = {}
        raise AssertionError("the gateway does not start")

    def try_start(self):
        ready = self.work + "/ready"
        if os.path.exists(ready):
            os.unlink(ready)
        self.gateway = start([GATEWAY, "--listen", ",".join(self.addresses.values()), "--socket", self.socket, "--journal",
                              self.work + "/journal", "--ready-file", ready, "--lease", "5s", "--renew", "1s", "--quiet",
                              *self.flags])
        wait_for(lambda: os.path.exists(ready) and os.path.getsize(ready) or self.gateway.poll() is not None,
                 "the gateway's start")
        if self.gateway.poll() is not None:
            running.remove(self.gateway)
        return self.gateway.poll() is None

    def start_agent(self, host, *settings, sensors="cpu { every = 1s }\nload { every = 1s }\n"):
        conf = f"{self.work}/{host}.conf"
        with open(conf, "w", encoding="ascii") as f:
            f.write(f'hostname = "{host}"\ngateway = {{"{self.addresses[host]}"}}\nstate_dir = "{self.work}/{host}.state"\n'
                    f'run_dir = "{self.work}/{host}.run"\ndefaults = false\n' + sensors)
        words = [w for s in settings for w in ("-s", s)]
        with open(f"{self.work}/{host}.log", "ab") as log:
            self.agents[host] = start([AGENT, "-c", conf, *words], stderr=log, stdout=log)

    def run(self, *words, code=OK, gateway=None, env=None):
        done = subprocess.run([GRIDLINE, words[0], "--gateway", gateway or "unix:" + self.socket, *words[1:]], text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=120, env={**os.environ, **(env or {})})
        assert done.returncode == code, (words, code, done.returncode, done.stdout, done.stderr)
        return done

    def rows(self, *words, **more):
        return [json.loads(line) for line in self.run(*words, "-t", "json", **more).stdout.splitlines()]

    def states(self):
        done = subprocess.run([GRIDLINE, "hosts", "--gateway", "unix:" + self.socket, "-t", "json"], text=True,
                              stdout=subprocess.PIPE, timeout=120)
        return {r["host"]: r["state"] for r in map(json.loads, done.stdout.splitlines())}

    def wait_states(self, wanted):
        wait_for(lambda: self.states() == wanted, f"{wanted}, not {self.states()}")

    def sensor(self, host, sensor):
        return [r for r in self.rows("sensor", "list", sensor, host) if r.get("sensor") == sensor][0]


def answers(rows):
    return {r["host"]: r["answer"] for r in rows if "answer" in r}


def three(work):
    site = Site(work, ["node1", "node2", "gate"]).start()
    for host in site.addresses:
        site.start_agent(host)
    site.wait_states({"node1": "live", "node2": "live", "gate": "live"})
    return site


def groups(work):
    """One, a pattern, a static property, all: exactly those are asked, and each answers."""
    site = three(work)
    cpus = os.cpu_count()
    for words, hosts in ((["gate"], {"gate"}), (["node*"], {"node1", "node2"}), (["gate", "node2"], {"gate", "node2"}),
                         (["--all", "--yes"], {"node1", "node2", "gate"}),
                         (["--where", f"cpus >= {cpus} AND host <> 'gate'"], {"node1", "node2"})):
        assert answers(site.rows("worker", "suspend", *words)) == {h: "done" for h in hosts}, words
        assert answers(site.rows("worker", "resume", *words)) == {h: "done" for h in hosts}, words
    site.run("worker", "suspend", "--where", f"cpus > {cpus}", code=NOT_FOUND)
    site.run("worker", "suspend", "elsewhere", code=NOT_FOUND)
    assert "3 of 3" in site.run("worker", "resume", "--all", "-y").stderr
    hosts = site.rows("hosts")
    assert [r["cpus"] for r in hosts] == [cpus] * 3, hosts
    assert all(r["connected"] and r["registrations"] == 1 for r in hosts), hosts


def suspend_resume(work):
    """A suspended worker takes no samples and keeps its lease."""
    site = three(work)
    wait_for(lambda: site.sensor("node1", "cpu")["runs"] > 1, "samples")
    site.run("worker", "suspend", "node1")
    assert site.sensor("node1", "cpu")["state"] == "idle"
    runs = site.sensor("node1", "cpu")["runs"]
    other = site.sensor("node2", "cpu")["runs"]
    wait_for(lambda: site.sensor("node2", "cpu")["runs"] > other + 2, "samples of the others")
    assert site.sensor("node1", "cpu")["runs"] == runs
    assert site.states()["node1"] == "live"
    site.run("worker", "resume", "node1")
    wait_for(lambda: site.sensor("node1", "cpu")["runs"] > runs, "samples again")


def some_do_not_answer(work):
    """One hangs, one is killed: the others answer, the command says n of m and ends with 4."""
    site = three(work)
    site.agents["node1"].send_signal(signal.SIGSTOP)
    stop(site.agents["node2"], signal.SIGKILL)
    wait_for(lambda: site.states()["node2"] == "late", "the end of a connection")
    done = site.run("worker", "suspend", "--all", "-y", "--timeout", "1s", "-t", "json", code=PARTLY)
    assert answers(map(json.loads, done.stdout.splitlines())) == {
        "node1": "no_answer", "node2": "not_connected", "gate": "done"}, done.stdout
    assert "1 of 3" in done.stderr
    site.run("worker", "suspend", "node*", "--timeout", "1s", code=FAILED)
    wait_for(lambda: site.states() == {"node1": "expired", "node2": "expired", "gate": "live"}, "two that expire")
    site.agents["node1"].send_signal(signal.SIGCONT)
    wait_for(lambda: site.states()["node1"] == "live", "one that comes back")
    site.run("worker", "resume", "node1")


def settings(work):
    """Settings and lease hold for agents that restart, and for a gateway that does; what an agent refuses is not kept."""
    site = three(work)
    done = site.run("worker", "set", "node1", "cpu.every=250ms", "--lease", "1ms")
    assert "lease: asked for 1 ms, given 1000 ms: the least is that" in done.stderr + done.stdout, done
    site.run("worker", "set", "node1", "cpu.every=250ms", "--lease", "9s")
    assert site.sensor("node1", "cpu")["every"] == 0.25
    wait_for(lambda: {r["host"]: r["lease_ms"] for r in site.rows("hosts")} == {"node1": 9000, "node2": 5000, "gate": 5000},
             "a lease of its own")
    for wrong in ("cpu.every=never", "no.such=1", "state_dir=/tmp"):
        done = subprocess.run([GRIDLINE, "worker", "set", "--gateway", "unix:" + site.socket, "node1", wrong],
                              capture_output=True, timeout=120)
        assert done.returncode in (FAILED, USAGE, NOT_ALLOWED), (wrong, done)
    stop(site.agents["node1"])
    wait_for(lambda: site.states()["node1"] == "deregistered", "its goodbye")
    done = site.run("worker", "set", "node1", "load.every=500ms", code=FAILED)  # kept, but nobody has agreed
    assert "next lease" in done.stdout, done.stdout
    stop(site.gateway)
    site.start()
    site.start_agent("node1")
    wait_for(lambda: site.states()["node1"] == "live", "its return")
    wait_for(lambda: site.sensor("node1", "cpu")["every"] == 0.25, "what it was set to")
    wait_for(lambda: site.sensor("node1", "load")["every"] == 0.5, "what it was to be set to")
    wait_for(lambda: {r["host"]: r["lease_ms"] for r in site.rows("hosts")}["node1"] == 9000, "its lease")
    site.run("worker", "set", "node1", "cpu.every=")
    wait_for(lambda: site.sensor("node1", "cpu")["every"] == 1, "its own configuration again")


def sensors(work):
    """Predicted cost first, refusal above the ceiling, observed cost behind; a dry run changes nothing."""
    site = three(work)
    wait_for(lambda: site.sensor("gate", "load")["runs"] > 1, "samples")
    rows = site.rows("sensor", "set", "load", "gate", "every=100ms", "--dry-run")
    assert rows[-1]["answer"] == "done" and any("cost_predicted" in r for r in rows), rows
    assert site.sensor("gate", "load")["every"] == 1
    rows = site.rows("sensor", "set", "load", "gate", "every=100ms", "--ceiling", "0", code=FAILED)
    assert answers(rows) == {"gate": "failed"}, rows
    assert site.sensor("gate", "load")["every"] == 1
    rows = site.rows("sensor", "set", "load", "gate", "every=100ms", "--ceiling", "500000")
    assert "cost_predicted" in rows[0] and "answer" not in rows[0], rows
    assert rows[-1]["answer"] == "done" and rows[-1]["cost_observed"] >= 0, rows
    assert site.sensor("gate", "load")["every"] == 0.1
    site.run("sensor", "stop", "load", "gate")
    runs = site.sensor("gate", "load")["runs"]
    other = site.sensor("gate", "cpu")["runs"]
    wait_for(lambda: site.sensor("gate", "cpu")["runs"] > other + 2, "samples of another sensor")
    assert site.sensor("gate", "load")["runs"] == runs
    site.run("sensor", "start", "load", "gate")
    wait_for(lambda: site.sensor("gate", "load")["state"] == "running", "the sensor's start")
    site.run("sensor", "start", "no-such", "gate", code=NOT_FOUND)


def activate(work):
    """A program with libgridline is told, by the gateway it is connected to."""
    host = socket.gethostname()
    site = Site(work, [host]).start()
    site.start_agent(host)
    site.wait_states({host: "live"})
    emitter = start([EMITTER, "unix:" + site.socket, "100000000", "--rate", "200", "--flush-ms", "50"],
                    stdout=subprocess.PIPE, text=True)

    def taken():
        return json.loads(emitter.stdout.readline())["taken"]

    def is_off():
        return len({taken() for _ in range(10)}) == 1

    wait_for(lambda: taken() > 10, "events")
    rows = site.rows("activate", "emitter.*", "off", "--dry-run")
    assert rows[-1]["answer"] == "done" and "programs" not in rows[-1], rows
    before = taken()
    wait_for(lambda: taken() > before + 10, "events after a dry run")
    rows = site.rows("activate", "emitter.*", "off")
    assert rows[-1]["programs"] == 1, rows
    wait_for(is_off, "silence")
    site.run("activate", "emitter.*", "default")
    now = taken()
    wait_for(lambda: taken() > now + 10, "events again")


def kill(work):
    """kill ends the agent with its goodbye; without a yes nothing happens."""
    site = three(work)
    site.run("worker", "kill", "node1", code=FAILED)
    assert site.rows("worker", "kill", "node1", "--dry-run")[-1]["answer"] == "would_ask"
    assert site.states()["node1"] == "live" and site.agents["node1"].poll() is None
    assert answers(site.rows("worker", "kill", "node1", "--yes")) == {"node1": "done"}
    assert site.agents["node1"].wait(60) == 0
    running.remove(site.agents["node1"])
    site.wait_states({"node1": "deregistered", "node2": "live", "gate": "live"})


def rights(work):
    """Whoever comes by TCP on loopback may look and may not act; the socket of another user neither."""
    site = three(work)
    address = site.addresses["node1"]
    assert "node1" in site.run("hosts", gateway=address).stdout
    site.run("ledger", gateway=address)
    done = site.run("worker", "suspend", "node1", code=NOT_ALLOWED, gateway=address)
    assert "may not give orders" in done.stderr, done.stderr
    site.run("activate", "*", "debug", code=NOT_ALLOWED, gateway=address)
    wait_for(lambda: [e for e in events(site) if e["name"] == "control" and e["status"] == NOT_ALLOWED], "the audit")


def events(site):
    out = subprocess.run([GATEWAY, "--dump", site.work + "/journal", "--print", "ndjson"], stdout=subprocess.PIPE, text=True,
                         check=True).stdout
    return [json.loads(line) for line in out.splitlines()]


def ledger(work):
    """What was taken adds up; an agent that said goodbye is closed, one that was killed is open with a lower bound."""
    site = three(work)
    wait_for(lambda: sum(r["taken"] for r in site.rows("ledger", "node*") if r["class"] == "samples") > 20, "samples")
    stop(site.agents["node1"])
    stop(site.agents["node2"], signal.SIGKILL)
    wait_for(lambda: site.states()["node1"] == "deregistered", "a goodbye")
    wait_for(lambda: {r["state"] for r in site.rows("ledger", "node1")} == {"closed"}, "closed accounts")
    for r in site.rows("ledger"):
        assert r["taken"] == r["passed"] + r["duplicate"] + r["refused"] + r["no_schema"] + r["queued"], r
    killed = site.rows("ledger", "node2")
    assert killed and all(r["state"] == "open" and r["tail"] == f"unknown, at least {r['at_least']}" for r in killed), killed
    assert all(r["at_least"] >= r["passed"] for r in killed), killed
    said = site.run("ledger").stdout.splitlines()[-4:]
    assert said[0].startswith("at the senders: ") and said[0].endswith("adds up: yes"), said
    assert said[1].startswith("at the gateway: ") and said[1].endswith("adds up: yes"), said
    assert "lost between sender and gateway" in said[2] and "totals may grow (" in said[3], said


def doctor(work):
    """Finds what is wrong and nothing else."""
    site = three(work)
    conf = work + "/agent.conf"
    with open(conf, "w", encoding="ascii") as f:
        f.write(f'state_dir = "{work}/state"\n')

    def findings(code):
        return {(r["check"], r["result"]) for r in site.rows("doctor", "-c", conf, code=code)}

    code = OK if is_synchronised() else PARTLY  # that this host's clock is nobody's business is a warning
    well = findings(code)
    assert {c for c, r in well if r == "warning"} <= {"kernel clock"}, well
    for check in ("configuration", "gateway", "clock", "workers", "loss", "journal", "sensors", "state folder"):
        assert (check, "ok") in well, well
    stop(site.agents["node1"], signal.SIGKILL)
    wait_for(lambda: site.states()["node1"] in ("late", "expired"), "a late worker")
    assert ("workers", "warning") in findings(PARTLY)
    stop(site.gateway)
    assert ("gateway", "problem") in findings(FAILED)


def is_synchronised():
    done = subprocess.run([GRIDLINE, "doctor", "-t", "json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return any(r["check"] == "kernel clock" and r["result"] == "ok" for r in map(json.loads, done.stdout.splitlines()))


def tls(work):
    """From elsewhere: an operator by certificate may act, somebody without one may not even look."""
    home = {"HOME": work, "XDG_CONFIG_HOME": work + "/.config"}
    os.environ.update(home)
    subprocess.run([GRIDLINE, "init", "--dir", work + "/site", "--host", "127.0.0.1", "--operator", "ann"], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    site = Site(work, ["node1"], "--identity", work + "/site", scheme="tls").start()
    address = site.addresses["node1"]
    token = subprocess.run([GRIDLINE, "token", "--dir", work + "/site", "--host", "node1", "--gateway", address], check=True,
                           stdout=subprocess.PIPE, text=True).stdout.strip()
    subprocess.run([GRIDLINE, "join", "--dir", work + "/node1.identity", token], check=True, stderr=subprocess.DEVNULL)
    site.start_agent("node1", f"identity={work}/node1.identity")
    site.wait_states({"node1": "live"})
    operator = work + "/.config/gridline/identity"
    assert "node1" in site.run("hosts", gateway=address).stdout  # by default
    assert "1 of 1" in site.run("worker", "suspend", "node1", "--identity", operator, gateway=address).stderr
    site.run("hosts", "--identity", work + "/node1.identity", code=NOT_ALLOWED, gateway=address)
    site.run("worker", "kill", "node1", "-y", "--identity", work + "/node1.identity", code=NOT_ALLOWED, gateway=address)
    done = site.run("hosts", "--identity", work + "/nowhere", code=FAILED, gateway=address)
    assert done.stderr, done
    done = site.run("hosts", code=FAILED, gateway=address.replace("tls://", "tcp://"))
    assert done.stderr, done


CASES = {f.__name__: f for f in (groups, suspend_resume, some_do_not_answer, settings, sensors, activate, kill, rights, ledger,
                                 doctor, tls)}


def main():
    work = tempfile.mkdtemp(prefix="gridline-control.")
    try:
        CASES[sys.argv[1]](work)
    except BaseException:
        for name in sorted(os.listdir(work)):
            if name.endswith(".log"):
                with open(os.path.join(work, name), encoding="utf-8", errors="replace") as f:
                    sys.stderr.write(f"--- {name}\n{f.read()[-4000:]}")
        raise
    finally:
        for p in running:
            p.kill()
            p.wait()
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
