#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Workers on hosts of their own (network namespaces): what a gateway knows of them when packets are lost, links are cut and
gateways die; and that the ledger is exact in each.

    grid_test.py CASE AGENT GATEWAY WORKERS"""
import json
import os
import re
import signal
import sys
import time

import grid
from grid import Agent, Gateway, Net, wait_for

AGENT, GATEWAY, WORKERS = sys.argv[2:5]
INSECURE = ["insecure=true"]
QUICK = "insecure = true\ninsecure_control = true\nlease = 3s\n"


def listen(net, name):
    """The middle's address, where that host reaches it."""
    return f"tcp://{net.address(name)}:14830"


def gateway_in(net, work, name="gateway", where=None, at=None, settings=()):
    where = where or net.middle
    address = at or "tcp://0.0.0.0:14830"
    return Gateway(GATEWAY, work, name, address, net.inside(where),
                   [*INSECURE, "lease.time=3s", "lease.renew=1s", *settings]).start()


def agent_in(net, work, host, gateways, config="", start=True):
    a = Agent(AGENT, work, host, gateways, QUICK + config, net.inside(host))
    return a.start() if start else a


def case_dial_out(work):
    """A worker that nobody can reach: it registers, takes orders, and leaves, all over the connection that it opened."""
    net = Net("middle", "w1")
    gateway = gateway_in(net, work)
    net.nft("w1", """table inet test {
        counter knocked { }
        chain in { type filter hook input priority 0; policy drop;
            iif lo accept
            ct state established,related accept
            counter name knocked
        }
    }""")
    agent = agent_in(net, work, "w1", [listen(net, "w1")], f'state_dir = "{work}/w1/state"')
    wait_for(lambda: gateway.state("w1") == "live", "registration")
    row = gateway.hosts()["w1"]
    assert row["cpus"] >= 1 and row["mode"] == "resident", row
    out = gateway.gridline("worker", "suspend", "w1")
    assert "1 of 1" in out.stdout + out.stderr, (out.stdout, out.stderr)
    gateway.gridline("worker", "resume", "w1")
    assert gateway.gridline("worker", "suspend", "nobody", check=False).returncode == 3
    gateway.gridline("worker", "suspend", "--yes", "--where", "cpus >= 1")
    assert gateway.gridline("worker", "suspend", "--yes", "--where", "cpus > 100000", check=False).returncode == 3
    gateway.gridline("worker", "kill", "w1", "--yes")
    assert agent.process.wait(grid.PATIENCE) == 0, agent.log()
    wait_for(lambda: gateway.state("w1") == "deregistered", "deregistration")
    assert net.counter("w1", "knocked") == 0, "the gateway dialled the worker"
    assert gateway.stop() == 0
    states = [e["state"] for e in gateway.events("worker.state")]
    assert states == ["live", "deregistered"], states


def lossy(work, permille, n):
    """Datagrams that never arrive, counted by the kernel where they vanish and by the gateway: the same number."""
    net = Net("middle", "w1")
    gateway = gateway_in(net, work)
    net.nft("middle", f"""table inet test {{
        counter lost {{ }}
        counter came {{ }}
        chain in {{ type filter hook input priority 0;
            udp dport 14830 numgen random mod 1000 < {permille} counter name lost drop
            udp dport 14830 counter name came
        }}
    }}""")
    emulator = grid.start([*net.inside("w1"), WORKERS, "--gateway", listen(net, "w1"), "--workers", "10", "--datagrams", "4000",
                           "--count", str(n), "--settle", "3s"], stdout=open(work + "/emulator.json", "w"))
    emulator.wait(grid.PATIENCE)
    rows = gateway.hosts().values()
    sent = sum(r["datagrams_sent"] for r in rows)
    received = sum(r["datagrams_received"] for r in rows)
    lost = sum(r["datagrams_lost"] for r in rows)
    dropped, came = net.counter("middle", "lost"), net.counter("middle", "came")
    print(f"sent {sent}, received {received}, reported lost {lost}; the kernel dropped {dropped} of {dropped + came}")
    assert sent >= n and received == came and lost == dropped and sent == received + lost, (sent, received, lost, dropped, came)
    assert permille == 0 or dropped > 0
    assert gateway.stop() == 0
    samples = [a for a in gateway.accounts() if a["class"] == "samples"]
    rows_lost = sum(a["counts"]["passed"] - a["passed"] for a in samples)
    assert rows_lost == lost, f"{rows_lost} rows are missing, {lost} datagrams"  # a row each


def case_loss_0(work):
    lossy(work, 0, 4000)


def case_loss_1(work):
    lossy(work, 1, 20000)


def case_loss_50(work):
    lossy(work, 50, 10000)


def case_loss_500(work):
    lossy(work, 500, 10000)


def case_resident(work):
    """The link is cut: the worker is late, then expired; its events wait on its disk and come when the link is back, each
    once. The ledger is exact."""
    net = Net("middle", "w1")
    gateway = gateway_in(net, work)
    log = work + "/app.log"
    with open(work + "/filter.conf", "w") as f:
        f.write("types = {\"n=uint\"}\nevent app.line {\n    match = '^line (?<n>\\d+)$'\n}\n")
    agent = agent_in(net, work, "w1", [listen(net, "w1")], f'state_dir = "{work}/w1/state"\n'
                     f'logfile app {{ path = "{log}"  filter = "{work}/filter.conf"  from = start  every = 100ms }}')

    def write_lines(numbers):
        with open(log, "a") as f:
            f.writelines(f"line {n}\n" for n in numbers)

    write_lines(range(1, 11))
    seen = lambda: sorted(e["n"] for e in gateway.events("app.line"))
    wait_for(lambda: gateway.state("w1") == "live", "registration")
    wait_for(lambda: len(seen()) == 10, "the first lines")
    net.link("w1", "down")
    wait_for(lambda: gateway.state("w1") == "late", "late")
    wait_for(lambda: gateway.state("w1") == "expired", "expired")
    tail = grid.start([gateway.command, "tail", "--socket", agent.folder + "/run/agent.sock", "-e", "app.line", "-n", "1",
                       "--timeout", f"{grid.PATIENCE}s"], stdout=open(work + "/tail", "w"))
    lines = 10

    def agent_reads():
        nonlocal lines
        lines += 1
        write_lines([lines])
        return tail.poll() is not None

    wait_for(agent_reads, "the agent to read the log")
    assert tail.returncode == 0
    assert len(seen()) == 10
    net.link("w1", "up")
    wait_for(lambda: gateway.state("w1") == "live", "the worker's return")
    wait_for(lambda: len(seen()) >= lines, "the lines of the outage")
    assert agent.stop() == 0, agent.log()
    assert gateway.stop() == 0
    assert seen() == list(range(1, lines + 1)), seen()
    states = [e["state"] for e in gateway.events("worker.state")]
    # When the link is back, what the old connection had on the way may come before the new one registers.
    assert states[:4] == ["live", "late", "expired", "live"] and states[-1] == "deregistered", states
    assert set(states[4:-1]) <= {"late", "live"}, states
    for a in gateway.accounts():
        # Of samples of the outage some may still be in the agent's ring: the next start goes on with them.
        assert a["state"] == "closed" or a["counts"]["queued"], a
        assert a["class"] == "samples" or a["counts"]["passed"] == a["passed"], a


def nothing_left(agent):
    """Processes, files, sockets, shared memory of an agent that has gone."""
    left = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as f, open(f"/proc/{pid}/cmdline", "rb") as c:
                if agent.folder.encode() in f.read() + c.read():
                    left.append("process " + pid)
        except OSError:
            continue
    for folder, _, files in os.walk(agent.folder):
        left += [os.path.join(folder, f) for f in files if f not in ("agent.conf", "log")]
    with open("/proc/net/unix") as f:
        left += [line for line in f if agent.folder in line]
    return left


def case_guest(work):
    """A guest whose gateway is gone ends itself within its lease, and nothing of it is left."""
    net = Net("middle", "w1", "w2")
    gateway = gateway_in(net, work)
    cut, killed = (agent_in(net, work, w, [listen(net, w)], "guest = true") for w in ("w1", "w2"))
    wait_for(lambda: gateway.state("w1") == gateway.state("w2") == "live", "registration")
    assert gateway.hosts()["w1"]["mode"] == "guest"
    net.link("w1", "down")
    cut.process.wait(grid.PATIENCE)
    assert nothing_left(cut) == [], nothing_left(cut)
    wait_for(lambda: gateway.state("w1") == "expired", "expiry")
    gateway.gridline("worker", "kill", "w2", "--yes")
    killed.process.wait(grid.PATIENCE)
    assert nothing_left(killed) == [], nothing_left(killed)
    wait_for(lambda: gateway.state("w2") == "deregistered", "deregistration")
    # Nobody answers from the start: it does not stay.
    gateway.stop()
    late = agent_in(net, work, "w3", [listen(net, "w2")], "guest = true", start=False)
    late.inside = net.inside("w2")
    late.start().process.wait(grid.PATIENCE)
    assert nothing_left(late) == [], nothing_left(late)


def case_failover(work):
    """Two gateways: the first dies, the worker is with the second within its lease, and no event is in both or in none."""
    net = Net("middle", "w1", "second")
    first = gateway_in(net, work, "first")
    second = gateway_in(net, work, "gateway2", "second", f"tcp://{net.address('second', True)}:14830")
    agent = agent_in(net, work, "w1", [listen(net, "w1"), second.address],
                     f'state_dir = "{work}/w1/state"\nheartbeat {{ every = 100ms }}')
    wait_for(lambda: first.state("w1") == "live", "registration")
    wait_for(lambda: len(first.events()) > 20, "events")
    first.stop(signal.SIGKILL)
    began = time.monotonic()
    wait_for(lambda: second.state("w1") == "live", "the second gateway")
    print(f"with the second gateway after {time.monotonic() - began:.1f} s; the lease is 3 s")
    wait_for(lambda: len(second.events()) > 20, "events at the second")
    assert agent.stop() == 0
    assert second.stop() == 0
    # The first comes back and still knows it: late, then expired, never doubled.
    first.start()
    assert first.state("w1") in ("late", "expired")
    wait_for(lambda: first.state("w1") == "expired", "expiry at the first")
    assert first.hosts()["w1"]["worker"] == 1 and len(first.hosts()) == 1
    first.stop()
    triples = {}
    for g in (first, second):
        for line in grid.run(GATEWAY, "--dump", g.journal).stdout.splitlines():
            b = json.loads(line)
            if bytes.fromhex(b["producer"]).startswith(b"gridline"):
                continue
            for seq in range(b["first_seq"], b["first_seq"] + b["count"]):
                triples.setdefault((b["producer"], b["epoch"]), []).append(seq)
    events = {(a["producer"], a["epoch"]) for g in (first, second) for a in g.accounts() if a["class"] == "events"}
    for origin, numbers in triples.items():
        assert len(numbers) == len(set(numbers)), f"{origin}: twice"
        if origin in events:  # samples that were on their way to the one that died are lost, and counted
            assert set(numbers) == set(range(1, max(numbers) + 1)), f"{origin}: a hole"


grid.main(globals(), sys.argv)
