# SPDX-License-Identifier: Apache-2.0
"""What flow tests of a grid share: processes that end with the test, hosts made of network namespaces, gateways, agents,
and what a gateway says of its workers."""
import atexit
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SKIPPED = 77
PATIENCE = 90
running = []


def wait_for(condition, what, seconds=PATIENCE):
    until = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > until:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.05)


def start(argv, **kw):
    p = subprocess.Popen(argv, **kw)
    running.append(p)
    return p


def stop(p, sig=signal.SIGTERM):
    if p in running:
        running.remove(p)
    if p.poll() is None:
        p.send_signal(sig)
    return p.wait(PATIENCE)


@atexit.register
def stop_all():
    for p in list(running):
        stop(p, signal.SIGKILL)


def skip(why):
    print("skipped:", why)
    sys.exit(SKIPPED)


def run(*argv, check=True):
    return subprocess.run(argv, check=check, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def memory_scale(program):
    """How much more memory than it asks for a program takes: a sanitizer's keeps what was freed."""
    with open(program, "rb") as f:
        return 4 if b"__asan_init" in f.read() else 1


class Net:
    """Hosts as network namespaces. The first is in the middle: each of the others has a link to it, 10.77.N.1 (the middle's
    end) to 10.77.N.2."""

    def __init__(self, *names):
        self.tag = f"gl{os.getpid()}"
        self.middle, self.names = names[0], names
        if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("nft"):
            skip("network namespaces need root, ip and nft")
        if run("ip", "netns", "add", self.space(self.middle), check=False).returncode:
            skip("no network namespaces here")
        atexit.register(self.remove)
        self.run(self.middle, "ip", "link", "set", "lo", "up")
        for n, name in enumerate(names[1:], 1):
            run("ip", "netns", "add", self.space(name))
            inner, outer = f"{self.tag}a{n}", f"{self.tag}b{n}"
            run("ip", "link", "add", outer, "netns", self.space(self.middle), "type", "veth", "peer", "name", inner, "netns",
                self.space(name))
            self.run(name, "ip", "link", "set", "lo", "up")
            for space, link, end in ((self.middle, outer, 1), (name, inner, 2)):
                self.run(space, "ip", "address", "add", f"10.77.{n}.{end}/24", "dev", link)
                self.run(space, "ip", "link", "set", link, "up")
            self.run(name, "ip", "route", "add", "default", "via", f"10.77.{n}.1")
        self.run(self.middle, "sysctl", "-q", "net.ipv4.ip_forward=1")

    def space(self, name):
        return f"{self.tag}-{name}"

    def remove(self):
        stop_all()
        for name in self.names:
            run("ip", "netns", "del", self.space(name), check=False)

    def run(self, name, *argv):
        return run("ip", "netns", "exec", self.space(name), *argv).stdout

    def inside(self, name):
        """What to put before a command, to run it there."""
        return ["ip", "netns", "exec", self.space(name)]

    def address(self, name, seen_by_middle=False):
        """Of a host that is not the middle; of the middle, as that host reaches it."""
        return f"10.77.{self.names.index(name)}.{2 if seen_by_middle else 1}"

    def link(self, name, state):
        """Cuts a host's link (`down`) or mends it (`up`)."""
        n = self.names.index(name)
        self.run(self.middle, "ip", "link", "set", f"{self.tag}b{n}", state)

    def nft(self, name, rules):
        subprocess.run([*self.inside(name), "nft", "-f", "-"], input=rules, text=True, check=True)

    def counter(self, name, which):
        rules = json.loads(self.run(name, "nft", "-j", "list", "counter", "inet", "test", which))
        return next(r["counter"]["packets"] for r in rules["nftables"] if "counter" in r)


class Gateway:
    def __init__(self, program, work, name, address, inside=(), settings=(), config=""):
        self.program, self.inside, self.settings = program, list(inside), list(settings)
        self.folder = f"{work}/{name}"
        self.address, self.socket, self.journal = address, f"{self.folder}/sock", f"{self.folder}/journal"
        self.command = os.path.join(os.path.dirname(program), "gridline")
        os.makedirs(self.folder)
        self.file = self.folder + "/gateway.conf"
        with open(self.file, "w") as f:
            f.write(config)

    def start(self):
        ready = self.folder + "/ready"
        if os.path.exists(ready):
            os.unlink(ready)
        argv = [*self.inside, self.program, "--listen", self.address, "--journal", self.journal, "--socket", self.socket,
                "--ready-file", ready, "--ledger", self.folder + "/ledger.json", "--config", self.file]
        for s in self.settings:
            argv += ["--set", s]
        with open(self.folder + "/log", "ab") as log:
            self.process = start(argv, stderr=log)
        wait_for(lambda: self.process.poll() is not None or (os.path.exists(ready) and os.path.getsize(ready)), "the gateway")
        assert self.process.poll() is None, self.log()
        with open(ready) as f:
            self.addresses = f.read().split()
        return self

    def log(self):
        with open(self.folder + "/log") as f:
            return f.read()

    def stop(self, sig=signal.SIGTERM):
        return stop(self.process, sig)

    def gridline(self, verb, *argv, check=True):
        out = subprocess.run([self.command, verb, "--gateway", "unix:" + self.socket, *argv], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
        assert not check or out.returncode == 0, (out.returncode, out.stderr, out.stdout)
        return out

    def rows(self, verb, *argv):
        return [json.loads(line) for line in self.gridline(verb, "--format", "json", *argv).stdout.splitlines()]

    def hosts(self):
        return {row["host"]: row for row in self.rows("hosts")}

    def state(self, host):
        return self.hosts().get(host, {}).get("state")

    def events(self, name=None):
        """What the journal holds: events of everybody but the gateway itself; of that name, of all."""
        out = run(self.program, "--dump", self.journal, "--print", "ndjson").stdout
        events = [json.loads(line) for line in out.splitlines()]
        return [e for e in events if (e["name"] == name if name else e["prog"] != "gridline-gateway")]

    def accounts(self):
        """The ledger of a gateway that was stopped, without its own account; checked."""
        with open(self.folder + "/ledger.json") as f:
            accounts = json.load(f)["ledger"]["accounts"]
        for a in accounts:
            kept = a["passed"] + a["duplicate"] + a["refused"] + a["too_old"] + a["too_new"] + a["no_schema"] + a["queued"]
            assert a["taken"] == kept, f"the ledger does not add up: {a}"
        return [a for a in accounts if not bytes.fromhex(a["producer"]).startswith(b"gridline")]


class Agent:
    def __init__(self, program, work, host, gateways, config="", inside=()):
        self.program, self.host, self.inside = program, host, list(inside)
        self.folder = f"{work}/{host}"
        os.makedirs(self.folder)
        self.file = self.folder + "/agent.conf"
        addresses = ", ".join(f'"{g}"' for g in gateways)
        with open(self.file, "w") as f:
            f.write(f'hostname = "{host}"\ngateway = {{{addresses}}}\nrun_dir = "{self.folder}/run"\n')
            if "state_dir" not in config and "guest" not in config:
                f.write(f'state_dir = "{self.folder}/state"\n')
            f.write(config + "\n")

    def start(self):
        with open(self.folder + "/log", "ab") as log:
            self.process = start([*self.inside, self.program, "--config", self.file], stderr=log)
        return self

    def log(self):
        with open(self.folder + "/log") as f:
            return f.read()

    def stop(self, sig=signal.SIGTERM):
        return stop(self.process, sig)


class Guard:
    """A guard that listens to a gateway of the test, and to an agent if there is one."""

    def __init__(self, program, work, gateway, config="", agent=None, name="guard", settings=(), inside=()):
        self.program, self.inside = program, list(inside)
        self.folder = f"{work}/{name}"
        self.command = os.path.join(os.path.dirname(program), "gridline")
        self.socket = f"{self.folder}/run/guard.sock"
        os.makedirs(self.folder)
        self.file = self.folder + "/guard.conf"
        listened = f"unix:{agent.folder}/run/agent.sock" if agent else ""
        self.settings = [f"hostname={name}", f"state_dir={self.folder}/state", f"run_dir={self.folder}/run",
                         f"gateway={gateway}", f"agent={listened}", *settings]
        self.configure(config)

    def configure(self, config):
        with open(self.file, "w") as f:
            f.write(config)

    def start(self):
        ready = self.folder + "/ready"
        if os.path.exists(ready):
            os.unlink(ready)
        argv = [*self.inside, self.program, "--config", self.file, "--ready-file", ready]
        for s in self.settings:
            argv += ["--set", s]
        with open(self.folder + "/log", "ab") as log:
            self.process = start(argv, stderr=log)
        wait_for(lambda: self.process.poll() is not None or os.path.exists(ready), "the guard")
        assert self.process.poll() is None, self.log()
        return self

    def log(self):
        with open(self.folder + "/log") as f:
            return f.read()

    def stop(self, sig=signal.SIGTERM):
        return stop(self.process, sig)

    def gridline(self, verb, *argv, check=True):
        out = subprocess.run([self.command, verb, "--guard", "unix:" + self.socket, *argv], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
        assert not check or out.returncode == 0, (out.returncode, out.stderr, out.stdout)
        return out

    def faults(self, *argv):
        out = self.gridline("faults", "--format", "json", *argv).stdout
        return [json.loads(line) for line in out.splitlines()]


def main(cases, argv):
    """Runs one case in a folder of its own, which is kept if it fails."""
    work = tempfile.mkdtemp(prefix="gridline-grid-")
    try:
        cases["case_" + argv[1]](work)
    except BaseException as e:
        stop_all()
        if not isinstance(e, SystemExit):
            print("the files are in", work)
            for folder in sorted(os.listdir(work)):
                path = f"{work}/{folder}/log"
                if os.path.exists(path):
                    with open(path) as f:
                        print("---", folder, "\n" + "".join(f.readlines()[-25:]))
            raise
        shutil.rmtree(work, ignore_errors=True)
        raise
    stop_all()
    shutil.rmtree(work)
