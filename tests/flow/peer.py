# SPDX-License-Identifier: Apache-2.0
"""Anybody at all who dials a gateway, by any way and in any role: for tests of what a gateway tells and takes from whom."""
import json
import os
import socket
import ssl
import struct
import subprocess
import time

from frames import ANSWER, BYE, CONTROL, EVENTS, HELLO, MORE, POSITION, SUBSCRIBE, SUBSCRIBED, WELCOME, Reader, args, crc32c, \
    frame, text

BATCH, ACK, REFUSE, REGISTER, LEASE, JOIN, CERTIFIED = 3, 4, 5, 24, 26, 27, 29
PROGRAM, AGENT, RELAY, CONSUMER = 1, 2, 3, 4  # HELLO's roles
PATIENCE = 60


def position(reader):
    return reader.number("Q"), reader.number("I"), reader.number("I")


class Gone(Exception):
    """The gateway ended the connection: args are BYE's reason (None: without a word) and text."""


class Connection:
    """address: unix:PATH, tcp://HOST:PORT or tls://HOST:PORT; identity: a folder for tls, or None. What came is in received."""

    def __init__(self, address, identity=None):
        self.received = b""
        self.buffer = b""
        self.requests = 0
        if address.startswith("unix:"):
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(PATIENCE)
            self.socket.connect(address[5:])
        else:
            host, port = address.split("://")[1].rsplit(":", 1)
            self.socket = socket.create_connection((host, int(port)), PATIENCE)
        if address.startswith("tls:"):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE  # who the gateway is is another test's question
            if identity:
                context.load_cert_chain(identity + "/cert.pem", identity + "/key.pem")
            self.socket = context.wrap_socket(self.socket)
        self.send_bytes(b"GRDL" + struct.pack("<BBH", 1, 0, 0))

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *why):
        self.close()

    def send_bytes(self, data):
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError, ssl.SSLError):
            pass  # reading says why

    def send(self, kind, payload):
        self.send_bytes(frame(kind, payload))

    def fill(self, n):
        while len(self.buffer) < n:
            try:
                data = self.socket.recv(65536)
            except (ConnectionResetError, ssl.SSLError):
                data = b""
            if not data:
                raise Gone(None, "")
            self.buffer += data
            self.received += data

    def read(self, *kinds):
        """The next frame of one of these kinds (none: of any) as (kind, Reader); others are passed over."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            self.fill(16)
            size, kind = struct.unpack("<IB", self.buffer[:5])
            self.fill(16 + size)
            payload, self.buffer = self.buffer[16:16 + size], self.buffer[16 + size:]
            if kind == BYE and BYE not in kinds:
                r = Reader(payload)
                raise Gone(r.number("H"), r.text().decode())
            if not kinds or kind in kinds:
                return kind, Reader(payload)
        raise AssertionError(f"none of the frames {kinds} came within {PATIENCE} s")

    def hello(self, role, host, producer=None):
        producer = producer or os.urandom(16)
        self.send(HELLO, struct.pack("<HHB", 0, 1, role) + producer + struct.pack("<Qq", 1, time.time_ns()) + text(host) +
                  text("access-test"))
        self.read(WELCOME)
        return producer

    def register(self, host, producer, properties):
        """The status of the lease."""
        self.send(REGISTER, struct.pack("<BIqq", 0, 0, time.monotonic_ns(), time.time_ns()) + producer + struct.pack("<Q", 1) +
                  text(host) + args(properties) + args({}) + struct.pack("<Q", 0))
        return self.read(LEASE)[1].number("H")

    def ask(self, verb, values):
        """(status, text, rows, last): rows and last as dicts."""
        self.requests += 1
        self.send(CONTROL, struct.pack("<Q", self.requests) + text(verb) + args(values))
        rows = []
        while True:
            _, r = self.read(ANSWER)
            if r.number("Q") != self.requests:
                continue
            status, words, found = r.number("H"), r.text().decode(), r.args()
            if status != MORE:
                return status, words, rows, found
            rows.append({**found, "text": words} if words else found)

    def subscribe(self, event="", where="", **options):
        """(status, text) of SUBSCRIBED."""
        self.send(SUBSCRIBE, struct.pack("<I", 1) + text(event) + text(where) + args(options))
        _, r = self.read(SUBSCRIBED)
        r.number("I")
        return r.number("H"), r.text().decode()

    def events_until(self, record):
        """Events as dicts (the format is ndjson), until the gateway has looked at that record for us. It says so only when
        something has come behind."""
        events = []
        while True:
            kind, r = self.read(EVENTS, POSITION)
            r.number("I")
            at = position(r)
            if kind == EVENTS:
                r.number("I")
                events += [json.loads(line) for line in r.data[r.at:].splitlines()]
            if at[0] >= record:
                return events


def block(gridline, events, producer, first):
    """Events (dicts as in NDJSON) as a block of that producer's epoch 1."""
    lines = "".join(json.dumps(e) + "\n" for e in events)
    done = subprocess.run([gridline, "convert", "--input", "ndjson", "--format", "binary", "-q"], input=lines.encode(), check=True,
                          stdout=subprocess.PIPE)
    data = bytearray(done.stdout)
    assert data[:4] == b"GLB1" and struct.unpack_from("<I", data, 4)[0] + 80 == len(data), "one block"
    data[24:40] = producer
    struct.pack_into("<QQ", data, 40, 1, first)
    struct.pack_into("<I", data, 8, 0)
    struct.pack_into("<I", data, 8, crc32c(bytes(data)))
    return bytes(data)
