#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Instruments a small "transfer" and Python's own logging. usage: example.py DESTINATION (see gridline.h)"""

import logging
import sys
import zlib

import gridline


def transfer(log, job, size):
    log.write("transfer.start", id=job, bytes=size)
    with log.timer("transfer.time"), log.summary("transfer.s"):
        checksum = zlib.crc32(b"\0" * size)
    log.write("transfer.end", id=job, checksum=checksum, ratio=size / 1024, ok=True, raw=b"\xff\x00", note=None)


def main():
    destination = sys.argv[1] if len(sys.argv) > 1 else None
    with gridline.Log("example.py", destination) as log:
        logging.basicConfig(level=logging.INFO, handlers=[gridline.Handler(log)])
        jobs = log.counter("transfer.count")
        for job in range(1, 4):
            transfer(log, job, job * 100_000)
            jobs.add()
        logging.getLogger("example").warning("%d jobs done, größter %d", 3, 300_000, extra={"id": 3})
        log.self_usage()


if __name__ == "__main__":
    main()
