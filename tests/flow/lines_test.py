#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plain lines when the gateway ends: all that had arrived is in the journal, and a line that was cut off is counted.

    lines_test.py CASE gridline-gateway"""
import signal
import socket
import sys

import grid
from grid import Gateway, wait_for

GATEWAY, = sys.argv[2:3]


def case_stopped(work):
    g = Gateway(GATEWAY, work, "gateway", "127.0.0.1:0").start()
    host, port = next(a for a in g.addresses if a.startswith("tcp://"))[6:].rsplit(":", 1)
    s = socket.create_connection((host, int(port)))
    line = "DATE=20261118120000.%06d HOST=a PROG=p LVL=Usage NL.EVNT=line N=%d TEXT=" + "x" * 200 + "\n"
    s.sendall(b"ULM\0    " + (line % (0, 0)).encode())
    wait_for(lambda: g.events("line"), "the first line")
    # Nobody reads: what is sent now is with the kernel when the gateway is told to stop.
    g.process.send_signal(signal.SIGSTOP)
    s.setblocking(False)
    n, rest = 0, b""
    try:
        while n < 20000:
            n += 1
            rest = (line % (n, n)).encode()
            while rest:
                rest = rest[s.send(rest):]
    except BlockingIOError:
        pass
    whole, is_cut = n - (len(rest) > 0), 0 < len(rest) < len((line % (n, n)).encode())
    assert whole > 2000, whole
    g.process.send_signal(signal.SIGTERM)
    g.process.send_signal(signal.SIGCONT)
    assert grid.stop(g.process) == 0
    got = [e["N"] for e in g.events("line")]
    assert got == list(range(whole + 1)), (len(got), whole)
    assert f"{int(is_cut)} lines were cut off" in g.log(), g.log()
    s.close()


if __name__ == "__main__":
    grid.main(globals(), sys.argv)
