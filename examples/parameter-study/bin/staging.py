#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Watches the staging of a study's files: staging.py STUDY DESTINATION [EVERY]

An event `staging` for each file, by direction (in, out) and file: is it there, its size and the size it should have, whether its
checksum is right (ok, wrong, unknown), how fast it grows, and where it is. Inputs are what input/MANIFEST lists (name, size, SHA-256 a
line), outputs what jobs said they would write (log/NAME.expect). Told when it changes, and every 30 s."""
import hashlib
import os
import sys
import time

import gridline

AGAIN_S = 30


def read_words(path):
    try:
        with open(path) as f:
            return [line.split() for line in f if line.strip()]
    except FileNotFoundError:
        return []


class File:
    """What is known of one file."""

    def __init__(self, direction, name):
        self.direction, self.name = direction, name
        self.size, self.at, self.rate = None, 0.0, 0.0
        self.checked = None  # (size, mtime) that the checksum is of
        self.checksum = "unknown"
        self.told, self.told_at = None, 0.0

    def look(self, path, partial, expected, sha256, now):
        """The values of its event."""
        found = path if os.path.exists(path) else partial
        try:
            st = os.stat(found)
            size, stamp = st.st_size, (st.st_size, st.st_mtime_ns)
        except FileNotFoundError:
            size, stamp = 0, None
        if self.size is not None and now > self.at:
            self.rate = max(0, size - self.size) / (now - self.at)
        self.size, self.at = size, now
        there = stamp is not None and found == path
        if there and size == expected and stamp != self.checked:
            with open(path, "rb") as f:
                self.checksum = "ok" if hashlib.file_digest(f, "sha256").hexdigest() == sha256 else "wrong"
            self.checked = stamp
        elif there and size != expected:
            self.checksum = "wrong" if size > expected or self.rate == 0 else "unknown"
        elif not there:
            self.checksum = "unknown"
        return {"there": there, "size": size, "expected": expected, "complete": there and self.checksum == "ok",
                "checksum": self.checksum, "place": os.path.dirname(found) if stamp else ""}


def main():
    study, destination = sys.argv[1:3]
    every = float(sys.argv[3]) if len(sys.argv) > 3 else 1.0
    log = gridline.Log("staging", destination)
    log.set_key("staging", "direction", "file")
    files = {}

    def tell(direction, name, path, partial, expected, sha256, now):
        f = files.setdefault((direction, name), File(direction, name))
        values = f.look(path, partial, expected, sha256, now)
        if values != f.told or now - f.told_at > AGAIN_S or f.rate:
            log.write("staging", direction=direction, file=name, rate=f.rate, **values)
            f.told, f.told_at = values, now

    while True:
        now = time.monotonic()
        for words in read_words(f"{study}/input/MANIFEST"):
            if len(words) == 3:
                path = f"{study}/input/{words[0]}.dat"
                tell("in", words[0], path, path + ".part", int(words[1]), words[2], now)
        for entry in sorted(os.listdir(f"{study}/log")):
            words = read_words(f"{study}/log/{entry}") if entry.endswith(".expect") else []
            if words and len(words[0]) == 2:
                name = entry[:-len(".expect")]
                places = [f"{study}/{place}/{name}" for place in ("fast", "spare")]
                at = next((p for p in places if os.path.exists(p + ".out") or os.path.exists(p + ".part")), places[0])
                tell("out", name, at + ".out", at + ".part", int(words[0][0]), words[0][1], now)
        log.flush()
        time.sleep(max(0.0, every - (time.monotonic() - now)))


if __name__ == "__main__":
    main()
