#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The sensor snmp: against net-snmp's snmpd on loopback, judged by its own tools and /proc, and against devices of this
test that have little, are odd, or lie.

    snmp_test.py CASE GRIDLINE AGENT

Nothing is left running; snmpd and the tools keep their state in a temporary folder."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

LIMIT_S = 60
SKIP = 77
GRIDLINE, AGENT, WORK = "", "", ""
IF, IFX = "1.3.6.1.2.1.2.2.1", "1.3.6.1.2.1.31.1.1.1"


def need(*programs):
    for p in programs:
        if not shutil.which(p, path=os.environ.get("PATH", "") + ":/usr/sbin"):
            print(f"{p} is not here")
            sys.exit(SKIP)


def environment():
    return dict(os.environ, HOME=WORK + "/home", SNMP_PERSISTENT_DIR=WORK + "/state", MIBS="")


def sense(*arguments, fails=False):
    """The events by name; with fails, what is said about the failure."""
    out = subprocess.run([GRIDLINE, "sense", "snmp", *arguments, "--format", "ndjson"], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True, env=environment(), timeout=LIMIT_S)
    if fails:
        assert out.returncode != 0, out.stdout
        return out.stderr
    assert out.returncode == 0 and out.stderr == "", (out.returncode, out.stderr)
    events = {}
    for line in out.stdout.splitlines():
        e = json.loads(line)
        events.setdefault(e["name"], []).append(e)
    return events


def secret(name, text, mode=0o600):
    path = f"{WORK}/{name}"
    with open(path, "w") as f:
        f.write(text + "\n")
    os.chmod(path, mode)
    return path


class Snmpd:
    def __enter__(self):
        need("snmpd", "snmpget", "snmpwalk")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.bind(("127.0.0.1", 0))
            self.at = f"127.0.0.1:{s.getsockname()[1]}"
        conf = secret("snmpd.conf", f"agentAddress udp:{self.at}\nrocommunity pub 127.0.0.1\n"
                      "sysLocation rack 7\nsysContact ops@example.org\nsysName sw1\n"
                      "createUser alice SHA authpass123 AES privpass123\nrouser alice authpriv\n"
                      "createUser carol SHA-512 authpass123 AES privpass123\nrouser carol auth\n")
        self.process = subprocess.Popen([shutil.which("snmpd", path="/usr/sbin:/usr/bin"), "-f", "-C", "-c", conf, "-Lf",
                                         WORK + "/snmpd.log"], env=environment(), stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        end = time.monotonic() + LIMIT_S
        while not self.tool("snmpget", "1.3.6.1.2.1.1.3.0"):
            assert self.process.poll() is None and time.monotonic() < end, open(WORK + "/snmpd.log").read()
        return self

    def __exit__(self, *why):
        self.process.kill()
        self.process.wait()

    def tool(self, name, oid):
        """OID -> value, as net-snmp's own programs read them."""
        out = subprocess.run([name, "-v2c", "-c", "pub", "-t1", "-r0", "-Onqe", "-Oe", self.at, oid], text=True,
                             env=environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        pairs = [line.partition(" ")[::2] for line in out.stdout.splitlines()] if out.returncode == 0 else []
        return {k.lstrip("."): v.strip().strip('"') for k, v in pairs}


def proc_net_dev():
    rows = {}
    for line in open("/proc/net/dev").readlines()[2:]:
        name, _, numbers = line.partition(":")
        n = [int(x) for x in numbers.split()]
        rows[name.strip()] = {"in_bytes": n[0], "out_bytes": n[8], "out_packets": n[9]}
    return rows


# Our field, its column in the tables.
COUNTERS = {"in_bytes": (IFX, 6), "in_packets": (IFX, 7), "out_bytes": (IFX, 10), "out_packets": (IFX, 11),
            "in_errors": (IF, 14), "in_dropped": (IF, 13), "out_errors": (IF, 20), "out_dropped": (IF, 19)}


def case_interfaces():
    proc_before = proc_net_dev()
    community = secret("community", "pub")
    with Snmpd() as d:
        before = d.tool("snmpwalk", IF) | d.tool("snmpwalk", IFX)
        rows = sense(f"target={d.at}", f"community_file={community}", "host=no")["snmp.interface"]
        after = d.tool("snmpwalk", IF) | d.tool("snmpwalk", IFX)
        proc_after = proc_net_dev()
        indexes = {k.rpartition(".")[2] for k in before if k.startswith(IF + ".1.")}
        assert indexes and {str(e["index"]) for e in rows} == indexes, (indexes, rows)
        assert len({e["interface"] for e in rows}) == len(rows)
        for e in rows:
            i, name = e["index"], e["interface"]
            assert e["target"] == d.at and name == before[f"{IFX}.1.{i}"], e
            for field, (table, column) in COUNTERS.items():
                oid = f"{table}.{column}.{i}"
                assert int(before[oid]) <= e[field] <= int(after[oid]), (name, field, before[oid], e[field], after[oid])
            for field in ["in_bytes", "out_bytes", "out_packets"]:  # snmpd says 0 in_packets in its first seconds
                assert proc_before[name][field] <= e[field] <= proc_after[name][field], (name, field, proc_before[name], e, proc_after[name])
            states = ["", "up", "down", "testing", "unknown", "dormant", "not_present", "lower_layer_down"]
            assert e["admin"] == states[int(before[f"{IF}.7.{i}"])] and e["oper"] == states[int(before[f"{IF}.8.{i}"])], e
        lo = [e for e in rows if e["interface"] == "lo"][0]
        assert lo["type"] == "loopback" and lo["in_bytes"] > 0 and lo["speed"] == int(before[f"{IF}.5.{lo['index']}"]), lo


def case_host():
    community = secret("community", "pub")
    with Snmpd() as d:
        names = {"up": "1.3.6.1.2.1.1.3.0", "n": "1.3.6.1.2.1.2.1.0", "where": ".1.3.6.1.2.1.1.6.0",
                 "load": "1.3.6.1.4.1.2021.10.1.6.1", "in": IF + ".10.1", "none": "1.3.6.1.2.1.1.99.0",
                 "model": "1.3.6.1.2.1.1.2.0"}
        stat = [int(x) for x in open("/proc/stat").readline().split()[1:]]
        events = sense(f"target={d.at}", f"community_file={community}", "interfaces=no",
                       *[f"oids={k}={v}" for k, v in names.items()])
        system, host = events["snmp.system"][0], events["snmp.host"][0]
        values = {e["item"]: e for e in events["snmp.value"]}
        stat_after = [int(x) for x in open("/proc/stat").readline().split()[1:]]
        assert "snmp.interface" not in events and set(values) == set(names)
        assert (system["sys_name"], system["location"], system["contact"]) == ("sw1", "rack 7", "ops@example.org"), system
        assert system["description"].startswith("Linux ") and system["uptime"] >= 0, system
        assert values["where"]["value_text"] == "rack 7" and values["model"]["value_text"] == system["object"], values
        assert values["n"]["value_int"] == int(d.tool("snmpget", names["n"])[names["n"]]), values
        assert values["in"]["value_counter"] > 0 and isinstance(values["load"]["value_float"], float), values
        assert abs(values["up"]["value_uint"] / 100 - system["uptime"]) < LIMIT_S, values
        assert values["none"]["why"] == "the device has no such object" and "value_int" not in values["none"], values
        meminfo = {k: int(v.split()[0]) * 1024 for k, v in (x.split(":") for x in open("/proc/meminfo"))}
        assert host["memory_total"] == meminfo["MemTotal"] and host["swap_total"] == meminfo["SwapTotal"], host
        assert 0 < host["memory_free"] <= host["memory_total"] and host["cpus"] == os.sysconf("SC_NPROCESSORS_ONLN"), host
        for field, at in {"cpu_user": 0, "cpu_nice": 1, "cpu_system": 2, "cpu_softirq": 6}.items():
            assert 0 <= host[field] <= stat_after[at], (field, host, stat, stat_after)  # snmpd keeps it for seconds
        root = [e for e in events["snmp.storage"] if e["storage"] == "/"][0]
        st = os.statvfs("/")
        assert root["size"] == st.f_blocks * st.f_frsize and root["type"] == "disk" and 0 < root["used"] < root["size"], root
    assert not os.path.exists(WORK + "/home"), "net-snmp wrote there"


def case_version3():
    good = [secret("auth", "authpass123"), secret("priv", "privpass123"), secret("wrong", "wrongpass123")]
    with Snmpd() as d:
        def ask(auth, priv, user="alice", **kw):
            return sense(f"target={d.at}", "version=3", f"user={user}", f"auth_file={auth}", f"priv_file={priv}",
                         "interfaces=no", "host=no", **kw)
        assert ask(good[0], good[1])["snmp.system"][0]["sys_name"] == "sw1"
        carol = [f"target={d.at}", "version=3", "user=carol", "auth=sha-512", "interfaces=no", "host=no"]
        assert sense(*carol, f"auth_file={good[0]}")["snmp.system"]
        assert sense(*carol, f"auth_file={good[0]}", f"priv_file={good[1]}")["snmp.system"]
        assert "uthorization" in sense(*carol, fails=True)
        assert "Authentication failure" in ask(good[2], good[1], fails=True)
        assert "Unknown user name" in ask(good[0], good[1], user="bob", fails=True)
        short = secret("short", "1234567")
        assert "at least 8 characters" in ask(short, good[1], fails=True)


def case_no_answer():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as deaf:
        deaf.bind(("127.0.0.1", 0))
        at = f"127.0.0.1:{deaf.getsockname()[1]}"
        assert f"no answer from {at} within 2s" in sense(f"target={at}", "retries=0", fails=True)
        assert len(deaf.recv(65536)) > 0
        assert f"no answer from {at} within 0.05s, nor" in sense(f"target={at}", "timeout=50ms", "retries=2", fails=True)
        for _ in range(3):
            assert len(deaf.recv(65536, socket.MSG_DONTWAIT)) > 0
        auth = secret("auth", "authpass123")
        assert f"no answer from {at} within 0.05s" in sense(f"target={at}", "timeout=50ms", "version=3", "user=alice",
                                                            f"auth_file={auth}", fails=True)
    with Snmpd() as d:  # a wrong community looks the same
        wrong = secret("community", "guess")
        assert f"no answer from {d.at} within 0.2s" in sense(f"target={d.at}", f"community_file={wrong}", "timeout=200ms",
                                                             fails=True)


def case_refused():
    at = "target=127.0.0.1:9"
    assert "chmod 600" in sense(at, f"community_file={secret('open', 'pub', 0o644)}", fails=True)
    assert "chmod 600" in sense(at, f"community_file={secret('group', 'pub', 0o640)}", fails=True)
    assert "is empty" in sense(at, f"community_file={secret('empty', '')}", fails=True)
    assert "more than 1023 bytes" in sense(at, f"community_file={secret('long', 'x' * 5000)}", fails=True)
    assert "No such file" in sense(at, f"community_file={WORK}/none", fails=True)
    assert "no plain file" in sense(at, f"community_file={WORK}", fails=True)
    for bad in ["x", "=1.3", "x=", "x=1.3.", "x=1.3.a", "x=1.40", "x=3.1", "x=1.3.4294967296", "x=" + "1." * 128 + "1"]:
        assert "oids:" in sense(at, f"oids={bad}", fails=True), bad
    assert "two are named" in sense(at, "oids=x=1.3.1", "oids=x=1.3.2", fails=True)
    assert "version" in sense(at, "version=1", fails=True)
    assert "needs `user`" in sense(at, "version=3", fails=True)
    assert "timeout:" in sense(at, "timeout=0s", fails=True)
    assert "retries:" in sense(at, "retries=11", fails=True)
    assert "no such host" in sense("target=host.invalid", fails=True)
    libraries = subprocess.run(["ldd", AGENT], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert "netsnmp" not in libraries, libraries


# ---------------------------------------------------------------- a device of our own: BER by hand

def tlv(tag, body):
    n = len(body)
    size = bytes([n]) if n < 128 else bytes([0x82, n >> 8, n & 255])
    return bytes([tag]) + size + body


def number(tag, v):
    return tlv(tag, v.to_bytes(v.bit_length() // 8 + 1, "big", signed=True))


def packed_oid(oid):
    out = bytes([oid[0] * 40 + oid[1]])
    for v in oid[2:]:
        digits = [v & 127]
        while v := v >> 7:
            digits.insert(0, v & 127 | 128)
        out += bytes(digits)
    return tlv(6, out)


def untlv(data):
    n, at = data[1], 2
    if n & 128:
        at += n & 127
        n = int.from_bytes(data[2:at], "big")
    return data[0], data[at:at + n], data[at + n:]


def read_oid(body):
    oid, v = [body[0] // 40, body[0] % 40], 0
    for b in body[1:]:
        v = v << 7 | b & 127
        if not b & 128:
            oid.append(v)
            v = 0
    return tuple(oid)


def to_oid(text):
    return tuple(int(x) for x in text.split("."))


INTEGER, STRING, COUNTER, GAUGE, COUNTER64 = 2, 4, 0x41, 0x42, 0x46
NO_OBJECT, END = bytes([0x80, 0]), bytes([0x82, 0])


class Device:
    """Serves values (OID as text -> tag, value). largest: values in an answer; more is tooBig with is_strict, else cut.
    after: what follows an OID, for devices that do not go on in order."""

    def __init__(self, values, largest=1000, is_strict=False, after=None):
        self.values = {to_oid(k): v for k, v in values.items()}
        self.order = sorted(self.values)
        self.largest, self.is_strict, self.asked = largest, is_strict, 0
        self.after = after or self.next
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.at = f"127.0.0.1:{self.socket.getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()

    def next(self, oid):
        return next((o for o in self.order if o > oid), None)

    def binding(self, oid):
        tag, v = self.values[oid]
        return tlv(0x30, packed_oid(oid) + (number(tag, v) if isinstance(v, int) else tlv(tag, v)))

    def get(self, oids):
        return [self.binding(o) if o in self.values else tlv(0x30, packed_oid(o) + NO_OBJECT) for o in oids]

    def bulk(self, oids, rows):
        out = []
        for _ in range(rows):
            for i, oid in enumerate(oids):
                following = self.after(oid)
                out.append(self.binding(following) if following else tlv(0x30, packed_oid(oid) + END))
                oids[i] = following or oid
        return out

    def serve(self):
        while True:
            data, peer = self.socket.recvfrom(65536)
            self.asked += 1
            _, message, _ = untlv(data)
            _, _, rest = untlv(message)
            _, community, rest = untlv(rest)
            kind, pdu, _ = untlv(rest)
            _, request, pdu = untlv(pdu)
            _, _, pdu = untlv(pdu)
            _, rows, pdu = untlv(pdu)
            _, bindings, _ = untlv(pdu)
            oids = []
            while bindings:
                _, b, bindings = untlv(bindings)
                oids.append(read_oid(untlv(b)[1]))
            out = self.get(oids) if kind == 0xA0 else self.bulk(oids, int.from_bytes(rows, "big"))
            is_too_big = self.is_strict and len(out) > self.largest
            out = [] if is_too_big else out[:self.largest]
            body = tlv(2, request) + number(2, 1 if is_too_big else 0) + number(2, 0) + tlv(0x30, b"".join(out))
            self.socket.sendto(tlv(0x30, number(2, 1) + tlv(4, community) + tlv(0xA2, body)), peer)


def old_switch(n):
    """Only ifTable, 32-bit counters, names that several have or none has."""
    values = {"1.3.6.1.2.1.1.5.0": (STRING, b"old\0")}
    for i in range(1, n + 1):
        row = {1: (INTEGER, i), 2: (STRING, b"port" if i < 3 else b"" if i == 3 else b"p%d" % i), 3: (INTEGER, 6 if i > 1 else 999),
               5: (GAUGE, 100_000_000), 7: (INTEGER, 1), 8: (INTEGER, 7), 10: (COUNTER, 2**32 - i), 11: (COUNTER, i),
               16: (COUNTER, i * 2), 17: (COUNTER, i * 3)}
        for column, v in row.items():
            values[f"{IF}.{column}.{i * 10}"] = v
    return values


def check_old_switch(device, n):
    rows = sense(f"target={device.at}", "host=no")["snmp.interface"]
    assert [e["index"] for e in rows] == [i * 10 for i in range(1, n + 1)]
    for i, e in enumerate(rows, 1):
        name = f"port#{i * 10}" if i < 3 else "30" if i == 3 else f"p{i}"
        assert (e["interface"], e["in_bytes"], e["in_packets"], e["out_bytes"], e["out_packets"]) == (
            name, 2**32 - i, i, i * 2, i * 3), e
        assert e["speed"] == 100_000_000 and e["admin"] == "up" and e["oper"] == "lower_layer_down", e
        assert e["type"] == ("999" if i == 1 else "ethernet") and "in_errors" not in e and "alias" not in e, e


def case_devices():
    for device in [Device(old_switch(3)), Device(old_switch(40)), Device(old_switch(40), largest=7),
                   Device(old_switch(40), largest=20, is_strict=True)]:
        check_old_switch(device, len([k for k in device.values if k[:-1] == to_oid(IF + ".1")]))
    # One interface with 64-bit counters and one without; a fast one; a value for each type; no text.
    values = old_switch(4)
    values |= {f"{IFX}.6.40": (COUNTER64, 2**63 - 1), f"{IFX}.15.40": (GAUGE, 400_000), f"{IF}.5.40": (GAUGE, 2**32 - 1),
               f"{IFX}.18.40": (STRING, "Bür☃".encode()), f"{IFX}.1.40": (STRING, b"ge-0/0/4"),
               f"{IFX}.18.10": (STRING, b"\xff\x00x")}
    device = Device(values)
    rows = {e["index"]: e for e in sense(f"target={device.at}", "host=no")["snmp.interface"]}
    assert rows[40]["in_bytes"] == 2**63 - 1 and rows[30]["in_bytes"] == 2**32 - 3, rows
    assert rows[40]["speed"] == 400 * 10**9 and rows[40]["interface"] == "ge-0/0/4" and rows[40]["alias"] == "Bür☃", rows
    assert rows[10]["alias"] == "ff:00:78", rows
    # A name that is empty in the newer table for some.
    values[f"{IFX}.1.30"], values[f"{IF}.2.30"] = (STRING, b""), (STRING, b"described")
    for i in [10, 20]:
        values[f"{IFX}.1.{i}"] = (STRING, b"ge-%d" % i)
    rows = sense(f"target={Device(values).at}", "host=no")["snmp.interface"]
    assert [e["interface"] for e in rows] == ["ge-10", "ge-20", "described", "ge-0/0/4"], rows
    # Everything is too large for a device that can send one value at a time, and still comes.
    check_old_switch(Device(old_switch(5), largest=1, is_strict=True), 5)
    device = Device(old_switch(5), largest=0, is_strict=True)
    assert "a value is too large" in sense(f"target={device.at}", "host=no", fails=True)


def case_liars():
    first, second = to_oid(IF + ".2.10"), to_oid(IF + ".2.20")
    loop = Device(old_switch(3), after=lambda oid: second if oid != second else first)
    assert "do not ascend" in sense(f"target={loop.at}", "host=no", fails=True)
    same = Device(old_switch(3), after=lambda oid: first)
    assert "do not ascend" in sense(f"target={same.at}", "host=no", fails=True)
    full = Device({f"{IF}.2.{i}": (STRING, b"p%d" % i) for i in range(1, 4097)})
    assert len(sense(f"target={full.at}", "host=no")["snmp.interface"]) == 4096
    endless = Device({f"{IF}.2.{i}": (STRING, b"p") for i in range(1, 6000)})
    assert "more than 4096 rows" in sense(f"target={endless.at}", "host=no", fails=True)
    assert endless.asked < 1000
    deep = Device({f"{IF}.2.1.2": (STRING, b"p")})
    assert "not numbered" in sense(f"target={deep.at}", "host=no", fails=True)
    silent = Device(old_switch(2), largest=0)
    assert "another question" in sense(f"target={silent.at}", fails=True)


def main():
    global GRIDLINE, AGENT, WORK
    name, GRIDLINE, AGENT = sys.argv[1:4]
    WORK = tempfile.mkdtemp(prefix="gridline-snmp.")
    try:
        globals()["case_" + name]()
    finally:
        shutil.rmtree(WORK)


main()
