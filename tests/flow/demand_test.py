#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sensors that run on request: they run while a consumer at the gateway asks, as often as the one that asks most often, and
without one the host sends nothing but renewals.

    demand_test.py CASE AGENT GATEWAY"""
import json
import socket
import struct
import sys
import time

import grid
from grid import Agent, Gateway, Net, wait_for

AGENT, GATEWAY = sys.argv[2:4]
ON_REQUEST = "defaults = false\ncpu { every = 5s  mode = on-request }\nmemory { every = 5s  mode = on-request }\n"
HELLO, SUBSCRIBE, SUBSCRIBED, EVENTS, UNSUBSCRIBE, POSITION = 1, 19, 20, 21, 23, 30


def make_table():
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
        yield n


TABLE = list(make_table())


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def text(s):
    s = s.encode()
    assert len(s) < 128
    return bytes([len(s)]) + s


class Consumer:
    """A connection to a gateway, with subscriptions whose events come as NDJSON (docs/protocol.md)."""

    def __init__(self, path):
        self.io = socket.socket(socket.AF_UNIX)
        self.io.settimeout(grid.PATIENCE)
        self.io.connect(path)
        self.io.sendall(b"GRDL\x01\0\0\0")
        self.send(HELLO, struct.pack("<HHB16sQq", 0, 0, 4, bytes(16), 0, 0) + text("here") + text("demand_test"))
        assert self.take()[0] == 2, "WELCOME"

    def send(self, kind, payload):
        head = struct.pack("<IBBHI", len(payload), kind, 0, 0, 0)
        self.io.sendall(head + struct.pack("<I", crc32c(head)) + payload)

    def read(self, n):
        data = b""
        while len(data) < n:
            more = self.io.recv(n - len(data))
            assert more, "the gateway hung up"
            data += more
        return data

    def take(self):
        n, kind, _, _, _, _ = struct.unpack("<IBBHII", self.read(16))
        return kind, self.read(n)

    def subscribe(self, events, number=1, **options):
        options = {"format": "ndjson", **options}
        named = b"".join(text(k) + b"\x05" + text(v) for k, v in options.items())
        self.send(SUBSCRIBE, struct.pack("<I", number) + text(events) + text("") + bytes([len(options)]) + named)
        kind, payload = self.take()
        assert kind == SUBSCRIBED and struct.unpack_from("<IH", payload)[1] == 0, (kind, payload)
        return self

    def unsubscribe(self, number=1):
        self.send(UNSUBSCRIBE, struct.pack("<I", number))

    def events(self):
        """The next ones, as soon as they come."""
        while True:
            kind, payload = self.take()
            if kind == EVENTS:
                return [json.loads(line) for line in payload[24:].decode().splitlines()]
            assert kind == POSITION, kind

    def close(self):
        self.io.close()


def said(agent, line):
    return agent.log().count(line + "\n")




def agent_at(work, host, address, config=ON_REQUEST, inside=()):
    return Agent(AGENT, work, host, [address], f'state_dir = "{work}/{host}/state"\n{config}', inside).start()


def plain(work, hosts, settings=(), config=ON_REQUEST):
    """A gateway and agents on loopback. A host has one agent for a gateway's address, so each has its own."""
    gateway = Gateway(GATEWAY, work, "gateway", ",".join(["tcp://127.0.0.1:0"] * 2),
                      settings=["lease.time=3s", "lease.renew=1s", *settings]).start()
    agents = [agent_at(work, host, gateway.addresses[i], config) for i, host in enumerate(hosts)]
    wait_for(lambda: all(gateway.state(a.host) == "live" for a in agents), "registration")
    return gateway, agents


COUNTERS = """table inet test {
    counter data { }
    counter control { }
    chain out { type filter hook output priority 0;
        udp dport 14830 udp length gt 20 counter name data
        tcp dport 14830 tcp flags & psh == psh counter name control
    }
}"""


def count(net, host, which):
    """Packets and bytes."""
    rules = json.loads(net.run(host, "nft", "-j", "list", "counter", "inet", "test", which))
    return next((r["counter"]["packets"], r["counter"]["bytes"]) for r in rules["nftables"] if "counter" in r)


def sent_while_idle(net, renewals=6):
    """What w1 sends, while w2, which has no sensor at all, renews so often: datagrams with data, packets and bytes on the
    connection, of w1 and of w2."""
    before = {h: (count(net, h, "data"), count(net, h, "control")) for h in ("w1", "w2")}
    wait_for(lambda: count(net, "w2", "control")[0] >= before["w2"][1][0] + renewals, "renewals")
    after = {h: (count(net, h, "data"), count(net, h, "control")) for h in ("w1", "w2")}
    data = after["w1"][0][0] - before["w1"][0][0]
    grown = {h: tuple(after[h][1][i] - before[h][1][i] for i in (0, 1)) for h in ("w1", "w2")}
    print(f"w1: {data} datagrams with data, connection {grown['w1']}; w2, without sensors: {grown['w2']} (packets, bytes)")
    return data, grown["w1"], grown["w2"]


def check_idle(net):
    data, w1, w2 = sent_while_idle(net)
    assert data == 0, f"{data} datagrams with data, and nobody asked"
    assert w1[0] <= w2[0] + 2 and w1[1] <= w2[1] * (w2[0] + 2) // w2[0] + 64, (w1, w2)


def case_traffic(work):
    """The kernel counts what leaves the host."""
    net = Net("middle", "w1", "w2")
    gateway = Gateway(GATEWAY, work, "gateway", "tcp://0.0.0.0:14830", net.inside("middle"),
                      ["insecure=true", "lease.time=3s", "lease.renew=1s"]).start()
    agents = {}
    for host in ("w1", "w2"):
        net.nft(host, COUNTERS)
        config = "insecure = true\n" + (ON_REQUEST if host == "w1" else "defaults = false\n")
        agents[host] = agent_at(work, host, f"tcp://{net.address(host)}:14830", config, net.inside(host))
    wait_for(lambda: all(gateway.state(h) == "live" for h in agents), "registration")
    wait_for(lambda: {e["host"] for e in gateway.events("agent.state")} == set(agents), "what the agents say of their start")
    agent = agents["w1"]
    check_idle(net)

    slow = Consumer(gateway.socket)
    began = time.monotonic()
    slow.subscribe("cpu", period="500ms")
    first = slow.events()
    print(f"the first event came {(time.monotonic() - began) * 1000:.1f} ms after the subscription")
    assert first[0]["name"] == "cpu" and first[0]["host"] == "w1", first
    assert said(agent, "sensor cpu is asked for every 0.5 s") == 1 and said(agent, "sensor memory started") == 0, agent.log()
    wait_for(lambda: slow.events() and count(net, "w1", "data")[0] > 2, "datagrams")

    fast = Consumer(gateway.socket).subscribe("cp*", period="200ms")
    wait_for(lambda: said(agent, "sensor cpu is asked for every 0.2 s") == 1, "the faster consumer")
    for consumer in (slow, fast):
        assert {e["name"] for e in consumer.events()} <= {"cpu", "cpu.system"}
    fast.close()
    wait_for(lambda: said(agent, "sensor cpu is asked for every 0.5 s") == 2, "the slower consumer alone")
    slow.unsubscribe()
    wait_for(lambda: said(agent, "sensor cpu stopped") == 1, "the end of the last subscription")
    wait_for(lambda: [e["state"] for e in gateway.events("sensor.state") if e["prog"] == "gridline-agent"] ==
             ["started", "stopped"], "what was said of it")
    check_idle(net)
    assert said(agent, "sensor cpu started") == 1
    assert all(a.stop() == 0 for a in agents.values()) and gateway.stop() == 0


def case_hosts(work):
    """Only the hosts that a subscription means are asked; one without patterns asks for nothing."""
    gateway, (w1, w2) = plain(work, ["w1", "w2"])
    listener = Consumer(gateway.socket).subscribe("")
    consumer = Consumer(gateway.socket).subscribe("memory", host="w1", period="200ms")
    assert {e["host"] for _ in range(3) for e in consumer.events()} == {"w1"}
    both = Consumer(gateway.socket).subscribe("cpu", host="w?", period="200ms")
    seen = set()
    while seen != {"w1", "w2"}:
        seen |= {e["host"] for e in both.events()}
    assert said(w2, "sensor memory started") == 0 and said(w1, "sensor memory started") == 1
    while not any(e["name"] == "memory" for e in listener.events()):
        pass  # it takes what others have asked for
    consumer.close()
    both.close()
    for agent, sensors in ((w1, ("cpu", "memory")), (w2, ("cpu",))):
        for sensor in sensors:
            wait_for(lambda: said(agent, f"sensor {sensor} stopped") == 1, "the end")
    assert w1.stop() == 0 and w2.stop() == 0 and gateway.stop() == 0


def case_gateway_gone(work):
    """Without its gateway nobody hears the agent: its sensors stop, and start again when the gateway and a consumer are
    back. An agent that comes later is asked, too."""
    gateway, (w1,) = plain(work, ["w1"])
    gateway.address = ",".join(gateway.addresses[:2])  # the same again
    Consumer(gateway.socket).subscribe("cpu", period="200ms").events()
    gateway.stop()
    wait_for(lambda: said(w1, "sensor cpu stopped") == 1, "the gateway's end")
    gateway.start()
    consumer = Consumer(gateway.socket).subscribe("cpu", period="200ms")
    assert consumer.events()[0]["host"] == "w1"
    late = agent_at(work, "late", gateway.addresses[1])
    seen = set()
    while seen != {"w1", "late"}:
        seen |= {e["host"] for e in consumer.events()}
    late.stop(9)  # and one that comes again
    late.start()
    wait_for(lambda: said(late, "sensor cpu started") == 2, "the second life")
    assert w1.stop() == 0 and late.stop() == 0 and gateway.stop() == 0


def case_standing(work):
    """What the configuration asks for comes without any consumer, and a consumer can only make it more."""
    gateway, (w1,) = plain(work, ["w1"], ["demand=cpu 400ms"])
    wait_for(lambda: len(gateway.events("cpu")) >= 3, "events that nobody subscribed to")
    consumer = Consumer(gateway.socket).subscribe("cpu", period="200ms")
    wait_for(lambda: said(w1, "sensor cpu is asked for every 0.2 s") == 1, "the consumer's")
    consumer.close()
    wait_for(lambda: said(w1, "sensor cpu is asked for every 0.4 s") == 2, "the configuration's")
    assert said(w1, "sensor cpu stopped") == 0 and not gateway.events("memory")
    assert w1.stop() == 0 and gateway.stop() == 0


def case_floor(work):
    """The host's owner says how often at most."""
    gateway, (w1,) = plain(work, ["w1"], config="defaults = false\ncpu { every = 5s  fastest = 700ms  mode = on-request }\n"
                           "memory { every = 5s  mode = on-request }\n")
    consumer = Consumer(gateway.socket).subscribe("cpu,memory", period="1ms")
    consumer.events()
    wait_for(lambda: said(w1, "sensor cpu is asked for every 0.7 s") == 1, "cpu")
    wait_for(lambda: said(w1, "sensor memory is asked for every 0.1 s") == 1, "memory")
    consumer.close()
    assert w1.stop() == 0 and gateway.stop() == 0


if __name__ == "__main__":
    grid.main(globals(), sys.argv)
