# SPDX-License-Identifier: Apache-2.0
"""The frames of docs/protocol.md from few lines of their own, so that a test and the program can't be wrong together."""
import os
import socket
import struct
import time

HELLO, WELCOME, PING, PONG, CONTROL, ANSWER, BYE = 1, 2, 7, 8, 14, 15, 16
SUBSCRIBE, SUBSCRIBED, EVENTS, GAP, UNSUBSCRIBE, POSITION, CONSUMED = 19, 20, 21, 22, 23, 30, 31
CONSUMER = 4  # HELLO's role
MORE = 65535
INT, UINT, FLOAT, BOOL, TEXT, BYTES = range(1, 7)

TABLE = []
for byte in range(256):
    for _ in range(8):
        byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
    TABLE.append(byte)


def crc32c(data):
    crc = 0xFFFFFFFF
    for b in data:
        crc = (crc >> 8) ^ TABLE[(crc ^ b) & 0xFF]
    return crc ^ 0xFFFFFFFF


def varint(n):
    out = b""
    while n >= 0x80:
        out += bytes([n & 0x7F | 0x80])
        n >>= 7
    return out + bytes([n])


def text(s):
    s = s.encode() if isinstance(s, str) else s
    return varint(len(s)) + s


def value(v):
    if isinstance(v, bool):
        return bytes([BOOL, v])
    if isinstance(v, int):
        return bytes([UINT]) + struct.pack("<Q", v) if v >= 0 else bytes([INT]) + struct.pack("<q", v)
    if isinstance(v, float):
        return bytes([FLOAT]) + struct.pack("<d", v)
    return bytes([TEXT if isinstance(v, str) else BYTES]) + text(v)


def args(values):
    return varint(len(values)) + b"".join(text(k) + value(v) for k, v in values.items())


def frame(kind, payload):
    head = struct.pack("<IBBHI", len(payload), kind, 0, 0, 0)
    return head + struct.pack("<I", crc32c(head)) + payload


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, n):
        assert self.at + n <= len(self.data)
        self.at += n
        return self.data[self.at - n:self.at]

    def number(self, form):
        return struct.unpack("<" + form, self.take(struct.calcsize(form)))[0]

    def varint(self):
        n = shift = 0
        while True:
            b = self.take(1)[0]
            n |= (b & 0x7F) << shift
            shift += 7
            if b < 0x80:
                return n

    def text(self):
        return self.take(self.varint())

    def args(self):
        out = {}
        for _ in range(self.varint()):
            name, kind = self.text().decode(), self.take(1)[0]
            if kind in (TEXT, BYTES):
                v = self.text()
                out[name] = v.decode() if kind == TEXT else v
            else:
                out[name] = bool(self.take(1)[0]) if kind == BOOL else self.number({INT: "q", UINT: "Q", FLOAT: "d"}[kind])
        return out


class Consumer:
    """A consumer's connection to a gateway's Unix socket: frames as they come, when somebody reads."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.buffer = b""
        self.socket.sendall(b"GRDL\1\0\0\0" + frame(HELLO, struct.pack("<HHB", 0, 0, CONSUMER) + os.urandom(16)
                                                     + struct.pack("<Qq", 1, time.time_ns()) + text("test") + text("test")))
        assert self.wait(WELCOME)

    def subscribe(self, number=1, events="", where="", **options):
        self.socket.sendall(frame(SUBSCRIBE, struct.pack("<I", number) + text(events) + text(where) + args(options)))
        r = Reader(self.wait(SUBSCRIBED))
        assert r.number("I") == number
        status, why = r.number("H"), r.text().decode()
        assert status == 0, why
        return self

    def frames(self):
        """Those that are whole in the buffer."""
        while len(self.buffer) >= 16:
            n, kind = struct.unpack_from("<IB", self.buffer)
            if len(self.buffer) < 16 + n:
                return
            payload = self.buffer[16:16 + n]
            self.buffer = self.buffer[16 + n:]
            yield kind, payload

    def receive(self, n=1 << 18):
        """False: the end."""
        data = self.socket.recv(n)
        self.buffer += data
        return bool(data)

    def wait(self, wanted):
        while True:
            for kind, payload in self.frames():
                if kind == wanted:
                    return payload
            assert self.receive(), "the gateway hung up"
