#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A real guard at a real gateway: rules, faults, actions, orders of people, restarts, and what it does when it hears nothing.

    guard_test.py CASE GUARD GATEWAY AGENT"""
import json
import os
import signal
import subprocess
import sys
import time

import grid
from grid import Agent, Gateway, Guard, wait_for

GUARD, GATEWAY, AGENT = sys.argv[2:5]
GRIDLINE = os.path.join(os.path.dirname(GATEWAY), "gridline")

HOT = """
rule hot {
    query = "SELECT host, degrees FROM heat_latest WHERE degrees > 80"
    every = 200ms  fresh = 1h  trust = {"heat"}
    on_fire = {"note"}  on_clear = {"note"}
    %s
}
"""


def note_action(work):
    script = f"{work}/note.sh"
    with open(script, "w") as f:
        f.write(f'#!/bin/sh\nprintf "%s %s %s %s\\n" "$1" "$2" "$3" "$4" >> {work}/notes\n')
    os.chmod(script, 0o755)
    return f'exec note {{ program = "{script}"  args = {{"{{kind}}", "{{rule}}", "{{host}}", "{{degrees}}"}}  rate = "1000/1h" }}\n'


def notes(work):
    try:
        with open(f"{work}/notes") as f:
            return [line.split() for line in f]
    except FileNotFoundError:
        return []


def gateway_of(work, settings=()):
    return Gateway(GATEWAY, work, "gateway", "tcp://127.0.0.1:0", settings=(
        f"state_dir={work}/state", f"archive.dir={work}/archive", *settings)).start()


def heat(gateway, host, level):
    subprocess.run([GRIDLINE, "log", "--to", "unix:" + gateway.socket, "--host", host, "heat", f"degrees={level}"], check=True)


def sql(gateway, text, check=True):
    """check=False: no rows where it fails, as of an event that has not come yet."""
    out = gateway.gridline("sql", "--format", "ndjson", text, check=check).stdout
    return [json.loads(line) for line in out.splitlines()]


def states(guard, *argv):
    return {(f["rule"], f.get("host", "")): f["state"] for f in guard.faults("--all", *argv)}


def case_life(work):
    """Fire, acknowledge, silence, clear; each told once; history in the archive; the gateway's table."""
    gateway = gateway_of(work)
    guard = Guard(GUARD, work, "unix:" + gateway.socket, "default_rules = false\n" + note_action(work) + HOT % "").start()
    wait_for(lambda: "listening" in guard.log(), "a subscription")
    heat(gateway, "a", 90)
    heat(gateway, "b", 10)
    wait_for(lambda: notes(work) == [["fire", "hot", "a", "90"]], "a fire")
    fault = wait_for(lambda: guard.faults(), "the fault")[0]
    assert fault["state"] == "firing" and fault["host"] == "a" and fault["told"], fault
    guard.gridline("ack", fault["fault"], "--note", "on it")
    fault = guard.faults()[0]
    assert fault["state"] == "acknowledged" and fault["ack_note"] == "on it", fault
    guard.gridline("silence", "--rule", "hot", "--for", "1h")
    heat(gateway, "a", 95)
    heat(gateway, "a", 20)
    wait_for(lambda: notes(work)[1:] == [["clear", "hot", "a", "90"]] or notes(work)[1:] == [["clear", "hot", "a", "95"]],
             f"a clear, though it is silenced: {notes(work)}")
    assert states(guard)[("hot", "a")] == "cleared"
    # Silenced: b fires, and nobody hears of it.
    heat(gateway, "b", 99)
    wait_for(lambda: states(guard).get(("hot", "b")) == "firing", "b fires")
    heat(gateway, "b", 1)
    wait_for(lambda: states(guard).get(("hot", "b")) == "cleared", "b clears")
    assert len(notes(work)) == 2, notes(work)
    rows = lambda: sql(gateway, "SELECT state, target FROM fault_state ORDER BY time, seq")
    wait_for(lambda: [r["state"] for r in rows() if r["target"] == "a"][-1:] == ["cleared"], "the history")
    told = [r["state"] for r in rows() if r["target"] == "a"]
    told = [t for i, t in enumerate(told) if i == 0 or told[i - 1] != t]  # what was told of it is an event, too
    assert told == ["firing", "acknowledged", "cleared"], told
    actions = sql(gateway, "SELECT kind, result FROM fault_action ORDER BY time, seq")
    assert [(a["kind"], a["result"]) for a in actions] == [("fire", "done"), ("clear", "done")], actions
    out = subprocess.run([GRIDLINE, "audit", "verify", f"{guard.folder}/state/audit"], stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True)
    assert out.returncode == 0, out.stdout


BOTH = """
rule %s {
    query = "SELECT p.host AS host, p.degrees AS degrees FROM heat_latest p JOIN heat_latest b ON b.host = 'backup' \
WHERE p.host = 'primary' AND p.degrees > 80 AND b.degrees > 80"
    every = 200ms  fresh = 1h  trust = {"heat"}  quiet = {"%s"}  on_fire = {"note"}  on_clear = {"note"}
}
"""


def case_overview(work):
    """An overview monitor (JM-7): one of two hosts is no matter, both are, and only by night: now, or not now."""
    hours = lambda begin, end: "-".join(time.strftime("%H:%M", time.localtime(time.time() + 3600 * h)) for h in (begin, end))
    gateway = gateway_of(work)
    hot = 'rule hot { query = "SELECT host FROM heat_latest WHERE degrees > 80"  every = 200ms  fresh = 1h }'
    guard = Guard(GUARD, work, "unix:" + gateway.socket, "default_rules = false\n" + note_action(work) + hot +
                  BOTH % ("night", hours(4, 8)) + BOTH % ("day", hours(-4, 4))).start()
    wait_for(lambda: "listening" in guard.log(), "a subscription")
    heat(gateway, "backup", 20)
    heat(gateway, "primary", 90)
    wait_for(lambda: states(guard) == {("hot", "primary"): "firing"}, "the one that is hot, and nothing else")
    assert not notes(work), notes(work)
    heat(gateway, "backup", 95)
    wait_for(lambda: notes(work) == [["fire", "night", "primary", "90"]], "a page by night")
    wait_for(lambda: states(guard).get(("day", "primary")) == "firing", "the same by day")
    heat(gateway, "backup", 30)
    wait_for(lambda: states(guard).get(("day", "primary")) == states(guard).get(("night", "primary")) == "cleared", "its end")
    wait_for(lambda: len(notes(work)) == 2, "the end of the page")
    assert notes(work) == [["fire", "night", "primary", "90"], ["clear", "night", "primary", "90"]], notes(work)


def case_restart(work):
    """kill -9 while it fires: no second fire; what happened meanwhile is found; one clear."""
    gateway = gateway_of(work)
    guard = Guard(GUARD, work, "unix:" + gateway.socket, "default_rules = false\n" + note_action(work) + HOT % "").start()
    wait_for(lambda: "listening" in guard.log(), "a subscription")
    heat(gateway, "a", 90)
    wait_for(lambda: len(notes(work)) == 1, "a fire")
    wait_for(lambda: guard.faults()[0]["told"], "it is told")
    for _ in range(3):
        guard.stop(signal.SIGKILL)
        guard.start()
        assert states(guard)[("hot", "a")] == "firing", states(guard)
    wait_for(lambda: guard.log().count("listening") == 4, "a subscription again")
    heat(gateway, "a", 10)
    wait_for(lambda: len(notes(work)) == 2, "a clear")
    wait_for(lambda: states(guard)[("hot", "a")] == "cleared", "it has cleared")
    guard.stop()
    assert [n[0] for n in notes(work)] == ["fire", "clear"], notes(work)


def case_server(work):
    """A server that an action starts is nobody's stray: it outlives the action, others behind it, and the guard."""
    pid_file = f"{work}/server.pid"
    restart = f'restart server {{ command = {{"/bin/sleep", "86397"}}  pid_file = "{pid_file}"  rate = "1000/1h" }}\n'
    gateway = gateway_of(work)
    rule = HOT.replace('on_fire = {"note"}', 'on_fire = {"server"}') % ""
    guard = Guard(GUARD, work, "unix:" + gateway.socket, "default_rules = false\n" + note_action(work) + restart + rule).start()
    wait_for(lambda: "listening" in guard.log(), "a subscription")
    heat(gateway, "a", 90)
    pid = None
    try:
        wait_for(lambda: any(t["name"] == "fault_action" for t in sql(gateway, "SELECT name FROM tables")), "an action's end")
        done = lambda: [a["result"] for a in sql(gateway, "SELECT result FROM fault_action ORDER BY time, seq")]
        wait_for(lambda: done() == ["done"], "the restart is over")
        with open(pid_file) as f:
            pid = int(f.read())
        os.kill(pid, 0)
        heat(gateway, "a", 10)
        wait_for(lambda: done() == ["done", "done"], "another action is over")
        os.kill(pid, 0)
        guard.stop(signal.SIGKILL)
        guard.start()
        wait_for(lambda: guard.log().count("listening") == 2, "a second guard, which looks for what is left of the first")
        guard.stop()
        os.kill(pid, 0)
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            assert f.read() == b"/bin/sleep\x0086397\0"
    finally:
        if pid and os.path.exists(f"/proc/{pid}"):
            os.kill(pid, signal.SIGKILL)


def case_restart_order(work):
    """After kill -9 others are heard first: a host that is not heard yet has not cleared. It does when it is heard."""
    gateway = gateway_of(work)
    guard = Guard(GUARD, work, "unix:" + gateway.socket, "default_rules = false\n" + note_action(work) + HOT % "").start()
    wait_for(lambda: "listening" in guard.log(), "a subscription")
    heat(gateway, "a", 90)
    heat(gateway, "b", 90)
    wait_for(lambda: sorted(n[2] for n in notes(work)) == ["a", "b"], "two fires")
    wait_for(lambda: all(f["told"] for f in guard.faults()), "they are told")
    guard.stop(signal.SIGKILL)
    guard.start()
    wait_for(lambda: guard.log().count("listening") == 2, "a subscription again")
    heat(gateway, "b", 10)
    wait_for(lambda: states(guard)[("hot", "b")] == "cleared", "b is well")
    assert states(guard)[("hot", "a")] == "firing", states(guard)
    heat(gateway, "a", 10)
    wait_for(lambda: states(guard)[("hot", "a")] == "cleared", "a is well")
    wait_for(lambda: len(notes(work)) == 4, "two clears")


def case_blind(work):
    """Without gateway and agent it is blind, and says so; with the agent alone it is not, and judges on."""
    gateway = gateway_of(work)
    agent = Agent(AGENT, work, "here", [gateway.addresses[0]], 'heartbeat { every = 200ms }\nload { every = 200ms refresh = 200ms }').start()
    config = ('default_rules = false\nblind = 2s\non_blind = {"note"}\n' + note_action(work) +
              'rule loaded { query = "SELECT host FROM load_latest WHERE load1 >= 0" every = 200ms }\n')
    guard = Guard(GUARD, work, "unix:" + gateway.socket, config, agent=agent).start()
    wait_for(lambda: states(guard).get(("loaded", "here")) == "firing", "a fault over the gateway or the agent")
    gateway.stop()
    # Nothing but the agent's socket is left: rows are as fresh as before, long after blind would have come.
    until = time.monotonic() + 4
    wait_for(lambda: time.monotonic() > until, "four seconds")
    assert notes(work) == [], notes(work)
    agent.stop()
    wait_for(lambda: notes(work)[:1] and notes(work)[0][:2] == ["fire", "guard.blind"], "it is blind")
    assert states(guard)[("loaded", "here")] == "firing"  # no data is not well
    gateway.start()
    agent.start()
    wait_for(lambda: len(notes(work)) == 2, "it sees again")
    assert notes(work)[1][:2] == ["clear", "guard.blind"], notes(work)


def case_gateway_rules(work):
    """A rule over the archive is asked at the gateway; without the gateway its faults are held."""
    gateway = gateway_of(work)
    config = ('default_rules = false\n' + note_action(work) +
              'rule often { query = "SELECT host, count(*) AS degrees FROM heat GROUP BY host HAVING count(*) >= 3" '
              'every = 300ms deadline = 5s on_fire = {"note"} on_clear = {"note"} trust = {"heat"} }\n')
    guard = Guard(GUARD, work, "unix:" + gateway.socket, config).start()
    for level in (1, 2):
        heat(gateway, "a", level)
    rule = lambda: [json.loads(l) for l in guard.gridline("rule", "list", "--format", "json").stdout.splitlines()
                    if json.loads(l)["rule"] == "often"][0]
    wait_for(lambda: rule()["evaluations"] - rule()["failures"] >= 2, "it is evaluated at the gateway")
    assert rule()["place"] == "gateway" and notes(work) == []
    heat(gateway, "a", 3)
    wait_for(lambda: notes(work) == [["fire", "often", "a", "3"]], "a fire")
    gateway.stop(signal.SIGKILL)
    before = rule()["failures"]
    wait_for(lambda: rule()["failures"] > before + 1, "it fails")
    assert states(guard)[("often", "a")] == "firing" and len(notes(work)) == 1
    gateway.start()
    wait_for(lambda: rule()["why"] == "", "it is evaluated again")
    assert len(notes(work)) == 1


def case_orders(work):
    """Acknowledge and silence through the gateway, from where there is no guard."""
    gateway = gateway_of(work)
    guard = Guard(GUARD, work, "unix:" + gateway.socket, "default_rules = false\n" + note_action(work) + HOT % "").start()
    wait_for(lambda: "listening" in guard.log(), "a subscription")
    heat(gateway, "a", 90)
    fault = wait_for(lambda: guard.faults(), "the fault")[0]["fault"]
    shown = wait_for(lambda: gateway.rows("faults"), "the gateway's table")
    assert shown[0]["fault"] == fault and shown[0]["state"] == "firing", shown
    gateway.gridline("ack", fault, "--note", "from afar")
    wait_for(lambda: guard.faults()[0]["state"] == "acknowledged", "the guard obeys")
    assert guard.faults()[0]["ack_note"] == "from afar"
    gateway.gridline("silence", "--rule", "hot", "--for", "10m")
    wait_for(lambda: guard.faults()[0]["silenced"], "it is silenced")
    # Its number is in its event, so that it can be ended by whoever sees that.
    silence = wait_for(lambda: sql(gateway, "SELECT silence, host, rule, over FROM fault_silence_latest", check=False), "its event")[0]
    assert silence["rule"] == "hot" and not silence["over"], silence
    gateway.gridline("silence", "--end", f"{silence['silence']}@{silence['host']}")
    wait_for(lambda: sql(gateway, "SELECT over FROM fault_silence_latest")[0]["over"], "its end")
    wait_for(lambda: not guard.faults()[0]["silenced"], "it is not silenced any more")
    # A gateway that starts again is told what is open.
    gateway.stop()
    gateway.start()
    wait_for(lambda: '"acknowledged"' in gateway.gridline("faults", "--format", "json", check=False).stdout,
             "the gateway's table again")
    # Nobody publishes orders but the gateway.
    out = subprocess.run([GRIDLINE, "log", "--to", "unix:" + gateway.socket, "fault.order", "order=unack", f"fault={fault}"],
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    heat(gateway, "b", 99)
    wait_for(lambda: ("hot", "b") in states(guard), "what came after it")
    assert guard.faults("--host", "a")[0]["state"] == "acknowledged", out.stdout


def case_reload(work):
    """SIGHUP takes a new configuration; one with an error is refused; faults of a rule that is gone are ended."""
    gateway = gateway_of(work)
    first = "default_rules = false\n" + note_action(work) + HOT % ""
    guard = Guard(GUARD, work, "unix:" + gateway.socket, first).start()
    wait_for(lambda: "listening" in guard.log(), "a subscription")
    heat(gateway, "a", 90)
    wait_for(lambda: len(notes(work)) == 1, "a fire")
    guard.configure(first + "rule bad { query = \"SELECT\" }\n")
    guard.process.send_signal(signal.SIGHUP)
    wait_for(lambda: "the old one" in guard.log(), "it is refused")
    wait_for(lambda: os.path.exists(guard.socket) and guard.gridline("faults", check=False).returncode == 0, "it goes on")
    assert states(guard)[("hot", "a")] == "firing"
    guard.configure("default_rules = false\n" + note_action(work) + (HOT % "").replace("rule hot", "rule warm"))
    guard.process.send_signal(signal.SIGHUP)
    wait_for(lambda: len(notes(work)) >= 2, "the end of what the old rule had told")
    assert notes(work)[1][:3] == ["clear", "hot", "a"], notes(work)


def case_refused(work):
    """What can't be used says why, and nothing starts."""
    for config, says in (
            ("rule a { query = \"DELETE FROM heat_latest\" }", "rule a"),
            ("rule a { query = \"SELECT host FROM heat_latest\" on_fire = {\"n\"} }\nlog n { }", "trust"),
            ("rule a { query = \"SELECT host FROM heat_latest\" on_fire = {\"n\"} }", "no action"),
            ("exec n { program = \"/bin/true\" colour = red }", "colour")):
        file = f"{work}/bad.conf"
        with open(file, "w") as f:
            f.write(config)
        for argv in ([GUARD, "--check", "--config", file], [GRIDLINE, "config", "check", "--guard", file]):
            out = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            assert out.returncode == 1 and says in out.stdout, (argv, out.stdout)
    file = f"{work}/good.conf"
    with open(file, "w") as f:
        f.write("default_rules = true\n")
    out = subprocess.run([GRIDLINE, "config", "check", "--guard", file], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert out.returncode == 0 and "no problem" in out.stdout, out.stdout


grid.main(globals(), sys.argv)
