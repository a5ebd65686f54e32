#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the manual promises of gridline import: a gateway has every event of a file once, whatever happens on the way.

    import_test.py CASE gridline gridline-gateway"""
import datetime
import gzip
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import grid
from grid import Gateway, wait_for

GRIDLINE, GATEWAY = sys.argv[2:4]
OK, FAILED, USAGE, NOT_FOUND, PARTLY, NOT_ALLOWED = range(6)
KEEP = "archive.keep=*=36600d"  # these are old events
READABLE = {"ulm": ".ulm", "bp": ".bp", "ndjson": ".ndjson", "xml": ".xml", "binary": ".glb"}


def gateway(work, name="gateway"):
    return Gateway(GATEWAY, work, name, "127.0.0.1:0").start()


def events(n, seed=1, start=1_790_000_000):
    """As NDJSON: of some hosts, with values of every type."""
    r = random.Random(seed)
    out = []
    for i in range(n):
        out.append(json.dumps({"time": f"2026-09-21T{13 + i // 3600 % 8:02}:{i // 60 % 60:02}:{i % 60:02}.{i % 1000:03}Z",
                               "host": f"node{i % 7}", "prog": "app", "level": "info", "name": r.choice(["job.start", "job.end"]),
                               "id": f"job{i // 2}", "n": i, "size": r.random() * 1e6, "ok": i % 3 == 0,
                               "text": "a \"quoted\" wörd " + "x" * r.randrange(40)}))
    return "\n".join(out) + "\n"


def key(event):
    return json.dumps(event, sort_keys=True)


def read_as_json(path):
    out = subprocess.run([GRIDLINE, "convert", "-t", "ndjson", path], check=True, stdout=subprocess.PIPE, text=True).stdout
    return [json.loads(line) for line in out.splitlines()]


def run(*argv, **kw):
    return subprocess.run([GRIDLINE, "import", *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **kw)


def report(out):
    return [json.loads(line) for line in out.stdout.splitlines()]


def into(g, *files, code=OK, **kw):
    out = run("--gateway", "unix:" + g.socket, "--format", "json", *files, **kw)
    assert out.returncode == code, (out.returncode, out.stdout, out.stderr)
    return report(out), out.stderr


def same(got, want):
    got, want = sorted(map(key, got)), sorted(map(key, want))
    assert got == want, (len(got), len(want), [p for p in zip(got, want) if p[0] != p[1]][:2])


class Proxy:
    """Between a command and a gateway's socket: after `limit` bytes of the command it stops carrying (`hold`) or hangs up
    (`cut`), once."""

    def __init__(self, path, to, limit, what):
        self.path, self.to, self.limit, self.what = path, to, limit, what
        self.reached = threading.Event()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen(8)
        self.connections = 0
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            there = socket.socket(socket.AF_UNIX)
            try:
                there.connect(self.to)
            except OSError:
                client.close()
                continue
            for a, b, is_counted in ((client, there, True), (there, client, False)):
                threading.Thread(target=self.carry, args=(a, b, is_counted), daemon=True).start()

    def carry(self, a, b, is_counted):
        try:
            while data := a.recv(1 << 14):
                if is_counted and not self.reached.is_set():
                    self.limit -= len(data)
                    if self.limit <= 0:
                        self.reached.set()
                        if self.what == "cut":
                            break
                if self.what == "hold" and self.reached.is_set():
                    if is_counted:
                        continue
                b.sendall(data)
        except OSError:
            pass
        for s in (a, b):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.listener.close()


def write(path, text):
    with open(path, "w") as f:
        f.write(text)
    return path


def case_formats(work):
    """Every format, packed or not, comes out as it went in; a second time, under another name, adds nothing."""
    plain = write(work + "/events.ndjson", events(9000))
    want = read_as_json(plain)
    for name, ending in READABLE.items():
        file = f"{work}/events{ending}"
        if name != "ndjson":
            subprocess.run([GRIDLINE, "convert", "-t", name, "-o", file, plain], check=True)
        with open(file, "rb") as f:
            data = f.read()
        packed = [file]
        with gzip.open(file + ".gz", "wb") as f:  # two members, as `cat a.gz b.gz` makes them
            f.write(data[:len(data) // 2])
        with gzip.open(file + ".gz", "ab") as f:
            f.write(data[len(data) // 2:])
        packed.append(file + ".gz")
        if shutil.which("zstd"):
            subprocess.run(["zstd", "-q", "-f", file], check=True)
            packed.append(file + ".zst")
        g = gateway(work, "gateway-" + name)
        for i, path in enumerate(packed):
            rows, _ = into(g, path)
            row = rows[0]
            assert row["events"] == 9000 and row["bad"] == row["refused"] == row["too_old"] == 0, row
            assert (row["stored"], row["again"]) == ((9000, 0) if i == 0 else (0, 9000)), (path, row)
        g.stop()
        same(g.events(), want)
        account, = g.accounts()
        assert account["passed"] == 9000 and account["duplicate"] == 0, account
        assert account["producer"] == row["id"] and account["epoch"] == 1, (account, row)


def case_twice(work):
    """Two files of one call, one of them from a pipe; the same content is the same file; of another host it is not."""
    a, b = write(work + "/a.ndjson", events(50)), write(work + "/b.ndjson", events(70, seed=2))
    g = gateway(work)
    rows, _ = into(g, a, b, a)
    assert [(r["stored"], r["again"]) for r in rows] == [(50, 0), (70, 0), (0, 50)], rows
    with open(b) as f:
        rows, _ = into(g, "-", stdin=f)
    assert (rows[0]["stored"], rows[0]["again"]) == (0, 70), rows
    with open(b) as f:
        rows, _ = into(g, "-", input=f.read())
    assert (rows[0]["stored"], rows[0]["again"]) == (0, 70), rows
    bare = write(work + "/bare.ulm", "DATE=20260921130000 PROG=init NL.EVNT=boot\n")
    for host in ("n1", "n2", "n1"):
        rows, _ = into(g, "--host", host, bare)
        assert rows[0]["stored"] + rows[0]["again"] == 1, rows
    empty = write(work + "/empty", "")
    assert into(g, empty)[0][0]["events"] == 0
    g.stop()
    assert sorted(e["host"] for e in g.events("boot")) == ["n1", "n2"]
    assert len(g.events()) == 122


def case_bad(work):
    """What can't be read is counted and shown by its line, the rest goes in; --strict takes nothing of it."""
    good = events(40).splitlines()
    lines = list(good)
    for i in range(20):
        lines.insert(i * 2, "{not an event")
    path, g = write(work + "/bad.ndjson", "\n".join(lines) + "\n"), gateway(work)
    out = run("--gateway", "unix:" + g.socket, "--strict", "--format", "json", path)
    assert out.returncode == FAILED and not report(out) and f"{path}:1: " in out.stderr, out
    rows, said = into(g, path, code=PARTLY)
    assert (rows[0]["stored"], rows[0]["bad"]) == (40, 20), rows
    assert f"{path}:1: " in said and f"{path}:3: " in said and "15 more" in said, said
    assert said.count(path + ":") < 8, said
    whole = write(work + "/good.ndjson", "\n".join(good[:7]) + "\n")
    rows, said = into(g, work + "/missing", whole, code=PARTLY)
    assert rows[0]["stored"] == 7 and "missing" in said, (rows, said)
    assert run("--gateway", "unix:" + g.socket, work + "/missing").returncode == NOT_FOUND
    with gzip.open(work + "/cut.gz", "wb") as f:
        f.write(events(20000, seed=5).encode())
    size = os.path.getsize(work + "/cut.gz")
    os.truncate(work + "/cut.gz", size * 2 // 3)
    rows, said = into(g, work + "/cut.gz", code=PARTLY)
    assert 0 < rows[0]["stored"] < 20000 and "ends in the middle" in said, (rows, said)
    rows, _ = into(g, work + "/cut.gz", code=PARTLY)
    assert rows[0]["stored"] == 0 and rows[0]["again"] == rows[0]["events"] > 0, rows
    out = run("--gateway", f"unix:{work}/nobody", whole)
    assert out.returncode == FAILED and "is gridline-gateway running" in out.stderr, out
    assert run("--gateway", "unix:/x", "--archive", work + "/x", whole).returncode == USAGE
    g.stop()


def broken_off(work, sig):
    path, g = write(work + "/events.ndjson", events(60000)), gateway(work)
    proxy = Proxy(work + "/proxy", g.socket, 600_000, "hold")
    p = grid.start([GRIDLINE, "import", "--gateway", "unix:" + proxy.path, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert proxy.reached.wait(grid.PATIENCE)
    wait_for(lambda: any(r["epoch"] == 1 and r["passed"] > 1000 for r in g.rows("ledger")), "events in the journal")
    said = ""
    if sig == signal.SIGINT:
        p.send_signal(sig)
        said = p.communicate(timeout=grid.PATIENCE)[1].decode()
        grid.running.remove(p)
        assert p.returncode == -sig and "goes on where" in said, (p.returncode, said)
    else:
        grid.stop(p, sig)
    proxy.close()
    rows, _ = into(g, path)
    row = rows[0]
    assert row["events"] == 60000 and 0 < row["again"] < 60000 and row["stored"] + row["again"] == 60000, row
    g.stop()
    same(g.events(), read_as_json(path))


def case_killed(work):
    """kill -9 in the middle: the next run goes on there, and nothing is there twice or missing."""
    broken_off(work, signal.SIGKILL)


def case_stopped(work):
    """Ctrl-C in the middle."""
    broken_off(work, signal.SIGINT)


def case_gateway_goes(work):
    """The gateway is killed in the middle and comes back: the import goes on by itself."""
    path, g = write(work + "/events.ndjson", events(60000)), gateway(work)
    proxy = Proxy(work + "/proxy", g.socket, 600_000, "cut")
    p = grid.start([GRIDLINE, "import", "--gateway", "unix:" + proxy.path, "--format", "json", "--timeout", "90s", path],
                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert proxy.reached.wait(grid.PATIENCE)
    g.stop(signal.SIGKILL)
    g.start()
    out, said = p.communicate(timeout=grid.PATIENCE)
    grid.running.remove(p)
    assert p.returncode == OK, (p.returncode, out, said)
    row = json.loads(out)
    assert row["events"] == row["stored"] == 60000, row
    assert proxy.connections > 1
    g.stop()
    same(g.events(), read_as_json(path))


def case_own_origin(work):
    """Events of a binary file that have a producer and numbers keep them: two ways of the same events are one."""
    g = gateway(work, "first")
    path = write(work + "/events.ndjson", events(500))
    id = into(g, path)[0][0]["id"]
    g.stop()
    dumped = work + "/dump.glb"
    with open(dumped, "wb") as f:
        subprocess.run([GATEWAY, "--dump", g.journal, "--print", "binary"], stdout=f, check=True)
    second = gateway(work, "second")
    into(second, dumped)
    rows, _ = into(second, path)
    assert (rows[0]["stored"], rows[0]["again"]) == (0, 500), rows
    second.stop()
    assert len(second.events()) == 500
    assert id in [a["producer"] for a in second.accounts()]


def archived(folder, *argv):
    out = subprocess.run([GRIDLINE, "export", "--archive", folder, *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert out.returncode == OK, (out.returncode, out.stderr)
    return out.stdout


def to_folder(folder, *files, code=OK):
    out = run("--archive", folder, "--format", "json", *files)
    assert out.returncode == code, (out.returncode, out.stdout, out.stderr)
    return report(out)


def case_folder(work):
    """Into a folder and out of it, in every format: the same events, in order of time; a second time adds nothing."""
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fixtures")
    fixtures = [os.path.join(root, p) for p in ("ulm/glite.ulm", "ulm/gridftp.ulm", "ulm/netlogger.ulm", "bp/pegasus.bp")]
    made = write(work + "/events.ndjson", events(9000))
    for i, path in enumerate([made, *fixtures]):
        want = read_as_json(path)
        archive = f"{work}/archive{i}"
        row, = to_folder(archive, path)
        assert row["stored"] == len(want) and row["again"] == row["refused"] == 0, (path, row)
        row, = to_folder(archive, path)
        assert row["stored"] == 0 and row["again"] == len(want), (path, row)
        for name, ending in READABLE.items():
            out = f"{work}/out{i}{ending}"
            archived(archive, "-o", out)
            got = read_as_json(out)
            same(got, want)
            if name != "binary":
                assert [e["time"] for e in got] == sorted(e["time"] for e in got), (path, name)
            again = f"{work}/again{i}-{name}"
            assert to_folder(again, out)[0]["stored"] == len(want)
            archived(again, "-o", out)
            same(read_as_json(out), want)
        lines = archived(archive, "-t", "csv").decode().splitlines()
        assert len(lines) > len(want)


def case_chosen(work):
    """By time, name, host and WHERE."""
    path = write(work + "/events.ndjson", events(9000))
    all_of = read_as_json(path)
    to_folder(work + "/archive", path)

    def chosen(*argv):
        return [json.loads(line) for line in archived(work + "/archive", *argv).decode().splitlines()]

    same(chosen("--host", "node1,node2"), [e for e in all_of if e["host"] in ("node1", "node2")])
    same(chosen("--event", "*.end"), [e for e in all_of if e["name"] == "job.end"])
    same(chosen("--where", "n < 100 AND ok"), [e for e in all_of if e["n"] < 100 and e["ok"]])
    at = "2026-09-21T14:00:00"
    same(chosen("--from", at + "Z", "--to", "2026-09-21T14:10:00Z"),
         [e for e in all_of if at <= e["time"] < "2026-09-21T14:10:00"])
    assert len(archived(work + "/archive", "-t", "csv", "--columns", "n,id").decode().splitlines()) == 9001
    for argv, code in ((["--where", "n <"], USAGE), (["--from", "whenever"], USAGE)):
        out = subprocess.run([GRIDLINE, "export", "--archive", work + "/archive", *argv], stderr=subprocess.PIPE, text=True)
        assert out.returncode == code and out.stderr, (argv, out)
    out = subprocess.run([GRIDLINE, "export", "--archive", work + "/nothing"], stderr=subprocess.PIPE, text=True)
    assert out.returncode == NOT_FOUND and "nothing" in out.stderr, out
    assert not os.path.exists(work + "/nothing")


def case_folder_killed(work):
    """kill -9 of an import into a folder, again and again: in the end every event is there once."""
    path = write(work + "/events.ndjson", events(60000))
    archive, rounds = work + "/archive", 0
    r = random.Random(7)
    while rounds < 12:
        p = grid.start([GRIDLINE, "import", "--quiet", "--archive", archive, path], stdout=subprocess.DEVNULL)
        try:
            p.wait(r.random() * 0.4)
        except subprocess.TimeoutExpired:
            pass
        grid.stop(p, signal.SIGKILL)
        rounds += 1
    row, = to_folder(archive, path)
    assert row["events"] == 60000 and row["stored"] + row["again"] == 60000, row
    archived(archive, "-o", work + "/out.ndjson")
    same(read_as_json(work + "/out.ndjson"), read_as_json(path))


def case_busy(work):
    """A folder that a gateway writes is not for others."""
    g = Gateway(GATEWAY, work, "gateway", "127.0.0.1:0", settings=[f"archive.dir={work}/archive", KEEP]).start()
    path = write(work + "/events.ndjson", events(50))
    out = run("--archive", work + "/archive", path)
    assert out.returncode == FAILED and "written by another process" in out.stderr, out
    into(g, path)
    g.stop()
    got = [json.loads(line) for line in archived(work + "/archive").decode().splitlines()]
    same([e for e in got if e["prog"] == "app"], read_as_json(path))


def case_export(work):
    """Out of a gateway, while it runs, what has just come and what is on disk; with origins it is known elsewhere."""
    g = Gateway(GATEWAY, work, "gateway", "127.0.0.1:0", settings=[f"archive.dir={work}/archive", KEEP]).start()
    path = write(work + "/events.ndjson", events(9000))
    id = into(g, path)[0][0]["id"]
    want = read_as_json(path)

    def exported(name, *argv):
        out = f"{work}/out{READABLE[name]}"
        done = g.gridline("export", "-t", name, "-o", out, "--where", "prog = 'app'", *argv)
        return read_as_json(out)

    wait_for(lambda: len(exported("ndjson")) == len(want), "the archive to have it")
    for round in range(2):
        for name in READABLE:
            got = exported(name)
            same(got, want)
            if name != "binary":
                assert [e["time"] for e in got] == sorted(e["time"] for e in got), name
        same(exported("ndjson", "--host", "node1,node2", "--event", "*.end"),
             [e for e in want if e["host"] in ("node1", "node2") and e["name"] == "job.end"])
        at, to = "2026-09-21T14:00:00", "2026-09-21T14:10:00"
        same(exported("ndjson", "--from", at + "Z", "--to", to + "Z"), [e for e in want if at <= e["time"] < to])
        g.stop()
        g.start()
    csv = g.gridline("export", "-t", "csv", "--where", "name = 'job.end'").stdout.splitlines()
    assert len(csv) == 1 + sum(e["name"] == "job.end" for e in want) and "size" in csv[0]
    bad = g.gridline("export", "--where", "n <", check=False)
    assert bad.returncode == USAGE and bad.stderr, bad
    exported("binary")
    other = gateway(work, "other")
    into(other, work + "/out.glb")
    rows, _ = into(other, path)
    assert (rows[0]["stored"], rows[0]["again"]) == (0, 9000), rows
    other.stop()
    assert id in [a["producer"] for a in other.accounts()]
    g.stop()


def case_baseline(work):
    """Set, listed, replaced and removed, at a gateway and in a folder; kept over a restart."""
    g = Gateway(GATEWAY, work, "gateway", "127.0.0.1:0", settings=[f"archive.dir={work}/archive", KEEP]).start()
    at_gateway, in_folder = ["--gateway", "unix:" + g.socket], ["--archive", work + "/archive"]

    def baseline(where, *argv, code=OK):
        out = subprocess.run([GRIDLINE, "baseline", *argv, *where], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert out.returncode == code, (argv, out)
        return out

    def listed(where):
        rows = [json.loads(line) for line in baseline(where, "list", "--format", "json").stdout.splitlines()]
        return {r["baseline"]: (r["from"][:19], r["to"][:19], r["label"], r["where"]) for r in rows}

    times = ["--from", "2026-09-21T13:00:00Z", "--to", "2026-09-21T14:00:00Z"]
    assert listed(at_gateway) == {}
    baseline(at_gateway, "add", "it's good", *times, "--label", "as it was", "--where", "host = 'a'")
    one = ("2026-09-21T13:00:00", "2026-09-21T14:00:00", "as it was", "host = 'a'")
    assert listed(at_gateway) == {"it's good": one}, listed(at_gateway)
    baseline(at_gateway, "add", "other", *times)
    baseline(at_gateway, "add", "other", "--from", "2026-09-21T13:00:00Z", "--to", "2026-09-21T15:00:00Z")
    both = {"it's good": one, "other": ("2026-09-21T13:00:00", "2026-09-21T15:00:00", "", "")}
    assert listed(at_gateway) == both
    baseline(in_folder, "add", "third", *times, code=FAILED)  # the gateway has it
    g.stop(signal.SIGKILL)
    assert listed(in_folder) == both
    baseline(in_folder, "add", "third", *times)
    baseline(in_folder, "remove", "other")
    baseline(in_folder, "remove", "other", code=NOT_FOUND)
    g.start()
    assert sorted(listed(at_gateway)) == ["it's good", "third"]
    baseline(at_gateway, "remove", "third")
    baseline(at_gateway, "remove", "third", code=NOT_FOUND)
    assert sorted(listed(at_gateway)) == ["it's good"]
    for argv in (["add", "x"], ["add", "x", "--from", "now", "--to", "now-1h"], ["add", "x", *times, "--where", "a <"], ["add"],
                 ["list", "x"], ["change", "x"]):
        baseline(at_gateway, *argv, code=USAGE)
    g.stop()


def workload(start, hop_s, used, seed):
    """Requests of three events, and a metric of two hosts, a second each; as NDJSON."""
    r, out = random.Random(seed), []

    def add(at, host, name, **fields):
        when = datetime.datetime.fromtimestamp(at, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        out.append(json.dumps({"time": when, "host": host, "prog": "server", "level": "info", "name": name, **fields}))

    for i in range(300):
        at, id = start + i, f"{seed}-{i}"
        add(at, "a", "request.start", id=id)
        add(at + r.gauss(0.1, 0.01), "b", "disk.read", id=id)
        add(at + 0.1 + r.gauss(hop_s, 0.02), "a", "request.end", id=id)
        add(at, "a", "memory", used=r.gauss(50, 1))
        add(at, "b", "memory", used=r.gauss(used, 1))
    return "\n".join(out) + "\n"


def case_deviations(work):
    """NL-7: one statement lists the hop that has become slower and the metric that is higher, and nothing else."""
    g = Gateway(GATEWAY, work, "gateway", "127.0.0.1:0", settings=[f"archive.dir={work}/archive", KEEP]).start()
    start = 1_790_000_000
    into(g, write(work + "/good.ndjson", workload(start, 0.3, 70, 1)),
         write(work + "/same.ndjson", workload(start + 3600, 0.3, 70, 2)),
         write(work + "/worse.ndjson", workload(start + 7200, 0.6, 90, 3)))
    g.gridline("baseline", "add", "good", "--from", str(start), "--to", str(start + 400))

    def deviations(at):
        out = g.gridline("sql", "-t", "ndjson", "SELECT kind, event, coalesce(next, host) AS what, round(ratio, 1) AS ratio "
                         f"FROM deviations('good', {at}000000000, {at + 400}000000000) ORDER BY kind")
        return [tuple(json.loads(line).values()) for line in out.stdout.splitlines()]

    want = [("hop", "disk.read", "request.end", 2.0), ("metric", "memory", "b", 1.3)]
    wait_for(lambda: deviations(start + 7200) == want, "the archive to have all of it")
    assert deviations(start + 3600) == []
    g.stop()


def case_directory(work):
    """The directory lists the archive: what it holds, and that it works."""
    g = Gateway(GATEWAY, work, "gateway", "127.0.0.1:0", settings=[f"archive.dir={work}/archive", KEEP]).start()
    into(g, write(work + "/events.ndjson", events(500)))

    def entry():
        return [r for r in g.rows("sensors", "--long") if r.get("mode") == "archive"]

    wait_for(lambda: entry() and "job.end" in entry()[0].get("events", ""), "the archive in the directory")
    row, = entry()
    assert row["sensor"] == "archive" and row["status"] == "running", row
    assert {"job.start", "job.end"} <= set(row["events"].split(",")), row
    g.stop()


def case_cardinality(work):
    """A producer with too many streams: nothing is lost, the rows beyond are counted, and the ledger says whose they are."""
    limit, samples = 4, 3
    g = Gateway(GATEWAY, work, "gateway", "127.0.0.1:0",
                settings=[f"archive.dir={work}/archive", KEEP, f"archive.streams={limit}"]).start()
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fixtures", "hosts", "many-disks")
    many, few = work + "/many.glb", write(work + "/few.ndjson", events(100))
    subprocess.run([GRIDLINE, "sense", "disk", "-n", str(samples), "-i", "10ms", "--root", root, "-t", "binary", "-o", many],
                   check=True)
    want = read_as_json(many)
    disks = len(want) // samples
    assert disks > 2 * limit, disks
    ids = [row["id"] for row in into(g, few, many)[0]]

    def accounts():
        return {r["producer"]: r for r in g.rows("ledger", "--long")}

    wait_for(lambda: accounts()[ids[1]].get("archive_overflow") == (disks - limit) * samples, "the ledger to name it")
    rows = accounts()
    assert "archive_overflow" not in rows[ids[0]], rows[ids[0]]
    out = work + "/out.glb"
    for folder in (False, True):
        if folder:
            g.stop()
            archived(work + "/archive", "-e", "disk", "-o", out)
        else:
            g.gridline("export", "-e", "disk", "-o", out)
        same(read_as_json(out), want)


def timed(ages_s, name="job.end"):
    """As NDJSON: an event for each age; negative: ahead of now."""
    now = int(time.time())
    return "".join(json.dumps({"time": now - age, "host": "h", "prog": "app", "name": name, "n": i}) + "\n"
                   for i, age in enumerate(ages_s))


def ask(g, sql):
    """The rows as lines of csv, without the head."""
    return g.gridline("sql", "--format", "csv", sql).stdout.splitlines()[1:]


def sums(g):
    """Of the ledger's accounts of events, without the gateway's own."""
    rows = [r for r in g.rows("ledger", "--long") if r["class"] == "events"]
    return {name: sum(r[name] for r in rows) for name in ("too_old", "too_new", "refused")}


def case_refused(work):
    """What the archive would not keep is refused where it comes in, for its reason and counted; what is said to be stored
    can be selected at once. In one block with events that are taken, too; a second time says the same."""
    day = 86400
    g = Gateway(GATEWAY, work, "gateway", "127.0.0.1:0",
                settings=[f"archive.dir={work}/archive", "archive.keep=short*=1d,*=90d"]).start()
    ages = [10, 91 * day, 20, -2 * day, 89 * day, 400 * day, -3600, -3 * day, 30]
    path = write(work + "/mixed.ndjson", timed(ages) + timed([3600, 2 * day], "short"))
    for round in range(2):
        (row,), said = into(g, path, code=PARTLY)
        assert (row["events"], row["too_old"], row["too_new"], row["refused"]) == (11, 3, 2, 0), row
        assert (row["stored"], row["again"]) == ((6, 0), (0, 6))[round], row
        assert "3 events are too old" in said and "archive.keep" in said and "2 events are too new" in said, said
        assert ask(g, "SELECT count(*), sum(n) FROM \"job.end\"") == ["5,20"]
        assert ask(g, "SELECT count(*) FROM short") == ["1"]
        assert sums(g) == {"too_old": 3 * (round + 1), "too_new": 2 * (round + 1), "refused": 0}, sums(g)
    # a program (libgridline) hears it, too
    for age, what in ((400 * day, "older than the archive"), (-5 * day, "ahead of the clock")):
        at = datetime.datetime.fromtimestamp(int(time.time()) - age, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        out = subprocess.run([GRIDLINE, "log", "--to", "unix:" + g.socket, "--time", at, "app.x", "a=1"], stderr=subprocess.PIPE,
                             text=True)
        assert out.returncode == FAILED and what in out.stderr, out
    assert sums(g) == {"too_old": 7, "too_new": 5, "refused": 0}, sums(g)
    # and lines, which nobody answers, are counted
    host, port = g.addresses[0].removeprefix("tcp://").rsplit(":", 1)
    with socket.create_connection((host, int(port))) as s:
        s.sendall(b"DATE=20100101000000 HOST=h PROG=p LVL=Info NL.EVNT=app.x a=1\n" * 3)
    wait_for(lambda: sums(g)["too_old"] == 10, "the lines to be counted")
    assert "no such table" in g.gridline("sql", "SELECT * FROM \"app.x\"", check=False).stderr


DAY = 86400


def case_keep(work):
    """An old trace, kept in an archive of seven days: selected at once, and there after upkeep, a restart and another import
    of it; who may not control may not keep; what is kept for a time goes when that is over."""
    g = Gateway(GATEWAY, work, "gateway", "127.0.0.1:0",
                settings=[f"archive.dir={work}/archive", "archive.keep=*=7d"]).start()
    old = write(work + "/old.ndjson", timed([16 * 365 * DAY + i * 600 for i in range(2000)], "trace"))
    brief = write(work + "/brief.ndjson", timed([10 * 365 * DAY + i * 600 for i in range(50)], "brief"))
    (row,), said = into(g, old, code=PARTLY)
    assert row["too_old"] == 2000 and "--keep" in said, (row, said)
    (row,), _ = into(g, old, "--keep")
    assert row["stored"] == 2000 and row["too_old"] == 0, row
    (row,), _ = into(g, "--keep", "2s", brief)
    assert row["stored"] == 50, row
    count = "SELECT count(*), sum(n) FROM trace"
    assert ask(g, count) == ["2000,1999000"]
    for _ in range(2):
        g.stop()
        g.start()
        assert ask(g, count) == ["2000,1999000"]
        (row,), _ = into(g, "--keep=forever", old)
        assert row["stored"] == 0 and row["again"] == 2000, row
    # upkeep takes what was kept for two seconds, and leaves the trace
    wait_for(lambda: ask(g, "SELECT count(*) FROM brief") == ["0"], "what is kept no longer to go")
    assert ask(g, count) == ["2000,1999000"]
    g.stop()
    assert not [f for f in os.listdir(work + "/archive") if f.endswith(("-wal", "-shm"))], os.listdir(work + "/archive")


def case_keep_folder(work):
    """The same to the folder of a gateway that is stopped: its ages count there, too."""
    archive = work + "/archive"
    g = Gateway(GATEWAY, work, "gateway", "127.0.0.1:0", settings=[f"archive.dir={archive}", "archive.keep=*=7d"]).start()
    g.stop()
    path = write(work + "/mixed.ndjson", timed([60, 3000 * DAY, 3001 * DAY, 120, -3 * DAY], "trace"))
    row, = to_folder(archive, path, code=PARTLY)
    assert (row["stored"], row["too_old"], row["too_new"]) == (2, 2, 1), row
    row, = to_folder(archive, "--keep", path)
    assert (row["stored"], row["again"]) == (2, 3), row
    g.start()
    assert ask(g, "SELECT count(*), sum(n) FROM trace") == ["4,6"]
    g.stop()
    assert not [f for f in os.listdir(archive) if f.endswith(("-wal", "-shm"))], os.listdir(archive)
    # one of nobody has no ages
    row, = to_folder(work + "/other", path, code=PARTLY)
    assert (row["stored"], row["too_old"], row["too_new"]) == (4, 0, 1), row


def series(path, starts, n, step=300):
    """58 series of n values, each from its start on; as ULM, in order of time. Returns how many and their sum."""
    r, rows = random.Random(7), []
    for s in range(58):
        v = r.random() * 100
        for i in range(n):
            v += r.gauss(0, 1)
            rows.append((starts(s) + i * step, s, round(v, 3)))
    rows.sort()
    when = [datetime.datetime.fromtimestamp(t, datetime.timezone.utc).strftime("%Y%m%d%H%M%S") for t, _, _ in rows]
    write(path, "".join(f"DATE={at} HOST=h{s} PROG=p LVL=Info NL.EVNT=metric value={v}\n" for at, (_, s, v) in zip(when, rows)))
    return len(rows), sum(v for _, _, v in rows)


def case_sparse(work):
    """Series of years ago take no more than twice the room of the same of these days: few partitions; rows that come later go
    to those there are, also to days of an archive that has only days; nothing is there twice, and no logs are left."""
    n, old, new = 1500, work + "/old.ulm", work + "/new.ulm"
    rows, total = series(old, lambda s: 1388534400 + s % 24 * 30 * DAY, n)
    series(new, lambda s: int(time.time()) - 3600 - n * 300, n)

    def size(folder):
        return sum(os.path.getsize(f"{folder}/{f}") for f in os.listdir(folder))

    def partitions(folder):
        return sorted(f for f in os.listdir(folder) if f[:2] == "20" and f.endswith(".db"))

    def check(folder, rows, total):
        out = subprocess.run([GRIDLINE, "sql", "--archive", folder, "--format", "csv", "SELECT count(*), sum(value) FROM metric"],
                             stdout=subprocess.PIPE, text=True, check=True).stdout.split()[1].split(",")
        assert int(out[0]) == rows and abs(float(out[1]) - total) < 1e-3, (out, rows, total)

    for name, path in (("o", old), ("n", new)):
        assert to_folder(f"{work}/{name}", path)[0]["stored"] == rows
        assert not [f for f in os.listdir(f"{work}/{name}") if f.endswith(("-wal", "-shm"))]
    assert size(work + "/o") <= 2 * size(work + "/n"), (size(work + "/o"), size(work + "/n"))
    assert len(partitions(work + "/o")) <= 4, partitions(work + "/o")
    check(work + "/o", rows, total)
    # late rows: into the partitions there are
    before = partitions(work + "/o")
    more, plus = series(work + "/late.ulm", lambda s: 1388534400 + 40 * DAY + s, 20, 7200)
    assert to_folder(work + "/o", work + "/late.ulm")[0]["stored"] == more
    assert partitions(work + "/o") == before
    check(work + "/o", rows + more, total + plus)
    assert to_folder(work + "/o", old)[0]["again"] == rows
    # a gateway takes it up, and its own imports go there, too; with 36600 days nothing of it goes
    g = Gateway(GATEWAY, work, "gateway", "127.0.0.1:0", settings=[f"archive.dir={work}/o", KEEP]).start()
    third, sum3 = series(work + "/third.ulm", lambda s: 1388534400 + 80 * DAY + s, 10, 3600)
    assert into(g, work + "/third.ulm")[0][0]["stored"] == third
    count, total3 = ask(g, "SELECT count(*), sum(value) FROM metric")[0].split(",")
    assert int(count) == rows + more + third and abs(float(total3) - total - plus - sum3) < 1e-3, (count, total3)
    g.stop()
    assert [f for f in partitions(work + "/o") if "s.db" not in f and f < "2020"] == before, partitions(work + "/o")
    check(work + "/o", rows + more + third, total + plus + sum3)


if __name__ == "__main__":
    grid.main(globals(), sys.argv)
