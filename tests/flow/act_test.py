#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Actuators in the real gridline-act, with data that wants to be more than data. A probe writes down what it was started
with: argv, environment and input have to be what was meant, byte for byte, and nothing else may have run.

    act_test.py CASE GRIDLINE ACT PROBE SOURCE"""
import base64
import errno
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

LIMIT_S = 60
TEXT_MAX = 128 * 1024 - 1  # template.h
GRIDLINE, ACT, PROBE, SOURCE = "", "", "", ""

# What each value would do, if it were more than a value, is to make the file `canary`.
CORPUS = [
    b"",
    b"plain",
    b"a\nb",
    b"\n",
    b"x\r\n.\r\nQUIT\r\n",
    b"'; touch canary; '",
    b'"; touch canary; "',
    b"; touch canary",
    b"| touch canary",
    b"& touch canary &",
    b"&& touch canary",
    b"|| touch canary",
    b"\ntouch canary\n",
    b"$(touch canary)",
    b"`touch canary`",
    b"${IFS}touch${IFS}canary",
    b"<(touch canary)",
    b"> canary",
    b"*",
    b"~root",
    b"!!",
    b"\\",
    b"\\\"$(touch canary)\\\"",
    b"-rf",
    b"--help",
    b"-c",
    b"--",
    b"-e system('touch canary')",
    b"%n%s%n%99999999d%p",
    b"{host}",
    b"{v}{v}{v}",
    b"{{",
    b"{" * 1000,
    b"}",
    b"\x1b]0;title\x07\x1b[2J\x1b[31m\x9b31m",
    b"a\0b",
    b"\0",
    b"\0; touch canary",
    b"ends with NUL\0",
    b"\xff\xfe\xfd",
    b"\xc0\xaf..\xc0\xaf",
    b"\xe0\x80\xaf\xf0\x80\x80\xaf",
    b"\xed\xa0\x80 \xf4\x90\x80\x80 \xc3",
    "\u202eright to left\u2028 line".encode(),
    b"../../../../etc/passwd",
    b"LD_PRELOAD=/tmp/x.so",
    b"PATH=/tmp\0LD_PRELOAD=/tmp/x.so",
    bytes(range(256)),
    b"x" * 4096,
    b"$(touch canary)" * 4400,  # more than 64 KiB
    b"y" * (TEXT_MAX - 64),
]
TOO_LONG = [b"z" * (128 * 1024), b"; touch canary\n" * 20000, b"\xff" * 300000, b"\0" * 200000]

# Names of data, and the variable that is made of each.
NAMES = [
    (b"host", b"GRIDLINE_HOST"),
    (b"disk.free_bytes", b"GRIDLINE_DISK_FREE_BYTES"),
    (b"a b", b"GRIDLINE_A_B"),
    (b"x=1", b"GRIDLINE_X_1"),
    (b"\n", b"GRIDLINE__"),
    (b"PATH", b"GRIDLINE_PATH"),
    (b"LD_PRELOAD", b"GRIDLINE_LD_PRELOAD"),
    (b"IFS", b"GRIDLINE_IFS"),
    (b"BASH_FUNC_x%%", b"GRIDLINE_BASH_FUNC_X__"),
    (b"nul\0name", b"GRIDLINE_NUL_NAME"),
    ("gr\u00fc\u00df".encode(), b"GRIDLINE_GR____"),
]


def text(b):
    return struct.pack("<I", len(b)) + b


def encode(actuator, settings, data, left_s=30, attempt=b"1.1"):
    out = b"GLA1" + text(actuator.encode()) + text(attempt) + struct.pack("<QH", int(left_s * 1e9), len(settings))
    for name, values in settings:
        values = values if isinstance(values, list) else [values]
        values = [v if isinstance(v, bytes) else v.encode() for v in values]
        out += text(name.encode()) + struct.pack("<H", len(values)) + b"".join(map(text, values))
    out += struct.pack("<I", len(data))
    for name, value in data:
        out += text(name) + text(value)
    return out


class Reply:
    def __init__(self, raw, status):
        assert raw[:4] == b"GLR1", raw[:40]
        self.code, self.exit_code, n = struct.unpack("<iiI", raw[4:16])
        self.text = raw[16:16 + n]
        m, = struct.unpack("<I", raw[16 + n:20 + n])
        self.output = raw[20 + n:]
        assert len(self.output) == m
        assert status == (0 if self.code == 0 else 1), (status, self.code)
        assert not re.search(rb"[\x00-\x1f\x7f]", self.text), self.text  # one line


class Place:
    """A folder with the probe, and an empty one in which everything runs."""

    def __init__(self):
        self.work = tempfile.mkdtemp(prefix="gl-act-")
        self.here = self.work + "/here"
        os.mkdir(self.here)
        self.probe = self.work + "/probe"
        shutil.copy(PROBE, self.probe)

    def act(self, actuator, settings, data=(), left_s=30, raw=None, env=None, program=None):
        p = subprocess.run([program or ACT], input=encode(actuator, settings, data, left_s) if raw is None else raw, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, cwd=self.here, timeout=LIMIT_S, env=env)
        self.errors = p.stderr
        return Reply(p.stdout, p.returncode)

    def records(self):
        """What the probes have written, by pid; each is taken once."""
        found = {}
        for name in os.listdir(self.work):
            if not name.startswith("record."):
                continue
            with open(self.work + "/" + name, "rb") as f:
                found[int(name[7:])] = Record(f.read())
            os.unlink(self.work + "/" + name)
        return found

    def record(self):
        found = self.records()
        assert len(found) == 1, found
        return next(iter(found.values()))

    def check_quiet(self):
        assert os.listdir(self.here) == [], os.listdir(self.here)
        assert not os.path.exists(self.work + "/canary")

    def close(self):
        shutil.rmtree(self.work)


class Record:
    def __init__(self, raw):
        self.raw, self.at = raw, 0
        self.argv, self.env = self.texts(), self.texts()
        self.input = self.texts()
        self.input = self.input[0] if self.input else None
        assert self.at == len(raw)

    def u32(self):
        self.at += 4
        return struct.unpack("<I", self.raw[self.at - 4:self.at])[0]

    def texts(self):
        out = []
        for _ in range(self.u32()):
            n = self.u32()
            out.append(self.raw[self.at:self.at + n])
            self.at += n
        return out


def shown(value):
    return value.replace(b"\0", b"\\x00")


FIXED = [b"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", b"LANG=C.UTF-8",
         b"HOME=" + os.environ.get("HOME", "/").encode()] + ([b"TZ=" + os.environ["TZ"].encode()] if os.environ.get("TZ") else [])


def check_env(env, expected):
    assert re.fullmatch(rb"GRIDLINE_CHILD=\d+\.\d+\.\d+\.\d+", env[0]), env[0]
    assert env[1:1 + len(FIXED)] == FIXED, env
    assert env[1 + len(FIXED):] == expected, (env[:10], expected[:3])


def check_cut(got, value):
    """A value that is too long: its beginning, and how much is missing."""
    m = re.fullmatch(rb"(.*)\[\.\.\. (\d+) bytes more\]", got, re.S)
    assert m and len(got) <= TEXT_MAX, got[-100:]
    kept = len(value) - int(m.group(2))
    assert kept > 10000 and m.group(1) == shown(value[:kept])


def case_exec(place):
    for value in CORPUS:
        args = ["{v}", "x{v}y", "", "{none}", "{v?other}", "{{v}", "-", "{host}"]
        data = [(b"v", value), (b"host", b"c0-0")]
        r = place.act("exec", [("program", place.probe), ("args", args)], data)
        assert r.code == 0 and r.exit_code == 0 and r.output == b"probe was here\n", (value[:50], r.text)
        record, v = place.record(), shown(value)
        assert record.argv == [place.probe.encode(), v, b"x" + v + b"y", b"", b"", v, b"{v}", b"-", b"c0-0"], record.argv
        check_env(record.env, [b"GRIDLINE_V=" + v, b"GRIDLINE_HOST=c0-0"])
        assert record.input is None
        place.check_quiet()
    # The program's name is never made of data.
    r = place.act("exec", [("program", place.work + "/{v}")], [(b"v", b"probe")])
    assert r.code == -errno.ENOENT, r.text
    assert place.records() == {}


def case_long(place):
    """Longer than the kernel takes: only that value is cut, and the action is done."""
    for value in TOO_LONG:
        data = [(b"v", value), (b"host", b"c0-0"), (b"half", b"h" * 60000)]
        r = place.act("exec", [("program", place.probe), ("args", ["{v}", "<{v}> on {host}", "{half}", "last"])], data)
        assert r.code == 0, r.text
        record = place.record()
        assert len(record.argv) == 5 and record.argv[3:] == [b"h" * 60000, b"last"]
        check_cut(record.argv[1], value)
        assert record.argv[2].startswith(b"<") and record.argv[2].endswith(b"> on c0-0")
        check_cut(record.argv[2][1:-len(b"> on c0-0")], value)
        variables = dict(e.split(b"=", 1) for e in record.env)
        check_cut(variables[b"GRIDLINE_V"], value)
        assert variables[b"GRIDLINE_HALF"] == b"h" * 60000 and variables[b"GRIDLINE_HOST"] == b"c0-0"
        place.check_quiet()
    # Thousands of values, each as long as an event's may be: nothing is suppressed.
    data = [(b"n%d" % i, b"q" * 65536) for i in range(60)] + [(b"host", b"c0-0")]
    r = place.act("exec", [("program", place.probe), ("args", ["{n1}"] * 40 + ["{host}"])], data)
    assert r.code == 0, r.text
    record = place.record()
    assert len(record.argv) == 42 and record.argv[-1] == b"c0-0" and len(record.env) == 1 + len(FIXED) + 61


def case_environment(place):
    """Names of data become GRIDLINE_ variables and no others; nothing of ours is inherited."""
    hostile = {"LD_PRELOAD": "", "IFS": "x", "BASH_ENV": "/tmp/x", "GRIDLINE_HELPER": "/tmp/x", "SECRET": "1",
               "HOME": os.environ.get("HOME", "/")}
    data = [(name, value) for (name, _), value in zip(NAMES, CORPUS[5:])] + [(b"host", b"again"), (b"HOST", b"again"), (b"", b"x")]
    expected = [variable + b"=" + shown(value) for (_, variable), value in zip(NAMES, CORPUS[5:])]
    r = place.act("exec", [("program", place.probe)], data, env=hostile | ({"TZ": os.environ["TZ"]} if "TZ" in os.environ else {}))
    assert r.code == 0, r.text
    check_env(place.record().env, expected)
    # What gridline's own programs look at is never made of data.
    used = {"CHILD"}
    for folder, _, files in os.walk(SOURCE + "/src"):
        for name in filter(lambda n: n.endswith(".c"), files):
            with open(folder + "/" + name, encoding="utf-8") as f:
                used |= set(re.findall(r'getenv\("GRIDLINE_(\w+)"\)', f.read()))
    assert {"HELPER", "DEST", "CONTROL", "IDENTITY"} < used, used
    data = [(name.encode(), b"/tmp/evil") for name in sorted(used)]
    assert place.act("exec", [("program", place.probe)], data).code == 0
    check_env(place.record().env, [b"GRIDLINE_%s_=/tmp/evil" % name for name, _ in data])
    place.check_quiet()


SCRIPT = 'for a in "$0" "$@" "$GRIDLINE_V"; do printf "%s\\0" "$a"; done'


def case_script(place):
    """A script's text is fixed; data is in $1 and so on."""
    for value in CORPUS:
        if len(value) > 8000:
            continue
        r = place.act("exec", [("script", SCRIPT), ("args", ["{v}", "-{v}"])], [(b"v", value)])
        v = shown(value)
        assert r.code == 0 and r.output == b"\0".join([b"gridline", v, b"-" + v, v, b""]), (value, r.output, r.text)
        place.check_quiet()
    r = place.act("exec", [("script", "echo {v} $1"), ("args", "{v}")], [(b"v", b"$(touch canary)")])
    assert r.output == b"{v} $(touch canary)\n", r.output
    r = place.act("exec", [("script", "import sys; print(sys.argv[1:])"), ("interpreter", [sys.executable, "-c"]), ("args", "{v}")],
                  [(b"v", b"--help")])
    assert r.output == b"['gridline', '--help']\n", r.output
    place.check_quiet()


def case_page(place):
    for value in CORPUS + TOO_LONG:
        data = [(b"v", value), (b"a\n\"b", b"1"), (b"v", b"second")]
        r = place.act("page", [("program", place.probe), ("args", ["{v}"])], data)
        assert r.code == 0, (value[:50], r.text)
        record = place.record()
        assert len(record.argv) == 2
        if len(value) < TEXT_MAX - 64:
            assert record.argv[1] == shown(value)
        assert record.input.endswith(b"}\n") and record.input.count(b"\n") == 1
        said = json.loads(record.input.decode())
        try:
            assert said["v"] == value.decode() and "v.base64" not in said
        except UnicodeDecodeError:
            assert base64.b64decode(said["v.base64"]) == value and "\ufffd" in said["v"]
        assert said['a\n"b'] == "1"
        r = place.act("page", [("program", place.probe), ("input", "text"), ("text", "<{v}>\n")], data)
        record = place.record()
        if len(value) < TEXT_MAX - 64:
            assert record.input == b"<" + shown(value) + b">\n", record.input[:100]
        place.check_quiet()
    r = place.act("page", [("program", place.probe), ("args", ["--code", "75"]), ("input", "none")])
    assert r.code == -errno.EAGAIN and r.exit_code == 75 and place.record().input is None
    # A program that does not read is no reason to wait.
    assert place.act("page", [("program", "/bin/true")], [(b"v", b"x" * 3000000)]).code == 0


def line(value):
    """As quote.h has it."""
    out = b""
    for c in shown(value).decode("utf-8", "surrogateescape"):
        b = c.encode("utf-8", "surrogateescape")
        turns = "\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u061c"
        bad = 0xdc80 <= ord(c) <= 0xdcff or ord(c) < 32 or 127 <= ord(c) < 160 or c in turns
        out += b"".join(b"\\x%02x" % x for x in b) if bad else b
    return out


def case_log(place):
    path = place.work + "/log"
    for value in CORPUS:
        r = place.act("log", [("file", path), ("text", "{host}: {v}!")], [(b"v", value), (b"host", b"c0-0")])
        assert r.code == 0, r.text
        with open(path, "rb") as f:
            assert f.read() == b"c0-0: " + line(value) + b"!\n", value[:50]
        os.unlink(path)
        assert place.act("log", [("text", "{v}")], [(b"v", value)]).code == 0
        assert place.errors == line(value) + b"\n"
        place.check_quiet()
    for value in TOO_LONG:
        r = place.act("log", [("file", path), ("text", "{v} on {host}")], [(b"v", value), (b"host", b"c0-0")])
        assert r.code == 0, r.text
        with open(path, "rb") as f:
            said = f.read()
        assert said.endswith(b" bytes more] on c0-0\n") and said.count(b"\n") == 1
        os.unlink(path)


def named(place, name):
    p = subprocess.Popen([place.probe, "--named", name.hex()], stdin=subprocess.DEVNULL, cwd=place.here)
    wait_for(lambda: os.path.exists(f"{place.work}/record.{p.pid}"), "the victim")
    os.unlink(f"{place.work}/record.{p.pid}")
    return p


def wait_for(condition, what):
    end = time.monotonic() + LIMIT_S
    while not (value := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {LIMIT_S} s")
        time.sleep(0.01)
    return value


def start_time(pid):
    with open(f"/proc/{pid}/stat", "rb") as f:
        ticks = int(f.read().rpartition(b")")[2].split()[19])
    with open("/proc/stat", encoding="ascii") as f:
        boot = next(int(w.split()[1]) for w in f if w.startswith("btime"))
    return boot + ticks / os.sysconf("SC_CLK_TCK")


def case_kill_name(place):
    bystander = named(place, b"bystander")
    try:
        for value in CORPUS:
            name = value[:15]
            if name in (b"", b"plain", b"*") or b"\0" in name or len(value) > 15:
                r = place.act("kill", [("name", "{v}")], [(b"v", value)])
                assert r.code in (-errno.ENOENT, -errno.EINVAL), (value[:40], r.text)
                continue
            victim = named(place, name)
            r = place.act("kill", [("name", "{v}")], [(b"v", value)])
            assert r.code == 0, (value, r.text)
            assert victim.wait(LIMIT_S) == -signal.SIGTERM
            assert bystander.poll() is None
            place.check_quiet()
        for value in TOO_LONG + [b"1", b"-1"]:
            assert place.act("kill", [("name", "{v}")], [(b"v", value)]).code == -errno.ENOENT
        itself = f"itself-{os.getpid()}"  # a name that no other test's has
        os.symlink(ACT, f"{place.work}/{itself}")
        r = place.act("kill", [("name", "{v}")], [(b"v", itself.encode())], program=f"{place.work}/{itself}")
        assert r.code == -errno.ENOENT, r.text
    finally:
        bystander.kill()
        bystander.wait()


def case_kill(place):
    victims = [named(place, b"gl-victim") for _ in range(3)]
    try:
        r = place.act("kill", [("name", "gl-victim"), ("max", "2")])
        assert r.code == -10002 and b"3 processes" in r.text, r.text
        assert all(p.poll() is None for p in victims)
        # A number that has come again is not hit.
        pid, began = victims[0].pid, start_time(victims[0].pid)
        r = place.act("kill", [("pid", "{pid}"), ("start", "{start}")], [(b"pid", b"%d" % pid), (b"start", b"%f" % (began - 60))])
        assert r.code == -errno.ENOENT and b"another" in r.text and victims[0].poll() is None, r.text
        assert place.act("kill", [("pid", str(pid))]).code == -errno.EINVAL
        r = place.act("kill", [("pid", "{pid}"), ("start", "{start}")], [(b"pid", b"%d" % pid), (b"start", b"%f" % began)])
        assert r.code == 0 and victims[0].wait(LIMIT_S) == -signal.SIGTERM, r.text
        for bad in (b"-1", b"0", b"1", b"1; kill -9 -1", b"99999999999", b"%d" % os.getpid()):
            r = place.act("kill", [("pid", "{pid}"), ("start", "1")], [(b"pid", bad)])
            assert r.code in (-errno.ENOENT, -errno.EINVAL, -errno.EPERM), (bad, r.text)
        # One that does not want to.
        path = place.work + "/pid"
        with open(path, "w", encoding="ascii") as f:
            f.write(f"{victims[1].pid}\n")
        os.kill(victims[1].pid, signal.SIGSTOP)
        r = place.act("kill", [("pid_file", path), ("grace", "50ms")])
        assert r.code == 0 and victims[1].wait(LIMIT_S) == -signal.SIGKILL, r.text
        assert place.act("kill", [("pid_file", path)]).code == -errno.ENOENT
        # A file that is older than the process names another.
        with open(path, "w", encoding="ascii") as f:
            f.write(f"{victims[2].pid}\n")
        os.utime(path, (began - 1000, began - 1000))
        r = place.act("kill", [("pid_file", path)])
        assert r.code == -errno.ENOENT and victims[2].poll() is None, r.text
        r = place.act("kill", [("name", "gl-victim"), ("signal", "SIGCONT")])
        assert r.code == 0 and b"sent the signal" in r.text and victims[2].poll() is None, r.text
    finally:
        for p in victims:
            p.kill()
            p.wait()


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", "rb") as f:
            return f.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False


def read_pid(path):
    with open(path, encoding="ascii") as f:
        return int(f.read())


def case_restart(place):
    path, log = place.work + "/pid", place.work + "/server.log"
    settings = [("command", [place.probe, "--stay", "{v}", "$(touch canary)"]), ("pid_file", path), ("log", log)]
    old = None
    try:
        for value in CORPUS[:8] + CORPUS[33:40]:
            r = place.act("restart", settings, [(b"v", value), (b"PATH", value), (b"LD_PRELOAD", value)])
            assert r.code == 0, r.text
            pid = read_pid(path)
            # The probe records itself after it is up.
            wait_for(lambda: os.path.exists(f"{place.work}/record.{pid}"), "the server's record")
            record = place.record()
            # No data at all, and no mark: nobody takes it for something left over.
            assert record.argv == [place.probe.encode(), b"--stay", b"{v}", b"$(touch canary)"], record.argv
            assert record.env == FIXED and record.input is None, record.env
            assert alive(pid) and pid != old and (old is None or not alive(old))
            assert os.getsid(pid) == pid
            old = pid
            place.check_quiet()
        r = place.act("restart", [("command", ["/bin/false"]), ("pid_file", path)])
        assert r.code == -errno.ECHILD and b"code 1" in r.text, r.text
        assert not alive(old)
        r = place.act("restart", [("command", ["/no/such"]), ("pid_file", path)])
        assert r.code == -errno.ENOENT, r.text
        r = place.act("restart", [("command", [place.probe, "--stay"]), ("pid_file", place.work + "/no/such/pid")])
        assert r.code == -errno.ENOENT and b"can't be written" in r.text, r.text
        # Nothing runs that nobody could find again: the next attempt would start another beside it.
        mark = "gl-act-unnamed-%d" % os.getpid()
        r = place.act("restart", [("command", [place.probe, "--stay", mark]), ("pid_file", place.work + "/no/such/pid")])
        assert r.code == -errno.ENOENT and with_mark(mark) == [], r.text
        r = place.act("restart", [("command", ["/no/such"]), ("pid_file", path)])
        assert r.code == -errno.ENOENT and not os.path.exists(path), r.text
    finally:
        if old and alive(old):
            os.kill(old, signal.SIGKILL)


SERVER = """import os, socket, sys, time
if os.fork(): os._exit(0)
os.setsid()
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(('127.0.0.1', int(sys.argv[2]))); s.listen()
open(sys.argv[1] + '.new', 'w').write(str(os.getpid())); os.rename(sys.argv[1] + '.new', sys.argv[1])
time.sleep(1000)"""


def case_restart_forks(place):
    """A server that goes into the background, and an address that has to take connections."""
    path = place.work + "/pid"
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    settings = [("command", [sys.executable, "-c", SERVER, path, str(port)]), ("pid_file", path), ("forks", "true"),
                ("address", f"127.0.0.1:{port}")]
    pids = []
    try:
        for _ in range(2):
            r = place.act("restart", settings)
            assert r.code == 0, r.text
            pids.append(read_pid(path))
            assert alive(pids[-1]) and b"%d" % pids[-1] in r.text
            socket.create_connection(("127.0.0.1", port), LIMIT_S).close()
        assert not alive(pids[0])
        r = place.act("restart", [("command", [place.probe, "--stay"]), ("pid_file", place.work + "/other"), ("wait", "300ms"),
                                  ("address", "unix:" + place.work + "/no.sock")])
        pids.append(read_pid(place.work + "/other"))
        assert r.code == -errno.ETIMEDOUT and b"no connections" in r.text, r.text
    finally:
        for pid in pids:
            if alive(pid):
                os.kill(pid, signal.SIGKILL)


def with_mark(mark):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                words = f.read().split(b"\0")
        except OSError:
            continue
        if mark.encode() in words and alive(int(pid)):
            found.append(int(pid))
    return found


def case_deadline(place):
    """It ends with its deadline, and leaves nothing."""
    mark = "gl-act-linger-%d" % os.getpid()
    settings = [("program", place.probe), ("args", ["--linger", mark])]
    began = time.monotonic()
    r = place.act("exec", settings, left_s=0.7)
    assert r.code == -errno.ETIMEDOUT and time.monotonic() - began < LIMIT_S, r.text
    assert with_mark(mark) == [] and len(place.records()) == 1
    r = place.act("exec", settings, left_s=0)
    assert r.code == -errno.ETIMEDOUT and place.records() == {}, r.text
    # Called off.
    p = subprocess.Popen([ACT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=place.here)
    p.stdin.write(encode("exec", settings, []))
    p.stdin.close()
    wait_for(lambda: len(with_mark(mark)) == 4, "all of the probe's processes")
    p.terminate()
    assert Reply(p.stdout.read(), p.wait(LIMIT_S)).code == -errno.ECANCELED
    p.stdout.close()
    assert with_mark(mark) == [] and len(place.records()) == 1


def catches(pid, number):
    with open(f"/proc/{pid}/status", encoding="utf-8") as f:
        caught = re.search(r"SigCgt:\s*(\w+)", f.read()).group(1)
    return int(caught, 16) >> (number - 1) & 1


def case_requests(place):
    """What is no request is refused in words; descriptors and signals of whoever started it do not matter."""
    whole = encode("exec", [("program", place.probe)], [(b"v", b"x")])
    for raw in (b"", b"GLA1", whole[:-1], whole + b"x", b"GLA2" + whole[4:], os.urandom(5000), b"GLA1" + b"\xff" * 100, b"x" * (5 << 20)):
        assert place.act("", [], raw=raw).code < 0
    assert place.records() == {}
    assert place.act("no-such", []).code == -errno.ENOENT
    r = place.act("exec", [("programm", "x")])
    assert r.code == -errno.EINVAL and b"program" in r.text
    # What is stuck is left by SIGALRM, some seconds after the deadline; here it is sent by hand.
    p = subprocess.Popen([ACT], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    wait_for(lambda: catches(p.pid, signal.SIGALRM), "its handler")
    p.send_signal(signal.SIGALRM)
    r = Reply(p.stdout.read(), p.wait(LIMIT_S))
    assert r.code == -errno.ETIMEDOUT and b"deadline" in r.text, r.text
    p.stdin.close()
    p.stdout.close()
    leak = os.open(place.work, os.O_RDONLY)
    os.set_inheritable(leak, True)
    ls = [("program", "/bin/sh"), ("args", ["-c", "ls /proc/self/fd | wc -l; grep -E 'SigIgn|SigBlk' /proc/self/status"])]
    p = subprocess.run([ACT], input=encode("exec", ls, []), stdout=subprocess.PIPE, timeout=LIMIT_S, close_fds=False,
                       preexec_fn=lambda: (signal.signal(signal.SIGUSR1, signal.SIG_IGN), signal.pthread_sigmask(signal.SIG_BLOCK, {2, 15})))
    os.close(leak)
    assert Reply(p.stdout, p.returncode).output.split() == [b"4", b"SigBlk:", b"0" * 16, b"SigIgn:", b"0" * 16], p.stdout


def case_command(place):
    """gridline act, as the manual has it."""
    env = dict(os.environ)

    def run(*words, code=0, stdin=subprocess.DEVNULL):
        p = subprocess.run([GRIDLINE, "act", *words], stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=place.here,
                           timeout=LIMIT_S, env=env, text=True, check=False)
        assert p.returncode == code, (words, p.returncode, p.stdout, p.stderr)
        return p.stdout, p.stderr

    names = [w.split()[0] for w in run("--list")[0].splitlines()[1:]]
    assert {"exec", "kill", "log", "page", "restart"} <= set(names) and names == sorted(names), names
    rows = [json.loads(w) for w in run("--list", "--format", "ndjson")[0].splitlines()]
    assert [r["actuator"] for r in rows] == names
    for name in names:
        options = {r["option"]: r for r in map(json.loads, run("--list", name, "--format", "ndjson")[0].splitlines())}
        assert options and all(o["help"] for o in options.values()), name
        if name == "exec":
            assert options["script"]["fixed"] is True and options["args"]["fixed"] is False
    assert "did you mean exec" in run("exce", code=3)[1]
    assert "did you mean exec" in run("--list", "exce", code=3)[1]
    assert "gridline act --list" in run("nothing-like-it", code=3)[1]
    assert "did you mean `program`" in run("exec", "progam=x", code=2)[1]
    assert "name=value" in run("exec", "program", code=2)[1]
    assert "NAME=VALUE" in run("log", "text=x", "-d", "x", code=2)[1]
    # Exactly what would be done; and nothing is.
    out, _ = run("--dry-run", "exec", "program=" + place.probe, "args=a b", "args={v}", "args=-\n", "-d", 'v=$(touch canary) "\\')
    assert out.splitlines()[0] == f'run "{place.probe}" "a b" "$(touch canary) \\"\\\\" "-\\x0a"', out
    assert 'env "GRIDLINE_V=$(touch canary) \\"\\\\"' in out
    out, _ = run("--dry-run", "page", "program=" + place.probe, "-d", "v=x")
    assert 'input "{\\"v\\":\\"x\\"}\\x0a"' in out, out
    assert place.records() == {}
    out, _ = run("--dry-run", "webhook", "url=http://h/", "text={v}", "-d", "v=a\x1b[31m\n\\x1b")
    assert out.endswith('\nbody "a\\x1b[31m\\x0a\\\\x1b"\n'), out
    # For a program.
    out, _ = run("--dry-run", "exec", "program=/bin/x", "args={v}", "-d", "v=a", "--format", "json")
    row = json.loads(out)
    assert row["actuator"] == "exec" and row["plan"].startswith('run "/bin/x" "a"\nenv '), row
    row = json.loads(run("exec", "program=/bin/echo", "args={v}", "-d", "v=a b", "--format", "json")[0])
    assert (row["done"], row["text"], row["output"]) == (True, "ended with code 0", "a b\n"), row
    row = json.loads(run("exec", "program=/bin/false", "--format", "json", code=1)[0])
    assert row["done"] is False and "code 1" in row["text"], row
    out, _ = run("--dry-run", "kill", "name=no-such-process-gl")
    assert out.startswith("nothing: no process"), out
    out, _ = run("--dry-run", "restart", "command=/bin/x", "command=-d", "pid_file=/tmp/x")
    assert 'start "/bin/x" "-d"' in out, out
    # And done.
    out, said = run("exec", "program=" + place.probe, "args={v}", "--data", "v=a=b; touch canary")
    assert out == "probe was here\n" and "ended with code 0" in said, (out, said)
    assert place.record().argv[1:] == [b"a=b; touch canary"]
    run("exec", "program=" + place.probe, "args=--code", "args=7", code=1)
    run("kill", "name=no-such-process-gl", code=3)
    run("kill", "pid=1", "start=1", code=5)
    run("exec", "program=/no/such/program", code=3)
    assert "killed" in run("exec", "program=" + place.probe, "args=--stay", "--timeout", "300ms", code=1)[1]
    assert "usage:" in run("--help")[0]
    assert "which actuator" in run("--timeout", "1s", code=2)[1]
    place.check_quiet()


def case_docs(place):
    """docs/actuators.md has what the tables say (script/actuators --write), and its example compiles."""
    with open(SOURCE + "/docs/actuators.md", encoding="utf-8") as f:
        page = f.read()
    made = subprocess.run([SOURCE + "/script/actuators", GRIDLINE], stdout=subprocess.PIPE, check=True, timeout=LIMIT_S).stdout.decode()
    assert f"<!-- script/actuators -->\n{made}<!-- end -->\n" in page, "run script/actuators --write"
    with open(place.work + "/remove.c", "w", encoding="utf-8") as f:
        f.write(re.search(r"```c\n(.*?)```", page, re.S).group(1))
    subprocess.run([os.environ.get("CC", "cc"), "-std=gnu17", "-D_GNU_SOURCE", "-I", SOURCE + "/src", "-include", "base/banned.h",
                    "-Wall", "-Wextra", "-Werror", "-fsyntax-only", place.work + "/remove.c"], check=True, timeout=LIMIT_S)


def main():
    global GRIDLINE, ACT, PROBE, SOURCE
    case, GRIDLINE, ACT, PROBE, SOURCE = sys.argv[1:]
    GRIDLINE, ACT, PROBE = map(os.path.abspath, (GRIDLINE, ACT, PROBE))
    place = Place()
    try:
        globals()["case_" + case](place)
    finally:
        place.close()


main()
