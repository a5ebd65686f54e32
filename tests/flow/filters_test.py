#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Other people's logs, as they are: through the sensor logfile of an agent, and through convert and import.

    filters_test.py CASE gridline gridline-agent gridline-gateway SOURCE"""
import json
import os
import subprocess
import sys
import time

import grid
from grid import Agent, Gateway, wait_for

GRIDLINE, AGENT, GATEWAY, SOURCE = sys.argv[2:6]
OK, FAILED, USAGE, NOT_FOUND, PARTLY = range(5)


def append(path, text):
    with open(path, "a") as f:
        f.write(text)



def case_netsolve(work):
    """Three calls farmed out at once, followed live: a lifeline each; the last record comes without another behind it; who calls
    whom is client, agent, server, and nobody calls himself."""
    gateway = Gateway(GATEWAY, work, "gateway", "127.0.0.1:0", settings=[f"archive.dir={work}/archive", "archive.flush=1s"]).start()
    log = work + "/nsagent.log"
    append(log, "")
    agent = Agent(AGENT, work, "agent1", [gateway.addresses[0]], "defaults = false\n"
                  f'logfile ns {{ path = "{log}"  filter = "{SOURCE}/share/filters/netsolve.conf"  from = start  every = 100ms }}\n')
    agent.start()
    now = int(time.time())
    submit = (f"NS_PROT_PROBLEM_SUBMIT: Time {now} (whenever),\nNickname mandel, Input size 4, Output Size 800, Problem Size 1,\n"
              "ID leepro@anaka.cs.utk.edu\n")
    offer = "Server List for problem mandel:\n{}.sinrg.cs.utk.edu\nneo9.sinrg.cs.utk.edu\n"
    append(log, (submit + offer.format("neo15")) * 2 + submit + offer.format("neo13"))
    wait_for(lambda: len(gateway.events("netsolve.offer")) == 3, "the last offer, with nothing behind it")
    for server in ("neo13", "neo15", "neo15"):
        append(log, f"NS_PROT_JOB_COMPLETED_FROM_SERVER: {server}.cs.utk.edu mandel 0\n")
    wait_for(lambda: len(gateway.events("netsolve.complete")) == 3, "the completions")
    calls = {}
    for e in gateway.events():
        if e["name"].startswith("netsolve."):
            calls.setdefault(e["id"], {})[e["name"]] = e
    assert len(calls) == 3, calls.keys()
    for call in calls.values():
        assert set(call) == {"netsolve.request", "netsolve.offer", "netsolve.complete"}, call
        request, offer, complete = (call["netsolve." + n] for n in ("request", "offer", "complete"))
        assert request["time"] == time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime(now)), request
        assert offer["server"].split(".")[0] == complete["server"].split(".")[0], (offer, complete)
        assert request["time"] <= offer["time"] <= complete["time"], call
        assert complete["submitted"] == now and complete["elapsed"] >= 0 and complete["user"] == "leepro", complete

    def edges():
        out = gateway.gridline("sql", "--format", "ndjson", "SELECT src, dst, sum(count) AS n FROM lifeline_edge "
                               "WHERE 20 BETWEEN serves_from AND serves_to GROUP BY 1, 2", check=False)  # no such table yet
        return {(r["src"], r["dst"]): r["n"] for r in map(json.loads, out.stdout.splitlines())}
    want = {("anaka.cs.utk.edu", "agent1"): 3, ("agent1", "neo13.cs.utk.edu"): 1, ("agent1", "neo15.cs.utk.edu"): 2}
    wait_for(lambda: edges() == want, "the edges")
    assert agent.stop() == 0, agent.log()
    assert gateway.stop() == 0


if __name__ == "__main__":
    grid.main(globals(), sys.argv)
