#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""200 workers of the emulator (bench/workers) against a real gateway: every answer is right, the ledger is exact to the
datagram and to the event.

    workers_test.py CASE WORKERS GATEWAY GRIDLINE BENCH

BENCH is the folder bench/: its certificates are used."""
import collections
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

WORKERS, GATEWAY, GRIDLINE, BENCH = sys.argv[2:6]
N = 200
running = []


def wait_for(condition, what, seconds=60):
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.02)


def free_port():
    """One that is free for TCP and for UDP."""
    while True:
        with socket.socket() as s, socket.socket(type=socket.SOCK_DGRAM) as u:
            s.bind(("127.0.0.1", 0))
            try:
                u.bind(("127.0.0.1", s.getsockname()[1]))
            except OSError:
                continue
            return s.getsockname()[1]


class Gateway:
    def __init__(self, work, identity=None):
        self.work, self.port = work, free_port()
        self.address = f"{'tls' if identity else 'tcp'}://127.0.0.1:{self.port}"
        self.flags = ["--identity", identity] if identity else []

    def start(self):
        ready = self.work + "/ready"
        if os.path.exists(ready):
            os.unlink(ready)
        self.process = subprocess.Popen([GATEWAY, "--listen", self.address, "--udp", f"127.0.0.1:{self.port}", "--journal",
                                         self.work + "/journal", "--ledger", self.work + "/ledger.json", "--ready-file", ready,
                                         "--quiet", *self.flags])
        running.append(self.process)
        wait_for(lambda: os.path.exists(ready) or self.process.poll() is not None, "the gateway's start")
        assert self.process.poll() is None
        return self

    def stop(self, sig=signal.SIGTERM):
        running.remove(self.process)
        self.process.send_signal(sig)
        return self.process.wait(60)

    def accounts(self):
        with open(self.work + "/ledger.json") as f:
            return {(a["producer"], a["epoch"]): a for a in json.load(f)["ledger"]["accounts"]}

    def status(self):
        with open(self.work + "/ledger.json") as f:
            return json.load(f)["status"]

    def queued_bytes(self):
        """What waits at its UDP port, with the kernel's overhead."""
        with open("/proc/net/udp") as f:
            return sum(int(words[4].split(":")[1], 16) for words in map(str.split, f.readlines()[1:])
                       if int(words[1].split(":")[1], 16) == self.port)

    def told(self):
        """Its status now: it writes everything down first."""
        path = self.work + "/ledger.json"
        if os.path.exists(path):
            os.unlink(path)
        self.process.send_signal(signal.SIGUSR1)
        wait_for(lambda: os.path.exists(path), "the gateway's ledger")
        return self.status()

    def hosts(self):
        """Those it knows: [(host, id)]."""
        out = subprocess.run([GRIDLINE, "hosts", "-g", self.address, "-t", "json", "--timeout", "60s"], stdout=subprocess.PIPE,
                             text=True, check=True).stdout
        return [(w["host"], w["worker"]) for w in map(json.loads, out.splitlines())]

    def events(self):
        """How often each event of the emulator is in the journal: {(host, epoch, number): times}."""
        out = subprocess.run([GATEWAY, "--dump", self.work + "/journal", "--print", "ndjson"], stdout=subprocess.PIPE,
                             text=True, check=True).stdout
        found = (json.loads(line) for line in out.splitlines() if '"name":"emulator.event"' in line)
        return collections.Counter((e["host"], e["life"], e["number"]) for e in found)


class Emulator:
    def __init__(self, gateway, *arguments):
        self.report = gateway.work + "/report"
        # On a noisy machine nothing may come for seconds, though more is on its way.
        self.process = subprocess.Popen([WORKERS, "-g", gateway.address, "-n", str(N), "--report", self.report, "--settle", "60s",
                                         *arguments],
                                        stdout=subprocess.PIPE, text=True)
        running.append(self.process)

    def phase(self, name):
        for line in self.process.stdout:
            result = json.loads(line)
            if result["phase"] == name:
                return result
        raise AssertionError(f"the emulator ended with {self.process.wait()} before '{name}'")

    def end(self):
        done = self.phase("done")
        running.remove(self.process)
        code = self.process.wait(60)
        assert code == 0, (code, done)
        return done

    def epochs(self):
        with open(self.report) as f:
            return [json.loads(line) for line in f]


def check_samples(accounts, epoch):
    """What the gateway holds, or refused and counted as its disk was behind, is what was sent and not lost; and it knows how many were sent."""
    s, account = epoch["samples"], accounts.get((epoch["samples"]["producer"], epoch["epoch"]))
    if s["datagrams"] == 0:
        return
    assert account, epoch
    assert account["passed"] + account["refused"] == s["received"] == s["datagrams"] - s["lost"] - s["unsent"], (epoch, account)
    assert account["counts"]["taken"] == s["datagrams"], (epoch, account)
    assert account["state"] == "closed", account


def check_events(accounts, kept, epoch):
    """Whatever was acknowledged is in the journal once, and nothing that was not written."""
    e, key = epoch["events"], (epoch["events"]["producer"], epoch["epoch"])
    for number in range(1, e["acknowledged"] + 1):
        assert kept[(epoch["host"], epoch["epoch"], number)] == 1, (epoch, number)
    if e["written"] == 0:
        return
    account = accounts.get(key)
    assert account and e["acknowledged"] <= account["passed"] <= e["written"], (epoch, account)
    if epoch["ended"] == "left":
        assert e["acknowledged"] == e["written"] and account["state"] == "closed", (epoch, account)


def check_all(gateway, emulator, done, samples=True):
    kept, accounts, epochs = gateway.events(), gateway.accounts(), emulator.epochs()
    assert all(times == 1 for times in kept.values()), [k for k, n in kept.items() if n > 1][:5]
    for epoch in epochs:
        check_events(accounts, kept, epoch)
        if samples:
            check_samples(accounts, epoch)
    assert sum(e["events"]["written"] for e in epochs) == done["events"] >= sum(kept.values())
    assert sum(e["events"]["acknowledged"] for e in epochs) == done["events_acknowledged"] <= sum(kept.values())
    assert len({e["host"] for e in epochs}) == len({e["worker"] for e in epochs}) == N
    return epochs


def faults(work, *arguments, identity=None):
    gateway = Gateway(work, identity).start()
    emulator = Emulator(gateway, "--time", "3s", "--renew", "300ms", "--datagrams", "20000", "--lose", "1/20",
                        "--twice", "1/50", "--behind", "1/50", "--events", "3000", *arguments)
    done = emulator.end()
    assert gateway.stop() == 0
    epochs = check_all(gateway, emulator, done)
    assert len(epochs) == N and all(e["ended"] == "left" for e in epochs)
    assert done["datagrams_lost"] and done["datagrams_twice"] and done["datagrams_behind"], done
    assert done["datagrams_received"] == done["datagrams"] - done["datagrams_lost"] - done["datagrams_unsent"], done
    assert done["events_acknowledged"] == done["events"] > 0 and done["renewals"] >= N, done


def case_own(work):
    """Connections of their own; datagrams lost, doubled and out of order."""
    faults(work)


def case_relay(work):
    """The same through relay connections of 60 workers."""
    faults(work, "--relay", "60")


def case_tls(work):
    """The same over TLS, with sealed datagrams."""
    sys.path.insert(0, BENCH)
    import emulate
    identity = emulate.Identity(work + "/identity")
    faults(work, "--identity", identity.client, identity=identity.server)


def case_churn(work):
    """Workers leave, lose their connections, die, and come back: no event is lost or doubled, ids stay."""
    gateway = Gateway(work).start()
    emulator = Emulator(gateway, "--time", "4s", "--renew", "300ms", "--events", "3000", "--leave", "20", "--cut", "20",
                        "--kill", "20", "--away", "50ms")
    done = emulator.end()
    assert gateway.stop() == 0
    check_all(gateway, emulator, done)
    assert done["left"] and done["cut"] and done["killed"], done


def case_leave(work):
    """Workers leave and come back while their datagrams are on the way: none that was sent before is refused. The gateway
    stands still meanwhile, so that it finds more datagrams than it takes at once, and goodbyes of those who sent them."""
    gateway = Gateway(work).start()
    emulator = Emulator(gateway, "--renew", "300ms", "--datagrams", "20000", "--leave", "100", "--away", "50ms")
    emulator.phase("registered")
    for _ in range(2 if os.geteuid() == 0 else 0):  # its receive buffer is large enough only if root made it
        gateway.process.send_signal(signal.SIGSTOP)
        wait_for(lambda: gateway.queued_bytes() > 8 << 20, "datagrams that wait")
        gateway.process.send_signal(signal.SIGCONT)
        wait_for(lambda: gateway.queued_bytes() < 1 << 20, "datagrams taken")
    wait_for(lambda: gateway.told() and len(gateway.accounts()) > N + N / 5, "workers that left and came back")
    emulator.process.terminate()
    done = emulator.end()
    status = gateway.told()
    assert gateway.stop() == 0
    check_all(gateway, emulator, done)
    assert done["left"] > N / 10 and status["datagrams.unknown"] == 0, (done, status)
    assert done["datagrams_received"] == done["datagrams"] - done["datagrams_unsent"], done


def case_burst(work):
    """20,000 workers by relays at once, and the gateway killed as soon as it has written them down: it knows all of them
    again, each once, under the same id."""
    gateway = Gateway(work).start()
    emulator = Emulator(gateway, "-n", "20000", "--relay", "1000", "--renew", "10s")
    emulator.phase("registered")
    wait_for(lambda: gateway.told()["workers.unwritten"] == 0, "leases in the journal")
    before = gateway.hosts()
    gateway.stop(signal.SIGKILL)
    running.remove(emulator.process)
    emulator.process.kill()
    emulator.process.wait()
    gateway.start()
    after = gateway.hosts()
    assert len(before) == 20000 and sorted(i for _, i in before) == list(range(1, 20001)), len(before)
    assert sorted(before) == sorted(after), (len(before), len(after), sorted(set(before) ^ set(after))[:5])
    assert gateway.stop() == 0


def case_restart(work):
    """The gateway is killed twice under load: everybody comes back by itself, what was acknowledged is there, once."""
    gateway = Gateway(work).start()
    emulator = Emulator(gateway, "--renew", "300ms", "--events", "3000", "--datagrams", "1000", "--settle", "10s")
    emulator.phase("registered")
    for _ in range(2):
        size = lambda: sum(os.path.getsize(os.path.join(gateway.work, "journal", f)) for f in os.listdir(work + "/journal"))
        before = size()
        wait_for(lambda: size() > before + 20000, "events in the journal")
        gateway.stop(signal.SIGKILL)
        gateway.start()
        emulator.phase("back")
    emulator.process.terminate()
    done = emulator.end()
    assert gateway.stop() == 0
    check_all(gateway, emulator, done, samples=False)  # what came before a restart is not known to the window after it
    assert done["disconnected"] >= 2 * N, done


def main():
    with tempfile.TemporaryDirectory(prefix="gridline-workers.") as work:
        try:
            globals()["case_" + sys.argv[1]](work)
        finally:
            for p in running:
                p.kill()
                p.wait()


main()
