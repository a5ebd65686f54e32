#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The agent, started from inside real sandboxes: it is outside, one, sees the host, outlives the job, and leaves nothing;
and the job is the same as without.

    launch_test.py CASE LAUNCH PINHOLE AGENT GATEWAY [AGENT_STATIC LAUNCH_STATIC]

Runs in a mount namespace with a /tmp, /run and /dev/shm of its own where it may, so that "nothing is left" can be seen."""
import csv
import ctypes
import json
import os
import pty
import random
import re
import resource
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time

import grid
from grid import skip, start, stop, wait_for

LAUNCH, PINHOLE, AGENT, GATEWAY = map(os.path.abspath, sys.argv[2:6])
STATIC = sorted(os.path.abspath(p) for p in sys.argv[6:8])  # the agent, the launcher
BUILD = os.path.dirname(GATEWAY)
LEASE_S = 8  # so long that a noisy machine keeps no agent from renewing it
JOBS = 20
REQUEST = 128
DONE, ALREADY, NOT_ALLOWED, TOO_MUCH, MALFORMED, NO_AGENT = range(1, 7)


# ---------------------------------------------------------------- what is on this host

def read(path):
    try:
        with open(path, "rb") as f:
            return f.read()
    except OSError:
        return b""


def processes():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def agents(gateway):
    """The agents of that gateway, alive."""
    mark = gateway.addresses[0].encode()
    found = []
    for pid in processes():
        words = read(f"/proc/{pid}/cmdline").split(b"\0")
        if words[0] == b"gridline-agent" and mark in words and b"State:\tZ" not in read(f"/proc/{pid}/status"):
            found.append(pid)
    return found


def agent_of(gateway):
    found = agents(gateway)
    assert len(found) == 1, found
    return found[0]


def namespaces(pid):
    return {name: os.readlink(f"/proc/{pid}/ns/{name}") for name in ("pid", "mnt", "net", "user", "ipc", "uts")}


def held(pid):
    """What a process has open: its sockets' inodes, files, and its program."""
    links = {}
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            links[int(fd)] = os.readlink(f"/proc/{pid}/fd/{fd}")
        except OSError:
            pass
    return links


def abstract_names(inodes=None):
    lines = [line.split() for line in read("/proc/net/unix").decode().splitlines()[1:]]
    return {w[7] for w in lines if len(w) > 7 and w[7].startswith("@") and (inodes is None or w[6] in inodes)}


def images():
    """Inodes of agents in memory that somebody runs or holds."""
    found = set()
    for pid in processes():
        try:
            paths = [f"/proc/{pid}/exe"] + [f"/proc/{pid}/fd/{fd}" for fd in os.listdir(f"/proc/{pid}/fd")]
        except OSError:
            continue
        for path in paths:
            try:
                if "memfd:gridline-agent" in os.readlink(path):
                    found.add(os.stat(path).st_ino)
            except OSError:
                pass
    return found


def files():
    """Everything in the places where something could be left; ours alone (see the top)."""
    found = set()
    for top in ("/tmp", "/run", "/dev/shm", "/var/lib/gridline"):
        for folder, folders, names in os.walk(top):
            found.update(os.path.join(folder, name) for name in folders + names)
    return found


def shared_memory(pid):
    """System V segments that the process made or has attached; those of POSIX are files of /dev/shm."""
    lines = [line.split() for line in read("/proc/sysvipc/shm").decode().splitlines()]
    creator, last = (lines[0].index(name) for name in ("cpid", "lpid"))
    return [line for line in lines[1:] if str(pid) in (line[creator], line[last])]


class Trace:
    """What a running agent is, to see afterwards that nothing of it is left."""

    def __init__(self, gateway, before):
        self.gateway, self.before, self.pid = gateway, before, agent_of(gateway)
        links = held(self.pid)
        inodes = {link[8:-1] for link in links.values() if link.startswith("socket:[")}
        self.names = abstract_names(inodes)
        assert any(name.startswith("@gridline-agent/") for name in self.names), self.names
        exe = f"/proc/{self.pid}/exe"
        self.image = os.stat(exe).st_ino if "memfd:" in os.readlink(exe) else None

    def gone(self):
        """After it has ended by itself."""
        wait_for(lambda: not agents(self.gateway), "the end of the agent")
        wait_for(lambda: not self.names & abstract_names(), "the end of its names")
        assert self.image is None or self.image not in images()
        assert not shared_memory(self.pid), shared_memory(self.pid)
        left = files() - self.before
        # The test's own, firejail's, and Slurm's, which writes down its state when it likes.
        ours = {path for path in left if not path.startswith(("/tmp/gridline-grid-", "/run/firejail", "/tmp/gridline-slurm."))}
        assert not ours, ours


def own_host():
    """A mount namespace with empty folders in the places where something could be left."""
    if os.environ.get("GRIDLINE_OWN_HOST"):
        return
    if os.geteuid() != 0 or not shutil.which("unshare"):
        skip("needs root for a mount namespace")
    os.environ["GRIDLINE_OWN_HOST"] = "1"
    os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, *sys.argv])


libc = ctypes.CDLL(None, use_errno=True)


def mount_memory(place):
    if libc.mount(b"tmpfs", place.encode(), b"tmpfs", 0, b"mode=1777") != 0:
        skip(f"{place}: {os.strerror(ctypes.get_errno())}")


def make_own_host():
    for place in ("/tmp", "/run", "/dev/shm"):
        mount_memory(place)


# ---------------------------------------------------------------- the grid

def gateway_of(work, settings=(), address="tcp://127.0.0.1:0"):
    return grid.Gateway(GATEWAY, work, "gateway", address, settings=settings).start()


AGENT_SETTINGS = ["-s", f"lease={LEASE_S}s", "-s", "heartbeat.every=100ms", "-s", "heartbeat.refresh=100ms"]
PATIENT = ["--timeout", "60s"]  # an agent that is slow to start is none that was not started
TERMS = [*AGENT_SETTINGS, *PATIENT]


class Broker:
    def __init__(self, work, gateway, *options, programs=(PINHOLE, AGENT), **kw):
        self.folder = work + "/broker"
        os.makedirs(self.folder, exist_ok=True)
        if "user" in kw:
            os.chown(self.folder, kw["user"], kw["group"])
        self.socket = self.folder + "/hole"
        ready = self.folder + "/ready"
        argv = [programs[0], "--socket", self.socket, "--gateway", gateway.addresses[0], "--agent", programs[1], "--ready-file", ready,
                *TERMS, *options]
        with open(self.folder + "/log", "ab") as log:
            self.process = start(argv, stderr=log, **kw)
        wait_for(lambda: os.path.exists(ready) or self.process.poll() is not None, "the broker")
        assert self.process.poll() is None, self.log()
        os.unlink(ready)

    def log(self):
        return read(self.folder + "/log").decode()

    def send(self, data, *parts):
        """The result of a request, given in one or more pieces; None: the connection was closed without an answer."""
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(grid.PATIENCE)
            s.connect(self.socket)
            try:
                s.sendall(data)
                for part in parts:
                    time.sleep(0.01)
                    s.sendall(part)
                reply = s.recv(64)
            except (BrokenPipeError, ConnectionResetError):
                return None
            if not reply:
                return None
            assert len(reply) == 8 and reply[:4] == b"GLP\1" and reply[5:] == b"\0\0\0", reply
            return reply[4]


def request(kind, id="", how=0, code=0, uid=0xffffffff, cpus=0, duration=0, overhead=0, memory=0, limit=0, procs=0, mounts=0,
            magic=b"GLP", version=1, zero=0):
    """docs/launch.md's layout, written a second time."""
    id = id.encode() if isinstance(id, str) else id
    return struct.pack("<3sBBBBBIIQQQQIIQ64s", magic, version, kind, how, code, len(id), uid, cpus, duration, overhead, memory,
                       limit, procs, mounts, zero, id)


START, VIEW, BEGAN, ENDED = 1, 2, 3, 4


def bwrap(broker, *command, unshare=("--unshare-all",)):
    return ["bwrap", *unshare, "--die-with-parent", "--ro-bind", "/usr", "/usr", "--symlink", "usr/lib", "/lib", "--symlink",
            "usr/lib64", "/lib64", "--symlink", "usr/bin", "/bin", "--ro-bind", BUILD, BUILD, "--proc", "/proc", "--dev", "/dev",
            "--tmpfs", "/run", "--dir", "/run/gridline", "--bind", broker.socket, "/run/gridline/pinhole.sock", *command]


def launch(*command, id=None, options=()):
    return [LAUNCH, *PATIENT, *options, *(("-j", id) if id else ()), "--", *command]


def run(argv, **kw):
    return subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=grid.PATIENCE, **kw)


def job_states(gateway, id=None):
    return [(e["id"], e["state"]) for e in gateway.events("job.state") if id in (None, e["id"])]


def check_view(gateway, pid, id):
    """The agent is outside: namespaces, processes, mounts and memory are the host's, and not the sandbox's."""
    assert namespaces(pid) == namespaces("self"), (namespaces(pid), namespaces("self"))
    view = wait_for(lambda: [e for e in gateway.events("sandbox.view") if e["id"] == id], "the views")[0]
    print({k: v for k, v in view.items() if "_" in k})
    mounts = len(read("/proc/self/mountinfo").splitlines())
    memory = int(read("/proc/meminfo").split()[1]) * 1024
    assert view["host_mounts"] == mounts != view["sandbox_mounts"], (view, mounts)
    assert view["host_memory"] == memory and view["host_cpus"] == len(os.sched_getaffinity(0)), view
    assert view["sandbox_processes"] < 20 < view["host_processes"], view
    seen = {int(p) for p in os.listdir(f"/proc/{pid}/root/proc") if p.isdigit()}
    assert {os.getpid(), pid} <= seen and abs(view["host_processes"] - len(seen)) < 100, (view, len(seen))
    return view


def check_no_tie(pid):
    """Nothing that it shares with whoever started it."""
    stat = read(f"/proc/{pid}/stat").decode().rpartition(")")[2].split()
    parent, group, session, tty = map(int, stat[1:5])
    assert group != os.getpgid(0) and session != os.getsid(0) and session != pid and tty == 0, stat
    assert not os.path.exists(f"/proc/{session}"), "its starter lives"
    assert parent == 1 or parent == os.getpid(), parent
    assert os.readlink(f"/proc/{pid}/cwd") == "/"
    assert read(f"/proc/{pid}/environ") == b"PATH=/usr/bin:/bin\0", read(f"/proc/{pid}/environ")
    links = held(pid)
    assert all(links[fd] == "/dev/null" for fd in (0, 1, 2)), links
    pipes = [link for link in links.values() if link.startswith("pipe:")]
    assert all(pipes.count(link) == 2 for link in pipes), links  # libevent's own, both ends
    files = [link for link in links.values() if link.startswith("/") and not link.startswith(("/proc/", "/sys/", "/dev/null"))]
    assert not files, files
    status = read(f"/proc/{pid}/status").decode()
    assert "SigBlk:\t0000000000000000" in status, status
    assert "gridline-agent" == read(f"/proc/{pid}/comm").decode().strip()


def check_no_gap(gateway):
    """One agent sent all the time: every heartbeat that it counted came, in order, once."""
    beats = [e["sequence"] for e in gateway.events("heartbeat")]
    assert beats and beats == list(range(beats[0], beats[0] + len(beats))), beats  # the first may be before its lease
    started = [e for e in gateway.events("agent.state") if e["state"] == "started"]
    assert len(started) == 1, started
    return len(beats)


class OneAgent(threading.Thread):
    """Looks all the time that there is one agent and never two."""

    def __init__(self, gateway):
        super().__init__(daemon=True)
        self.gateway, self.seen, self.done = gateway, set(), threading.Event()
        self.start()

    def run(self):
        while not self.done.wait(0.02):
            self.seen.add(tuple(agents(self.gateway)))

    def end(self):
        self.done.set()
        self.join()
        return self.seen


def many_jobs(work, make):
    """JOBS jobs one after the other, each in a sandbox of its own, then the gateway goes."""
    before = files()
    gateway = gateway_of(work)
    broker = Broker(work, gateway)
    watch = None
    for n in range(JOBS):
        code = n % 3 * 7
        out = run(make(broker, f"job{n}", f"echo out{n}; echo err{n} >&2; exit {code}"))
        assert (out.returncode, out.stdout, out.stderr) == (code, f"out{n}\n", f"err{n}\n"), (n, out, broker.log())
        if n == 0:
            pid = agent_of(gateway)
            check_no_tie(pid)
            check_view(gateway, pid, "job0")
            watch = OneAgent(gateway)
            trace = Trace(gateway, before)
    assert watch.end() == {(pid,)}, watch.seen
    beats = len(gateway.events("heartbeat"))
    wait_for(lambda: len(gateway.events("heartbeat")) > beats, "a heartbeat after the last job")
    wanted = [(f"job{n}", state) for n in range(JOBS) for state in ("RUNNING", "FAILED" if n % 3 else "COMPLETED")]
    wait_for(lambda: len(job_states(gateway)) >= len(wanted), "the jobs' states")
    assert job_states(gateway) == wanted, (job_states(gateway), wanted)
    print(f"{JOBS} jobs, one agent, {check_no_gap(gateway)} heartbeats without a gap")
    return gateway, broker, trace


def end_by_lease(gateway, trace):
    began = time.monotonic()
    gateway.stop(signal.SIGKILL)
    trace.gone()
    print(f"ended {time.monotonic() - began:.1f} s after its gateway; the lease is {LEASE_S} s")


# ---------------------------------------------------------------- sandboxes

def need(*programs):
    missing = [p for p in programs if not shutil.which(p)]
    if missing:
        skip("not here: " + " ".join(missing))


def case_bwrap(work):
    """bubblewrap, everything unshared, that dies with its parent."""
    need("bwrap")
    gateway, broker, trace = many_jobs(work, lambda b, id, script: bwrap(b, *launch("sh", "-c", script, id=id)))
    # One that is told another memory than there is, and may use part of that.
    with open(work + "/meminfo", "w") as f:
        f.write("MemTotal:        1000 kB\n")
    limit = [] if grid.memory_scale(LAUNCH) > 1 else ["prlimit", "--as=2000000000"]  # a sanitizer needs more than any
    out = run([*limit, *bwrap(broker, "--ro-bind", work + "/meminfo", "/proc/meminfo",
                                                    *launch("grep", "MemTotal", "/proc/meminfo", id="small"))])
    assert out.stdout == "MemTotal:        1000 kB\n" and not out.stderr, out
    view = check_view(gateway, trace.pid, "small")
    assert view["sandbox_memory"] == 1024000 and (not limit or view["sandbox_memory_limit"] == 2000000000), view
    os.unlink(work + "/meminfo")
    assert stop(broker.process) == 0
    assert not os.path.exists(broker.socket)
    shutil.rmtree(broker.folder)
    end_by_lease(gateway, trace)


def case_firejail(work):
    need("firejail")
    make = lambda b, id, script: ["firejail", "--quiet", "--noprofile", "--net=none", "--private-dev", "--",
                                  *launch("sh", "-c", script, id=id, options=("--pinhole", "unix:" + b.socket))]
    gateway, broker, trace = many_jobs(work, make)
    assert stop(broker.process) == 0
    shutil.rmtree(broker.folder)
    end_by_lease(gateway, trace)


def case_user(work):
    """The same by a user who may nothing: broker, sandboxes and agent are all of an ordinary user."""
    need("bwrap")
    user = {"user": 54321, "group": 54321, "extra_groups": []}
    os.chmod(work, 0o755)
    programs = [shutil.copy(path, work) for path in (PINHOLE, AGENT, LAUNCH)]
    if subprocess.run(["bwrap", "--unshare-all", "--ro-bind", "/", "/", "true"], **user).returncode:
        skip("no namespaces for ordinary users here")
    gateway = gateway_of(work)
    os.chmod(gateway.folder, 0o755)
    broker = Broker(work, gateway, programs=programs, **user)
    before = files()
    for n in range(3):
        inside = bwrap(broker, "--ro-bind", programs[2], "/launch", "/launch", *PATIENT, "-j", f"u{n}", "--", "sh", "-c", f"id -u; exit {n}")
        out = run(inside, **user)
        assert (out.returncode, out.stdout, out.stderr) == (n, "54321\n", ""), (out, broker.log())
    pid = agent_of(gateway)
    assert os.stat(f"/proc/{pid}").st_uid == 54321 or "Uid:\t54321\t" in read(f"/proc/{pid}/status").decode()
    events = wait_for(lambda: len(job_states(gateway)) == 6 and gateway.events("job.state"), "the jobs' states")
    assert {e["uid"] for e in events} == {54321}, events
    assert "runs as root" not in broker.log()
    # No other process may be made: the job takes the launcher's place.
    out = run([programs[2], "--pinhole", "unix:" + broker.socket, "--", "sh", "-c", "echo $PPID; exit 8"], **{**user, "user": 54322},
              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NPROC, (0, 0)))
    assert (out.returncode, out.stdout) == (8, f"{os.getpid()}\n") and "Permission denied" in out.stderr, out
    trace = Trace(gateway, before)
    stop(broker.process)
    end_by_lease(gateway, trace)


def case_slurm(work):
    """Jobs of a real Slurm (proctrack/linuxproc): found by their parents, which the agent has not."""
    import slurm_test
    need(*slurm_test.PROGRAMS, "srun")
    gateway = gateway_of(work)
    with slurm_test.Slurm() as slurm:
        watch = pid = None
        for n in range(JOBS if int(os.environ.get("GRIDLINE_TEST_SCALE", "1")) > 1 else 3):  # each takes seconds
            out = slurm.path(f"out{n}")
            id = slurm_test.output("sbatch", "--parsable", "-o", out, "--wrap", " ".join(
                [LAUNCH, "-g", gateway.addresses[0], *TERMS, "--", "sh", "-c", f"'echo out{n}; exit {n}'"])).strip()
            slurm_test.wait_for("the job's end", lambda: not slurm_test.output("squeue", "-h"))
            assert read(out).decode() == f"out{n}\n", read(out)
            info = slurm_test.output("scontrol", "-o", "show", "job", id)
            assert f"ExitCode={n}:0" in info, info
            wait_for(lambda: len(job_states(gateway, id)) == 2, "the job's states")
            if n == 0:
                pid = agent_of(gateway)
                check_no_tie(pid)
                assert namespaces(pid) == namespaces("self")
                watch = OneAgent(gateway)
        assert watch.end() == {(pid,)}, watch.seen
        print(n + 1, "jobs of Slurm, one agent,", check_no_gap(gateway), "heartbeats without a gap")
        trace = Trace(gateway, files())
        gateway.stop(signal.SIGKILL)
        trace.gone()


def case_spawn(work):
    """Without a sandbox's help: its program came with the job, in a folder that is removed at once."""
    before = files()
    gateway = gateway_of(work)
    carried = work + "/carried"
    os.mkdir(carried)
    mount_memory(carried)
    for path in (LAUNCH, AGENT):
        shutil.copy(path, carried)
    options = ["-g", gateway.addresses[0], *TERMS]

    def bind():
        """As a batch system binds its jobs: to a processor, to few descriptors, and as who goes first when memory is short."""
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        resource.setrlimit(resource.RLIMIT_NOFILE, (12, 1000))
        with open("/proc/self/oom_score_adj", "w") as f:
            f.write("300")

    for n in range(JOBS):
        out = run([carried + "/gridline-launch", *options, "-j", f"job{n}", "--", "sh", "-c", f"cat; exit {n}"], input=f"in{n}",
                  env={"PATH": "/usr/bin:/bin", "SECRET": "of the job"}, cwd=carried, preexec_fn=bind)
        assert (out.returncode, out.stdout, out.stderr) == (n, f"in{n}", ""), out
    pid = agent_of(gateway)
    check_no_tie(pid)
    assert os.sched_getaffinity(pid) == os.sched_getaffinity(0), "it is bound to the job's processors"
    assert read(f"/proc/{pid}/oom_score_adj") == b"0\n", "it goes first with the job"
    like_boinc([carried + "/gridline-launch", *options, "-j", f"job{JOBS - 1}", "--", "sh", "-c", "sleep 1000 & exec sleep 1000"])
    assert agent_of(gateway) == pid
    assert libc.umount(carried.encode()) == 0, "something of the job's folder is still in use"
    shutil.rmtree(carried)
    trace = Trace(gateway, before)
    assert trace.image is not None
    wait_for(lambda: len(job_states(gateway)) >= 2 * JOBS and len(gateway.events("heartbeat")) > 10, "the jobs' states")
    print(check_no_gap(gateway), "heartbeats without a gap")
    end_by_lease(gateway, trace)


# (What SIGKILL or SIGTERM ended the client starts again.)
BOINC_JOB = """#!/bin/sh
job='echo said >&2; case $0 in
    *fails*) exit 3;;
    *dies*) kill -SEGV $$;;
    *long*) sleep 1000 & until grep -qa abort boinc_mmap_file; do sleep 0.1; done; exit 1;;
esac
sleep 0.2; touch boinc_finish_called'
case $1 in
    plain*) exec sh -c "$job" $1;;
    *) exec {launch} -j $1 -- sh -c "$job" $1;;
esac
"""


def case_boinc(work):
    """Jobs of a real BOINC client, each in a slot that is emptied when it ends: the client finds the same with the launcher as
    without, kills all descendants of a job that is aborted, and the one agent stays."""
    import boinc
    need(*boinc.PROGRAMS)
    before = files()
    gateway = gateway_of(work)
    many = [f"job{n}" for n in range(JOBS if int(os.environ.get("GRIDLINE_TEST_SCALE", "1")) > 1 else 4)]  # each takes a second or two
    ends = ("fails", "dies", "ends")
    program = BOINC_JOB.replace("{launch}", " ".join([LAUNCH, "-g", gateway.addresses[0], *TERMS]))
    client = boinc.Boinc(work + "/first", program, ["first"])
    wait_for(lambda: len(job_states(gateway, "first")) == 2, "the first job")
    pid, watch = agent_of(gateway), OneAgent(gateway)
    client.stop()
    client = boinc.Boinc(work + "/boinc", program, [*("plain-" + end for end in ends), *ends, *many, "long"])
    check_no_tie(pid)
    assert namespaces(pid) == namespaces("self")
    trace = Trace(gateway, before)

    def rest():
        return {name for name, task in client.tasks().items() if task["ready to report"] == "no"}

    wait_for(lambda: client.tasks() and rest() == {"long"} and job_states(gateway, "long"), "the jobs' ends", 200)
    tasks = client.tasks()
    said = lambda name: [tasks[name].get(what) for what in ("state", "exit_status", "signal")]
    for end in ends:
        assert said(end) == said("plain-" + end), (end, said(end), said("plain-" + end))
    assert [said(name)[0] for name in (*many, "fails", "dies")] == ["uploaded"] * len(many) + ["compute error"] * 2, tasks
    client.abort("long")
    wait_for(lambda: not client.left_in_slots(), "empty slots")
    descendants = {int(pid) for pid in re.findall(r"^.* +PID (\d+)$", client.log(), flags=re.M)}
    assert descendants and pid not in descendants, (pid, descendants)
    wait_for(lambda: not descendants & set(processes()), "the end of what the job had started")
    assert watch.end() == {(pid,)}, watch.seen
    wait_for(lambda: {job_states(gateway, name)[-1][1] for name in many} == {"COMPLETED"} and
             {job_states(gateway, name)[-1][1] for name in ("fails", "dies")} == {"FAILED"}, "the jobs' states")
    print(len(many) + 5, "jobs of BOINC, one agent,", check_no_gap(gateway), "heartbeats without a gap")
    client.stop()
    end_by_lease(gateway, trace)


def like_boinc(argv):
    """A client that ends its job by killing the process group, the session, and all descendants, and finds no errant one."""
    job = start(argv, start_new_session=True)
    of_session = lambda: [p for p in processes() if read(f"/proc/{p}/stat").decode().rpartition(")")[2].split()[3:4] == [str(job.pid)]]
    wait_for(lambda: len(of_session()) >= 3, "the job's processes")
    os.killpg(job.pid, signal.SIGKILL)
    job.wait(grid.PATIENCE)
    grid.running.remove(job)
    for pid in of_session():
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not of_session(), "the end of the session")


def case_sql(work):
    """What the host did while each job ran: the question of docs/launch.md."""
    gateway = gateway_of(work, [f"archive.dir={work}/archive", f"state_dir={work}/state"])
    out = run([LAUNCH, "-g", gateway.addresses[0], *TERMS, "-s", "vector.every=50ms", "-s", "vector.refresh=50ms", "-j", "first",
               "--", "sleep", "0.5"])
    assert (out.returncode, out.stderr) == (0, ""), out
    for n in range(2):
        # The agent is up now: its vectors cover the whole of the next job.
        assert run([LAUNCH, "-g", gateway.addresses[0], "-j", f"j{n}", "--", "sh", "-c", f"sleep 1; exit {n}"]).returncode == n
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/launch.md")) as f:
        question = f.read().split("```sql\n")[1].split("```")[0]
    ask = lambda q: list(csv.DictReader(gateway.gridline("sql", "--format", "csv", q).stdout.splitlines()))
    wait_for(lambda: len(ask("SELECT id FROM job_state WHERE state <> 'RUNNING'")) == 3, "the jobs' ends")
    rows = {r["id"]: r for r in ask(question)}
    print(rows)
    assert (rows["j0"]["exit"], rows["j1"]["exit"]) == ("0", "1"), rows
    for row in (rows["j0"], rows["j1"]):
        assert row["host"] == os.uname().nodename and row["avg(v.cpu_idle)"] and float(row["duration"]) >= 1, row
    latest = {r["job"]: r["state"] for r in ask("SELECT job, state FROM job_state_latest")}
    assert latest == {"first": "COMPLETED", "j0": "COMPLETED", "j1": "FAILED"}, latest


def case_together(work):
    """Many jobs at the same time: one agent."""
    gateway = gateway_of(work)
    broker = Broker(work, gateway)
    ways = [[*launch("true", id=f"b{n}", options=("--pinhole", "unix:" + broker.socket))] for n in range(8)]
    ways += [[*launch("true", id=f"s{n}", options=("--pinhole", "spawn", "-g", gateway.addresses[0], *TERMS))] for n in range(8)]
    watch = OneAgent(gateway)
    jobs = [start(argv, stderr=subprocess.PIPE) for argv in ways]
    for job in jobs:
        _, err = job.communicate(timeout=grid.PATIENCE)
        assert (job.returncode, err) == (0, b""), (job.args, err, broker.log())
    wait_for(lambda: len(job_states(gateway)) == 2 * len(ways) and gateway.events("heartbeat"), "the jobs' states")
    pid = agent_of(gateway)
    check_no_gap(gateway)
    served = {e["id"] for e in gateway.events("job.state")}
    assert len(served) == len(ways), served
    watch.end()  # one that finds the other leaves: two for a moment are fine, two that send are not


def case_cgroup(work):
    """Out of the job's cgroup, to the one that it was given: the job's can be removed at once."""
    root = next((line.split()[1] for line in read("/proc/mounts").decode().splitlines() if line.split()[2] == "cgroup2"), None)
    if not root:
        skip("no cgroup2 here")
    folders = [f"{root}/gridline-test-{os.getpid()}-{name}" for name in ("job", "guests")]
    try:
        for folder in folders:
            os.mkdir(folder)
    except OSError as e:
        skip(f"cgroups can't be made here: {e}")
    gateway = gateway_of(work)
    try:
        enter = "import os, sys; open(sys.argv[1] + '/cgroup.procs', 'w').write('0'); os.execvp(sys.argv[2], sys.argv[2:])"
        out = run([sys.executable, "-c", enter, folders[0], LAUNCH, "-g", gateway.addresses[0], *TERMS, "--pinhole",
                   "spawn", "--cgroup", folders[1], "--", "sh", "-c", "grep ^0: /proc/self/cgroup"])
        assert out.stdout.strip().endswith(os.path.basename(folders[0])) and not out.stderr, out
        pid = agent_of(gateway)
        assert os.path.basename(folders[1]) in read(f"/proc/{pid}/cgroup").decode()
        os.rmdir(folders[0])
        os.kill(pid, signal.SIGTERM)
        wait_for(lambda: not agents(gateway), "the agent's end")
        missing = run([LAUNCH, "-g", gateway.addresses[0], *TERMS, "--pinhole", "spawn", "--cgroup", folders[0], "--",
                       "echo", "runs"])
        assert missing.stdout == "runs\n" and "its cgroup" in missing.stderr and not agents(gateway), missing
    finally:
        for pid in agents(gateway):
            os.kill(pid, signal.SIGKILL)
        for folder in folders:
            if os.path.exists(folder):
                wait_for(lambda: not read(folder + "/cgroup.procs"), "an empty cgroup")
                os.rmdir(folder)


def case_systemd(work):
    """The service manager: what it is asked to run. (There is none where tests run: a stand-in notes what it is asked, and
    the test starts that.)"""
    need("bwrap")
    gateway = gateway_of(work)
    stand_in = work + "/bin/systemd-run"
    os.makedirs(work + "/bin")
    os.makedirs(work + "/private")
    for name in os.listdir("/usr/bin"):
        if name in ("sh", "dash", "env"):
            os.symlink("/usr/bin/" + name, f"{work}/bin/{name}")
    with open(stand_in, "w") as f:
        f.write('#!/usr/bin/python3\nimport json, os, sys\n'
                f'json.dump([sys.argv, dict(os.environ)], open("{work}/bin/asked.new", "w"))\n'
                f'os.rename("{work}/bin/asked.new", "{work}/bin/asked")\n')
    os.chmod(stand_in, 0o755)
    # The manager's socket is bound where the launcher looks for one.
    user = f"/run/user/{os.geteuid()}/systemd"
    os.makedirs(user)
    manager = socket.socket(socket.AF_UNIX)
    manager.bind(user + "/private")

    def manage():
        asked = work + "/bin/asked"
        wait_for(lambda: os.path.exists(asked), "what is asked of the manager")
        argv, env = json.load(open(asked))
        manage.argv, manage.env = argv, env
        start(argv[argv.index("--") + 1:], stderr=subprocess.DEVNULL)

    thread = threading.Thread(target=manage)
    thread.start()
    shadow = ["bwrap", "--dev-bind", "/", "/"] + ["--tmpfs", "/usr/bin"]
    for name in ("python3", "sh", "dash", "env", "python3.11"):
        if os.path.exists("/usr/bin/" + name):
            shadow += ["--ro-bind", os.path.realpath("/usr/bin/" + name), "/usr/bin/" + name]
    shadow += ["--ro-bind", stand_in, "/usr/bin/systemd-run"]
    out = run([*shadow, LAUNCH, "-g", gateway.addresses[0], *TERMS, "--agent", AGENT, "-j", "s1", "--",
               "sh", "-c", "exit 4"])
    thread.join()
    manager.close()
    assert (out.returncode, out.stderr) == (4, ""), out
    assert manage.argv[1:5] == ["--user", "--quiet", "--collect", "--no-block"], manage.argv
    assert set(manage.env) <= {"PATH", "XDG_RUNTIME_DIR", "GRIDLINE_CHILD", "LC_CTYPE"}, manage.env
    wait_for(lambda: job_states(gateway, "s1") == [("s1", "RUNNING"), ("s1", "FAILED")], "the job's states")


def case_static(work):
    """The carried programs on a host with nothing but a kernel: no libc, no configuration, no shell."""
    need("bwrap")
    if len(STATIC) < 2:
        skip("there are no static programs in this build")
    gateway = gateway_of(work)
    root = work + "/root"
    os.mkdir(root)
    for path in STATIC:
        shutil.copy(path, root)
    # With only the network, the processes and the host's /proc and /sys, as on a host; its own root.
    host = ["bwrap", "--bind", root, "/", "--dev-bind", "/dev", "/dev", "--bind", "/proc", "/proc", "--ro-bind", "/sys", "/sys"]
    out = run([*host, "/gridline-launch-static", "-g", gateway.addresses[0], *TERMS, "-j", "bare", "--",
               "/gridline-agent-static", "--help"])
    assert out.returncode == 0 and out.stdout.startswith("usage") and out.stderr == "", out
    pid = agent_of(gateway)
    assert not [m for m in read(f"/proc/{pid}/maps").decode().splitlines() if ".so" in m], "a shared library"
    wait_for(lambda: {e["name"] for e in gateway.events()} >= {"job.state", "heartbeat", "cpu", "memory", "vector"}, "its sensors")
    left = set(os.listdir(root)) - {"dev", "proc", "sys", *map(os.path.basename, STATIC)}
    assert not left, left
    print({os.path.basename(p): f"{os.path.getsize(p) / 1e6:.1f} MB" for p in STATIC})
    trace = Trace(gateway, files())
    gateway.stop(signal.SIGKILL)
    trace.gone()


def stopped_while_joining(gateway, token):
    """A gateway that does not answer, and somebody ends the guest that waits for its certificate: no folder is left."""
    before = files()
    os.kill(gateway.process.pid, signal.SIGSTOP)
    guest = start([AGENT, "--guest", "--quiet", "--config", "/dev/null", "-g", gateway.addresses[0], "--token-file", token],
                  stderr=subprocess.DEVNULL)
    wait_for(lambda: any(path.startswith("/dev/shm/gridline-guest-") for path in files() - before), "its folder")
    for sig in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        guest.send_signal(sig)
    wait_for(lambda: guest.poll() is not None, "its end")
    left = {path for path in files() - before if not path.startswith(gateway.folder)}
    os.kill(gateway.process.pid, signal.SIGCONT)
    assert not left, left


def case_token(work):
    """A site with certificates: the guest joins by a token, key and certificate are never on a disk."""
    site = work + "/site"
    command = os.path.join(BUILD, "gridline")
    made = run([command, "init", "--host", "127.0.0.1", "--dir", site])
    assert made.returncode == 0, made
    gateway = gateway_of(work, ["identity=" + site + "/gateway"] if os.path.isdir(site + "/gateway") else ["identity=" + site],
                         "tls://127.0.0.1:0")
    token = run([command, "token", "--any-host", "--dir", site, "-g", gateway.addresses[0]])
    assert token.returncode == 0, token
    path = work + "/token"
    with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "w") as f:
        f.write(token.stdout)
    stopped_while_joining(gateway, path)
    broker = Broker(work, gateway, "--token-file", path, "--timeout", "30s")  # its agent finds the module beside it
    before = files()
    for n in range(2):
        out = run(launch("true", id=f"t{n}", options=("--pinhole", "unix:" + broker.socket, "--timeout", "30s")))
        assert (out.returncode, out.stderr) == (0, ""), (out, gateway.log(), broker.log())
    wait_for(lambda: len(job_states(gateway)) == 4, "the jobs' states")
    assert not {p for p in files() - before if not p.startswith(gateway.folder)}, files() - before
    trace = Trace(gateway, before)
    os.kill(trace.pid, signal.SIGTERM)
    trace.gone()
    # It was used up: the next one can't join, and the job does not mind.
    out = run(launch("true", options=("--pinhole", "unix:" + broker.socket, "--timeout", "2s")))
    assert out.returncode == 0 and "no agent was started" in out.stderr, out
    wait_for(lambda: not agents(gateway), "the end of the one that could not join")
    if STATIC:  # has TLS within
        with open(path, "w") as f:
            f.write(run([command, "token", "--any-host", "--dir", site, "-g", gateway.addresses[0]]).stdout)
        out = run([LAUNCH, "-g", gateway.addresses[0], *TERMS, "--agent", STATIC[0], "--token-file", path, "--pinhole",
                   "spawn", "--timeout", "30s", "-j", "t3", "--", "true"])
        assert (out.returncode, out.stderr) == (0, ""), (out, gateway.log())
        wait_for(lambda: len(job_states(gateway, "t3")) == 2, "the job's states")
        trace = Trace(gateway, before)
        gateway.stop(signal.SIGKILL)
        trace.gone()


# ---------------------------------------------------------------- its end

def end_of(how, work):
    """A gateway, an agent that was launched for it, and what makes that one end."""
    folder = f"{work}/{how.replace(' ', '_')}"
    os.mkdir(folder)
    if how == "never there":
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            gateway = type("Nobody", (), {"addresses": [f"tcp://127.0.0.1:{s.getsockname()[1]}"]})
    else:
        access = "access nobody { who = everybody  may_not = register }" if how == "denied" else ""
        gateway = grid.Gateway(GATEWAY, folder, "gateway", "tcp://127.0.0.1:0", config=access).start()
    before = files()
    out = run([LAUNCH, "-g", gateway.addresses[0], *TERMS, "--pinhole", "spawn", "--", "true"])
    assert (out.returncode, out.stderr) == (0, ""), out
    trace = Trace(gateway, before)
    if how not in ("denied", "never there"):
        wait_for(lambda: gateway.hosts(), "registration")
    ends = {"hangs": lambda: gateway.process.send_signal(signal.SIGSTOP),
            "killed": lambda: gateway.stop(signal.SIGKILL),
            "order": lambda: gateway.gridline("worker", "kill", "--yes", os.uname().nodename),
            "kill -9": lambda: os.kill(trace.pid, signal.SIGKILL)}
    return trace, ends.get(how, lambda: None)


def case_ends(work):
    """However its lease ends: nothing of it is left."""
    hows = ["denied", "never there", "hangs", "killed", "order", "kill -9"]
    ends = [(how, *end_of(how, work)) for how in hows]
    began = time.monotonic()
    for how, trace, end in ends:
        end()
    for how, trace, end in ends:
        trace.gone()
        print(f"{how}: seen to be gone after {time.monotonic() - began:.1f} s, lease {LEASE_S} s")


# ---------------------------------------------------------------- the job is the same

SHOW = r"""
import os, resource, signal, sys
print(sorted(os.environ.items()))
print(os.getcwd(), os.getpgrp() == int(sys.argv[1]), os.getsid(0))
print([resource.getrlimit(n) for n in (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_NOFILE, resource.RLIMIT_CORE)])
print([line for line in open("/proc/self/status") if line.startswith(("Sig", "Shd", "Umask", "Seccomp:", "NoNewPrivs", "Groups"))
       and not line.startswith("SigQ")])
print(sorted((int(fd), os.readlink("/proc/self/fd/" + fd)) for fd in os.listdir("/proc/self/fd") if int(fd) < 50
             and "/proc/" not in os.readlink("/proc/self/fd/" + fd)))
print(os.sched_getaffinity(0), os.nice(0))
print(sys.stdin.read())
sys.stderr.write("to stderr\n")
"""


def same(argv, gateway, **kw):
    """The same job without and with the launcher, which is also a command of gridline's."""
    plain = run(argv, **kw)
    for launcher in ([LAUNCH], [os.path.join(BUILD, "gridline"), "launch"]):
        launched = run([*launcher, "-g", gateway.addresses[0], *TERMS, "--", *argv], **kw)
        assert (plain.returncode, plain.stdout, plain.stderr) == (launched.returncode, launched.stdout, launched.stderr), \
            (plain, launched)
    return plain


def case_job(work):
    """Exit code, output, signals, descriptors, environment, folder, limits: as without the launcher."""
    gateway = gateway_of(work)
    read_end, write_end = os.pipe()
    same([sys.executable, "-c", SHOW, str(os.getpgrp())], gateway, input="some input", cwd="/usr", pass_fds=(read_end, write_end),
         env={"A": "1", "PATH": "/usr/bin:/bin", "EMPTY": ""},
         preexec_fn=lambda: (signal.signal(signal.SIGHUP, signal.SIG_IGN), signal.signal(signal.SIGCHLD, signal.SIG_IGN),
                             signal.signal(signal.SIGALRM, signal.SIG_IGN),
                             signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2}), os.umask(0o027), os.nice(3),
                             resource.setrlimit(resource.RLIMIT_NOFILE, (200, 300))))
    for code in (0, 1, 2, 126, 127, 255):
        assert same(["sh", "-c", f"exit {code}"], gateway).returncode == code
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # also where the tests are run by nohup
    for sig in (signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV, signal.SIGHUP, signal.SIGPIPE):
        assert same(["sh", "-c", f"kill -{int(sig)} $$"], gateway).returncode == -sig
    launched = run([LAUNCH, "--", "/nowhere/at-all"])
    assert launched.returncode == 127 and "/nowhere/at-all" in launched.stderr, launched
    assert run([LAUNCH, "-q", "--", "/etc"]).returncode == 126
    passed_on(gateway)
    by_the_kernel(gateway)
    first_process()
    closed_pipe(gateway)
    killed(gateway)
    overhead(gateway)


def passed_on(gateway):
    """Signals to the launcher are the job's; it stops and goes on with it."""
    script = "import signal, sys\n" \
             "signal.signal(2, signal.SIG_DFL)\n" \
             "for s in (10, 12, 15, 1): signal.signal(s, lambda n, _: print(n, flush=True))\n" \
             "print('ready', flush=True)\nwhile True: signal.pause()\n"
    job = start([LAUNCH, "-g", gateway.addresses[0], *TERMS, "-j", "signals", "--", sys.executable, "-c", script],
                stdout=subprocess.PIPE, text=True)
    assert job.stdout.readline() == "ready\n"
    for s in (10, 12, 15, 1):
        job.send_signal(s)
        assert job.stdout.readline() == f"{s}\n"
    child = int(read(f"/proc/{job.pid}/task/{job.pid}/children").split()[0])
    state = lambda pid: read(f"/proc/{pid}/stat").decode().rpartition(")")[2].split()[0]
    os.kill(child, signal.SIGSTOP)
    wait_for(lambda: state(job.pid) == "T", "the launcher to stop with its job")
    job.send_signal(signal.SIGCONT)
    wait_for(lambda: state(child) == "S" and state(job.pid) == "S", "both to go on")
    os.kill(child, signal.SIGINT)
    assert job.wait(grid.PATIENCE) == -signal.SIGINT


def by_the_kernel(gateway):
    """What the kernel sends to one process only is the job's, too: an alarm that was set before, the end of its terminal."""
    options = ["-g", gateway.addresses[0], *TERMS, "--"]
    alarm = "import os, signal, sys; signal.alarm(1); os.execv(sys.argv[1], sys.argv[1:])"
    for argv in (["sleep", "1000"], [LAUNCH, *options, "sleep", "1000"]):
        job = start([sys.executable, "-c", alarm, shutil.which(argv[0]), *argv[1:]])
        assert job.wait(grid.PATIENCE) == -signal.SIGALRM, argv
    for launcher in ([], [LAUNCH, *options]):
        argv = [*launcher, sys.executable, "-c", "import signal; print('ready', flush=True); signal.pause()"]
        pid, terminal = pty.fork()
        if pid == 0:
            os.execv(argv[0], argv)
        said = b""
        while b"ready" not in said:
            said += os.read(terminal, 100)
        os.close(terminal)
        ended = wait_for(lambda: [w for w in [os.waitpid(pid, os.WNOHANG)] if w[0]], "the job's end")[0]
        assert os.waitstatus_to_exitcode(ended[1]) == -signal.SIGHUP, (argv, ended)


ORPHAN = r"""
import os, sys, time
reader, writer = os.pipe()
if os.fork() == 0:
    if os.fork() == 0:
        os.write(writer, str(os.getpid()).encode())
        while os.getppid() != 1: time.sleep(0.001)
    os._exit(0)
os.close(writer)
os.wait()
orphan = int(os.read(reader, 20))
os.read(reader, 1)  # it has ended
until = time.monotonic() + 60
while os.path.exists(f"/proc/{orphan}") and time.monotonic() < until: time.sleep(0.001)
sys.exit(os.path.exists(f"/proc/{orphan}") or 6)
"""


def first_process():
    """As the first process of a pid namespace, which in most containers it is: a job's orphans come to it, and go."""
    need("bwrap")
    out = run(["bwrap", "--unshare-pid", "--as-pid-1", "--dev-bind", "/", "/", "--proc", "/proc", LAUNCH, "-q", "--", sys.executable,
               "-c", ORPHAN])
    assert (out.returncode, out.stderr) == (6, ""), out


def closed_pipe(gateway):
    """What the job closes is closed, though it runs on."""
    job = start([LAUNCH, "-g", gateway.addresses[0], *TERMS, "--", "sh", "-c", "exec >&- 2>&-; read line; exit 9"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert job.stdout.read() == b"" and job.stderr.read() == b"" and job.poll() is None
    job.stdin.write(b"go\n")
    job.stdin.close()
    assert job.wait(grid.PATIENCE) == 9


def killed(gateway):
    """The launcher is killed: so is the job, and the agent is not."""
    job = start([LAUNCH, "-g", gateway.addresses[0], *TERMS, "--", "sleep", "1000"])
    child = wait_for(lambda: [int(c) for c in read(f"/proc/{job.pid}/task/{job.pid}/children").split()
                              if read(f"/proc/{c.decode()}/comm") == b"sleep\n"], "the job")[0]
    stop(job, signal.SIGKILL)
    wait_for(lambda: not os.path.exists(f"/proc/{child}") or b"State:\tZ" in read(f"/proc/{child}/status"), "the job's end")
    assert agent_of(gateway)


def overhead(gateway):
    """Printed, never asserted."""
    def times(argv):
        took = []
        for _ in range(30):
            began = time.monotonic()
            assert run(argv).returncode == 0
            took.append(time.monotonic() - began)
        return statistics.median(took) * 1000
    plain, launched = times(["true"]), times([LAUNCH, "-g", gateway.addresses[0], *TERMS, "--", "true"])
    print(f"a job that does nothing: {plain:.2f} ms without, {launched:.2f} ms with the launcher (medians of 30), agent running")


# ---------------------------------------------------------------- pinholes that fail

class Liar(threading.Thread):
    """A pinhole's other end that does as it likes."""

    def __init__(self, path, act):
        super().__init__(daemon=True)
        self.act, self.kept = act, []
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(path)
        self.socket.listen(16)
        self.start()

    def run(self):
        while True:
            try:
                s, _ = self.socket.accept()
            except OSError:
                return
            self.kept.append(s)
            try:
                self.act(s)
            except OSError:
                pass


def slowly(s):
    for byte in b"GLP\1\1\0\0\0":
        time.sleep(0.2)
        s.send(bytes([byte]))


def passes_descriptors(s):
    s.recv(REQUEST)
    socket.send_fds(s, [b"GLP\1\1\0\0\0"], [0, 1, 2])
    s.close()


LIARS = {
    "closes": lambda s: s.close(),
    "garbage": lambda s: s.sendall(b"\xff" * 4096),
    "half": lambda s: (s.sendall(b"GLP\1"), s.close()),
    "hangs": lambda s: None,
    "slow": slowly,
    "endless": lambda s: [s.sendall(b"G" * 65536) for _ in range(100)],
    "another version": lambda s: s.sendall(b"GLP\2\1\0\0\0"),
    "unknown result": lambda s: s.sendall(b"GLP\1\xc8\0\0\0"),
    "refuses": lambda s: s.sendall(b"GLP\1\3\0\0\0"),
    "claims and hangs": lambda s: s.sendall(b"GLP\1\1\0\0\0") if not hasattr(slowly, "once") and not setattr(slowly, "once", 1)
    else None,
    "passes descriptors": passes_descriptors,
}


def case_broken(work):
    """Pinholes that are closed, broken or malicious: the job runs, the same, and why there is no agent is said once."""
    need("bwrap")
    nobody = work + "/dead"
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(nobody)
    with open(work + "/file", "w"):
        pass
    script = "read line; echo $line; echo err >&2; exit 7"
    for how, path in (("no socket", work + "/nothing"), ("nobody listens", nobody), ("a file", work + "/file")):
        check_harmless(how, path, script)
    for how, act in LIARS.items():
        liar = Liar(f"{work}/{how.replace(' ', '-')}", act)
        is_believed = how in ("claims and hangs", "passes descriptors")
        check_harmless(how, liar.socket.getsockname(), script, says=not is_believed, timeout="8s" if is_believed else "500ms")
        liar.socket.close()
        for s in liar.kept:
            s.close()
    out = run([LAUNCH, "--pinhole", "spawn", "-g", "tcp://127.0.0.1:9", "--agent", "/bin/false", "--timeout", "500ms", "--", "sh",
               "-c", script], input="in\n")
    assert (out.returncode, out.stdout) == (7, "in\n") and "no agent was started" in out.stderr, out
    gateway = gateway_of(work)
    # Whatever hangs takes all the time there is: nothing is started behind the job's back after that.
    liar = Liar(work + "/first-hangs", LIARS["hangs"])
    options = ["-g", gateway.addresses[0], *TERMS, "--agent", AGENT, "--timeout", "300ms"]
    out = run([LAUNCH, *options, "--", "sh", "-c", script], input="in\n", env={**os.environ, "GRIDLINE_PINHOLE": work + "/first-hangs"})
    assert (out.returncode, out.stdout) == (7, "in\n") and "the job runs without: unix: " in out.stderr, out
    assert not agents(gateway)
    liar.socket.close()
    # In namespaces that it can't leave an agent would see the sandbox and keep it.
    out = run(["bwrap", "--unshare-user", "--unshare-net", "--dev-bind", "/", "/", LAUNCH, *options, "--timeout", "60s", "--", "sh", "-c",
               script], input="in\n")
    assert (out.returncode, out.stdout) == (7, "in\n") and "no pinhole" in out.stderr and not agents(gateway), out
    # A gateway in reach is told so.
    out = run([LAUNCH, "--pinhole", "spawn", "-g", gateway.addresses[0], "--agent", "/nowhere/agent", "-j", "f1", "--quiet", "--",
               "true"])
    assert (out.returncode, out.stderr) == (0, ""), out
    failed = wait_for(lambda: [e for e in gateway.events("launch.failed") if e["id"] == "f1"], "an event")[0]
    assert "/nowhere/agent" in failed["why"], failed


def check_harmless(how, path, script, says=True, timeout="500ms"):
    for quiet in (False, True):
        began = time.monotonic()
        out = run([LAUNCH, "--pinhole", "unix:" + path, "--timeout", timeout, *(["-q"] if quiet else []), "--", "sh", "-c", script],
                  input="in\n")
        lines = out.stderr.splitlines()
        assert (out.returncode, out.stdout, lines[-1]) == (7, "in\n", "err"), (how, out)
        assert len(lines) == (2 if says and not quiet else 1), (how, quiet, lines)
        if says and not quiet:
            assert lines[0].startswith("gridline launch: no agent was started, the job runs without: unix: "), lines
            print(f"{how}: {time.monotonic() - began:.2f} s: {lines[0].partition('without: ')[2]}")


# ---------------------------------------------------------------- jobs that attack

def with_descriptors(broker, data):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(broker.socket)
        socket.send_fds(s, [data], [0, 1, 2])
        return s.recv(64)[4]


def open_fds(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def case_hostile(work):
    """A list of attempts: the pinhole can be used for nothing but what it is for."""
    gateway = gateway_of(work)
    broker = Broker(work, gateway)
    pid = broker.process.pid
    fds = open_fds(pid)
    good = request(START)
    refused = {
        "empty id": request(BEGAN, ""),
        "one byte more": good + b"x",
        "much more": good * 512,
        "another magic": request(START, magic=b"GLX"),
        "another version": request(START, version=2),
        "kind 0": request(0),
        "kind 5": request(5, "x"),
        "kind 255": request(255, "x"),
        "a start with an id": request(START, "x"),
        "a start with a code": request(START, code=1),
        "a start with what is not its": request(START, memory=1),
        "a program's path as an id": request(BEGAN, "../../bin/sh"),
        "a shell's words as an id": request(BEGAN, "x;reboot"),
        "a line break": request(BEGAN, "a\nb"),
        "an escape": request(BEGAN, b"a\x1b[2Jb"),
        "a NUL within": request(BEGAN, b"a\0b"),
        "bytes behind the id": request(BEGAN, "ab")[:-1] + b"x",
        "an id longer than there is room": request(BEGAN, "ab")[:7] + b"\xff" + request(BEGAN, "ab")[8:],
        "a length of 65": request(BEGAN, "a" * 64)[:7] + b"\x41" + request(BEGAN, "a" * 64)[8:],
        "another user's uid": request(BEGAN, "ab", uid=12345),
        "root's uid": request(BEGAN, "ab", uid=0),
        "reserved bytes": request(BEGAN, "ab", zero=1),
        "a signal 0": request(ENDED, "ab", how=1, code=0),
        "a signal 65": request(ENDED, "ab", how=1, code=65),
        "a third way to end": request(ENDED, "ab", how=2, code=1),
        "options": b"--config /etc/shadow --set exec.x.command=/bin/sh".ljust(REQUEST, b"\0"),
        "HTTP": b"GET / HTTP/1.0\r\n\r\n".ljust(REQUEST, b" "),
        "the agent's own question": b"g" * REQUEST,
    }
    for what, data in refused.items():
        assert broker.send(data) == MALFORMED, what
    assert not agents(gateway) and not gateway.events("job.state")
    random.seed(9)
    for _ in range(500):  # whatever bit is wrong, a start is none
        data = bytearray(good)
        for _ in range(random.choice((1, 1, 2, 8))):
            data[random.randrange(REQUEST)] ^= 1 << random.randrange(8)
        if data != good:
            assert broker.send(bytes(data)) == MALFORMED, data.hex()
    assert not agents(gateway)
    for half in (1, 64, 127):
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(broker.socket)
            s.sendall(good[:half])
            s.shutdown(socket.SHUT_WR)
            assert s.recv(64)[4] == MALFORMED
    for data in (good, request(BEGAN, "fds")):
        assert with_descriptors(broker, data) == MALFORMED
    wait_for(lambda: open_fds(pid) == fds, "descriptors that were taken")
    assert not agents(gateway), "a malformed request started something"
    # A job's message without an agent starts none.
    assert broker.send(request(BEGAN, "early")) == NO_AGENT and not agents(gateway)
    attack_slowly(broker, good)
    # What it is for.
    assert broker.send(good) == DONE
    agent = agent_of(gateway)
    assert broker.send(good[:50], good[50:]) == ALREADY
    arguments = read(f"/proc/{agent}/cmdline").split(b"\0")[:-1]
    wanted = ["gridline-agent", "--guest", "--quiet", "--config", "/dev/null", "--gateway", gateway.addresses[0],
              *(w if w != "-s" else "--set" for w in AGENT_SETTINGS)]
    assert [a.decode() for a in arguments] == wanted, arguments
    assert os.path.samefile(f"/proc/{agent}/exe", AGENT)
    replay(gateway, broker)
    flood(gateway, broker, agent)
    wrong_user(work, gateway, broker)
    starts(gateway, broker)
    sockets(work, gateway, broker)
    dies(work, gateway, broker)


def attack_slowly(broker, good):
    """As many as there are places connect and say nothing: others still get their answer."""
    idle = []
    for _ in range(64):
        s = socket.socket(socket.AF_UNIX)
        s.connect(broker.socket)
        s.sendall(good[:3])
        idle.append(s)
    assert broker.send(request(BEGAN, "behind-the-slow")) == NO_AGENT
    for s in idle:
        s.settimeout(20)
        assert s.recv(64)[4] == MALFORMED
        s.close()


def replay(gateway, broker):
    """The same message again is one more event of the same user, and no more than that."""
    said = request(ENDED, "replayed", code=3, duration=10**9)
    for _ in range(3):
        assert broker.send(said) == DONE
    events = wait_for(lambda: len(job_states(gateway, "replayed")) == 3 and gateway.events("job.state"), "the events")
    assert all(e["uid"] == os.geteuid() for e in events), events


def send_together(broker, requests):
    """What each of these is answered, sent at the same time; no more than there are places."""
    callers = [socket.socket(socket.AF_UNIX) for _ in requests]
    for s, data in zip(callers, requests):
        s.settimeout(grid.PATIENCE)
        s.connect(broker.socket)
        s.sendall(data)
    results = [s.recv(64)[4] for s in callers]
    for s in callers:
        s.close()
    return results


def flood(gateway, broker, agent):
    """As fast as they go: no more are taken than the agent's limit allows in that time, 60 at once and 20 a second."""
    began = time.monotonic()
    results = []
    for n in range(0, 500, 25):
        results += send_together(broker, [request(BEGAN, f"flood{i}") for i in range(n, n + 25)])
    seconds, taken = time.monotonic() - began, results.count(DONE)
    print(f"{len(results)} messages in {seconds:.1f} s: {taken} taken, {results.count(TOO_MUCH)} refused")
    assert TOO_MUCH in results and set(results) <= {DONE, TOO_MUCH} and taken <= 60 + 20 * seconds + 1, results
    wait_for(lambda: len([e for e in gateway.events("job.state") if e["id"].startswith("flood")]) == taken, "those that were taken")
    assert agent_of(gateway) == agent
    lines = [line for line in broker.log().splitlines() if "flood" in line]
    assert len(lines) < len(results), "the log was flooded"


def wrong_user(work, gateway, broker):
    """Another user: by the socket's mode, and where that lets it in, by its uid."""
    os.chmod(broker.socket, 0o666)
    for folder in (work, broker.folder):
        os.chmod(folder, 0o755)
    script = "import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\n" \
             "try: s.sendall(bytes.fromhex(sys.argv[2]))\nexcept BrokenPipeError: pass\nprint(s.recv(64)[4])"
    as_user = lambda uid: run(["/usr/bin/python3", "-c", script, broker.socket, request(START).hex()], user=uid, group=uid)
    assert as_user(65534).stdout == f"{NOT_ALLOWED}\n"
    # One that was named may.
    other = Broker(work + "/other", gateway, "--user", "65534")
    for folder in (work + "/other", other.folder):
        os.chmod(folder, 0o755)
    assert run(["/usr/bin/python3", "-c", script, other.socket, request(START).hex()], user=65534, group=65534).stdout == f"{ALREADY}\n"
    assert run(["/usr/bin/python3", "-c", script, other.socket, request(START).hex()], user=65533, group=65533).stdout == f"{NOT_ALLOWED}\n"
    wait_for(lambda: other.send(request(BEGAN, "mine")) == DONE, "room in the limit")
    stop(other.process)


def starts(gateway, broker):
    """Killing the agent again and again starts no more than so many: 4 at once, one each 5 s."""
    began, results = time.monotonic(), []
    while TOO_MUCH not in results:
        for pid in agents(gateway):
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not agents(gateway), "the agent's end")
        results.append(broker.send(request(START)))
        assert results.count(DONE) <= 4 + (time.monotonic() - began) / 5 + 1, results
        assert set(results) <= {DONE, TOO_MUCH}, results
    print("killed and started again:", results)
    assert DONE in results, results


def sockets(work, gateway, broker):
    """Nobody's file is removed or followed for the socket's sake."""
    precious = work + "/precious"
    with open(precious, "w") as f:
        f.write("precious")
    os.symlink(precious, work + "/link")
    os.mkdir(work + "/open")
    os.chmod(work + "/open", 0o777)
    for path, says in ((work + "/link", "no socket of this user's"), (precious, "no socket of this user's"),
                       (work + "/open/hole", "others may replace"), (broker.socket, "is served already"), ("x" * 200, "path")):
        out = run([PINHOLE, "--socket", path, "--gateway", gateway.addresses[0], "--agent", AGENT])
        assert out.returncode == 1 and says in out.stderr, (path, out)
    assert read(precious) == b"precious"
    shutil.copy(AGENT, work + "/agent")
    os.chmod(work + "/agent", 0o777)
    out = run([PINHOLE, "--socket", work + "/h", "--gateway", gateway.addresses[0], "--agent", work + "/agent"])
    assert out.returncode == 1 and "may change it" in out.stderr, out


def dies(work, gateway, broker):
    """The broker is killed: jobs run, its agent stays; one that is started in its place takes its socket over."""
    wait_for(lambda: broker.send(request(START)) in (DONE, ALREADY), "an agent")
    agent = agent_of(gateway)
    stop(broker.process, signal.SIGKILL)
    out = run([LAUNCH, "--pinhole", "unix:" + broker.socket, "--", "sh", "-c", "exit 5"])
    assert out.returncode == 5 and "no agent was started" in out.stderr, out
    assert agent_of(gateway) == agent
    again = Broker(work, gateway)
    assert again.send(request(START)) == ALREADY and agent_of(gateway) == agent
    # Somebody took its socket's place: it is not removed when this one ends.
    os.unlink(again.socket)
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(again.socket)
    assert stop(again.process) == 0 and os.path.exists(again.socket)


def main():
    own_host()
    make_own_host()
    try:
        grid.main(globals(), sys.argv)
    finally:
        for pid in processes():  # of cases that end before the lease does
            if read(f"/proc/{pid}/cmdline").startswith(b"gridline-agent\0") and \
                    os.readlink(f"/proc/{pid}/ns/mnt") == os.readlink("/proc/self/ns/mnt"):
                os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
