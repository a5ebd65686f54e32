#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""examples/parameter-study with a real Slurm of one node, an agent, a gateway and a guard: jobs that finish, die, and end well without
a result; inputs that are not whole; a fast place that fills up. Prints when each happened, was detected, and was acted upon.

    study_test.py GRIDLINE SOURCE LIBRARY"""
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # the tree stays as it is
from slurm_test import GRIDLINE, SOURCE, PROGRAMS, SKIP, Slurm, output, read, wait_for

LIBRARY = os.path.abspath(sys.argv[3])
BIN = os.path.dirname(os.path.abspath(GRIDLINE))
EXAMPLE = SOURCE + "/examples/parameter-study"
FAST_BYTES, RESULT_BYTES = 8 << 20, 512 << 10
OK_JOBS = 20


class Study:
    """The example's files with another folder in place of /study, and everything that runs."""

    def __init__(self, folder):
        self.folder = folder
        self.processes = []
        for name in ("input", "fast", "spare", "log", "run", "state", "bin"):
            os.makedirs(f"{folder}/{name}")
        for path in glob.glob(EXAMPLE + "/bin/*") + glob.glob(EXAMPLE + "/*.conf") + glob.glob(EXAMPLE + "/*.sql"):
            to = f"{folder}/{os.path.relpath(path, EXAMPLE)}"
            with open(to, "w") as f:
                f.write(read(path).replace("/study", folder))
            shutil.copymode(path, to)
        os.symlink(folder + "/fast", folder + "/output")
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={FAST_BYTES}", "study", folder + "/fast"], check=True)

    def start(self, name, *argv, env=None):
        with open(f"{self.folder}/log/{name}.log", "w") as log:
            self.processes.append(subprocess.Popen(argv, stdout=log, stderr=log, env={**os.environ, **(env or {})}))

    def daemon(self, name, *more):
        self.start(name, f"{BIN}/gridline-{name}", "--config", f"{self.folder}/{name}.conf", *more)

    def stop(self):
        for p in reversed(self.processes):
            p.terminate()
        for p in reversed(self.processes):
            p.wait(60)
        subprocess.run(["umount", self.folder + "/fast"], check=True)

    def say_logs(self):
        for path in sorted(glob.glob(self.folder + "/log/*.log")):
            sys.stderr.write(f"--- {path}\n" + "".join(read(path).splitlines(True)[-15:]))

    def ask(self, verb, *argv, to=None):
        where = to or ["--gateway", f"unix:{self.folder}/run/gateway.sock"]
        done = subprocess.run([GRIDLINE, verb, *where, *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert done.returncode == 0, (verb, argv, done.returncode, done.stderr)
        return done.stdout

    def sql(self, text):
        return [json.loads(line) for line in self.ask("sql", text, "--format", "ndjson").splitlines()]

    def faults(self, rule, state="all"):
        guard = ["--guard", f"unix:{self.folder}/run/guard.sock"]
        return [json.loads(line) for line in self.ask("faults", "--state", state, "--rule", rule, "--format", "ndjson",
                                                      to=guard).splitlines()]

    def make_inputs(self, fate, *names):
        subprocess.run([f"{self.folder}/bin/make-inputs", self.folder, fate, str(RESULT_BYTES), *names], check=True)

    def submit(self, *names):
        for name in names:
            output("sbatch", "--parsable", "-o", "/dev/null", "-J", name, f"{self.folder}/bin/job.sh", name)

    def outputs(self, place):
        return {os.path.basename(p)[:-4] for p in glob.glob(f"{self.folder}/{place}/*.out")}

    def noted(self, what):
        """Name of the job -> when it was noted."""
        lines = [line.split("\t") for line in read(self.folder + "/log/again").split("\n")[:-1]]
        return {words[3]: float(words[0]) for words in lines if words[1] == what}

    def moves(self):
        return [line.split() for line in read(self.folder + "/log/moves").split("\n")[:-1]]


def seconds(iso):
    head, fraction = iso.rstrip("Z").split(".")
    return time.mktime(time.strptime(head, "%Y-%m-%dT%H:%M:%S")) - time.timezone + float("0." + fraction)


def tell(what, happened, fired, acted):
    print(f"{what:16} fault to detection {fired - happened:5.2f} s, detection to action {acted - fired:5.2f} s")


def start_all(study):
    study.daemon("gateway")
    wait_for("the gateway", lambda: os.path.exists(study.folder + "/run/gateway.sock"))
    study.daemon("agent")
    study.start("staging", sys.executable, study.folder + "/bin/staging.py", study.folder, f"unix:{study.folder}/run/gateway.sock", "0.5",
                env={"PYTHONPATH": SOURCE + "/bindings/python", "GRIDLINE_LIBRARY": LIBRARY})
    study.daemon("guard")
    wait_for("the guard", lambda: os.path.exists(study.folder + "/run/guard.sock"))


def check_ends(study):
    """A job that died is told from one that finished, by exit status and by its output file."""
    dead, fine = {"dies", "killed"}, {"silent", "short"}
    wait_for("jobs that died to be noted", lambda: dead <= set(study.noted("died")))
    wait_for("jobs without a result to be noted", lambda: fine <= set(study.noted("no-output")))
    assert set(study.noted("died")) & fine == set() and set(study.noted("no-output")) & dead == set(), read(study.folder + "/log/again")
    fired = {f["summary"].split("(")[1].split(")")[0]: seconds(f["fired"]) for f in study.faults("job-died,output-missing")}
    for name in sorted(dead | fine):
        noted = study.noted("died" if name in dead else "no-output")
        tell(f"job {name}", float(read(f"{study.folder}/log/{name}.end")), fired[name], noted[name])


def check_inputs(study):
    """An input that is cut off is a fault until it is whole."""
    path = f"{study.folder}/input/cut.dat"
    wait_for("the input that is cut off", lambda: [f for f in study.faults("input-bad", "firing") if "cut" in f["summary"]])
    assert all("cut" in f["summary"] for f in study.faults("input-bad")), study.faults("input-bad")
    shutil.copy(path + ".whole", path)
    wait_for("the input that is whole", lambda: not study.faults("input-bad", "firing"))


def when_full(study):
    """When the output was whole that left less than a quarter of the fast place."""
    used = 0
    for path in sorted(glob.glob(study.folder + "/fast/*.out"), key=os.path.getmtime):
        used += os.path.getsize(path)
        if used > 0.75 * FAST_BYTES:
            return os.path.getmtime(path)
    raise AssertionError("it is not full")


def check_full_disk(study, names):
    """The fast place fills up: later output goes elsewhere."""
    study.make_inputs("ok", *names)
    study.submit(*names)
    wait_for("the fast place to be full", lambda: study.moves())
    moved, kind, to = study.moves()[0]
    assert (kind, to) == ("fire", study.folder + "/spare"), study.moves()
    [fault] = study.faults("fast-place-full")
    wait_for("all jobs to end", lambda: not output("squeue", "-h"))
    tell("a full place", when_full(study), seconds(fault["fired"]), float(moved))
    fast, spare = study.outputs("fast") & set(names), study.outputs("spare")
    without = set(names) - fast - spare
    wait_for("those that found no room to be noted", lambda: without <= set(study.noted("died")))
    assert fast and spare and not fast & spare, (fast, spare)
    assert not (fast | spare) & set(study.noted("died")), read(study.folder + "/log/again")
    print(f"{len(fast)} outputs in the fast place, {len(spare)} elsewhere, {len(without)} found no room and are noted")


def check_room_again(study):
    """Output comes back when there is room."""
    for path in glob.glob(study.folder + "/fast/p*.out"):
        os.unlink(path)
    wait_for("output to come back", lambda: len(study.moves()) == 2)
    assert study.moves()[1][1:] == ["clear", study.folder + "/fast"], study.moves()


def check_progress(study, names):
    """What people see (IP-7)."""
    question = read(study.folder + "/progress.sql")

    def ended():
        rows = {r["state"]: r for r in study.sql(question)}
        return rows if set(rows) == {"COMPLETED", "FAILED"} else None

    rows = wait_for("the end of all jobs in the table", ended)
    fast, spare = study.outputs("fast") & set(names), study.outputs("spare")
    whole = wait_for("all outputs in the table", lambda: ended()["COMPLETED"]["whole_outputs"] == len(fast | spare) and ended())
    assert whole["COMPLETED"]["elsewhere"] == len(spare) and whole["COMPLETED"]["bytes"] == len(fast | spare) * RESULT_BYTES, whole
    assert rows["COMPLETED"]["jobs"] + rows["FAILED"]["jobs"] == len(names) + 4, rows
    print(study.ask("sql", question))
    assert [r["state"] for r in study.sql("SELECT state FROM workers")] == ["live"]
    open_faults = study.sql("SELECT rule, host FROM faults WHERE state <> 'cleared'")
    assert {"job-died", "output-missing", "fast-place-full"} <= {r["rule"] for r in open_faults}, open_faults
    print(study.ask("faults"))


def main():
    missing = [p for p in PROGRAMS if not shutil.which(p)]
    if missing or os.geteuid() != 0:
        print("not here:", *missing, *([] if os.geteuid() == 0 else ["root's rights: a small disk is mounted"]))
        return SKIP
    with Slurm():
        folder = tempfile.mkdtemp(prefix="gridline-study.")
        study = Study(folder)
        try:
            start_all(study)
            for fate, name in (("exit", "dies"), ("kill", "killed"), ("silent", "silent"), ("short", "short"), ("ok", "cut")):
                study.make_inputs(fate, name)
            cut = study.folder + "/input/cut.dat"
            shutil.copy(cut, cut + ".whole")
            os.truncate(cut, 100)
            study.submit("dies", "killed", "silent", "short")
            check_ends(study)
            check_inputs(study)
            names = [f"p{i:03}" for i in range(OK_JOBS)]
            check_full_disk(study, names)
            check_progress(study, names)
            check_room_again(study)
        except BaseException:
            study.say_logs()
            raise
        finally:
            study.stop()
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
