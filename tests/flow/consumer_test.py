#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The consumers' end with a real gateway: gridline tail and collect, the consumer library in a program, and the pipe of
docs/consumer.md.

    consumer_test.py CASE GRIDLINE AGENT GATEWAY EMITTER PROBE PIPE WATCH"""
import json
import os
import signal
import subprocess
import sys
import threading
import time

import grid
from grid import start, stop, wait_for

GRIDLINE, AGENT, GATEWAY, EMITTER, PROBE, PIPE, WATCH = (os.path.abspath(p) for p in sys.argv[2:9])
LOCAL = "tcp://127.0.0.1:0"


def gateway(work, name="gw", *settings):
    return grid.Gateway(GATEWAY, work, name, LOCAL, settings=settings).start()


class Reader:
    """A command whose output is read as it comes."""

    def __init__(self, *argv, reads=True):
        self.process = start([GRIDLINE, *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.lines, self.errors = [], []
        self.threads = [threading.Thread(target=self.read, args=(self.process.stderr, self.errors), daemon=True)]
        if reads:
            self.threads.append(threading.Thread(target=self.read, args=(self.process.stdout, self.lines), daemon=True))
        for t in self.threads:
            t.start()

    @staticmethod
    def read(pipe, to):
        for line in pipe:
            to.append(line.decode())

    def events(self):
        return [json.loads(line) for line in list(self.lines)]

    def said(self):
        return "".join(self.errors)

    def end(self, sig=None):
        code = stop(self.process, sig) if sig else self.process.wait(grid.PATIENCE)
        if self.process in grid.running:
            grid.running.remove(self.process)
        for t in self.threads:
            t.join(grid.PATIENCE)
        return code


def log(to, event, time=None, **fields):
    argv = [GRIDLINE, "log", "--to", to, event, *(f"{k}={v}" for k, v in fields.items())]
    subprocess.run(argv + (["--time", time] if time else []), check=True, stdout=subprocess.DEVNULL)


def subscribed(g, n=1):
    """Waits until the gateway has so many subscriptions: what is sent from then on comes."""
    wait_for(lambda: probe("ask", g, "subscriptions").count("\nrow") + probe("ask", g, "subscriptions").startswith("row") >= n,
             "the subscription")


def probe(mode, g, *argv, code=0):
    done = subprocess.run([PROBE, mode, "unix:" + g.socket, *argv], stdout=subprocess.PIPE, text=True, timeout=grid.PATIENCE)
    assert done.returncode == code, (done.returncode, done.stdout)
    return done.stdout


def case_resume(work):
    """The gateway is stopped and killed under a tail: each event comes once."""
    g = gateway(work)
    tail = Reader("tail", "-g", "unix:" + g.socket, "-e", "emitter.event", "-t", "ndjson")
    subscribed(g)
    total = 6000
    emitter = start([EMITTER, "unix:" + g.socket, str(total), "--rate", "1000", "--flush-ms", "60000", "--backup", work + "/backup"],
                    stdout=subprocess.DEVNULL)
    for i, sig in enumerate((signal.SIGTERM, signal.SIGKILL, signal.SIGTERM)):
        wait_for(lambda: len(tail.lines) > (i + 1) * 700, "events")
        g.stop(sig)
        g.start()
    assert emitter.wait(grid.PATIENCE) == 0
    wait_for(lambda: len(tail.lines) >= total, f"all {total} events")
    assert tail.end(signal.SIGINT) == -signal.SIGINT
    numbers = [e["n"] for e in tail.events()]
    assert len(numbers) == total and set(numbers) == set(range(total)), (len(numbers), len(set(numbers)))
    assert "are missing" not in tail.said(), tail.said()
    assert "hung up" in tail.said()


def case_slow(work):
    """A tail whose output nobody reads loses events, and says exactly how many."""
    g = gateway(work)
    tail = Reader("tail", "-g", "unix:" + g.socket, "-e", "emitter.event", "--queue", "64KiB", "-t", "ndjson", "--timeout",
                  f"{grid.PATIENCE}s", reads=False)
    subscribed(g)
    emitter = start([EMITTER, "unix:" + g.socket, "200000", "--rate", "100000", "--flush-ms", "60000"], stdout=subprocess.DEVNULL)
    assert emitter.wait(grid.PATIENCE) == 0
    log("unix:" + g.socket, "emitter.event", n=-1)
    reader = threading.Thread(target=tail.read, args=(tail.process.stdout, tail.lines), daemon=True)
    reader.start()
    wait_for(lambda: tail.lines and json.loads(tail.lines[-1])["n"] == -1, "the last event")
    tail.process.send_signal(signal.SIGINT)
    tail.end()
    reader.join(grid.PATIENCE)
    g.stop()
    truth = [e["n"] for e in g.events("emitter.event")]
    numbers = [e["n"] for e in tail.events()]
    lost = sum(int(line.split()[2]) for line in tail.said().splitlines() if "events are missing here: this was too slow" in line)
    assert lost > 0 and len(numbers) + lost == len(truth), (len(numbers), lost, len(truth), tail.said()[-500:])
    given = set(numbers)
    assert len(given) == len(numbers) and numbers == [n for n in truth if n in given], "each once, and in order"


def case_exit_codes(work):
    g = gateway(work)
    def run(*argv):
        return subprocess.run([GRIDLINE, "tail", *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=grid.PATIENCE)
    at = ("-g", "unix:" + g.socket)
    assert run(*at, "--timeout", "100ms").returncode == 0
    bad = run(*at, "-w", "1 +")
    assert bad.returncode == 2 and "refused" in bad.stderr, bad
    bad = run(*at, "--cross", "nonsense")
    assert bad.returncode == 2 and "refused" in bad.stderr, bad
    bad = run("-g", f"unix:{work}/nobody")
    assert bad.returncode == 1 and "no gateway answers" in bad.stderr, bad
    bad = run(*at, "--from", "yesterday")
    assert bad.returncode == 2 and "yesterday" in bad.stderr, bad
    bad = run(*at, "--socket", g.socket)
    assert bad.returncode == 2, bad
    bad = run(*at, "--format", "morse")
    assert bad.returncode == 2 and "short" in bad.stderr, bad
    # A position that the journal does not reach: it has another one, and what was in that is missing.
    gone = run(*at, "--from", "999999999-0-0", "--timeout", "1s")
    assert gone.returncode == 4 and "missing here, nobody knows how many" in gone.stderr, gone


def case_formats(work):
    g = gateway(work)
    log("unix:" + g.socket, "app.line", path="a b", size=7)
    def take(fmt):
        return subprocess.run([GRIDLINE, "tail", "-g", "unix:" + g.socket, "-e", "app.line", "--from", "oldest", "-n", "1", "-t", fmt],
                              stdout=subprocess.PIPE, check=True, timeout=grid.PATIENCE).stdout
    assert json.loads(take("json"))["size"] == 7
    assert b"NL.EVNT=app.line" in take("ulm") or b"app.line" in take("ulm")
    assert b"event=app.line" in take("bp")
    assert b"<" in take("xml") and b"app.line" in take("xml")
    head, row = take("csv").decode().splitlines()
    assert "size" in head and "7" in row
    assert take("binary").startswith(b"GLB1")
    short = take("short").decode()
    assert short.endswith(' app.line path="a b" size=7\n'), short


def case_durable(work):
    """The place is kept by the gateway, over its restart: what was written comes no more, what was not comes."""
    g = gateway(work)
    def take(n):
        out = subprocess.run([GRIDLINE, "tail", "-g", "unix:" + g.socket, "-e", "app.x", "--from", "oldest", "--durable", "mine", "-n", str(n)],
                             stdout=subprocess.PIPE, check=True, timeout=grid.PATIENCE).stdout
        return [json.loads(line)["n"] for line in out.splitlines()]
    taken, sent = [], 0
    for restarts in range(3):
        for _ in range(4):
            log("unix:" + g.socket, "app.x", n=sent)
            sent += 1
        taken += take(sent - len(taken))
        if restarts < 2:
            log("unix:" + g.socket, "app.x", n=sent)
            sent += 1
            g.stop()
            g.start()
    assert taken == list(range(sent)), taken


def case_library(work):
    """A program with a loop of its own; its place, kept as text, is exact in the middle of a frame, over a restart."""
    g = gateway(work)
    total = 1000
    emitter = start([EMITTER, "unix:" + g.socket, str(total), "--flush-ms", "60000", "--backup", work + "/backup"],
                    stdout=subprocess.DEVNULL)
    assert emitter.wait(grid.PATIENCE) == 0
    numbers, position = [], "oldest"
    for count in (1, 7, 300, 692):
        lines = probe("take", g, "emitter.event", position, str(count)).splitlines()
        taken = [int(w[2:]) for line in lines if line.startswith("event") for w in line.split() if w.startswith("n=")]
        assert len(taken) == count and not any(line.startswith("gap") for line in lines), lines[-3:]
        numbers += taken
        position = next(line.split()[1] for line in lines if line.startswith("position"))
        g.stop()
        g.start()
    assert numbers == list(range(total)), (len(numbers), numbers[:10])
    assert "." in position, position
    # The same place in a journal that is another one: told.
    g.stop()
    os.rename(g.journal, g.journal + ".old")
    g.start()
    log("unix:" + g.socket, "emitter.event", n=77)
    taker = start([PROBE, "take", "unix:" + g.socket, "emitter.event", position, "1"], stdout=subprocess.PIPE, text=True)
    subscribed(g)
    log("unix:" + g.socket, "emitter.event", n=78)
    out = taker.communicate(timeout=grid.PATIENCE)[0]
    assert out.splitlines()[0] == "gap 0 2", out
    assert "n=7" in out, out


def case_questions(work):
    g = gateway(work)
    agent = grid.Agent(AGENT, work, "node1", ["unix:" + g.socket]).start()
    wait_for(lambda: g.state("node1") == "live", "node1 is live")
    rows = probe("ask", g, "hosts")
    assert "host=node1" in rows and "state=live" in rows and rows.splitlines()[-1].startswith("status 0"), rows
    assert "row" not in probe("ask", g, "hosts", "workers=nobody*")
    assert probe("ask", g, "no.such.verb").splitlines()[-1].startswith("status 2"), probe("ask", g, "no.such.verb")
    assert "answer=done" in probe("ask", g, "worker.suspend", "workers=node1")
    for i in range(3):
        log("unix:" + g.socket, "app.x", n=i, who="me")
    newest = probe("latest", g, "app.x").splitlines()
    assert len(newest) == 2 and newest[0].startswith("event app.x host=") and "n=2" in newest[0] and "who=me" in newest[0], newest
    assert newest[1].startswith("status 0"), newest
    assert "count=3" in probe("summary", g, "app.x"), probe("summary", g, "app.x")
    agent.stop()
    g.stop()
    assert "no gateway answers" in probe("ask", g, "hosts", code=1)


def case_collect(work):
    """Two gateways, events that come in another order than their times: one log in time order."""
    a, b = gateway(work, "a"), gateway(work, "b")
    got = Reader("collect", "--wait", "3s", "-e", "app.*", "-t", "ndjson", "unix:" + a.socket, "unix:" + b.socket)
    subscribed(a)
    subscribed(b)
    base = int(time.time()) - 100
    order = [5, 1, 4, 0, 9, 3, 8, 2, 7, 6]
    for i, n in enumerate(order):
        log("unix:" + (a if i % 2 else b).socket, "app.x", time=str(base + n), n=n)
    wait_for(lambda: len(got.lines) == len(order), "all events")
    assert [e["n"] for e in got.events()] == sorted(order)
    # A straggler is written all the same, and counted.
    log("unix:" + a.socket, "app.x", time=str(base - 50), n=-1)
    wait_for(lambda: len(got.lines) == len(order) + 1, "the late one")
    assert got.events()[-1]["n"] == -1
    # One of them goes and comes back: nothing is missing.
    b.stop()
    b.start()
    log("unix:" + b.socket, "app.x", n=100)
    wait_for(lambda: got.events()[-1]["n"] == 100, "the event behind the restart")
    assert got.end(signal.SIGINT) == -signal.SIGINT
    assert "1 of 12 events came too late" in got.said(), got.said()


def case_collect_count(work):
    """As a batch job: ends by itself, writes a file, and one gateway that is not there is no reason to stop."""
    a = gateway(work, "a")
    for n in (3, 1, 2):
        log("unix:" + a.socket, "app.x", time=f"2026-01-0{n}", n=n)
    out = work + "/all.ulm"
    done = subprocess.run([GRIDLINE, "collect", "--wait", "1s", "--from", "oldest", "-e", "app.x", "-n", "3", "-o", out, "unix:" + a.socket,
                           f"unix:{work}/nobody"], stderr=subprocess.PIPE, text=True, timeout=grid.PATIENCE)
    assert done.returncode == 0 and "no gateway answers" in done.stderr, done
    with open(out) as f:
        lines = f.read().splitlines()
    assert [line.split("DATE=")[1][:8] for line in lines] == ["20260101", "20260102", "20260103"], lines
    # Two stragglers behind one that was written: both are counted, and the exit code says that it is not all in order.
    got = Reader("collect", "--wait", "1ms", "-e", "app.y", "-n", "3", "-t", "ndjson", "unix:" + a.socket)
    wait_for(lambda: any(r["event"] == "app.y" for r in a.rows("subscriptions")), "the subscription, not the one before")
    for i, day in enumerate((3, 1, 2)):
        log("unix:" + a.socket, "app.y", time=f"2026-01-0{day}", n=day)
        wait_for(lambda: len(got.lines) == i + 1, "the event")
    assert got.end() == 4 and "2 of 3 events came too late" in got.said(), got.said()


def case_pipe(work):
    """Consumer and producer: events that it derives arrive at the gateway (SV-6)."""
    g = gateway(work)
    grid.Agent(AGENT, work, "node1", ["unix:" + g.socket], 'cpu { every = 100ms }').start()
    wait_for(lambda: g.state("node1") == "live", "node1 is live")
    tail = Reader("tail", "-g", "unix:" + g.socket, "-e", "cpu.busy", "-n", "2", "-t", "ndjson")
    subscribed(g)
    pipe = start([PIPE, "-n", "3", "-c", "3", "unix:" + g.socket])
    assert tail.end() == 0, tail.said()
    assert pipe.wait(grid.PATIENCE) == 0
    for e in tail.events():
        assert e["about"] == "node1" and 0 <= e["busy"] <= 100 and e["events"] == 3 and e["prog"] == "pipe", e


def case_tutorial(work):
    """docs/consumer.md shows the program that this runs: it goes on where it stopped."""
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
    with open(source + "/docs/consumer.md") as doc, open(source + "/examples/watch.c") as c:
        assert c.read() in doc.read(), "docs/consumer.md is not as examples/watch.c"
    g = gateway(work)
    place = work + "/place"
    shown = []
    for run in range(3):
        if run == 1:
            for n in (3, 4):  # while it is away
                log("unix:" + g.socket, "app.x", n=n)
        watch = start([WATCH, "unix:" + g.socket, "app.*", "n", place], stdout=subprocess.PIPE, text=True)
        lines = []
        reader = threading.Thread(target=lambda: lines.extend(watch.stdout), daemon=True)
        reader.start()
        subscribed(g)
        if run == 0:
            for n in (1, 2):
                log("unix:" + g.socket, "app.x", n=n)
        wait_for(lambda: len(shown) + len(lines) >= (2, 4, 4)[run], "the events")
        stop(watch)
        reader.join(grid.PATIENCE)
        shown += lines
    assert [line.split()[-1] for line in shown] == ["n=1", "n=2", "n=3", "n=4"], shown


def case_tls(work):
    """From elsewhere, with a certificate; and its gateway starts again."""
    os.environ.update({"HOME": work, "XDG_CONFIG_HOME": work + "/.config"})
    subprocess.run([GRIDLINE, "init", "--dir", work + "/site", "--host", "127.0.0.1", "--operator", "ann"], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    import socket
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    g = grid.Gateway(GATEWAY, work, "gw", f"tls://127.0.0.1:{port}", settings=[f"identity={work}/site"]).start()
    tail = Reader("tail", "-g", f"tls://127.0.0.1:{port}", "-e", "emitter.event", "-t", "ndjson")
    subscribed(g)
    total = 5000
    for first in (True, False):
        emitter = start([EMITTER, "unix:" + g.socket, str(total), "--rate", "10000", "--flush-ms", "60000"], stdout=subprocess.DEVNULL)
        assert emitter.wait(grid.PATIENCE) == 0
        wait_for(lambda: len(tail.lines) >= total * (1 if first else 2), "the events")
        if first:
            g.stop()
            g.start()
    assert tail.end(signal.SIGINT) == -signal.SIGINT
    assert [e["n"] for e in tail.events()] == list(range(total)) * 2, tail.said()
    nobody = subprocess.run([GRIDLINE, "tail", "-g", f"tls://127.0.0.1:{port}", "--identity", work + "/nowhere"], stderr=subprocess.PIPE, text=True)
    assert nobody.returncode == 1 and nobody.stderr, nobody


grid.main(globals(), sys.argv)
