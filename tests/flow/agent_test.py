#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the docs promise of the agent, with real processes: gridline-agent, gridline-gateway, gridline tail.

    agent_test.py CASE GRIDLINE AGENT GATEWAY"""
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

from grid import running, start, stop, wait_for

GRIDLINE, AGENT, GATEWAY = sys.argv[2:5]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Gateway:
    def __init__(self, work, port):
        self.work, self.port, self.address = work, port, f"tcp://127.0.0.1:{port}"
        self.extra = None  # flags in place of --listen

    def start(self):
        ready = self.work + "/gateway.ready"
        if os.path.exists(ready):
            os.unlink(ready)
        self.process = start([GATEWAY, *(self.extra or ["--listen", self.address]), "--journal", self.work + "/journal", "--ready-file", ready,
                              "--ledger", self.work + "/ledger.json", "--quiet"])
        wait_for(lambda: os.path.exists(ready) and os.path.getsize(ready), "the gateway's start")
        return self

    def stop(self, sig=signal.SIGTERM):
        return stop(self.process, sig)

    def events(self):
        out = subprocess.run([GATEWAY, "--dump", self.work + "/journal", "--print", "ndjson"], stdout=subprocess.PIPE,
                             text=True, check=True).stdout
        events = [json.loads(line) for line in out.splitlines()]
        return [e for e in events if e["prog"] != "gridline-gateway"]  # what it says of itself

    def ledger(self):
        with open(self.work + "/ledger.json") as f:
            accounts = json.load(f)["ledger"]["accounts"]
        return [a for a in accounts if not bytes.fromhex(a["producer"]).startswith(b"gridline")]


class Agent:
    def __init__(self, work, config, *arguments, name="agent"):
        self.work, self.socket = work, work + f"/{name}/agent.sock"
        self.file, self.log_path = work + f"/{name}.conf", work + f"/{name}.log"
        self.arguments, self.base = arguments, f'state_dir = "{work}/{name}-state"\nrun_dir = "{work}/{name}"\n'
        self.configure(config)

    def configure(self, config):
        with open(self.file, "w") as f:
            f.write(self.base + config)

    def start(self):
        ready = self.file + ".ready"
        if os.path.exists(ready):
            os.unlink(ready)
        log = open(self.log_path, "a")
        self.process = start([AGENT, "-c", self.file, "--ready-file", ready, *self.arguments], stderr=log)
        log.close()
        wait_for(lambda: os.path.exists(ready) or self.process.poll() is not None, "the agent's start")
        assert self.process.poll() is None, self.log()
        return self

    def log(self):
        with open(self.log_path) as f:
            return f.read()

    def says(self, text):
        wait_for(lambda: text in self.log(), f"the log line '{text}'")

    def reload(self):
        self.process.send_signal(signal.SIGHUP)

    def stop(self, sig=signal.SIGTERM):
        return stop(self.process, sig)

    def tail(self, *arguments, timeout="60s"):
        out = subprocess.run([GRIDLINE, "tail", "--socket", self.socket, "--timeout", timeout, *arguments],
                             stdout=subprocess.PIPE, text=True)
        assert out.returncode == 0, out.returncode
        return [json.loads(line) for line in out.stdout.splitlines()]


def names(events):
    return {e["name"] for e in events}


def case_samples(work):
    """Everything the agent sent arrives, exactly, and both ledgers agree."""
    gateway = Gateway(work, free_port()).start()
    own = work + "/own.ndjson"
    agent = Agent(work, f'gateway = {{"{gateway.address}"}}\noutput own {{ path = "{own}"  encoding = ndjson }}\n'
                  "cpu { every = 100ms }\nmemory { every = 100ms }\nself { every = 200ms }\n").start()
    agent.says("connected")
    wait_for(lambda: len(gateway.events()) > 300, "samples in the journal")
    assert agent.stop() == 0, agent.log()
    assert gateway.stop() == 0
    with open(own) as f:
        written = [json.loads(line) for line in f]
    kept = gateway.events()
    key = lambda e: json.dumps(e, sort_keys=True)
    missing = {key(e) for e in kept} - {key(e) for e in written}
    assert not missing, list(missing)[:3]
    accounts = gateway.ledger()  # samples, events, and, if it was slow to connect, samples of the ring
    for account in accounts:
        assert account["state"] == "closed", account
        counts = account["counts"]
        assert counts["taken"] == counts["passed"] + counts["queued"] + sum(counts["dropped"].values()), account
        assert account["passed"] == counts["passed"], account
    assert sum(a["passed"] for a in accounts) == len(kept)
    assert len(written) == sum(a["counts"]["taken"] for a in accounts), (len(written), accounts)


def case_thresholds(work):
    """δr and Δt: a memory sample is not sent for a byte, but for the refresh."""
    agent = Agent(work, 'defaults = false\nmemory { every = 50ms  refresh = 1s  change = {"total 1%"} }\n').start()
    events = agent.tail("-n", "3")
    times = [time_of(e) for e in events]
    assert all(later - earlier > 0.9 for earlier, later in zip(times, times[1:])), times
    agent.stop()


def time_of(e):
    import datetime
    text = e["time"].rstrip("Z")
    whole, _, fraction = text.partition(".")
    return datetime.datetime.fromisoformat(whole + "+00:00").timestamp() + float("0." + (fraction or "0"))


def case_reload(work):
    """Sensors appear, change and go; a bad configuration is refused and the old one stays."""
    agent = Agent(work, "defaults = false\ncpu { every = 100ms }\n").start()
    watcher = start([GRIDLINE, "tail", "--socket", agent.socket, "-t", "ndjson"], stdout=subprocess.PIPE, text=True)
    seen = []
    import threading
    threading.Thread(target=lambda: seen.extend(iter(watcher.stdout.readline, "")), daemon=True).start()
    events = lambda: [json.loads(line) for line in list(seen)]
    wait_for(lambda: "cpu" in names(events()), "cpu")
    agent.configure("defaults = false\ncpu { every = 100ms }\nmemory { every = 100ms }\n")
    agent.reload()
    wait_for(lambda: "memory" in names(events()), "memory after the reload")
    agent.configure("defaults = false\ncpu { every = nonsense }\n")
    agent.reload()
    refused = wait_for(lambda: [e for e in events() if e["name"] == "agent.state" and e["state"] == "refused"], "the refusal")
    assert "agent.conf:4" in refused[0]["why"], refused
    count = len(events())
    wait_for(lambda: {"cpu", "memory"} <= names(events()[count:]), "both sensors, after a bad configuration")
    agent.configure("defaults = false\nmemory { every = 100ms }\n")
    agent.reload()
    stopped = lambda: [e for e in events() if e["name"] == "sensor.state" and e["state"] == "stopped"]
    assert wait_for(stopped, "the end of cpu")[0]["sensor"] == "cpu"
    count = len(events())
    wait_for(lambda: sum(e["name"] == "memory" for e in events()[count:]) > 5, "memory goes on")
    assert "cpu" not in names(events()[count:])
    assert stop(watcher) in (0, -signal.SIGTERM)
    assert agent.stop() == 0


def case_only_one(work):
    """A second agent finds the first and leaves; a guest leaves to a resident, a resident takes a guest's place."""
    address = f"tcp://127.0.0.1:{free_port()}"
    config = f'gateway = {{"{address}"}}\n'
    first = Agent(work, config, name="first").start()
    second = subprocess.run([AGENT, "-c", first.file, "-s", f"state_dir={work}/other"], stderr=subprocess.PIPE, text=True)
    assert second.returncode == 3, second
    assert str(first.process.pid) in second.stderr and "leaves" in second.stderr, second.stderr
    guest = subprocess.run([AGENT, "--guest", "-g", address], stderr=subprocess.PIPE, text=True)
    assert guest.returncode == 3 and "leaves" in guest.stderr, guest
    assert first.stop() == 0
    guest = start([AGENT, "--guest", "-g", address, "--ready-file", work + "/guest.ready"], stderr=subprocess.PIPE, text=True)
    wait_for(lambda: os.path.exists(work + "/guest.ready"), "the guest's start")
    resident = Agent(work, config, name="resident").start()
    assert guest.wait(60) == 0
    running.remove(guest)
    assert "leaves to it" in guest.stderr.read()
    assert resident.stop() == 0


def case_on_request(work):
    """A sensor on request runs while somebody asks for it, and not a moment else."""
    agent = Agent(work, "defaults = false\ncpu { every = 100ms  mode = on-request }\nheartbeat { every = 100ms }\n").start()
    assert "cpu" not in names(agent.tail("-n", "20"))  # takes what there is, asks for nothing
    asked = agent.tail("-e", "cpu", "-n", "5")
    assert names(asked) == {"cpu"}
    agent.says("sensor cpu stopped")
    assert "cpu" not in names(agent.tail("-n", "20"))
    assert agent.log().count("sensor cpu started") == 1
    assert agent.stop() == 0


def case_spool(work):
    """Events outlive the gateway's absence and kill -9 of the agent: each arrives once."""
    gateway = Gateway(work, free_port())
    config = f'gateway = {{"{gateway.address}"}}\ndefaults = false\ncpu {{ every = 100ms  mode = on-request }}\n'
    starts = 0
    for _ in range(3):
        agent = Agent(work, config).start()
        agent.tail("-e", "cpu", "-n", "2")  # sensor.state started, stopped
        agent.says("sensor cpu stopped")
        starts += 1
        # The spool has it when the round has ended: the next sample of another round shows that.
        agent.tail("-e", "cpu", "-n", "1")
        starts += 1
        agent.stop(signal.SIGKILL)
    gateway.start()
    agent = Agent(work, config).start()
    wait_for(lambda: sum(e["name"] == "agent.state" and e["state"] == "started" for e in gateway.events()) >= 4, "the replay")
    assert agent.stop() == 0
    assert gateway.stop() == 0
    events = gateway.events()
    started = [e for e in events if e["name"] == "agent.state" and e["state"] == "started"]
    assert len(started) == 4, started
    of_sensor = [e for e in events if e["name"] == "sensor.state" and e["state"] == "started"]
    assert starts - 3 <= len(of_sensor) <= starts, (starts, of_sensor)  # the last round of a killed run may be lost
    assert len({json.dumps(e) for e in of_sensor}) == len(of_sensor), "an event came twice"


def case_budget(work):
    """Over its CPU budget the agent slows the least important sensor, and says so."""
    agent = Agent(work, 'defaults = false\nbudget { cpu = "0.01%" }\ncpu { every = 10ms  priority = 9 }\n'
                  "memory { every = 10ms  priority = 1 }\n").start()
    events = agent.tail("-e", "sensor.state", "-n", "1", timeout="120s")
    assert events and events[0]["state"] == "slowed" and events[0]["sensor"] == "cpu", events
    assert "budget" in events[0]["why"], events
    assert agent.stop() == 0


def case_port(work):
    """A transfer on a listed port starts the sensor, its end stops it after the hold; ports change at run time."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        config = "defaults = false\ncpu {{ every = 100ms  mode = port  ports = {{{}}}  hold = 2s }}\n"
        agent = Agent(work, config.format(1)).start()
        with socket.create_connection(("127.0.0.1", port)):
            pass
        agent.configure(config.format(port))
        agent.reload()
        agent.says("configuration from reload")
        assert "sensor cpu started" not in agent.log(), "traffic on a port that was not listed"
        began = time.monotonic()
        with socket.create_connection(("127.0.0.1", port)) as a, listener.accept()[0] as b:
            a.sendall(b"x" * 100000)
            agent.says("sensor cpu started")
            print(f"seen after {time.monotonic() - began:.2f} s")
            assert names(agent.tail("-n", "4")) <= {"cpu", "cpu.system"}
        ended = time.monotonic()
        agent.says("sensor cpu stopped")
        assert time.monotonic() - ended > 1, "before the hold was over"
        # Without ports for a while, and with them again: there is no port monitor in between.
        for i, mode in enumerate(["always", "port"]):
            agent.configure(config.format(port).replace("mode = port", f"mode = {mode}"))
            agent.reload()
            wait_for(lambda: agent.log().count("configuration from reload") == 2 + i, f"mode {mode}")
        assert agent.stop() == 0


def case_exec(work):
    """An existing tool is a sensor with three lines; a program that hangs is stopped and reported."""
    mine = 1000000 + os.getpid()  # no other test's
    with open(work + "/check", "w") as f:
        f.write("#!/bin/sh\necho 'DISK OK - free space | /=2643MB;5948;5958;0;5968'\n")
    with open(work + "/hangs", "w") as f:
        f.write(f"#!/bin/sh\ntrap '' TERM\nsleep {mine}1 & sleep {mine}2\n")
    for name in ("check", "hangs"):
        os.chmod(work + "/" + name, 0o755)
    agent = Agent(work, f'defaults = false\nexec disk {{ command = {{"{work}/check"}}  format = nagios  every = 200ms  refresh = 200ms }}\n'
                  f'exec stuck {{ command = {{"{work}/hangs"}}  timeout = 1s  every = 500ms }}\n').start()
    perf = agent.tail("-e", "check.perf", "-n", "1")
    assert perf[0]["label"] == "/" and perf[0]["value"] == 2643, perf
    agent.says("sensor exec/stuck failed")
    assert agent.stop() == 0
    left = subprocess.run(["pgrep", "-f", f"sleep {mine}[12]"], stdout=subprocess.PIPE, text=True).stdout.split()
    assert not left, f"left running: {left}"


def case_process(work):
    """Abnormal death of a watched process is an event with its signal."""
    victim = start(["sleep", "1234"])
    agent = Agent(work, f"defaults = false\nprocess victim {{ pid = {victim.pid}  every = 100ms  refresh = 200ms }}\n").start()
    watcher = start([GRIDLINE, "tail", "--socket", agent.socket, "-e", "process.end", "-n", "1", "--timeout", "60s"],
                    stdout=subprocess.PIPE, text=True)
    agent.tail("-e", "process", "-n", "1")
    stop(victim, signal.SIGSEGV)
    end = json.loads(watcher.communicate()[0])
    running.remove(watcher)
    assert end["how"] == "unknown" or (end["how"] == "signal" and end["signal"] == 11), end
    assert agent.stop() == 0


def case_remote_configuration(work):
    """Sensors from a URL, asked for again; what names programs needs a signature or a place on the local list."""
    import http.server
    import threading
    document = {"text": "defaults = false\ncpu { every = 100ms }\n"}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            if not self.path.endswith("sensors.conf"):
                self.send_error(404)
                return
            body = document["text"].encode()
            self.send_response(200)
            self.send_header("ETag", f'"{hash(document["text"])}"')
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/sensors.conf"
    agent = Agent(work, f'defaults = false\nconfig_url = "{url}"\nconfig_every = 1s\n').start()
    assert names(agent.tail("-e", "cpu", "-n", "1")) == {"cpu"}
    document["text"] = 'defaults = false\nexec bad { command = {"/bin/true"} }\n'
    agent.says("/bin/true")
    assert names(agent.tail("-e", "cpu", "-n", "1")) == {"cpu"}, "the old one stays"
    document["text"] = "defaults = false\nheartbeat { every = 100ms }\n"
    assert names(agent.tail("-e", "heartbeat", "-n", "1")) == {"heartbeat"}
    assert agent.stop() == 0
    server.shutdown()


WRITER = """
import os, sys, time
path, lines = sys.argv[1], int(sys.argv[2])
number = 0
for piece in range(12):
    f = open(path, "a")
    for _ in range(lines):
        number += 1
        f.write(f"line {number}\\n")
        if number % 50 == 0:
            f.flush()
            time.sleep(0.001)
    f.flush()
    if piece in (3, 7):  # copytruncate; the writer rests meanwhile: between copying and cutting nobody may write
        with open(path) as whole, open(f"{path}.copy{piece}", "w") as copy:
            copy.write(whole.read())
        os.truncate(path, 0)
    elif piece < 11:
        for i in range(20, 0, -1):
            if os.path.exists(f"{path}.{i}"):
                os.rename(f"{path}.{i}", f"{path}.{i + 1}")
        os.rename(path, f"{path}.1")
    f.close()
print(number, flush=True)
"""


def case_logfile(work):
    """A log through 9 rotations, 2 copytruncates and kill -9 of the agent, again and again: every line exactly once."""
    import random
    scale = int(os.environ.get("GRIDLINE_TEST_SCALE", "1"))
    lines, kills = 2000 * scale, 6 * scale
    gateway = Gateway(work, free_port()).start()
    log = work + "/app.log"
    open(log, "w").close()
    with open(work + "/filter.conf", "w") as f:
        f.write("types = {\"n=uint\"}\nevent app.line {\n    match = '^line (?<n>\\d+)$'\n}\n")
    agent = Agent(work, f'gateway = {{"{gateway.address}"}}\ndefaults = false\n'
                  f'logfile app {{ path = "{log}"  filter = "{work}/filter.conf"  from = start  every = 100ms  grace = 200ms }}\n')
    agent.start()
    agent.says("connected")
    writer = start([sys.executable, "-c", WRITER, log, str(lines)], stdout=subprocess.PIPE, text=True)
    random.seed(7)
    for _ in range(kills):
        time.sleep(random.uniform(0.05, 0.5))  # where the kill falls is to be random
        agent.stop(signal.SIGKILL)
        agent.start()
    total = int(writer.communicate()[0])
    running.remove(writer)
    count = lambda: [e["n"] for e in gateway.events() if e["name"] == "app.line"]
    try:
        wait_for(lambda: len(count()) >= total, f"{total} lines", 60)
    except AssertionError as e:
        got = set(count())
        first = [n for n in range(1, total + 1) if n not in got]
        others = [x for x in gateway.events() if x["name"] != "app.line" and x["name"] != "agent.state"]
        raise AssertionError(f"{e}: {len(count())} came; {len(first)} are missing, the first {first[:5]}, the last {first[-1:]}; {others[-8:]}")
    assert agent.stop() == 0, agent.log()
    assert gateway.stop() == 0
    got = count()
    twice = len(got) - len(set(got))
    seen = set()
    again = [n for n in got if n in seen or seen.add(n)]
    assert twice == 0, f"{twice} lines came twice, {again[0]} to {again[-1]}"
    assert sorted(got) == list(range(1, total + 1)), f"{total - len(set(got))} lines are missing"
    print(f"{total} lines, {kills} kills")


def case_hostile_consumer(work):
    """Garbage on the local socket ends that connection only."""
    agent = Agent(work, "defaults = false\ncpu { every = 100ms }\n").start()
    wait_for(lambda: os.path.exists(agent.socket), "the socket")
    for data in (b"garbage garbage garbage", b"GRDL\x01\0\0\0" + b"\xff" * 64, b"GRDL\x02\0\0\0", b"DATE=20260101000000\n", b""):
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(agent.socket)
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
            s.settimeout(60)
            while s.recv(4096):
                pass
    bad = subprocess.run([GRIDLINE, "tail", "--socket", agent.socket, "-w", "1 +"], stderr=subprocess.PIPE, text=True)
    assert bad.returncode == 2 and "refused" in bad.stderr, bad
    assert names(agent.tail("-n", "8")) <= {"cpu", "cpu.system"}
    assert agent.stop() == 0


def marked(mark):
    """Processes that were started with this in their environment."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as f:
                if mark.encode() in f.read():
                    found.append(int(pid))
        except OSError:
            pass
    return found


def held_files(pid):
    """Paths of what a process has open or mapped, where it could have made them itself."""
    paths = set()
    for fd in set(os.listdir(f"/proc/{pid}/fd")) - {"0", "1", "2"}:
        try:
            paths.add(os.readlink(f"/proc/{pid}/fd/{fd}"))
        except OSError:
            pass
    with open(f"/proc/{pid}/maps") as f:
        paths |= {line.split(maxsplit=5)[5].strip() for line in f if len(line.split(maxsplit=5)) > 5}
    own = ("/tmp/", "/var/", "/run/", "/dev/shm/", "/home/", "/root/")
    return {p for p in paths if p.startswith(own)}


def case_guest(work):
    """A guest whose gateway hangs, dies, or is not there ends itself, and nothing of it is left."""
    with open(work + "/hangs", "w") as f:
        f.write("#!/bin/sh\ntrap '' TERM\nsleep 1000\n")
    os.chmod(work + "/hangs", 0o755)
    port = free_port()
    mark = f"GRIDLINE_GUEST_TEST={os.getpid()}"
    for end in (signal.SIGSTOP, signal.SIGKILL, None):
        folder = work + f"/{end}"
        os.mkdir(folder)
        gateway = Gateway(folder, port)
        if end:
            gateway.start()
        before, held = set(os.listdir(folder)), set()
        log = open(work + f"/guest-{end}.log", "w")
        guest = start([AGENT, "--guest", "-g", gateway.address, "-s", "lease=2s", "-s", f"run_dir={folder}/run",
                       "-s", f"exec.stuck.command={work}/hangs", "-s", "exec.stuck.every=100ms"],
                      stderr=log, env={**os.environ, "GRIDLINE_GUEST_TEST": str(os.getpid()), "HOME": folder, "TMPDIR": folder})
        said = lambda: open(log.name).read()
        if end:
            wait_for(lambda: "worker 1" in said(), "registration")
            assert len(wait_for(lambda: len(marked(mark)) > 1 and marked(mark), "the sensor's program")) > 1
            held = held_files(guest.pid)
            gateway.process.send_signal(end)
        began = time.monotonic()
        assert guest.wait(60) == 0, said()
        running.remove(guest)
        print(f"{end}: ended after {time.monotonic() - began:.2f} s; lease 2 s")
        assert "this guest ends" in said(), said()
        wait_for(lambda: not marked(mark), "the end of its processes", 10)
        assert set(os.listdir(folder)) - before <= {"ledger.json"}, os.listdir(folder)
        left = {p for p in held if os.path.exists(p)} - {os.path.realpath(AGENT)}
        assert not left, left
        if end:
            gateway.process.send_signal(signal.SIGCONT)
            gateway.stop(signal.SIGKILL)
        log.close()


def case_control(work):
    """What a gateway asks of its worker is done, answered, and costs what was said."""
    gateway = Gateway(work, free_port())
    gateway.extra = ["--listen", f"{gateway.address},unix:{work}/gateway.sock"]
    gateway.start()
    agent = Agent(work, f'gateway = {{"{gateway.address}"}}\ndefaults = false\nheartbeat {{ every = 50ms }}\nload {{ every = 100ms }}\n').start()
    agent.says("worker 1")

    def gridline(*arguments, code=0):
        out = subprocess.run([GRIDLINE, *arguments, "-g", f"unix:{work}/gateway.sock"], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
        assert out.returncode == code, (arguments, out)
        return out.stdout + out.stderr

    host = os.uname().nodename
    gridline("worker", "suspend", host)
    agent.says("suspended by the gateway")
    before = len(rows_of(gateway, "heartbeat"))
    gridline("worker", "resume", host)
    wait_for(lambda: len(rows_of(gateway, "heartbeat")) > before, "samples after resuming")
    assert "load" in gridline("sensor", "list", "*", host)
    out = gridline("sensor", "start", "disk", host, "every=100ms")
    assert "predicted" in out and "observed" in out, out
    wait_for(lambda: any(e["name"] == "disk" for e in gateway.events()), "samples of disk")
    out = gridline("sensor", "start", "memory", host, "--ceiling", "0.001", code=1)
    assert "above the ceiling" in out, out
    gridline("sensor", "stop", "disk", host)
    gridline("worker", "set", host, "load.every=1s")
    gridline("activate", "job.*", "debug", host)
    with open(work + "/agent/activate") as f:
        assert "job.* debug" in f.read()
    gridline("worker", "kill", host, "--yes")
    assert agent.process.wait(60) == 0, agent.log()
    running.remove(agent.process)
    assert not os.path.exists(work + "/agent/activate")
    assert gateway.stop() == 0
    states = [e for e in gateway.events() if e["name"] == "agent.state"]
    assert {"suspended", "resumed", "killed"} <= {e["state"] for e in states}, states


def rows_of(gateway, name):
    return [e for e in gateway.events() if e["name"] == name]


def main():
    with tempfile.TemporaryDirectory(prefix="gridline-agent.") as work:
        try:
            globals()["case_" + sys.argv[1]](work)
        except BaseException:
            for name in sorted(os.listdir(work)):
                if name.endswith(".log"):
                    with open(os.path.join(work, name)) as f:
                        print(f"--- {name}\n{f.read()}", file=sys.stderr)
            raise
        finally:
            for p in running:
                p.kill()
                p.wait()


main()
