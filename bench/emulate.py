# SPDX-License-Identifier: Apache-2.0
"""What bench/ingest, bench/lease and bench/fanout share: a gateway on processor 1, the emulator of workers on processor 0, the
controls, and what the measured process used.

CPU is that of all threads of the process (schedstat), user and system, between two moments at which it is idle."""
import glob
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time

import measure

SERVER_CPU, CLIENT_CPU = "1", "0"
running = []
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what was started is ended, too


def program(name):
    return os.path.join(measure.BUILD, name)


def start(argv, cpu, **kw):
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    p = subprocess.Popen(["taskset", "-c", cpu, *argv], text=True, **kw)
    running.append(p)
    return p


def stop(p, sig=signal.SIGTERM):
    if p in running:
        running.remove(p)
    if p.poll() is None:
        p.send_signal(sig)
    try:
        return p.wait(60)
    except subprocess.TimeoutExpired:
        p.kill()
        return p.wait()


def stop_all():
    for p in list(running):
        stop(p, signal.SIGKILL)


def wait_for(condition, what, seconds=60):
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            raise Failed(f"{what}: not within {seconds} s")
        time.sleep(0.01)


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


def cpu_ns(pid):
    total = 0
    for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
        try:
            with open(path) as f:
                total += int(f.read().split()[0])
        except FileNotFoundError:
            pass  # a thread that has ended
    return total


def quiet_cpu_ns(pid):
    """When it has used next to nothing for a fifth of a second: everything that came is done with."""
    before = cpu_ns(pid)
    until = time.monotonic() + 30
    while time.monotonic() < until:
        time.sleep(0.2)
        now = cpu_ns(pid)
        if now - before < 4e6:
            return now
        before = now
    return before


def rss_bytes(pid):
    with open(f"/proc/{pid}/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def udp_socket(port):
    """Bytes that wait at a UDP port, and how many datagrams the kernel dropped there."""
    with open("/proc/net/udp") as f:
        for line in f.readlines()[1:]:
            words = line.split()
            if int(words[1].split(":")[1], 16) == port:
                return int(words[4].split(":")[1], 16), int(words[-1])
    return 0, 0


def drain(port):
    wait_for(lambda: udp_socket(port)[0] == 0, "the receiver's queue")


class Failed(Exception):
    """What was to be measured could not be; the text says why."""


class Identity:
    """A CA, a gateway's identity and a relay's, by openssl: what `gridline init` and `join` make, without a gateway."""

    def __init__(self, work):
        self.dir = work
        os.makedirs(work, exist_ok=True)
        self.run("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30", "-subj",
                 "/CN=bench CA", "-keyout", work + "/ca.key", "-out", work + "/ca.pem")
        self.server = self.make("gateway", "gridline:gateway/bench")
        self.client = self.make("relay", "gridline:gateway/relay")

    def run(self, *arguments):
        subprocess.run(["openssl", *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def make(self, name, uri):
        folder = os.path.join(self.dir, name)
        os.makedirs(folder, mode=0o700)
        with open(folder + "/ext", "w") as f:
            f.write(f"subjectAltName=URI:{uri},IP:127.0.0.1,DNS:localhost\nextendedKeyUsage=serverAuth,clientAuth\n"
                    "basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\n")
        self.run("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}", "-keyout",
                 folder + "/key.pem", "-out", folder + "/csr")
        self.run("x509", "-req", "-in", folder + "/csr", "-CA", self.dir + "/ca.pem", "-CAkey", self.dir + "/ca.key",
                 "-CAcreateserial", "-days", "30", "-extfile", folder + "/ext", "-out", folder + "/cert.pem")
        shutil.copy(self.dir + "/ca.pem", folder + "/ca.pem")
        os.chmod(folder + "/key.pem", 0o600)
        return folder


class Gateway:
    """A real one with a fresh state folder; its journal is on the same disk as the controls' files."""

    def __init__(self, work, identity=None, *arguments, cpu=SERVER_CPU):
        self.work, self.port, self.cpu = work, free_port(), cpu
        os.makedirs(work)
        self.scheme = "tls" if identity else "tcp"
        self.address = f"{self.scheme}://127.0.0.1:{self.port}"
        self.argv = [program("gridline-gateway"), "--listen", self.address, "--udp", f"127.0.0.1:{self.port}", "--journal",
                     work + "/journal", "--journal-max", "16GiB", "--ready-file", work + "/ready", "--ledger",
                     work + "/ledger", "--quiet", *arguments]
        if identity:
            self.argv += ["--identity", identity.server]
        self.start()

    def start(self):
        if os.path.exists(self.work + "/ready"):
            os.unlink(self.work + "/ready")
        with open(self.work + "/log", "a") as log:
            self.process = start(self.argv, self.cpu, stdout=subprocess.DEVNULL, stderr=log)
        self.pid = self.process.pid
        wait_for(lambda: os.path.exists(self.work + "/ready") or self.process.poll() is not None, "the gateway's start")
        if self.process.poll() is not None:
            running.remove(self.process)
            raise Failed(f"the gateway ended with {self.process.returncode}: {self.said()}")

    def said(self):
        """The first line of its errors, and how many there are."""
        with open(self.work + "/log") as f:
            lines = f.read().splitlines()
        return f"{lines[0]} ({len(lines)} lines)" if lines else ""

    def end(self):
        """Its ledger, as it ends."""
        stop(self.process)
        if self.said():
            print(self.said(), file=sys.stderr)
        with open(self.work + "/ledger") as f:
            ledger = json.load(f)["ledger"]
        shutil.rmtree(self.work)
        return ledger


def attempt(what, fn):
    """fn's result; None and a line when it could not be measured. Nothing of it is left running."""
    try:
        return fn()
    except Failed as e:
        print(f"{what}: {e}", file=sys.stderr)
        return None
    finally:
        stop_all()


class Control:
    """udp_control or rtt_control: prints its port when it is ready, and what it counted at the end."""

    def __init__(self, name, *arguments, scheme="tcp"):
        self.process = start([program("bench/" + name), *arguments], SERVER_CPU, stdout=subprocess.PIPE)
        self.pid = self.process.pid
        self.port = int(self.process.stdout.readline())
        self.address = f"{scheme}://127.0.0.1:{self.port}"

    def end(self):
        running.remove(self.process)
        self.process.terminate()
        out = self.process.communicate()[0]
        return json.loads(out) if out.strip() else {}


class Workers:
    """The emulator, phase by phase."""

    def __init__(self, address, *arguments):
        self.process = start([program("bench/workers"), "-g", address, "--step", *arguments], CLIENT_CPU,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def phase(self, name):
        for line in self.process.stdout:
            result = json.loads(line)
            if result["phase"] == name:
                return result
        raise Failed(f"the emulator ended with {self.process.wait()} before '{name}'")

    def go(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self):
        """Everything that is left to do. The last counts."""
        if not self.process.stdin.closed:
            self.process.stdin.close()
        result = self.phase("done")
        running.remove(self.process)
        self.process.wait()
        if result["protocol_errors"]:
            raise Failed(f"the emulator saw {result['protocol_errors']} wrong answers: {result['why']}")
        return result
