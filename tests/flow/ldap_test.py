#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The directory in a real LDAP server (docs/ldap.md): a gateway, agents, slapd, and a replica of it by syncrepl.

    ldap_test.py CASE AGENT GATEWAY"""
import base64
import json
import os
import shutil
import signal
import socket
import subprocess
import sys

sys.dont_write_bytecode = True  # the tree stays as it is
from grid import Agent, Gateway, main, run, skip, start, stop, wait_for

AGENT, GATEWAY = sys.argv[2:4]
TREE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BASE, ADMIN, PASSWORD = "ou=grid,dc=g", "cn=admin,dc=g", "secret"
SENSORS = """defaults = false
cpu { every = 200ms }
load { every = 1s }
memory { every = 1s  mode = on-request }
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Slapd:
    def __init__(self, work, name, provider=None, settings=""):
        self.folder = f"{work}/{name}"
        self.port = free_port()
        self.uri = f"ldap://127.0.0.1:{self.port}"
        self.listen = self.uri
        self.config = self.folder + "/slapd.conf"
        os.makedirs(self.folder + "/db")
        if provider:
            role = (f'syncrepl rid=1 provider={provider.uri} type=refreshAndPersist retry="1 +" searchbase="dc=g" '
                    f'bindmethod=simple binddn="{ADMIN}" credentials={PASSWORD}\nupdateref {provider.uri}\n')
        else:
            role = "overlay syncprov\n"
        with open(self.config, "w") as f:
            f.write(f"""include /etc/ldap/schema/core.schema
include {TREE}/packaging/ldap/gridline.schema
modulepath /usr/lib/ldap
moduleload back_mdb
moduleload syncprov
{settings}
database mdb
maxsize 67108864
suffix "dc=g"
rootdn "{ADMIN}"
rootpw {PASSWORD}
directory {self.folder}/db
dbnosync
{role}""")
        if not provider:
            ldif = "dn: dc=g\nobjectClass: dcObject\nobjectClass: organization\ndc: g\no: g\n\n" \
                   "dn: ou=grid,dc=g\nobjectClass: organizationalUnit\nou: grid\n"
            subprocess.run(["/usr/sbin/slapadd", "-f", self.config], input=ldif, text=True, check=True,
                           stderr=subprocess.DEVNULL)

    def start(self):
        self.process = start(["/usr/sbin/slapd", "-f", self.config, "-h", self.listen, "-d", "0"], stderr=subprocess.DEVNULL)
        wait_for(lambda: self.search("(objectClass=dcObject)", check=False) is not None, "slapd")
        return self

    def kill(self):
        stop(self.process, signal.SIGKILL)

    def search(self, what, check=True):
        """The entries by their names, each attribute as a list."""
        out = run("ldapsearch", "-x", "-LLL", "-o", "ldif-wrap=no", "-H", self.uri, "-D", ADMIN, "-w", PASSWORD, "-b", "dc=g", what,
                  check=False)
        if out.returncode:
            assert not check, out.stderr
            return None
        entries = {}
        for text in out.stdout.strip().split("\n\n"):
            entry = {}
            for line in text.splitlines():
                name, value = line.split(":", 1)
                value = base64.b64decode(value[2:]).decode() if value.startswith(":") else value.strip()
                entry.setdefault(name, []).append(value)
            if entry:
                entries[entry.pop("dn")[0]] = entry
        return entries

    def entries(self):
        return self.search("(|(objectClass=gridlineHost)(objectClass=gridlineSensor))")

    def value(self, name, attribute):
        entries = self.search(f"(&(objectClass=*)({name.split(',')[0]}))", check=False) or {}
        return entries.get(f"{name},{BASE}", {}).get(attribute, [None])[0]


def published(slapd):
    """(host, sensor) -> status and mode; (host, "") -> state, of workers."""
    out = {}
    for e in slapd.entries().values():
        if e.get("gridlineState") == ["unregistered"]:
            continue  # the gateway's own host, of which `gridline hosts` says nothing
        host, sensor = e["gridlineHostName"][0], e.get("gridlineSensorName", [""])[0]
        out[host, sensor] = (e["gridlineStatus"][0], e.get("gridlineMode", [""])[0]) if sensor else e["gridlineState"][0]
    return out


def directory(gateway):
    """The same, as the gateway says it."""
    out = {(r["host"], r["sensor"]): (r["status"], r.get("mode") or "") for r in gateway.rows("sensors")}
    there = {host for host, sensor in out}  # `gridline hosts` also has workers that the directory has forgotten
    out.update({(h, ""): r["state"] for h, r in gateway.hosts().items() if h in there})
    return out


def wait_same(slapds, gateway, what):
    for s in slapds:
        wait_for(lambda: published(s) == directory(gateway), f"{what}: {s.folder}")


class Publisher(Gateway):
    def __init__(self, work, uri, name="gateway", address="tcp://127.0.0.1:0,tcp://127.0.0.1:0", more="", keep="1d"):
        password = f"{work}/{name}-password"
        with open(os.open(password, os.O_WRONLY | os.O_CREAT, 0o600), "w") as f:
            f.write(PASSWORD + "\n")
        super().__init__(GATEWAY, work, name, address, config=f"""domain = "example.org"
directory {{ keep = {keep} }}
lease {{ time = 3s }}
ldap {{ uri = "{uri}"  base = "{BASE}"  bind_dn = "{ADMIN}"  password_file = "{password}"  name = "{name}"  refresh = 2s  {more} }}
""")

    def counts(self):
        """What the gateway's status says of LDAP: written to the ledger's file on SIGUSR1."""
        path = self.folder + "/ledger.json"
        if os.path.exists(path):
            os.unlink(path)
        self.process.send_signal(signal.SIGUSR1)
        wait_for(lambda: os.path.exists(path), "the ledger")
        with open(path) as f:
            return json.load(f)["status"]


def agent(work, gateway, host, by=0):
    """Two on one machine each have their own address of the gateway's: one agent a host and gateway."""
    return Agent(AGENT, work, host, [gateway.addresses[by]], f'state_dir = "{work}/{host}/state"\n' + SENSORS).start()


def case_published(work):
    """Entries appear with all that is documented, change, and are removed; in the replica, too."""
    provider = Slapd(work, "provider").start()
    replica = Slapd(work, "replica", provider).start()
    gateway = Publisher(work, provider.uri, keep="2s").start()
    one, two = agent(work, gateway, "n1"), agent(work, gateway, "n2", 1)
    wait_for(lambda: len(directory(gateway)) >= 8, "both agents")
    wait_same((provider, replica), gateway, "both")

    cpu = f"gridlineSensorName=cpu,gridlineHostName=n1,{BASE}"
    e = wait_for(lambda: (lambda x: x if "gridlineLastEvent" in x and "gridlineRate" in x else None)(provider.entries()[cpu]),
                 "when it was heard last")
    assert e["objectClass"] == ["gridlineSensor"], e
    assert e["gridlineGatewayName"] == ["gateway"] and e["gridlineDomain"] == ["example.org"], e
    assert e["gridlineStatus"] == ["running"] and e["gridlineMode"] == ["always"] and e["gridlineEvery"] == ["200"], e
    row = next(r for r in gateway.rows("sensors") if r["host"] == "n1" and r["sensor"] == "cpu")
    names, hashes = row["events"].split(","), row["schemas"].split(",")
    assert "cpu" in names and sorted(e["gridlineEvent"]) == sorted(names), (e, row)
    assert sorted(e["gridlineSchema"]) == sorted(f"{n} {h}" for n, h in zip(names, hashes)), (e, row)
    assert len(e["gridlineSince"][0]) == len("20261115212028Z"), e
    last = e["gridlineLastEvent"]
    wait_for(lambda: provider.entries()[cpu]["gridlineLastEvent"] > last, "a later event")  # 2 s: ldap.refresh
    memory = provider.entries()[f"gridlineSensorName=memory,gridlineHostName=n1,{BASE}"]
    assert memory["gridlineMode"] == ["on-request"] and memory["gridlineStatus"] == ["idle"], memory

    gateway.gridline("sensor", "stop", "load", "n1")
    wait_for(lambda: provider.value("gridlineSensorName=load,gridlineHostName=n1", "gridlineStatus") not in (None, "running"),
             "a sensor that was stopped")
    wait_same((provider, replica), gateway, "one stopped")
    two.stop(signal.SIGKILL)
    wait_for(lambda: provider.value("gridlineHostName=n2", "gridlineState") == "expired", "a lease that is over")
    assert provider.value("gridlineSensorName=cpu,gridlineHostName=n2", "gridlineStatus") == "missing"
    wait_for(lambda: not [n for n in provider.entries() if "n2" in n], "what is gone is removed")  # directory.keep
    wait_same((provider, replica), gateway, "one gone")

    own = f"gridlineGatewayName=gateway,{BASE}"
    assert provider.search("(objectClass=gridlineGateway)")[own]["gridlineState"] == ["running"]
    gateway.stop()
    assert provider.search("(objectClass=gridlineGateway)")[own]["gridlineState"] == ["stopped"]
    one.stop()


class Tail:
    """What a consumer at the gateway gets meanwhile."""

    def __init__(self, gateway):
        self.path = gateway.folder + "/tail"
        self.gateway = gateway
        with open(self.path, "wb") as out:
            self.process = start([gateway.command, "tail", "--gateway", "unix:" + gateway.socket, "--event", "cpu", "--format",
                                  "json"], stdout=out)
        wait_for(lambda: os.path.getsize(self.path), "the first event")

    def events(self):
        with open(self.path) as f:
            return [line for line in f if line.endswith("\n")]

    def check(self):
        """It has everything from its first event on, as the journal has it."""
        stop(self.process, signal.SIGINT)
        mine = [(e["host"], e["time"]) for e in map(json.loads, self.events())]
        journal = [(e["host"], e["time"]) for e in self.gateway.events("cpu")]
        first = journal.index(mine[0])
        assert mine == journal[first:first + len(mine)], "the consumer did not get what is in the journal"
        return len(mine)


def case_away(work):
    """The server is not there at first, dies, and comes back: the gateway does not care, and catches up."""
    provider = Slapd(work, "provider")
    replica = Slapd(work, "replica", provider)
    gateway = Publisher(work, provider.uri).start()
    one = agent(work, gateway, "n1")
    wait_for(lambda: gateway.state("n1") == "live", "an agent, without LDAP")
    tail = Tail(gateway)
    assert gateway.counts()["ldap.connected"] == 0
    provider.start()
    replica.start()
    wait_same((provider, replica), gateway, "the server has come")

    provider.kill()
    before = len(tail.events())
    two = agent(work, gateway, "n2", 1)
    wait_for(lambda: gateway.state("n2") == "live", "another agent")
    one.stop()
    wait_for(lambda: gateway.state("n1") == "deregistered", "the first has left")
    wait_for(lambda: len(tail.events()) > before + 20, "events meanwhile")
    c = wait_for(lambda: (lambda c: c if c["ldap.connected"] == 0 else None)(gateway.counts()), "it has seen that LDAP is away")
    assert 0 < c["ldap.waiting"] <= c["ldap.entries"], c
    provider.start()
    wait_same((provider, replica), gateway, "the server is back")
    assert provider.value("gridlineHostName=n1", "gridlineState") == "deregistered"

    provider.kill()  # and comes back with nothing
    shutil.rmtree(provider.folder)
    port = provider.port
    provider = Slapd(work, "provider")
    provider.port, provider.uri, provider.listen = port, f"ldap://127.0.0.1:{port}", f"ldap://127.0.0.1:{port}"
    provider.start()
    wait_same((provider,), gateway, "a server with nothing")
    wait_for(lambda: len(tail.events()) > before + 60, "events all the time")
    print(tail.check(), "events came through meanwhile")
    c = gateway.counts()
    assert c["ldap.refused"] == 0 and c["ldap.turned_away"] == 0, c
    log = gateway.log()
    assert "tried again" in log and "again" in log, log
    gateway.stop()
    two.stop()


def case_restart(work):
    """After a restart what nobody announces again is removed, but not before the workers had their time."""
    provider = Slapd(work, "provider").start()
    gateway = Publisher(work, provider.uri).start()
    one = agent(work, gateway, "n1")
    wait_for(lambda: ("n1", "cpu") in directory(gateway), "the agent")
    wait_same((provider,), gateway, "before")
    left = f"dn: gridlineHostName=left,{BASE}\nobjectClass: gridlineHost\ngridlineHostName: left\ngridlineGatewayName: gateway\n" \
           f"gridlineState: live\n\ndn: gridlineSensorName=cpu,gridlineHostName=left,{BASE}\nobjectClass: gridlineSensor\n" \
           "gridlineHostName: left\ngridlineSensorName: cpu\ngridlineGatewayName: gateway\ngridlineStatus: running\n\n" \
           f"dn: gridlineHostName=theirs,{BASE}\nobjectClass: gridlineHost\ngridlineHostName: theirs\n" \
           f"gridlineGatewayName: another\ngridlineState: live\n\n" \
           f"dn: cn=person,{BASE}\nobjectClass: organizationalRole\ncn: person\n"
    subprocess.run(["ldapadd", "-x", "-H", provider.uri, "-D", ADMIN, "-w", PASSWORD], input=left, text=True, check=True,
                   stdout=subprocess.DEVNULL)
    gateway.address = gateway.addresses[0]
    gateway.stop(signal.SIGKILL)
    gateway.start()
    wait_for(lambda: ("n1", "cpu") in directory(gateway), "the agent is back")
    wait_for(lambda: not [n for n in provider.entries() if "left" in n], "what an earlier run has left")
    entries = provider.entries()
    assert f"gridlineSensorName=cpu,gridlineHostName=n1,{BASE}" in entries, entries
    assert f"gridlineHostName=theirs,{BASE}" in entries, "another gateway's was removed"
    assert f"cn=person,{BASE}" in provider.search("(cn=person)"), "what is not ours was removed"
    gateway.stop()
    one.stop()


def case_config(work):
    """The schema as docs/ldap.md makes an LDIF of it, for servers with cn=config."""
    with open(TREE + "/docs/ldap.md") as f:
        text = f.read()
    command = text[text.index("(printf"):text.index(" | ldapadd")].replace("/usr/share/gridline/", TREE + "/packaging/")
    folder, conf = work + "/slapd.d", work + "/slapd.conf"
    os.makedirs(folder)
    with open(conf, "w") as f:
        f.write("include /etc/ldap/schema/core.schema\n")
    run("/usr/sbin/slaptest", "-f", conf, "-F", folder)
    ldif = run("sh", "-c", command).stdout
    out = subprocess.run(["/usr/sbin/slapadd", "-F", folder, "-n", "0"], input=ldif, text=True, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT)
    assert out.returncode == 0, out.stdout
    assert "gridlineSensor" in run("/usr/sbin/slapcat", "-F", folder, "-n", "0").stdout


def certificate(folder, name, ca=None):
    key, cert, request = f"{folder}/{name}.key", f"{folder}/{name}.pem", f"{folder}/{name}.csr"
    new = ["openssl", "req", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-subj", f"/CN={name}"]
    if not ca:
        run(*new, "-x509", "-days", "2", "-out", cert)
        return cert
    extensions = f"{folder}/{name}.ext"
    with open(extensions, "w") as f:
        f.write("subjectAltName=IP:127.0.0.1\n")
    run(*new, "-out", request)
    run("openssl", "x509", "-req", "-in", request, "-CA", ca, "-CAkey", ca[:-4] + ".key", "-CAcreateserial", "-days", "2", "-extfile",
        extensions, "-out", cert)
    return cert


def case_tls(work):
    """StartTLS and ldaps://, with the right CA; with another nothing is said to the server."""
    os.makedirs(work + "/tls")
    ca, other = certificate(work + "/tls", "ca"), certificate(work + "/tls", "other")
    server = certificate(work + "/tls", "server", ca)
    provider = Slapd(work, "provider", settings=f"TLSCACertificateFile {ca}\nTLSCertificateFile {server}\n"
                                                f"TLSCertificateKeyFile {server[:-4]}.key\n")
    secure = f"ldaps://127.0.0.1:{free_port()}"
    provider.listen += " " + secure
    provider.start()
    wrong = Publisher(work, provider.uri, "wrong", more=f'starttls = true  ca = "{other}"').start()
    wait_for(lambda: "StartTLS" in wrong.log(), "the certificate is refused")
    by_start = Publisher(work, provider.uri, "starttls", more=f'starttls = true  ca = "{ca}"').start()
    by_uri = Publisher(work, secure, "ldaps", more=f'ca = "{ca}"').start()
    for g in (by_start, by_uri):
        name = os.path.basename(g.folder)
        wait_for(lambda: provider.value(f"gridlineGatewayName={name}", "gridlineState") == "running", name)
    assert provider.value("gridlineGatewayName=wrong", "gridlineState") is None
    for g in (wrong, by_start, by_uri):
        g.stop()


if not (os.path.exists("/usr/sbin/slapd") and shutil.which("ldapsearch")):
    skip("there is no slapd here; script/bootstrap installs it")
main(globals(), sys.argv)
