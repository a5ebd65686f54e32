#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A storm: 100,000 faults at once at a real guard, whose mails go to a real SMTP server of the test. The mails are few and
say how many faults they are about, nothing is lost in between, and the guard's memory is bounded.

    storm_test.py CASE GUARD GATEWAY PROBE"""
import datetime
import json
import os
import re
import signal
import socketserver
import subprocess
import sys
import threading

import grid
from grid import Gateway, Guard, wait_for

GUARD, GATEWAY, PROBE = sys.argv[2:5]
# A sanitizer keeps up to 256 MiB of what was freed; here its guard's memory is looked at.
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=16"
FAULTS = 100000 if grid.memory_scale(GUARD) == 1 else 20000  # a sanitizer's guard is slow
RATE, RATE_S = 4, 5  # at most so many mails in so many seconds


class Sink(socketserver.StreamRequestHandler):
    """Takes every mail."""

    def handle(self):
        self.wfile.write(b"220 sink\r\n")
        data = None
        for line in self.rfile:
            if data is not None:
                if line == b".\r\n":
                    self.server.mails.append(b"".join(data).decode())
                    data = None
                    self.wfile.write(b"250 taken\r\n")
                else:
                    data.append(line)
                continue
            word = line[:4].upper()
            if word == b"DATA":
                data = []
                self.wfile.write(b"354 go on\r\n")
            elif word == b"QUIT":
                self.wfile.write(b"221 bye\r\n")
                return
            else:
                self.wfile.write(b"250 yes\r\n")


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Sink)
        self.mails = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def told(self, kind):
        """How many faults the mails of this kind are about; one that was sent again, after a crash, has the same Message-ID."""
        orders = {}
        for mail in list(self.mails):
            found = re.search(r"storm: (\w+) (\d+) (\d+)", mail)
            number = re.search(r"Message-ID: (\S+)", mail).group(1)
            assert found and found.group(3) == "0", mail
            assert orders.setdefault(number, found.group(0)) == found.group(0), (orders[number], mail)
        return sum(int(text.split()[2]) for text in orders.values() if text.split()[1] == kind)


def peak_kib(pid):
    with open(f"/proc/{pid}/status") as f:
        return int(re.search(r"VmHWM:\s+(\d+) kB", f.read()).group(1))


def check_rate(audit):
    """No more starts in any RATE_S seconds than RATE, by the audit's own times (written when it has started)."""
    with open(audit) as f:
        starts = [l["time"] for l in map(json.loads, f) if l["what"] == "action.start"]
    seconds = [datetime.datetime.fromisoformat(t[:26] + "+00:00").timestamp() for t in starts]
    gaps = [b - a for a, b in zip(seconds, seconds[RATE:])]
    assert all(gap > RATE_S - 0.5 for gap in gaps), gaps
    return len(starts)


def rule(guard):
    out = guard.gridline("rule", "list", "--format", "json").stdout
    return next(r for r in map(json.loads, out.splitlines()) if r["rule"] == "hot")


def ends(gateway):
    """What became of orders: kind, result, how many, of how many faults."""
    out = gateway.gridline("sql", "--format", "json", "SELECT kind, result, count(*), sum(faults) FROM fault_action GROUP BY kind, result")
    return json.loads(out.stdout)["rows"]


def heat(gateway, degrees, n=FAULTS):
    subprocess.run([PROBE, "unix:" + gateway.socket, "0", str(n), str(degrees)], check=True)


def storm(work, settings=""):
    server = Server()
    gateway = Gateway(GATEWAY, work, "gateway", "tcp://127.0.0.1:0", settings=(
        f"state_dir={work}/state", f"archive.dir={work}/archive")).start()
    guard = Guard(GUARD, work, "unix:" + gateway.socket, f"""
default_rules = false
{settings}
mail operators {{
    server = "smtp://127.0.0.1:{server.server_address[1]}"  to = {{"ops@example.org"}}
    subject = "storm"  body = "storm: {{kind}} {{count}} {{left_out}}"
    rate = "{RATE}/{RATE_S}s"  group = 1s
}}
rule hot {{
    query = "SELECT host, unit, degrees FROM heat_latest WHERE degrees > 80"  key = {{"host", "unit"}}
    every = 500ms  fresh = 1h  trust = {{"heat"}}
    on_fire = {{"operators"}}  on_clear = {{"operators"}}
}}
""").start()
    wait_for(lambda: "listening" in guard.log(), "a subscription")
    return server, gateway, guard


def case_mails(work):
    server, gateway, guard = storm(work)
    idle = peak_kib(guard.process.pid)
    heat(gateway, 99)
    wait_for(lambda: rule(guard)["firing"] == FAULTS, "all faults")
    wait_for(lambda: server.told("fire") == FAULTS, "mails about all of them")
    fires = len(server.mails)
    heat(gateway, 20)
    wait_for(lambda: rule(guard)["firing"] + rule(guard)["clearing"] == 0, "all clear")
    wait_for(lambda: server.told("clear") == FAULTS, "mails about all clears")
    peak = peak_kib(guard.process.pid)
    assert rule(guard)["left_out"] == 0, rule(guard)
    # Given = joined + orders; what was done is what was given, and the mails are what was done.
    wait_for(lambda: sum(faults for _, _, _, faults in ends(gateway)) == 2 * FAULTS, "the ends of all orders in the archive")
    assert all(result == "done" for _, result, _, _ in ends(gateway)), ends(gateway)
    assert sum(orders for _, _, orders, _ in ends(gateway)) == len(server.mails), ends(gateway)
    print(f"{FAULTS} faults: {fires} mails of fires, {len(server.mails) - fires} of clears; guard: {idle} KiB before, {peak} KiB at most")
    assert check_rate(f"{guard.folder}/state/audit/audit-000001.log") == len(server.mails) < FAULTS / 500
    # Of each fault: its row of the live table, itself, its record in the state and on its way to the journal.
    assert peak - idle < FAULTS * 3 * grid.memory_scale(GUARD), (idle, peak)


def case_limit(work):
    """Over the limit: those that have room are told, the others counted; when these clear, the others get their turn."""
    most = FAULTS // 10
    server, gateway, guard = storm(work, f"limit {{ faults = {most} }}")
    heat(gateway, 99)
    wait_for(lambda: rule(guard)["firing"] == most and rule(guard)["left_out"] >= FAULTS - most, "as many faults as there is room for")
    wait_for(lambda: server.told("fire") == most, "mails about all of them")
    before = rule(guard)["left_out"]
    wait_for(lambda: rule(guard)["left_out"] > before, "the others are counted at each evaluation")
    assert (rule(guard)["left_out"] - before) % (FAULTS - most) == 0, "not all of them, or some twice"
    heat(gateway, 20)
    wait_for(lambda: rule(guard)["firing"] == 0 and server.told("clear") == server.told("fire"), "all clear")


def case_killed(work):
    """kill -9 in the middle of the storm, again and again: no fire and no clear is forgotten or told twice. Faults that were
    not heard of again when others of their host were may have cleared in between, and fired again."""
    server, gateway, guard = storm(work)
    for share in (4, 2):
        heat(gateway, 99, FAULTS // share)
        wait_for(lambda: rule(guard)["firing"] > 0, "some faults")
        starts = guard.log().count("listening")
        guard.stop(signal.SIGKILL)
        guard.start()
        wait_for(lambda: guard.log().count("listening") > starts, "a subscription again")
    heat(gateway, 99)
    wait_for(lambda: rule(guard)["firing"] == FAULTS, "all faults")
    wait_for(lambda: server.told("fire") - server.told("clear") == FAULTS, "mails about all of them")
    heat(gateway, 20)
    wait_for(lambda: rule(guard)["firing"] == 0, "all clear")
    guard.stop(signal.SIGKILL)
    guard.start()
    wait_for(lambda: server.told("clear") == server.told("fire"), "mails about all clears")
    print(f"{FAULTS} faults ({server.told('fire')} fires), killed three times: {len(server.mails)} mails")

if __name__ == "__main__":
    grid.main(globals(), sys.argv)
