#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Late, agent dead, unreachable: hosts that are network namespaces, a real gateway and a real guard with its default rules. What
is done to each host is found to be what it is, fires once, and clears once when it is over.

    health_test.py CASE GUARD GATEWAY AGENT

The case `measured` has the periods that are there without being told, and prints how long each took; it takes some minutes."""
import calendar
import json
import os
import signal
import sys
import time

import grid
from grid import Agent, Gateway, Guard, Net, wait_for

GUARD, GATEWAY, AGENT = sys.argv[2:5]
RULES = ("host-late", "agent-dead", "host-unreachable")

# What is done to a host, and which rule is to fire for it; None: none.
CASES = {
    "killed": "agent-dead",        # kill -9 of its agent
    "hung": "agent-dead",          # SIGSTOP: its connection is there, its renewals are not
    "cut": "host-unreachable",     # its link is down
    "silent": "host-late",         # the sensor heartbeat is stopped; all else goes on
    "deregistered": None,          # SIGTERM
    "well": None,
}

QUICK_AGENT = "insecure = true\ninsecure_control = true\nheartbeat { every = 300ms refresh = 300ms }\n"
QUICK_GATEWAY = ("lease.time=3s", "lease.renew=1s")
QUICK_GUARD = "heartbeat { every = 300ms timeout = 1500ms }\n"
QUICK_RULES = {"host-late": "every = 200ms for = 6s clear_for = 1s", "agent-dead": "every = 200ms for = 1s clear_for = 1s",
               "host-unreachable": "every = 200ms for = 1s clear_for = 1s"}
# Rules of ours that could say something of their own on a machine that runs many tests.
OTHERS = "".join(f"rule {r} {{ enabled = false }}\n" for r in ("disk-full", "inodes-full", "disk-full-soon", "memory-low",
                 "memory-pressure", "agent-restarts", "clock-skew", "archive-behind", "events-dropped", "samples-lost"))


def guard_config(work, quick):
    script = f"{work}/note.sh"
    with open(script, "w") as f:
        f.write(f'#!/bin/sh\nprintf "%s %s %s\\n" "$1" "$2" "$3" >> {work}/notes\n')
    os.chmod(script, 0o755)
    text = OTHERS + (QUICK_GUARD if quick else "")
    text += f'exec note {{ program = "{script}" args = {{"{{kind}}", "{{rule}}", "{{host}}"}} rate = "1000/1h" }}\n'
    for rule in RULES:
        text += f'rule {rule} {{ {QUICK_RULES[rule] if quick else ""} on_fire = {{"note"}} on_clear = {{"note"}} }}\n'
    return text


class World:
    def __init__(self, work, quick, hosts=tuple(CASES)):
        self.work = work
        self.net = Net("middle", *hosts)
        inside = self.net.inside("middle")
        self.gateway = Gateway(GATEWAY, work, "gateway", "tcp://0.0.0.0:0", inside=inside, settings=(
            "insecure=true", f"state_dir={work}/state", f"archive.dir={work}/archive", *(QUICK_GATEWAY if quick else ()))).start()
        port = self.gateway.addresses[0].rsplit(":", 1)[1]
        self.agents = {h: Agent(AGENT, work, h, [f"tcp://{self.net.address(h)}:{port}"], QUICK_AGENT if quick else "insecure = true\ninsecure_control = true\n",
                                inside=self.net.inside(h)) for h in hosts}
        for agent in self.agents.values():
            agent.start()
        for host in hosts:
            wait_for(lambda: self.gateway.state(host) == "live", f"{host} is live")
        self.guard = Guard(GUARD, work, "unix:" + self.gateway.socket, guard_config(work, quick), inside=inside).start()
        wait_for(lambda: "listening" in self.guard.log(), "a subscription")

    def sql(self, text):
        out = self.gateway.gridline("sql", "--format", "json", text, check=False)
        return json.loads(out.stdout)["rows"] if out.returncode == 0 else []  # an event that nobody has sent is no table

    def faults(self):
        """By host: rule and fault, in any state."""
        found = {}
        for f in self.guard.faults("--all"):
            if f["rule"] in RULES and f["state"] != "pending":
                found.setdefault(f["host"], {})[f["rule"]] = f
        return found

    def notes(self):
        """What actions were run, by host: kind and rule, in order."""
        found = {}
        if os.path.exists(f"{self.work}/notes"):
            with open(f"{self.work}/notes") as f:
                for kind, rule, host in (line.split() for line in f):
                    found.setdefault(host, []).append((kind, rule))
        return found

    def told(self):
        """The fires and clears of each host in the archive, in order. An event tells of every change, that it was told of also, and a
        guard that starts tells again what fires: the same twice in a row is one."""
        history = {}
        for rule, host, state, episode in self.sql("SELECT rule, target, state, episode FROM fault_state ORDER BY time, seq"):
            entry, entries = (rule, state, episode), history.setdefault(host, [])
            if rule in RULES and state in ("firing", "cleared") and entries[-1:] != [entry]:
                entries.append(entry)
        return history

    def do(self, host):
        agent = self.agents[host]
        if host == "killed":
            agent.stop(signal.SIGKILL)
        elif host == "hung":
            agent.process.send_signal(signal.SIGSTOP)
        elif host == "cut":
            self.net.link("cut", "down")
        elif host == "silent":
            self.gateway.gridline("sensor", "stop", "heartbeat", "silent")
        elif host == "deregistered":
            agent.stop()

    def undo(self, host):
        if host == "hung":
            self.agents[host].process.send_signal(signal.SIGCONT)
        elif host == "cut":
            self.net.link("cut", "up")
        elif host == "silent":
            self.gateway.gridline("sensor", "start", "heartbeat", "silent")
        elif host != "well":
            self.agents[host].start()


def seconds(row, key):
    """Of a time as rows print it, since 1970."""
    value = row[key]
    if isinstance(value, (int, float)):
        return value / 1e9
    head, _, fraction = value.rstrip("Z").partition(".")
    return calendar.timegm(time.strptime(head, "%Y-%m-%dT%H:%M:%S")) + float("0." + (fraction or "0"))


def check(work, quick, patience):
    world = World(work, quick)
    done, undone = {}, {}
    for host in CASES:
        done[host] = time.time()
        world.do(host)
    trouble = {h: r for h, r in CASES.items() if r}
    wait_for(lambda: {h: r for h in trouble for r, f in world.faults().get(h, {}).items() if f["state"] == "firing"} == trouble,
             "each fault fires", patience)
    wait_for(lambda: world.gateway.state("deregistered") == "deregistered", "it has left")
    fired = world.faults()
    assert {h: set(rules) for h, rules in fired.items()} == {h: {r} for h, r in trouble.items()}, fired
    # It stays so for some rounds of questions: nothing else fires, nothing clears.
    evaluated = lambda: {json.loads(l)["rule"]: json.loads(l)["evaluations"]
                         for l in world.guard.gridline("rule", "list", "--format", "json").stdout.splitlines()}
    before = evaluated()["host-late"]
    wait_for(lambda: evaluated()["host-late"] >= before + 20, "twenty more looks", patience)
    assert {h: set(rules) for h, rules in world.faults().items()} == {h: {r} for h, r in trouble.items()}, world.faults()
    for host in CASES:
        undone[host] = time.time()
        world.undo(host)
    wait_for(lambda: all(world.faults()[h][r]["state"] == "cleared" for h, r in trouble.items()), "each fault clears", patience)
    for host in CASES:
        wait_for(lambda: world.gateway.state(host) == "live", f"{host} is back")
    wait_for(lambda: all(world.told().get(h, [])[-1:] == [(r, "cleared", 1)] for h, r in trouble.items()), "the history")
    wait_for(lambda: all(len(world.notes().get(h, [])) >= 2 for h in trouble), "the actions")
    assert world.notes() == {h: [("fire", r), ("clear", r)] for h, r in trouble.items()}, world.notes()
    for host, rule in CASES.items():
        assert world.told().get(host, []) == ([(rule, "firing", 1), (rule, "cleared", 1)] if rule else []), (host, world.told())
    return world.faults(), done, undone


def case_each(work):
    check(work, True, grid.PATIENCE)


def case_measured(work):
    faults, done, undone = check(work, False, 400)
    print("| what was done | found as | fires after | clears after its end |\n|---|---|---|---|")
    for host, rule in CASES.items():
        f = faults.get(host, {}).get(rule)
        if f:
            print(f"| {host} | `{rule}` | {seconds(f, 'fired') - done[host]:.1f} s | {seconds(f, 'cleared') - undone[host]:.1f} s |")


def case_restart(work):
    """A guard that ends while hosts are down, by kill -9: the next one neither clears nor fires again what it has not looked at; it
    finds what died meanwhile, though it never heard of it."""
    world = World(work, True, ("killed", "cut", "well"))
    world.do("killed")
    wait_for(lambda: world.faults().get("killed", {}).get("agent-dead", {}).get("state") == "firing", "it fires")
    wait_for(lambda: world.notes() == {"killed": [("fire", "agent-dead")]}, "the action")
    world.guard.stop(signal.SIGKILL)
    world.do("cut")
    wait_for(lambda: world.gateway.state("cut") == "expired", "its lease is over")
    world.guard.start()
    wait_for(lambda: world.faults().get("cut", {}).get("host-unreachable", {}).get("state") == "firing", "what died meanwhile")
    assert world.faults()["killed"]["agent-dead"]["state"] == "firing", world.faults()
    assert "well" not in world.faults()
    world.undo("killed")
    world.undo("cut")
    wait_for(lambda: world.faults()["killed"]["agent-dead"]["state"] == "cleared", "it clears")
    wait_for(lambda: world.faults()["cut"]["host-unreachable"]["state"] == "cleared", "it clears")
    wait_for(lambda: all(len(world.notes().get(h, [])) >= 2 for h in ("killed", "cut")), "the actions")
    assert world.notes() == {"killed": [("fire", "agent-dead"), ("clear", "agent-dead")],
                             "cut": [("fire", "host-unreachable"), ("clear", "host-unreachable")]}, world.notes()
    for host, rule in (("killed", "agent-dead"), ("cut", "host-unreachable")):
        wait_for(lambda: world.told().get(host, [])[-1:] == [(rule, "cleared", 1)], "the history")
        assert world.told()[host] == [(rule, "firing", 1), (rule, "cleared", 1)], world.told()


def case_paused(work):
    """A guard that is stopped, for longer than all time-outs: nobody is late for it."""
    world = World(work, True, ("well", "silent"))
    beats = lambda: dict(world.sql("SELECT host, sequence FROM heartbeat_latest")).get("well", 0)
    for _ in range(3):
        world.guard.process.send_signal(signal.SIGSTOP)
        before = beats()
        wait_for(lambda: beats() > before + 12, "twelve heartbeats, which are more than two time-outs")
        world.guard.process.send_signal(signal.SIGCONT)
        world.guard.faults()
    world.do("silent")
    wait_for(lambda: world.faults().get("silent", {}).get("host-late", {}).get("state") == "firing", "one that is late")
    assert set(world.faults()) == {"silent"}, world.faults()


grid.main(globals(), sys.argv)
