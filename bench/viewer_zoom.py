# SPDX-License-Identifier: Apache-2.0
"""The zoom part of bench/viewer: how long a gateway takes for the tiles of a view, whatever is asked of a large archive.

A user zooms: from all of the time, each step somewhere within what is seen, 2 to 8 times as deep, down to a window of
10 ms. Every view is as wide as 1920 pixels have bins (docs/tiles.md), so it has 3 to 9 tiles of a kind. They are asked
one after the other by a connection that is kept. A tile's time is the gateway's CPU time for it, of all threads, which is what it
takes on a machine that has nothing else to do (but for the archive's upkeep, a thread of its own); beside it the time until the answer was there. Bytes are what goes over the wire with
`Accept-Encoding: gzip`."""
import gzip
import http.client
import json
import os
import random
import subprocess
import time
import urllib.parse

import measure

PIXELS = 1920
BEGAN_NS = 1794700800 * 10**9  # archive_events.c
KINDS = {  # name and parameters of each
    "lifeline": ("id", {}),
    "edges": ("id", {}),
    "points": ("transfer.*", {}),
    "series": ("transfer.end", {"field": "bytes"}),
}


class Gateway:
    """On an archive that is there."""

    def __init__(self, work, archive, ids="id"):
        ready = work + "/ready"
        if os.path.exists(ready):
            os.unlink(ready)
        argv = [os.path.join(measure.BUILD, "gridline-gateway"), "--listen", "tcp://127.0.0.1:0", "--state-dir", work + "/state",
                "--ready-file", ready, "-s", "http=127.0.0.1:0", "-s", "socket=" + work + "/g.sock", "-s", "archive.dir=" + archive,
                "-s", "archive.ids=" + ids, "-s", "archive.keep=*=36500d", "-s", "archive.size=100GiB"]
        self.log = open(work + "/gateway.log", "ab")
        self.process = subprocess.Popen(argv, stderr=self.log)
        until = time.monotonic() + 120
        while not (os.path.exists(ready) and os.path.getsize(ready)):
            if self.process.poll() is not None or time.monotonic() > until:
                raise SystemExit("the gateway did not start: " + open(work + "/gateway.log").read()[-500:])
            time.sleep(0.01)
        self.address = open(ready).read().split()[-1].split("://")[1]
        self.headers = {"Authorization": "Bearer " + open(work + "/state/http.token").read().strip(), "Accept-Encoding": "gzip"}
        self.connection = None
        self.upkeep = set()

    def ask(self, path):
        """Status, the body as it came, CPU seconds, seconds."""
        if not self.connection:
            self.connection = http.client.HTTPConnection(self.address, timeout=300)
            self.connection.connect()
        cpu, began = self.cpu_s(), time.perf_counter()
        self.connection.request("GET", path, headers=self.headers)
        answer = self.connection.getresponse()
        body = answer.read()
        wall = time.perf_counter() - began
        return answer.status, body, self.cpu_s() - cpu, wall

    def threads(self):
        """CPU seconds of each thread so far."""
        used = {}
        for task in os.listdir(f"/proc/{self.process.pid}/task"):
            try:
                used[task] = int(open(f"/proc/{self.process.pid}/task/{task}/schedstat").read().split()[0]) / 1e9
            except OSError:
                pass  # it has ended
        return used

    def find_upkeep(self):
        """An archive that was just opened is checked and merged by a thread of its own, for minutes if it is large: not what is measured."""
        before = self.threads()
        time.sleep(3)
        self.upkeep = {task for task, s in self.threads().items() if s - before.get(task, 0) > 0.1}

    def cpu_s(self):
        return sum(s for task, s in self.threads().items() if task not in self.upkeep)

    def running(self):
        """Queries and tiles that are being made."""
        body = self.ask("/api/v1/directory/status")[1]
        return json.loads(gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body)["rows"][0]["query.open"]

    def stop(self):
        if self.connection:
            self.connection.close()
        self.process.terminate()
        self.process.wait()
        self.log.close()


def level_for(span_ns):
    level = 0
    while span_ns / 4**level > PIXELS:
        level += 1
    return level


def walks(n, span_ns, seed):
    """Views (from, span), each walk from all of it down."""
    r = random.Random(seed)
    for _ in range(n):
        at, span = BEGAN_NS, span_ns
        while span > 10**7:
            yield at, span
            inner = int(span / r.uniform(2, 8))
            at, span = at + int(r.random() * (span - inner)), inner


def path_of(kind, level, index):
    name, params = KINDS[kind]
    query = "?" + urllib.parse.urlencode(params) if params else ""
    return f"/api/v1/tile/{kind}/{urllib.parse.quote(name, safe='')}/{level}/{index}{query}"


def percentile(values, p):
    values = sorted(values)
    return values[min(len(values) - 1, int(p * len(values)))]


class Measured:
    """Of one kind, seconds and bytes."""

    def __init__(self):
        self.cpu, self.wall, self.view_cpu, self.view_wall, self.view_bytes = [], [], [], [], []


def run(archive, events, n_walks, work, kinds=tuple(KINDS), seed=1):
    """What was measured of each kind, and the slowest tiles."""
    gateway = Gateway(work, archive)
    result = {kind: Measured() for kind in kinds}
    slow = []
    try:
        gateway.find_upkeep()
        for from_ns, span_ns in walks(n_walks, events * 10**5, seed):  # 10,000 events a second
            level = level_for(span_ns)
            tile_ns = 256 * 4**level
            for kind, m in result.items():
                first = len(m.cpu)
                size = 0
                for index in range(from_ns // tile_ns, (from_ns + span_ns - 1) // tile_ns + 1):
                    path = path_of(kind, level, index)
                    status, body, cpu, wall = gateway.ask(path)
                    if status != 200:
                        raise SystemExit(f"{path}: {status} {body[:300]}")
                    m.cpu.append(cpu)
                    m.wall.append(wall)
                    size += len(body)
                    slow.append((cpu, wall, path))
                m.view_cpu.append(sum(m.cpu[first:]))
                m.view_wall.append(sum(m.wall[first:]))
                m.view_bytes.append(size)
    finally:
        gateway.stop()
    return result, sorted(slow, reverse=True)[:8]


def abort(archive, events, work):
    """A tile that reads every event of the archive is asked for, and its client leaves: seconds until no query runs any more."""
    gateway = Gateway(work, archive)
    try:
        level = level_for(events * 10**5)
        path = path_of("points", level, BEGAN_NS // (256 * 4**level)) + "?where=" + urllib.parse.quote("bytes > 1")
        client = http.client.HTTPConnection(gateway.address, timeout=60)
        client.request("GET", path, headers=gateway.headers)
        until = time.monotonic() + 10
        while gateway.running() == 0:
            if time.monotonic() > until:
                return None
        time.sleep(0.2)
        if gateway.running() == 0:
            return None
        client.sock.close()
        left = time.monotonic()
        while gateway.running() > 0:
            if time.monotonic() > left + 60:
                return 60
        return time.monotonic() - left
    finally:
        gateway.stop()


def report(result, slow):
    def ms(values):
        return [f"{1000 * percentile(values, p):.1f}" for p in (.5, .95, 1)]

    measure.table([[kind, len(m.cpu), *ms(m.cpu), *ms(m.wall), *ms(m.view_cpu), f"{max(m.view_bytes) / 1000:.0f}"]
                   for kind, m in result.items()],
                  ["tiles of", "n", "CPU ms p50", "p95", "max", "wall p50", "p95", "max", "view CPU p50", "p95", "max", "view KB max"])
    print("the slowest (CPU ms, wall ms):")
    for cpu, wall, path in slow:
        print(f"  {1000 * cpu:8.1f} {1000 * wall:8.1f}  {path}")
    print()
