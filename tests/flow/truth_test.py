#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sensors against independent tools on this host, under load (stress-ng).

    truth_test.py CASE GRIDLINE

Counters are bracketed: the tool reads before and after the sensor, and the sensor's value must lie between the two, both
included: that is equality as far as it can be had for a number that moves. Where a tool only gives rates over its own
interval (mpstat, iostat), the two intervals overlap but are not the same, and under a steady load the difference is bounded."""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile

GRIDLINE = sys.argv[2]
SKIP = 77


def run(*argv, **kw):
    return subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True, **kw).stdout


def sense(*arguments):
    out = subprocess.run([GRIDLINE, "sense", *arguments, "--format", "ndjson"], stdout=subprocess.PIPE, text=True)
    assert out.returncode == 0, out.returncode
    return [json.loads(line) for line in out.stdout.splitlines()]


def need(*programs):
    for p in programs:
        if subprocess.run(["which", p], stdout=subprocess.DEVNULL).returncode != 0:
            print(f"{p} is not here")
            sys.exit(SKIP)


class Load:
    """stress-ng in a process group of its own; gone at the end whatever happens."""

    def __init__(self, *arguments):
        self.arguments = arguments

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="gridline-truth.")
        self.process = subprocess.Popen(["stress-ng", "--quiet", "--temp-path", self.folder.name, *self.arguments],
                                        start_new_session=True)

    def __exit__(self, *why):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.folder.cleanup()


def between(before, value, after, what):
    assert before <= value <= after, f"{what}: {value} is not within {before}..{after}"


def proc_stat():
    with open("/proc/stat") as f:
        return {w[0]: [int(x) for x in w[1:]] for w in (line.split() for line in f) if w[0].startswith("cpu")}


def case_cpu():
    need("stress-ng", "mpstat")
    names = "user nice system idle iowait irq softirq steal guest guest_nice".split()
    with Load("--cpu", "1", "--switch", "1"):
        before = proc_stat()
        rows = [e for e in sense("cpu") if e["name"] == "cpu"]
        after = proc_stat()
        assert len(rows) == len(before)
        for e in rows:
            line = "cpu" if e["cpu"] == "all" else "cpu" + e["cpu"]
            for i, name in enumerate(names):
                if name in ("idle", "iowait"):  # the kernel says itself that these may go back
                    continue
                between(before[line][i], e[name], after[line][i], f"{line} {name}")
        # The same 3 seconds, nearly: mpstat's shares of all processors.
        tool = subprocess.Popen(["mpstat", "-o", "JSON", "3", "1"], stdout=subprocess.PIPE, text=True)
        ours = [e for e in sense("cpu", "per_core=no", "-n", "2", "-i", "3s") if e["name"] == "cpu"]
        told = json.loads(tool.communicate()[0])["sysstat"]["hosts"][0]["statistics"][0]["cpu-load"][0]
    moved = {n: ours[1][n] - ours[0][n] for n in names}
    total = sum(moved[n] for n in names[:8])
    for name, key in (("user", "usr"), ("system", "sys"), ("idle", "idle")):
        share = 100 * moved[name] / total
        print(f"{name}: {share:.1f} %, mpstat {told[key]:.1f} %")
        assert abs(share - told[key]) < 15, name  # half a second of one of two processors is 8 %


def diskstats():
    with open("/proc/diskstats") as f:
        return {w[2]: [int(x) for x in w[3:]] for w in (line.split() for line in f)}


def case_disk():
    need("stress-ng", "iostat")
    fields = {"reads": (0, 1), "reads_merged": (1, 1), "read_bytes": (2, 512), "read_time": (3, 1), "writes": (4, 1),
              "writes_merged": (5, 1), "write_bytes": (6, 512), "write_time": (7, 1), "weighted_time": (10, 1)}
    with Load("--hdd", "1", "--hdd-opts", "fsync", "--hdd-bytes", "16m"):
        before = diskstats()
        rows = sense("disk")
        after = diskstats()
        for e in rows:
            for name, (at, unit) in fields.items():
                between(before[e["device"]][at] * unit, e[name], after[e["device"]][at] * unit, f"{e['device']} {name}")
        tool = subprocess.Popen(["iostat", "-d", "-k", "-y", "-o", "JSON", "3", "1"], stdout=subprocess.PIPE, text=True)
        ours = sense("disk", "-n", "2", "-i", "3s")
        told = json.loads(tool.communicate()[0])["sysstat"]["hosts"][0]["statistics"][0]["disk"]
    assert ours, "no disk at all"
    rate = lambda device, name: max(e[name] for e in ours if e["device"] == device) - min(
        e[name] for e in ours if e["device"] == device)
    compared = 0
    for d in told:
        if not any(e["device"] == d["disk_device"] for e in ours):
            continue
        written = rate(d["disk_device"], "write_bytes") / 3 / 1024
        print(f"{d['disk_device']}: {written:.0f} kB/s written, iostat {d['kB_wrtn/s']:.0f}")
        if d["kB_wrtn/s"] > 1000:
            assert 0.3 < written / d["kB_wrtn/s"] < 3, d  # the load comes in bursts, the intervals overlap by 3/4
            compared += 1
    if compared == 0:
        print("no device was written to: the temporary folder is not on a disk")


def case_network():
    need("ip")
    names = {"in_bytes": ("rx", "bytes"), "in_packets": ("rx", "packets"), "in_errors": ("rx", "errors"),
             "out_bytes": ("tx", "bytes"), "out_packets": ("tx", "packets"), "out_dropped": ("tx", "dropped"),
             "in_multicast": ("rx", "multicast")}
    links = lambda: {d["ifname"]: d["stats64"] for d in json.loads(run("ip", "-s", "-j", "link"))}
    with Load("--udp", "1", "--sock", "1"):
        first = links()
        while (before := links())["lo"] == first["lo"]:
            pass  # until there is traffic
        rows = sense("network")
        after = links()
    assert {e["interface"] for e in rows} == set(before), "the interfaces"
    moved = 0
    for e in rows:
        for name, (way, key) in names.items():
            low, high = before[e["interface"]][way][key], after[e["interface"]][way][key]
            between(low, e[name], high, f"{e['interface']} {name}")
            moved += high - low
    assert moved > 0, "nothing moved: that was no test"


def case_memory():
    need("free", "stress-ng")
    with Load("--vm", "1", "--vm-bytes", "64m", "--vm-keep"):
        def told():
            words = run("free", "-b", "-w").splitlines()[1].split()
            return dict(zip("total used free shared buffers cache available".split(), map(int, words[1:])))
        before = told()
        e = sense("memory")[0]
        after = told()
    assert e["total"] == before["total"]
    # Other processes allocate meanwhile: within what moved, and a hundredth of the memory.
    slack = before["total"] // 100
    for name, key in (("free", "free"), ("available", "available"), ("buffers", "buffers")):
        between(min(before[key], after[key]) - slack, e[name], max(before[key], after[key]) + slack, name)


def case_filesystem():
    need("df")
    def told():
        out = {}
        for columns in (["size", "used", "avail"], ["itotal", "iavail"]):
            for line in run("df", "-a", "-B1", "--output=target," + ",".join(columns)).splitlines()[1:]:
                words = line.rsplit(None, len(columns))
                out.setdefault(words[0], {}).update(zip(columns, words[1:]))
        return out
    before = told()
    rows = sense("filesystem")
    after = told()
    assert any(e["mount"] == "/" for e in rows)
    for e in rows:
        b, a = before[e["mount"]], after[e["mount"]]
        assert e["size"] == int(b["size"]), e
        for name, key in (("available", "avail"), ("used", "used")):
            low, high = sorted((int(b[key]), int(a[key])))
            between(low - (64 << 20), e[name], high + (64 << 20), f"{e['mount']} {name}")
        if b["itotal"].isdigit() and "inodes" in e and b["itotal"] != "0":
            assert abs(e["inodes"] - int(b["itotal"])) <= max(1, int(b["itotal"]) // 1000), e


def case_tcp():
    need("nstat", "ss")
    names = {"retransmits": "TcpRetransSegs", "active_opens": "TcpActiveOpens", "passive_opens": "TcpPassiveOpens",
             "in_segments": "TcpInSegs", "out_segments": "TcpOutSegs", "out_resets": "TcpOutRsts",
             "listen_drops": "TcpExtListenDrops", "listen_overflows": "TcpExtListenOverflows",
             "delayed_acks": "TcpExtDelayedACKs"}
    told = lambda: json.loads(run("nstat", "-asz", "--json"))["kernel"]
    with Load("--sock", "1"):
        first = told()
        while (before := told())["TcpInSegs"] == first["TcpInSegs"]:
            pass  # until there is traffic
        e = [e for e in sense("tcp") if e["name"] == "tcp"][0]
        while (after := told())["TcpInSegs"] == before["TcpInSegs"]:
            pass  # the load may stand still for a moment
    for name, key in names.items():
        between(before[key], e[name], after[key], name)


def case_connection():
    """One quiet connection, by ss and by the sensor: the same numbers."""
    import socket
    need("ss")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as a:
            b = listener.accept()[0]
            a.sendall(b"x" * 100000)
            taken = 0
            while taken < 100000:
                taken += len(b.recv(65536))
            b.sendall(b"y")
            a.recv(1)
            def by_ss():
                out = run("ss", "-tinH", "state", "established", f"dport = :{port}")
                return {k: float(v) for k, v in re.findall(r"\b(bytes_acked|bytes_received|mss|cwnd):(\d+)", out)}
            while True:  # until the last acknowledgement is in
                before = by_ss()
                rows = [e for e in sense("tcp", f"ports={port}") if e["name"] == "tcp.connection"]
                if before == by_ss():
                    break
            ours = [e for e in rows if e["remote"].endswith(f":{port}")]
            assert len(ours) == 1, rows
            for name in ("bytes_acked", "bytes_received", "mss", "cwnd"):
                assert ours[0][name] == before[name], (name, ours[0], before)
            b.close()


globals()["case_" + sys.argv[1]]()
