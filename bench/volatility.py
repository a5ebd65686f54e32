# SPDX-License-Identifier: Apache-2.0
"""What must be true after workers came and went (bench/workers --session), whoever asks: the bench and the test of the same.

The emulator keeps its own account: a line a worker of where it stands (--standing), a line of JSON for each of its epochs
(--report). The gateway has its directory and its ledger. They have to agree, worker by worker and epoch by epoch."""
import json

# What the gateway calls a worker that stands so; one that was never there it does not know.
STATES = {"live": "live", "left": "deregistered", "vanished": "expired", "cut": "late"}
# Where a datagram that did not get into an account may be, by the gateway's status.
ELSEWHERE = ["datagrams.malformed", "datagrams.unknown", "datagrams.level", "datagrams.forged", "datagrams.replayed",
             "datagrams.overflow"]


def standing(path):
    """{host: the state that the gateway has to say}, by the emulator's account."""
    with open(path) as f:
        lines = [line.split() for line in f]
    return {host: STATES[how] for host, how in lines if how in STATES}


def differences(expected, rows):
    """Hosts of which the two say different things: [(host, emulator, gateway)]."""
    told = {row["host"]: row["state"] for row in rows}
    return [(host, expected.get(host), told.get(host)) for host in sorted(expected.keys() | told.keys())
            if expected.get(host) != told.get(host)]


def epochs(path):
    with open(path) as f:
        return [json.loads(line) for line in f]


def check_ledger(accounts, status, report):
    """Every account adds up; every datagram that was sent is in one, or counted with the reason why it is not; an epoch that
    ended by a goodbye, or is open, has every one. Returns what is wrong, and how many datagrams were sent and are kept."""
    wrong = []
    known = {(a["producer"], a["epoch"]): a for a in accounts}
    for a in accounts:
        if a["taken"] != a["passed"] + a["duplicate"] + a["refused"] + a["too_old"] + a["no_schema"] + a["queued"]:
            wrong.append(("does not add up", a))
    sent = kept = refused = 0
    for epoch in report:
        s, account = epoch["samples"], known.get((epoch["samples"]["producer"], epoch["epoch"]))
        went = s["datagrams"] - s["lost"] - s["unsent"]
        passed = account["passed"] if account else 0
        sent, kept = sent + went, kept + passed
        refused += account["refused"] + account["no_schema"] if account else 0
        is_over = epoch["ended"] == "left"
        if passed > went or (epoch["ended"] != "killed" and passed != went):
            wrong.append(("kept is not sent", epoch, account))
        if went and is_over and (account["state"] != "closed" or account["counts"]["taken"] != s["datagrams"]):
            wrong.append(("is not closed with its counts", epoch, account))
    elsewhere = sum(status[name] for name in ELSEWHERE)
    if sent != kept + refused + elsewhere:
        wrong.append((f"{sent} sent, {kept} kept, {refused} refused, {elsewhere} counted elsewhere", ))
    return wrong, sent, kept
