#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python binding: its example and its corners, by what ends up in the file.

usage: python_binding.py SOURCE LIBRARY"""

import json
import logging
import math
import os
import subprocess
import sys
import tempfile
import threading

SOURCE, LIBRARY = sys.argv[1:3]
os.environ["GRIDLINE_LIBRARY"] = LIBRARY
sys.path.insert(0, os.path.join(SOURCE, "bindings/python"))
sys.dont_write_bytecode = True  # leave nothing in the source tree
os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
import gridline  # noqa: E402  (needs the lines above)


def events(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def named(found, name):
    return [e for e in found if e["name"] == name]


def check_example(folder):
    path = os.path.join(folder, "example.ndjson")
    subprocess.run([sys.executable, os.path.join(SOURCE, "bindings/python/example.py"), path], check=True,
                   env={**os.environ, "PYTHONPATH": os.path.join(SOURCE, "bindings/python")}, timeout=60)
    found = events(path)
    assert [e["id"] for e in named(found, "transfer.start")] == [1, 2, 3]
    last = named(found, "transfer.end")[2]
    assert last["ratio"] == 300000 / 1024 and last["ok"] is True and "note" not in last
    assert last["raw"] == "/wA=" and last["@"]["raw"] == "bytes"
    record, = named(found, "python.log")
    assert record["message"] == "3 jobs done, größter 300000" and record["level"] == "warning"
    assert record["logger"] == "example" and record["id"] == 3 and record["file"].endswith("example.py")
    assert named(found, "transfer.count")[0]["count"] == 3
    assert named(found, "transfer.time")[0]["count"] == 3 and named(found, "transfer.s")[0]["count"] == 3
    assert named(found, "process.self")[0]["threads"] >= 1
    assert all(e["prog"] == "example.py" for e in found)


def check_values(folder):
    path = os.path.join(folder, "values.ndjson")
    with gridline.Log("test", path) as log:
        log.write("v", low=-2 ** 63, high=2 ** 64 - 1, text="a\0\"\nπ", nan=math.nan, empty="", fields={"a.b": 1.5})
        log.write("at", gridline.ERROR, time_ns=1_000_000_001)
        for refused in ("no name", ""):
            try:
                log.write(refused)
            except gridline.Error:
                pass
            else:
                raise AssertionError(f"event name {refused!r} was taken")
        log.set_level(gridline.ERROR)
        log.write("off")
        stats = log.stats()
        assert stats["taken"] == stats["passed"] + stats["queued"] + stats["dropped"], stats
    log.write("after close")  # does nothing
    found = events(path)
    v, = named(found, "v")
    assert v["low"] == -2 ** 63 and v["high"] == 2 ** 64 - 1 and v["text"] == "a\0\"\nπ" and v["empty"] == ""
    assert v["nan"] == "NaN" and v["a.b"] == 1.5
    at, = named(found, "at")
    assert at["time"] == "1970-01-01T00:00:01.000000001Z" and at["level"] == "error"
    assert not named(found, "off")


def check_points(folder):
    path = os.path.join(folder, "points.ndjson")
    with gridline.Log("test", path) as log:
        counter = log.counter("count")
        counter.threshold(1000)
        threads = [threading.Thread(target=lambda: [counter.add() for _ in range(500)]) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        summary = log.summary("sizes")
        for i in range(100):
            summary.add(i)
        log.histogram("bytes", 4, 3600).add(7)
        try:
            log.counter("not a name")
        except ValueError:
            pass
        else:
            raise AssertionError("a bad name was taken")
    counter.add()  # after close: nothing
    found = events(path)
    assert named(found, "count")[0]["count"] == 2000
    crossing, = named(found, "count.threshold")
    assert crossing["count"] == 1000 and crossing["direction"] == "up"
    sizes, = named(found, "sizes")
    assert sizes["count"] == 100 and sizes["sum"] == 4950 and sizes["max"] == 99
    assert named(found, "bytes")[0]["buckets"] == "7.0"


def check_logging(folder):
    path = os.path.join(folder, "logging.ndjson")
    with gridline.Log("test", path) as log:
        log.set_level(gridline.TRACE)
        logger = logging.getLogger("flow")
        logger.propagate = False
        logger.setLevel(logging.DEBUG)
        logger.addHandler(gridline.Handler(log))
        for call in (logger.debug, logger.info, logger.warning, logger.error, logger.critical):
            call("hello")
        try:
            raise KeyError("gone")
        except KeyError:
            logger.exception("failed")
    found = events(path)
    assert [e["level"] for e in found][:5] == ["debug", "info", "warning", "error", "critical"]
    assert "KeyError" in found[5]["exception"]


def check_off():
    for name in ("GRIDLINE_DEST", "NETLOGGER_DEST"):
        os.environ.pop(name, None)
    with gridline.Log("test") as log:
        log.write("nowhere", id=1)
        with log.timer("t"):
            pass
    try:
        gridline.Log("test", "nonsense://x")
    except gridline.Error:
        pass
    else:
        raise AssertionError("a bad URL was taken")


def main():
    with tempfile.TemporaryDirectory() as folder:
        check_example(folder)
        check_values(folder)
        check_points(folder)
        check_logging(folder)
        check_off()
    print("python binding:", gridline.version(), "ok")


main()
