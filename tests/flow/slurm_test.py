#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The sensor slurm with a real Slurm of one node: jobs that succeed, fail, are killed and are cancelled, as the sensor tells
them, against what Slurm itself, its job completion log, and the log filters on slurmctld's logs say.

    slurm_test.py GRIDLINE SOURCE

Everything listens on 127.0.0.1 only, and as the user who runs the test."""
import ctypes
import getpass
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

GRIDLINE, SOURCE = sys.argv[1], sys.argv[2]
SKIP = 77
LIMIT_S = 150
PROGRAMS = ["munged", "slurmctld", "slurmd", "sbatch", "scancel", "squeue", "sinfo", "scontrol"]
ENDS = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "GONE"}

CONFIGURATION = """\
ClusterName=lab
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld}
SlurmdPort={slurmd}
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.socket
SlurmUser={user}
SlurmdUser={user}
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_min_interval=100000
ReturnToService=2
MessageTimeout=100
TCPTimeout=100
MinJobAge=300
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/jobcomp.log
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=debug Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def wait_for(what, condition):
    until = time.monotonic() + LIMIT_S
    while time.monotonic() < until:
        value = condition()
        if value:
            return value
        time.sleep(0.1)
    raise AssertionError(f"waited {LIMIT_S} s for {what}")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def output(*argv):
    return subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True).stdout


def read(path):
    try:
        with open(path) as f:
            return f.read()
    except FileNotFoundError:
        return ""


def children():
    with open(f"/proc/self/task/{os.getpid()}/children") as f:
        return [int(pid) for pid in f.read().split()]


class Slurm:
    """The daemons. Orphans become our children, so that nothing of them is left whatever happens."""

    def __enter__(self):
        assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0  # PR_SET_CHILD_SUBREAPER
        self.folder = tempfile.mkdtemp(prefix="gridline-slurm.")
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def path(self, name):
        return os.path.join(self.folder, name)

    def daemon(self, *argv):
        with open(self.path(os.path.basename(argv[0]) + ".out"), "w") as out:
            return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)

    def start(self):
        host = socket.gethostname().split(".")[0]
        for name in ("state", "spool"):
            os.mkdir(self.path(name))
        with open(os.open(self.path("munge.key"), os.O_WRONLY | os.O_CREAT, 0o400), "wb") as f:
            f.write(os.urandom(128))
        with open(self.path("slurm.conf"), "w") as f:
            f.write(CONFIGURATION.format(host=host, folder=self.folder, user=getpass.getuser(), ctld=free_port(),
                                         slurmd=free_port()))
        os.environ["SLURM_CONF"] = self.path("slurm.conf")
        self.daemon("munged", "--foreground", "--force", *(f"--{option}={self.path('munge.' + end)}" for option, end in (
            ("socket", "socket"), ("pid-file", "pid"), ("log-file", "log"), ("seed-file", "seed"), ("key-file", "key"))))
        wait_for("munged", lambda: os.path.exists(self.path("munge.socket")))
        self.daemon("slurmctld", "-D", "-f", self.path("slurm.conf"))
        self.daemon("slurmd", "-D", "-f", self.path("slurm.conf"), "-N", host)
        wait_for("an idle node", lambda: "idle" in subprocess.run(
            ["sinfo", "-h", "-o", "%T"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.split())

    def __exit__(self, *why):
        if why and why[0]:
            for name in ("munged.out", "slurmctld.log", "slurmd.log"):
                sys.stderr.write(f"--- {name}\n" + "".join(read(self.path(name)).splitlines(True)[-20:]))
        while children():
            for pid in children():
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        shutil.rmtree(self.folder)


class Sensor:
    """`gridline sense slurm`, all the time."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "events.ndjson")
        with open(self.path, "w") as out:
            self.process = subprocess.Popen([GRIDLINE, "sense", "slurm", "-i", "1s", "-n", "1000000", "--format", "ndjson"],
                                            stdout=out)

    def events(self, name):
        assert self.process.poll() in (None, -signal.SIGINT), self.process.returncode  # runs, or was stopped below
        lines = read(self.path).split("\n")[:-1]
        return [e for e in map(json.loads, lines) if e["name"] == name]

    def states(self):
        """The states of each job, in the order they were told."""
        jobs = {}
        for e in self.events("job.state"):
            jobs.setdefault(e["id"], []).append(e)
        return jobs

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(LIMIT_S)


def submit(name, script, *options):
    return output("sbatch", "--parsable", "-o", "/dev/null", "-J", name, *options, "--wrap", script).strip()


def run_jobs(sensor):
    """Number -> the state, exit code and signal that it must end with."""
    ok, fails = submit("ok", "true"), submit("fails", "exit 3")
    killed = submit("killed", "kill -9 $$")
    held, long = submit("held", "true", "-H"), submit("long", "exec sleep 1000")
    array = submit("array", "true", "--array=1-2")
    wait_for("the long job to run", lambda: sensor.states().get(long, [{}])[-1].get("state") == "RUNNING")
    wait_for("the held job", lambda: held in sensor.states())
    wait_for("a queue with a job", lambda: any(e["running"] >= 1 and e["cpus_allocated"] >= 1 and e["nodes_allocated"] == 1
                                               for e in sensor.events("queue")))
    output("scancel", long, held)
    expected = {ok: ("COMPLETED", 0, 0), fails: ("FAILED", 3, 0), killed: ("FAILED", 0, 9), held: ("CANCELLED", 0, 0),
                long: ("CANCELLED", 0, None)}
    wait_for("the end of all jobs", lambda: not output("squeue", "-h"))
    tasks = output("squeue", "-h", "-t", "all", "-o", "%A %F %K").splitlines()
    for number, of, task in (line.split() for line in tasks):
        if of == array:
            expected[number] = ("COMPLETED", 0, 0)
    assert len(expected) == 7, tasks
    return array, expected


def check_stories(states, expected, array):
    """Each job's events are one story, and it ends as it must."""
    assert set(states) == set(expected), (sorted(states), sorted(expected))
    for number, events in states.items():
        assert all(e["target"] == "lab" and e["user"] == getpass.getuser() and e["partition"] == "debug" for e in events)
        assert "previous" not in events[0]
        for before, after in zip(events, events[1:]):
            assert after["previous"] == before["state"] != after["state"], (before, after)
            assert before["state"] not in ENDS, events
        last = events[-1]
        state, code, killed_by = expected[number]
        assert (last["state"], last["exit"]) == (state, code), last
        assert killed_by is None or last["signal"] == killed_by, last
        assert last["submit_time"] <= last["start_time"] <= last["end_time"], last
    names = {e["job"] for events in states.values() for e in events if e["job_name"] == "array" and e["state"] in ENDS}
    assert names == {f"{array}_1", f"{array}_2"}, names


def ends_by_slurm():
    lines = output("squeue", "-h", "-t", "all", "-o", "%A %T").splitlines()
    return dict(line.split() for line in lines)


def no_cancel(state, signal_):
    """The log is written when a job is cancelled, before the signal has ended it: 0 there, 15 in squeue."""
    return None if state == "CANCELLED" else signal_


def ends_by_jobcomp(slurm):
    found = re.findall(r"^JobId=(\d+) .*? JobState=(\w+) .*? ExitCode=(\d+):(\d+)", read(slurm.path("jobcomp.log")), re.M)
    return {number: (state, int(code), no_cancel(state, int(signal_))) for number, state, code, signal_ in found}


def ends_by_filter(log, filter_name):
    """What the sensor logfile makes of a log of Slurm's that is already there."""
    out = subprocess.run([GRIDLINE, "sense", "logfile", f"path={log}", "from=start",
                          f"filter={SOURCE}/share/filters/{filter_name}.conf", "-n", "2", "-i", "1s", "--format", "ndjson"],
                         stdout=subprocess.PIPE, text=True)
    assert out.returncode == 0, out.returncode
    events = [e for e in map(json.loads, out.stdout.splitlines()) if e["name"] == "job.state"]
    return {str(e["id"]): e["state"] for e in events if e["state"] in ENDS}


def has_logfile():
    return re.search(r"^logfile\s", output(GRIDLINE, "sense", "--list"), re.M) is not None


def main():
    missing = [p for p in PROGRAMS if not shutil.which(p)]
    if missing:
        print("not here:", *missing)
        return SKIP
    with Slurm() as slurm:
        sensor = Sensor(slurm.folder)
        wait_for("the first sample", lambda: sensor.events("queue"))
        array, expected = run_jobs(sensor)
        wait_for("all ends", lambda: sum(events[-1]["state"] in ENDS for events in sensor.states().values()) >= len(expected))
        seen = len(sensor.events("queue"))
        wait_for("one more sample", lambda: len(sensor.events("queue")) > seen)
        sensor.stop()
        states = sensor.states()
        check_stories(states, expected, array)
        last = sensor.events("queue")[-1]
        assert (last["pending"], last["running"], last["cpus"], last["nodes"], last["nodes_down"]) == (0, 0, 2, 1, 0), last

        ends = {number: events[-1]["state"] for number, events in states.items()}
        assert ends == ends_by_slurm(), (ends, ends_by_slurm())
        wait_for("the job completion log", lambda: len(ends_by_jobcomp(slurm)) == len(ends))
        codes = {number: (e[-1]["state"], e[-1]["exit"], no_cancel(e[-1]["state"], e[-1]["signal"]))
                 for number, e in states.items()}
        assert codes == ends_by_jobcomp(slurm), (codes, ends_by_jobcomp(slurm))
        print(f"{len(ends)} jobs: the sensor, squeue and the job completion log agree")
        if has_logfile():
            for log, name in (("slurmctld.log", "slurmctld"), ("jobcomp.log", "slurm-jobcomp")):
                told = ends_by_filter(slurm.path(log), name)
                assert told == ends, (name, told, ends)
                print(f"the filter {name} agrees")
    assert not children()
    return 0


if __name__ == "__main__":
    sys.exit(main())
