#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs as sensors of a real gridline-agent: whatever they do, the agent goes on, says what happened, and leaves nothing
running: not when it ends, not when a sensor goes, and after kill -9 not once the next agent has started.

    exec_sensor.py CASE AGENT HELPER

Everything that is started has a mark in its arguments, by which /proc is searched."""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # the tree stays as it is
import fetch_test

LIMIT_S = 60
MARK = f"gridline-exec-flow-{os.getpid()}"
AGENT, HELPER = "", ""
SLEEPER = "sh -c 'trap \"\" TERM HUP; while :; do sleep 1000; done' $0"


def wait_for(condition, what):
    end = time.monotonic() + LIMIT_S
    while not (value := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {LIMIT_S} s")
        time.sleep(0.02)
    return value


def alive(mark=MARK):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                words = f.read().split(b"\0")
        except OSError:
            continue
        if mark.encode() in words:
            found.append(int(pid))
    return found


def sensor(name, script, /, **options):
    quoted = ", ".join('"' + w.replace("\\", "\\\\").replace('"', '\\"') + '"' for w in ["/bin/sh", "-c", script, MARK])
    more = "  ".join(f"{k} = {v}" for k, v in options.items())
    return f"exec {name} {{ every = 100ms  command = {{{quoted}}}  {more} }}\n"


class Agent:
    def __init__(self, work, config):
        self.work, self.file, self.out, self.log_path = work, work + "/agent.conf", work + "/out.ndjson", work + "/log"
        self.configure(config)

    def configure(self, config):
        with open(self.file, "w", encoding="utf-8") as f:
            # The gateway is never there; its address makes this the only agent of its kind.
            f.write(f'state_dir = "{self.work}/state"\nrun_dir = "{self.work}/run"\nsocket = ""\n'
                    f'gateway = {{"unix:{self.work}/no-gateway"}}\n'
                    f'output own {{ path = "{self.out}"  encoding = ndjson }}\n' + config)

    def start(self):
        environment = dict(os.environ, GRIDLINE_HELPER=HELPER, no_proxy="*")
        with open(self.log_path, "a", encoding="utf-8") as log:
            self.process = subprocess.Popen([AGENT, "-c", self.file], stderr=log, env=environment)
        return self

    def log(self):
        with open(self.log_path, encoding="utf-8") as f:
            return f.read()

    def says(self, text):
        wait_for(lambda: text in self.log(), f"the log line '{text}'")

    def events(self, name):
        if not os.path.exists(self.out):
            return []
        with open(self.out, encoding="utf-8") as f:
            lines = f.read().split("\n")[:-1]  # the last may be cut
        return [e for e in map(json.loads, lines) if e["name"] == name]

    def end(self, sig=signal.SIGTERM):
        self.process.send_signal(sig)
        return self.process.wait(LIMIT_S)


def case_whatever_they_do(work):
    agent = Agent(work, sensor("good", "echo NL.EVNT=good.event N=1", format="ulm") +
                  sensor("disk", "echo 'DISK WARNING - 9% free | /=91%;90;95'; exit 1") +
                  sensor("hangs", "trap '' TERM; while :; do sleep 1000; done", timeout="200ms") +
                  sensor("floods", "yes") +
                  sensor("garbage", "head -c 5000 /dev/urandom", format="bp") +
                  sensor("dies", "kill -SEGV $$") +
                  sensor("forks", f"(setsid {SLEEPER} &); {SLEEPER} & echo 5", name="forks.value") +
                  sensor("stays", f"(setsid {SLEEPER} &); echo NL.EVNT=stays.event N=1; while :; do sleep 1000; done",
                         run="long", format="ulm") +
                  'exec missing { every = 100ms  command = {"/no/such/program"} }\n').start()
    for text in ["hangs", "sh: killed after 0.2s: no end", "sh: killed: it printed more than", "lines is bp",
                 "sh: ended by signal 11", "/no/such/program: can't be started"]:
        agent.says(text)
    wait_for(lambda: len(agent.events("good.event")) >= 3, "three runs of the good one")
    wait_for(lambda: len(agent.events("forks.value")) >= 3, "three runs of the one that forks")
    wait_for(lambda: agent.events("stays.event"), "the event of the long run")
    check = wait_for(lambda: agent.events("check"), "the check")[0]
    assert (check["check"], check["state"], check["status"], check["level"]) == ("disk", 1, "warning", "warning"), check
    perf = agent.events("check.perf")[0]
    assert (perf["label"], perf["value"], perf["unit"], perf["warn"]) == ("/", 91, "%", "90"), perf
    assert alive(), "the long run"
    assert agent.end() == 0, agent.log()
    assert not alive(), alive()


def case_reload(work):
    """A sensor that goes takes its program with it; others are not touched."""
    kept = sensor("kept", "exec sleep 1000", run="long")
    agent = Agent(work, kept + sensor("gone", f"(setsid {SLEEPER} &); trap '' TERM; while :; do sleep 1000; done",
                                      run="long")).start()
    wait_for(lambda: len(alive()) >= 2, "the programs")
    agent.configure("heartbeat { every = 100ms }\n" + kept)
    agent.process.send_signal(signal.SIGHUP)
    wait_for(lambda: not alive(), "what is gone")  # `sleep` has no mark
    assert "ended" not in agent.log(), agent.log()
    assert agent.end() == 0, agent.log()


def case_killed(work):
    """kill -9: the kernel ends the program, the next agent what it had let loose."""
    agent = Agent(work, sensor("loose", f"(setsid {SLEEPER} &); while :; do sleep 1000; done", run="long")).start()
    wait_for(lambda: len(alive()) == 2, "the program and its stray")
    agent.end(signal.SIGKILL)
    wait_for(lambda: len(alive()) == 1, "the program's end")
    agent.configure("heartbeat { every = 1s }\n")
    agent.start()
    wait_for(lambda: not alive(), "the stray's end")
    agent.says("that an agent that was killed had left")
    assert agent.end() == 0, agent.log()


def case_url(work):
    """A document may name programs only if the site has signed it."""
    fetch_test.WORK = work
    ca = fetch_test.make_ca("site")
    fetch_test.make_certificate("signer", "site", "extendedKeyUsage=codeSigning\n")
    server = fetch_test.Server()
    document = sensor("disk", "echo DISK OK").encode()
    server.files["/agent.conf"] = document
    agent = Agent(work, f'config_url = "{server.url()}"\nconfig_ca = "{ca}"\nconfig_every = 1s\n'
                  "heartbeat { every = 100ms }\n").start()
    agent.says("the configuration stays as it was")
    assert not agent.events("check"), "an unsigned document named a program, and it ran"
    server.files["/agent.conf.sig"] = fetch_test.sign(document, "signer")
    wait_for(lambda: agent.events("check"), "the check of the signed document")
    server.files["/agent.conf"] = document + b"x"
    agent.says("the signature is not good")
    runs = len(agent.events("check"))
    wait_for(lambda: len(agent.events("check")) > runs, "it goes on with what it had")
    assert agent.end() == 0, agent.log()
    assert not alive()


def main():
    global AGENT, HELPER
    case, AGENT, HELPER = sys.argv[1], os.path.realpath(sys.argv[2]), os.path.realpath(sys.argv[3])
    work = tempfile.mkdtemp(prefix="gridline-exec.")
    try:
        globals()["case_" + case](work)
    except AssertionError:
        with open(work + "/log", encoding="utf-8") as f:
            sys.stderr.write("the agent said:\n" + f.read())
        raise
    finally:
        for pid in alive() + alive(work + "/agent.conf"):  # after a failure
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(work)
    return 0


if __name__ == "__main__":
    sys.exit(main())
