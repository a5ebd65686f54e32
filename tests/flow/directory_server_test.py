#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The directory server of examples/directory-server: slapd on a host that is a network namespace, its agent and its guard with
the right to act; a gateway and the guard that tells people, and the SMTP server that it tells, on another host.

    directory_server_test.py CASE GUARD GATEWAY AGENT

Its configuration is the example's, with other folders, ports and addresses. Prints how long each took: from the fault to its
detection (the fault fires), to the end of the action, and until all is well again."""
import email
import email.policy
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from datetime import datetime

sys.dont_write_bytecode = True  # the tree stays as it is
import grid
from grid import Agent, Gateway, Guard, Net, main, run, skip, start, wait_for

GUARD, GATEWAY, AGENT = sys.argv[2:5]
TREE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
EXAMPLE = TREE + "/examples/directory-server"
SPACE = 256 << 20  # of the log's disk
LEAST = 100_000_000  # bytes that are to be free, as the example has it


def example(name, changes):
    """The example's file with this test's places. Each is to be there: else what is tested is not what is shipped."""
    with open(f"{EXAMPLE}/{name}") as f:
        text = f.read()
    for old, new in changes:
        assert old in text, f"{name} has no {old}"
        text = text.replace(old, new)
    left = [word for word in ("/var/", ":/run/", '"/run/', "gateway.example.org", "localhost:25") if word in text]
    assert not left, f"{name} would reach {left} of this machine"
    return text


def seconds(iso):
    return datetime.fromisoformat(iso.replace("Z", "+00:00")).timestamp()


class World:
    def __init__(self, work):
        if not os.path.exists("/usr/sbin/slapd") or not shutil.which("zstd"):
            skip("there is no slapd, or no zstd")
        self.work = work
        self.net = Net("middle", "ldap1")
        self.logs, self.spool, self.port = work + "/logs", work + "/spool", 3890
        self.pid_file, self.config = work + "/slapd/slapd.pid", work + "/slapd/slapd.conf"
        os.makedirs(self.logs)
        os.makedirs(self.spool)
        self.mount()
        try:
            self.make_slapd()
            self.start_watch()
            self.start_server()
            wait_for(lambda: self.search() == 0, "slapd")
        except BaseException:
            self.__exit__()
            raise

    def mount(self):
        if run("mount", "-t", "tmpfs", "-o", f"size={SPACE}", "gridline-test", self.logs, check=False).returncode:
            skip("may not mount a tmpfs")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        grid.stop_all()
        try:
            os.kill(self.slapd_pid(), signal.SIGKILL)  # the one that the guard has started is no child of ours
        except (OSError, ValueError):
            pass
        run("umount", "-l", self.logs, check=False)

    def make_slapd(self):
        folder = self.work + "/slapd"
        os.makedirs(folder + "/db")
        with open(self.config, "w") as f:
            f.write(f"""include /etc/ldap/schema/core.schema
modulepath /usr/lib/ldap
moduleload back_mdb
database mdb
maxsize 67108864
suffix "dc=g"
rootdn "cn=admin,dc=g"
rootpw secret
directory {folder}/db
dbnosync
""")
        subprocess.run(["/usr/sbin/slapadd", "-f", self.config], text=True, check=True, stderr=subprocess.DEVNULL,
                       input="dn: dc=g\nobjectClass: dcObject\nobjectClass: organization\ndc: g\no: g\n")

    def start_watch(self):
        inside = self.net.inside("middle")
        self.mails = self.work + "/mails"
        os.makedirs(self.mails)
        sink = start([*inside, sys.executable, f"{TREE}/tests/flow/smtp_sink.py", "0", self.mails], stdout=subprocess.PIPE, text=True)
        mail_port = sink.stdout.readline().strip()
        self.gateway = Gateway(GATEWAY, self.work, "gateway", "tcp://0.0.0.0:0", inside=inside,
                               settings=("insecure=true", f"state_dir={self.work}/state", f"archive.dir={self.work}/archive")).start()
        watch = example("watch.conf", [("unix:/run/gridline/gateway.sock", "unix:" + self.gateway.socket),
                                       ("smtp://localhost:25", f"smtp://127.0.0.1:{mail_port}")])
        self.watch = Guard(GUARD, self.work, "unix:" + self.gateway.socket, watch, name="watch", inside=inside).start()
        self.address = f"tcp://{self.net.address('ldap1')}:{self.gateway.addresses[0].rsplit(':', 1)[1]}"

    def start_server(self):
        inside = self.net.inside("ldap1")
        places = [("/var/log/slapd", self.logs), ("/var/spool/slapd-logs", self.spool)]
        agent = example("agent.conf", [("tls://gateway.example.org:14830", self.address), *places, ("389", str(self.port)),
                                       ("/run/slapd/slapd.pid", self.pid_file)])
        agent = re.sub(r"^gateway = .*$", "insecure = true", agent, flags=re.M)  # Agent writes the address
        self.start_slapd()
        self.agent = Agent(AGENT, self.work, "ldap1", [self.address], agent, inside=inside).start()
        wait_for(lambda: self.gateway.state("ldap1") == "live", "the agent")
        self.guard = Guard(GUARD, self.work, f"unix:{self.work}/none.sock", example("guard.conf", [
            ("unix:/run/gridline/agent.sock", f"unix:{self.agent.folder}/run/agent.sock"),
            ("389", str(self.port)), ("/etc/ldap/slapd.conf", self.config),
            ("/run/slapd/slapd.pid", self.pid_file), *places]), agent=self.agent, name="ldap1-guard", inside=inside)
        wait_for(lambda: self.rows("SELECT count FROM process_group_latest WHERE process = 'slapd' AND count = 1"),
                 "the sensor sees slapd")
        self.guard.start()

    def start_slapd(self):
        """As the example's action does, for the first time."""
        with open(self.logs + "/slapd.log", "ab") as log:
            p = start([*self.net.inside("ldap1"), "/usr/sbin/slapd", "-f", self.config, "-h", f"ldap://127.0.0.1:{self.port}", "-d",
                       "256"], stderr=log)
        with open(self.pid_file, "w") as f:
            f.write(f"{p.pid}\n")

    def slapd_pid(self):
        with open(self.pid_file) as f:
            return int(f.read())

    def search(self):
        return run(*self.net.inside("ldap1"), "ldapsearch", "-x", "-H", f"ldap://127.0.0.1:{self.port}", "-b", "dc=g", "-s", "base",
                   check=False).returncode

    def free(self):
        s = os.statvfs(self.logs)
        return s.f_bavail * s.f_frsize

    # What the guards say.

    def fault(self, guard, rule, state=None):
        found = [f for f in guard.faults("--all") if f["rule"] == rule and (state is None or f["state"] == state)]
        return found[0] if found else None

    def ends(self, guard, action, kind="fire"):
        """Attempts of an action that have ended, with when: by the guard's audit."""
        starts, out = {}, []
        for path in sorted(glob.glob(f"{guard.folder}/state/audit/*.log")):
            with open(path) as f:
                lines = [json.loads(line) for line in f if line.endswith("\n")]
            for e in lines:
                d = e.get("data", {})
                if e["what"] == "action.start":
                    starts[d["order"]] = d
                elif e["what"] == "action.end" and d["action"] == action and starts[d["order"]]["kind"] == kind:
                    out.append(dict(d, time=e["time"]))
        return out

    def rows(self, query):
        return self.gateway.gridline("sql", "--format", "ndjson", query, check=False).stdout.splitlines()  # its table may come later

    def all_mails(self):
        out = []
        for path in glob.glob(self.mails + "/*.eml"):
            with open(path, "rb") as f:
                out.append(email.message_from_bytes(f.read(), policy=email.policy.default))
            out[-1].came = os.stat(path).st_mtime
        return out

    def mail(self, part):
        """The one whose subject has that in it, and when it came."""
        return next(((m, m.came) for m in self.all_mails() if part in m["Subject"]), None)


def tell(what, at, fault, end):
    print(f"{what}: detected after {seconds(fault['fired']) - at:.1f} s, acted after {seconds(end['time']) - at:.1f} s, "
          f"cleared after {seconds(fault['cleared']) - at:.1f} s", flush=True)


def case_log_full(work):
    """The log fills its disk: it is moved; no line is lost; slapd goes on."""
    with World(work) as w:
        assert w.fault(w.guard, "slapd-log-full") is None
        pid = w.slapd_pid()
        # Lines as slapd's, by another writer of the same log: 1 MB each time.
        written, at = 0, None
        with open(w.logs + "/slapd.log", "ab", buffering=0) as log:
            while at is None:
                block = b"".join(b"test %09d %s\n" % (written + i, b"x" * 84) for i in range(10_000))
                assert log.write(block) == len(block)
                written += 10_000
                if w.free() < LEAST:
                    at = time.time()
        end = wait_for(lambda: w.ends(w.guard, "make-room"), "the action")[0]
        assert end["result"] == "done", end
        fault = wait_for(lambda: w.fault(w.guard, "slapd-log-full", "cleared"), "it clears")
        assert w.free() > LEAST and w.slapd_pid() == pid and w.search() == 0
        copies = glob.glob(w.spool + "/*")
        assert len(copies) == 1 and copies[0].endswith(".zst"), copies
        kept = subprocess.run(["zstd", "-dc", copies[0]], check=True, stdout=subprocess.PIPE).stdout
        with open(w.logs + "/slapd.log", "rb") as f:
            kept += f.read()
        numbers = [int(n) for n in re.findall(rb"^test (\d{9}) x", kept, re.M)]
        assert numbers == list(range(written)), (len(numbers), written)
        assert len(w.ends(w.guard, "make-room")) == 1
        tell(f"log full ({len(kept)} bytes)", at, fault, end)


def case_died(work):
    """kill -9: it is started again, once, and answers."""
    with World(work) as w:
        pid = w.slapd_pid()
        at = time.time()
        os.kill(pid, signal.SIGKILL)
        end = wait_for(lambda: w.ends(w.guard, "start-slapd"), "the action")[0]
        assert end["result"] == "done", end
        fault = wait_for(lambda: w.fault(w.guard, "slapd-down", "cleared"), "it clears")
        assert w.slapd_pid() != pid and w.search() == 0
        assert len(w.ends(w.guard, "start-slapd")) == 1
        tell("slapd died", at, fault, end)


def case_connections(work):
    """More than 40 connections, and fewer again: told once each."""
    with World(work) as w:
        code = ("import socket, sys\n"
                f"c = [socket.create_connection(('127.0.0.1', {w.port})) for _ in range(45)]\n"
                "print('there', flush=True)\nsys.stdin.read()\n")
        client = start([*w.net.inside("ldap1"), sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert client.stdout.readline() == "there\n"
        at = time.time()
        end = wait_for(lambda: w.ends(w.guard, "note"), "the action")[0]
        client.stdin.close()
        fault = wait_for(lambda: w.fault(w.guard, "slapd-connections", "cleared"), "it clears")
        wait_for(lambda: w.ends(w.guard, "note", "clear"), "that is told")
        with open(w.logs + "/faults.log") as f:
            told = f.read().splitlines()
        assert len(told) == 2 and "connections to port" in told[0], told
        tell("more than 40 connections", at, fault, end)


def case_cut(work):
    """The host goes: a mail, one, after the grace period; and one when it is back. Its own guard acts meanwhile."""
    with World(work) as w:
        # A host is known by its first heartbeat.
        wait_for(lambda: w.rows("SELECT host FROM heartbeat_latest WHERE host = 'ldap1'"), "a heartbeat")
        at = time.time()
        w.net.link("ldap1", "down")
        mail, came = wait_for(lambda: w.mail("[critical]") or w.mail("[error]"), "the mail", 150)
        end = wait_for(lambda: w.ends(w.watch, "operators"), "the action")[0]
        assert end["result"] == "done" and "ldap1" in mail["Subject"] and mail["To"] == "operators@example.org", (end, mail.items())
        fault = w.fault(w.watch, "host-unreachable")
        assert fault["state"] == "firing", fault
        # Cut off, and looked after all the same.
        pid = w.slapd_pid()
        killed = time.time()
        os.kill(pid, signal.SIGKILL)
        again = wait_for(lambda: w.ends(w.guard, "start-slapd"), "slapd is started by its own guard")[0]
        assert again["result"] == "done" and w.search() == 0
        mended = time.time()
        w.net.link("ldap1", "up")
        w.net.run("ldap1", "ip", "route", "replace", "default", "via", w.net.address("ldap1"))
        wait_for(lambda: w.mail("[cleared]"), "the mail that it is back", 150)
        fault = w.fault(w.watch, "host-unreachable", "cleared")
        subjects = [m["Subject"] for m in w.all_mails()]
        assert len(subjects) == 2, subjects
        tell("host cut off", at, fault, end)
        print(f"  the mail was there after {came - at:.1f} s; slapd, killed meanwhile, was up again after "
              f"{seconds(again['time']) - killed:.1f} s; cleared {seconds(fault['cleared']) - mended:.1f} s after the link was mended",
              flush=True)


main(globals(), sys.argv)
