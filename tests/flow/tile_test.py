#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tiles of a real gateway, by HTTP (docs/tiles.md): decoded here by what the document says, and compared with what was sent.

    tile_test.py CASE GATEWAY"""
import http.client
import json
import os
import random
import shutil
import struct
import sys
import tempfile
import time
import urllib.parse

from grid import start, stop, stop_all, wait_for

GATEWAY = sys.argv[2]
KINDS = {1: "series", 2: "points", 3: "lifeline-exact", 4: "lifeline-density", 5: "edges"}
NAMES = [None, "bin_ns", "streams", "row", "t", "first", "min", "max", "last", "count", "severity", "id", "events", "hosts",
         "path_end", "path_event", "path", "vertex_t", "vertex_host", "pair_from", "pair_to", "pair_late", "pair", "latency_bin",
         "outlier_pair", "outlier_t", "outlier_latency_ns", "outlier_severity", "outlier_host", "outlier_id", "nodes", "src", "dst",
         "rate", "errors", "p50", "p99"]
TYPES = {1: "B", 2: "H", 3: "I", 4: "Q", 5: "f", 6: "d"}


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ 0x82f63b78 * (crc & 1)
    return crc ^ 0xffffffff


def decode(data):
    """A tile as a dict: the head's fields and a list a column."""
    magic, version, kind, level, flags, crc, index, base, span, columns, size, left_out, lost = struct.unpack_from("<4sHHHHIqqQIIQQ", data)
    assert magic == b"GLT1" and version == 1 and size == len(data) and span & span - 1 == 0, data[:64]
    assert crc == crc32c(data[:12] + bytes(4) + data[16:])
    tile = {"kind": KINDS[kind], "level": level, "index": index, "base_ns": base, "span_ns": span, "open": bool(flags & 1),
            "left_out": left_out, "lost": lost}
    for i in range(columns):
        column, kind, group, n, at, size = struct.unpack_from("<HBBIII", data, 64 + 16 * i)
        assert at % 8 == 0 and at + size <= len(data)
        if kind == 7:
            ends = (0,) + struct.unpack_from(f"<{n}I", data, at)
            text = data[at + 4 * n:at + size]
            tile[NAMES[column]] = [text[a:b].decode() for a, b in zip(ends, ends[1:])]
        else:
            tile[NAMES[column]] = list(struct.unpack_from(f"<{n}{TYPES[kind]}", data, at))
    return tile


class Gateway:
    def __init__(self, work):
        self.work = work
        self.start()

    def start(self):
        ready = self.work + "/ready"
        if os.path.exists(ready):
            os.unlink(ready)
        argv = [GATEWAY, "--listen", "tcp://127.0.0.1:0", "--state-dir", self.work + "/state", "--ready-file", ready, "-s",
                "http=127.0.0.1:0", "-s", "socket=" + self.work + "/g.sock", "-s", "archive.ids=id,job+task"]
        with open(self.work + "/log", "ab") as log:
            self.process = start(argv, stderr=log)
        wait_for(lambda: self.process.poll() is not None or (os.path.exists(ready) and os.path.getsize(ready)), "the gateway")
        assert self.process.poll() is None, open(self.work + "/log").read()
        self.address = open(ready).read().split()[-1].split("://")[1]
        self.token = open(self.work + "/state/http.token").read().strip()

    def ask(self, path, method="GET", body=None, **headers):
        c = http.client.HTTPConnection(self.address, timeout=60)
        c.request(method, path, body, {"Authorization": "Bearer " + self.token, **{k.replace("_", "-"): v for k, v in headers.items()}})
        r = c.getresponse()
        try:
            return r.status, r.headers, r.read()
        finally:
            c.close()

    def publish(self, events):
        for i in range(0, len(events), 2000):
            text = "".join(json.dumps(e) + "\n" for e in events[i:i + 2000])
            status, _, body = self.ask("/api/v1/events", "POST", text, Content_Type="application/x-ndjson")
            assert status == 200, body

    def tile(self, kind, name, level, index, status=200, **params):
        path = f"/api/v1/tile/{kind}/{urllib.parse.quote(name, safe='')}/{level}/{index}"
        if params:
            path += "?" + urllib.parse.urlencode(params)
        got, headers, body = self.ask(path)
        assert got == status, (path, got, body[:300])
        return decode(body) if status == 200 and "as" not in params else body


def make_events(n, began):
    """Jobs that go from host to host, in order of time."""
    r = random.Random(7)
    return [{"time": round((began + i * 3000000) / 1e9, 6), "name": r.choice(["job.start", "job.read", "job.end"]), "host": r.choice(["alpha", "beta"]),
             "level": "error" if i % 100 == 99 else "info", "id": f"job-{r.randrange(40)}", "job": r.randrange(5), "task": r.randrange(3),
             "size": i % 17} for i in range(n)]


def setting(work):
    """A gateway with 3000 events within ten seconds, and a level and index of a tile that has all of them."""
    g = Gateway(work)
    span = 1 << (2 * 14 + 8)  # of level 14: 69 s
    began = (time.time_ns() // span - 1) * span + span // 2
    events = make_events(3000, began)
    g.publish(events)
    index = began // span
    wait_for(lambda: sum(g.tile("points", "job.*", 14, index)["count"]) == len(events), "all events in the archive")
    return g, events, began, index


def ns(e):
    return round(e["time"] * 1e6) * 1000


def case_kinds(work):
    g, events, began, index = setting(work)
    try:
        t = g.tile("points", "job.*", 14, index)
        assert len(t["streams"]) == 6 and t["kind"] == "points" and t["open"]
        assert min(t["severity"]) == 3  # error
        few = g.tile("points", "job.read", 14, index, where="size < 9 AND level <= 'error'", host="alpha")
        want = [e for e in events if e["name"] == "job.read" and e["size"] < 9 and e["level"] == "error" and e["host"] == "alpha"]
        assert sorted(few["id"]) == sorted(e["id"] for e in want) and want

        t = g.tile("series", "job.end", 14, index, field="size")
        ends = [e for e in events if e["name"] == "job.end"]
        assert sum(t["count"]) == len(ends) and max(t["max"]) == max(e["size"] for e in ends) and len(t["t"]) <= 512
        assert all(a <= b and a <= c <= b and a <= d <= b for a, b, c, d in zip(t["min"], t["max"], t["first"], t["last"]))

        t = g.tile("lifeline-density", "id", 14, index)
        assert sum(t["count"]) == len(events)
        assert sum(s <= 3 for s in t["outlier_severity"]) == sum(e["level"] == "error" for e in events) == 30

        lines = {}
        for e in events:
            lines.setdefault(e["id"], []).append(e)
        t = g.tile("lifeline-exact", "id", 14, index)
        assert t["kind"] == "lifeline-exact" and sorted(t["id"]) == sorted(lines)
        at = 0
        for i, name in enumerate(t["id"]):
            path = t["path"][i]
            begin = t["path_end"][path - 1] if path else 0
            names = [t["events"][k] for k in t["path_event"][begin:t["path_end"][path]]]
            assert names == [e["name"] for e in lines[name]], name
            for e in lines[name]:
                when = t["base_ns"] + t["vertex_t"][at] * t["span_ns"] / 2**32
                assert abs(when - ns(e)) < 2000 and t["hosts"][t["vertex_host"][at]] == e["host"]
                at += 1
        assert at == len(t["vertex_t"]) == len(events)
        one = g.tile("lifeline", "id", 14, index, id="job-7")
        assert one["id"] == ["job-7"] and len(one["vertex_t"]) == len(lines["job-7"])
        assert len(g.tile("lifeline-exact", "job+task", 14, index)["id"]) == 15

        hops = 0
        last = {}
        for e in events:
            hops += last.get(e["id"], e["host"]) != e["host"]
            last[e["id"]] = e["host"]
        t = g.tile("edges", "id", 14, index)
        assert sum(t["count"]) == hops and sorted(t["nodes"]) == ["alpha", "beta"]

        g.tile("series", "job.end", 14, index, 404, field="nope")
        g.tile("series", "nope", 14, index, 404, field="size")
        g.tile("series", "job.end", 14, index, 400)
        g.tile("serie", "job.end", 14, index, 400)
        g.tile("points", "job.end", 99, index, 400)
        g.tile("points", "job.end", 14, "x", 400)
        assert g.ask(f"/api/v1/tile/points/a/14")[0] == 404
        assert g.ask(f"/api/v1/tile/points/a%00b/14/0")[0] == 400
        assert g.ask(f"/api/v1/tile/points/a/14/0", Authorization="Bearer nobody")[0] == 401
    finally:
        assert stop(g.process) == 0


def case_cache(work):
    """ETags, and what is final: the same after a restart, in every form."""
    g, events, began, index = setting(work)
    path = f"/api/v1/tile/edges/id/14/{index}"
    status, headers, body = g.ask(path)
    assert status == 200 and "max-age=1" in headers["Cache-Control"] and "immutable" not in headers["Cache-Control"], headers
    assert headers["Content-Type"] == "application/vnd.gridline.tile"
    status, again, nothing = g.ask(path, If_None_Match=headers["ETag"])
    assert status == 304 and nothing == b"" and again["ETag"] == headers["ETag"]
    assert g.ask(path, If_None_Match='"0"')[0] == 200
    before = decode(body)

    # a restart flushes; two hours later the tile is final
    assert stop(g.process) == 0
    g.start()
    g.publish([{"time": time.time() + 1, "name": "other", "host": "alpha"}])
    old = time.time_ns() - 5 * 3600 * 10**9
    older = make_events(200, old)
    g.publish(older)
    at = old // (1 << 36)
    wait_for(lambda: sum(sum(g.tile("points", "job.*", 14, i)["count"]) for i in (at, at + 1)) == 200, "what is older")
    assert stop(g.process) == 0
    g.start()
    status, headers, body = g.ask(f"/api/v1/tile/points/job.*/14/{at}")
    assert status == 200 and "immutable" in headers["Cache-Control"] and "private" in headers["Cache-Control"], headers
    tile = decode(body)
    assert not tile["open"]

    t = g.tile("edges", "id", 14, index)
    total = lambda t: sum(t["count"])
    assert total(t) == total(before), (total(t), total(before))

    data = json.loads(g.tile("points", "job.*", 14, at, **{"as": "json"}))
    assert data["count"] == tile["count"] and data["id"] == tile["id"] and data["streams"] == tile["streams"]
    lines = g.tile("points", "job.*", 14, at, **{"as": "csv"}).decode().split("\r\n")
    assert lines[0] == "row,t,count,severity,id" and len(lines) == len(tile["t"]) + 2
    assert stop(g.process) == 0


def main():
    work = tempfile.mkdtemp(prefix="gridline-tile-")
    try:
        globals()["case_" + sys.argv[1]](work)
    except BaseException:
        print("the files are in", work)
        if os.path.exists(work + "/log"):
            print(open(work + "/log").read()[-3000:])
        raise
    stop_all()
    shutil.rmtree(work)


main()
