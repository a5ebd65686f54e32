#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A site with TLS from nothing: init, token, join, agents with sealed datagrams; and everybody who is not welcome: they are
refused and counted, the gateway's memory stays flat, and the others notice nothing.

    security_test.py CASE AGENT GATEWAY WORKERS"""
import json
import os
import resource
import signal
import socket
import ssl
import subprocess
import sys
import time

import grid
from grid import Agent, Gateway, Net, wait_for

AGENT, GATEWAY, WORKERS = sys.argv[2:5]
GRIDLINE = os.path.join(os.path.dirname(GATEWAY), "gridline")
HALF_OPEN = 10000


def gridline(*argv, check=True, **kw):
    out = subprocess.run([GRIDLINE, *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **kw)
    assert not check or out.returncode == 0, (argv, out.returncode, out.stderr)
    return out


class Site:
    """A gateway with TLS on loopback, and what hosts need to join it."""

    def __init__(self, work, settings=()):
        self.work, self.dir = work, work + "/site"
        gridline("init", "--dir", self.dir, "--name", "gw", "--host", "localhost", "--host", "127.0.0.1", "--operator", "ann",
                 env={**os.environ, "HOME": work, "XDG_CONFIG_HOME": work + "/config"})
        self.gateway = Gateway(GATEWAY, work, "gateway", "tls://127.0.0.1:0",
                               settings=[f"identity={self.dir}", "lease.time=3s", "lease.renew=1s", *settings]).start()
        self.address = self.gateway.addresses[0]
        self.gateway.address = self.address
        self.port = int(self.address.rsplit(":", 1)[1])

    def token(self, *argv):
        return gridline("token", "--dir", self.dir, "--gateway", self.address, *argv).stdout.strip()

    def join(self, host, token=None, check=True, name=None):
        folder = f"{self.work}/id-{host}"
        out = gridline("join", token or self.token("--host", host), "--dir", folder, *(["--name", name] if name else []),
                       check=check)
        return folder if check else out

    def agent(self, host, config="", lease="3s", **kw):
        folder = self.join(host)
        return Agent(AGENT, self.work, host, [self.address],
                     f'identity = "{folder}"\nlease = {lease}\nstate_dir = "{self.work}/{host}/state"\n' + config, **kw).start()


def status_of(gateway):
    """The gateway's own numbers, from its ledger file: SIGUSR1 writes it."""
    path = gateway.folder + "/ledger.json"
    before = os.stat(path).st_mtime_ns if os.path.exists(path) else 0
    gateway.process.send_signal(signal.SIGUSR1)
    wait_for(lambda: os.path.exists(path) and os.stat(path).st_mtime_ns != before, "the ledger file")
    with open(path) as f:
        return json.load(f)


def private_kib(process):
    with open(f"/proc/{process.pid}/smaps_rollup") as f:
        return sum(int(line.split()[1]) for line in f if line.startswith("Private_"))


def is_well(site, host, what):
    """The worker is live and its samples go on arriving."""
    row = site.gateway.hosts()[host]
    assert row["state"] == "live", (what, row)
    wait_for(lambda: site.gateway.hosts()[host]["datagrams_received"] > row["datagrams_received"], f"{what}: samples of {host}")


def case_join(work):
    """init, token, join, and an agent that speaks TLS and seals; a token works once, and for its host only."""
    site = Site(work)
    token = site.token("--host", "node1")
    site.join("node1", token)
    again = site.join("node1b", token, check=False)
    assert again.returncode in (1, 5) and again.stderr, again
    other = site.join("node2", site.token("--host", "node3"), name="node2")
    subject = grid.run("openssl", "x509", "-in", other + "/cert.pem", "-noout", "-ext", "subjectAltName").stdout
    assert "gridline:agent/node3" in subject and "node2" not in subject, subject  # the token says who it is for
    expired = site.token("--host", "node4", "--ttl", "1ms")
    assert site.join("node4", expired, check=False).returncode != 0
    agent = Agent(AGENT, work, "node1", [site.address], f'identity = "{work}/id-node1"\nlease = 3s\nstate_dir = "{work}/node1/state"\n'
                  "vector { every = 100ms  refresh = 100ms }").start()
    wait_for(lambda: site.gateway.state("node1") == "live", "registration over TLS")
    wait_for(lambda: site.gateway.hosts()["node1"]["samples"] == "datagrams", "sealed datagrams")
    is_well(site, "node1", "sealed")
    # Orders: over the owner's socket, and by an operator's certificate from anywhere; not without.
    identity = next(os.path.join(d, "") for d, _, files in os.walk(work) if "key.pem" in files and "operator" in d or
                    "key.pem" in files and d.endswith("gridline/identity"))
    out = gridline("worker", "suspend", "node1", "--gateway", site.address, "--identity", identity)
    assert "1 of 1" in out.stdout + out.stderr
    gridline("worker", "resume", "node1", "--gateway", site.address, "--identity", identity)
    denied = gridline("worker", "suspend", "node1", "--gateway", site.address, "--identity", f"{work}/id-node1", check=False)
    assert denied.returncode == 5, (denied.returncode, denied.stderr)
    assert agent.stop() == 0, agent.log()
    assert site.gateway.stop() == 0


def case_wrong_certificates(work):
    """Another site's certificate, an expired one, none, and one that claims another's host."""
    site = Site(work)
    good = site.agent("good", "vector { every = 100ms  refresh = 100ms }")
    wait_for(lambda: site.gateway.state("good") == "live", "the good one")
    os.makedirs(work + "/else")
    elsewhere = Site(work + "/else")
    foreign = elsewhere.join("stranger")
    a = Agent(AGENT, work, "stranger", [site.address.replace("127.0.0.1", "localhost")], f'identity = "{foreign}"\nlease = 3s').start()
    wait_for(lambda: "certificate" in a.log() or "identity" in a.log() or "CA" in a.log(), "the stranger's complaint")
    a.stop()
    liar = Agent(AGENT, work, "liar", [site.address.replace("127.0.0.1", "localhost")], f'identity = "{work}/id-good"\nlease = 3s').start()
    wait_for(lambda: status_of(site.gateway)["status"]["connections.not_allowed"] > 0, "the liar's refusal")
    liar.stop()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", site.port)) as s, context.wrap_socket(s) as t:
        t.sendall(b"GRDL\x01\x00\x00\x00" + b"\x00" * 64)  # no certificate, and no frame
        assert t.recv(4096) is not None
    assert set(site.gateway.hosts()) == {"good"}
    is_well(site, "good", "after wrong certificates")
    good.stop()
    site.gateway.stop()


def case_hostile(work):
    """A port scan, garbage on both ports, half-open connections by the thousand, forged and replayed datagrams."""
    site = Site(work, ["lease.time=15s", "lease.renew=1s"])  # a lease that is lost is no matter of a busy machine here
    good = site.agent("good", "vector { every = 50ms  refresh = 50ms }", lease="15s")
    wait_for(lambda: site.gateway.state("good") == "live", "the good one")
    wait_for(lambda: site.gateway.hosts()["good"]["samples"] == "datagrams", "its datagrams")
    pid = site.gateway.process
    before = private_kib(pid)
    address = ("127.0.0.1", site.port)
    for _ in range(300):  # a scan
        socket.create_connection(address).close()
    for i in range(200):  # garbage
        with socket.create_connection(address) as s:
            try:
                s.sendall(os.urandom(1 + i * 37))
            except OSError:
                pass
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as u:
        for i in range(2000):
            u.sendto(os.urandom(i % 1400), address)
        for number in range(2000):  # a known worker, a good head, a seal that is none
            head = bytes([0x12, 1]) + (1).to_bytes(4, "little") + (number + 1).to_bytes(6, "little")
            u.sendto(head + os.urandom(80), address)
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    silent, n = [], 0
    for n in range(HALF_OPEN):
        s = socket.socket()
        s.settimeout(20)
        try:
            s.connect(address)
        except OSError:
            s.close()
            break
        silent.append(s)
    assert len(silent) == HALF_OPEN, n
    is_well(site, "good", "with half-open connections")
    during = private_kib(pid)
    for s in silent:
        s.close()
    is_well(site, "good", "after it all")
    state = status_of(site.gateway)
    print(f"private memory: {before} KiB before, {during} KiB with {HALF_OPEN} half-open connections, {private_kib(pid)} KiB after")
    numbers = state["status"]
    print({k: v for k, v in numbers.items() if k.startswith(("connections", "datagrams"))})
    assert during - before < (64 << 10) * grid.memory_scale(GATEWAY), (before, during)
    assert numbers["connections.accepted"] >= HALF_OPEN + 500
    assert numbers["connections.failed_handshakes"] >= 200 and numbers["connections.silent"] >= HALF_OPEN - 8192, numbers
    fates = ("passed", "malformed", "unknown", "level", "forged", "replayed")
    assert numbers["datagrams.received"] == sum(numbers["datagrams." + f] for f in fates), numbers
    refused = numbers["datagrams.received"] - numbers["datagrams.passed"]
    assert refused + numbers["datagrams.overflow"] >= 4000 and numbers["datagrams.forged"] > 0, numbers
    lost = site.gateway.hosts()["good"]["datagrams_lost"]
    good.stop()
    row = site.gateway.hosts()["good"]
    assert row["datagrams_lost"] == 0, (lost, row)  # nothing of the good one was lost, forged numbers did no harm
    assert site.gateway.stop() == 0


grid.main(globals(), sys.argv)
