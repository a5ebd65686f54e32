#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The actuators that talk to servers, against real ones on loopback: gridline-act as the guard runs it (src/net/act.h).

    act_server_test.py CASE GRIDLINE_ACT AGENT GATEWAY

mail: an SMTP server of this test (smtp_sink.py) that checks the protocol; webhook: Python's HTTP server; ldap: slapd;
sensor: a gateway and agents."""
import email
import email.policy
import errno
import http.server
import json
import os
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True  # the tree stays as it is
import smtp_sink
from grid import Agent, Gateway, main, run, skip, start, wait_for

ACT, AGENT, GATEWAY = sys.argv[2:5]
E_LIMIT = -10002
SECOND = 10**9

# What an attacker may write into any field of an event.
CORPUS = [
    b"", b" ", b"plain", b"a\r\nBcc: evil@example.org\r\n\r\nbody", b"a\nb", b"a\rb", b"\r\n.\r\nMAIL FROM:<x@y>\r\n",
    b"$(touch /tmp/gridline-act-evil)", b"`id`", b"'; rm -rf /; '", b'"},{"x":"', b'\\', b'\\"', b"a\0b", b"\0", b"\xff\xfe", b"\xc0\xaf",
    b"\xed\xa0\x80", "ünï — ✓".encode(), b"*)(uid=*", b"*", b"(|(cn=*))", b",cn=admin,dc=g", b"#", b" lead", b"trail ", b"+x=y",
    b"../../etc/passwd", b"%s%n", b"{host}", b"{{", b"=?UTF-8?B?eA==?=", b"x" * 100_000, b"\t\x1b[31m\x7f", "\u2028\u0085".encode(),
    b"{{7*7}}", b"--", b"-oProxyCommand=x", b"\xe2\x80\xaetxt.exe",
]


def text(b):
    return struct.pack("<I", len(b)) + b


def to_bytes(v):
    return v if isinstance(v, bytes) else str(v).encode()


def request(actuator, settings, data=(), attempt="7.1", left_s=30):
    """Settings: name=value or name=[values]."""
    out = b"GLA1" + text(actuator.encode()) + text(attempt.encode()) + struct.pack("<QH", int(left_s * SECOND), len(settings))
    for name, value in settings.items():
        values = value if isinstance(value, list) else [value]
        out += text(name.encode()) + struct.pack("<H", len(values)) + b"".join(text(to_bytes(v)) for v in values)
    out += struct.pack("<I", len(data))
    return out + b"".join(text(to_bytes(n)) + text(to_bytes(v)) for n, v in data)


class Reply:
    def __init__(self, b):
        assert b[:4] == b"GLR1", b
        self.code, self.exit_code = struct.unpack_from("<ii", b, 4)
        at = 12
        parts = []
        for _ in range(2):
            n, = struct.unpack_from("<I", b, at)
            parts.append(b[at + 4:at + 4 + n])
            at += 4 + n
        assert at == len(b), b
        self.text, self.output = parts[0].decode(), parts[1]

    def __repr__(self):
        return f"{self.code} {self.text!r} {self.output[:200]!r}"


def act(actuator, data=(), attempt="7.1", left_s=30, code=0, **settings):
    p = subprocess.run([ACT], input=request(actuator, settings, data, attempt, left_s), stdout=subprocess.PIPE, timeout=90)
    reply = Reply(p.stdout)
    assert reply.code == code, (reply, code)
    assert p.returncode == (0 if code == 0 else 1), p.returncode
    assert "\n" not in reply.text and reply.text, reply
    return reply


def fault(**more):
    data = {"kind": "fire", "rule": "disk-full", "severity": "error", "fault": "00c0ffee00c0ffee", "summary": "c0-0: /var is full",
            "help": "Remove something.", "time": "2026-11-16T14:08:52Z", "since": "2026-11-16T14:07:52Z", "guard": "watch",
            "count": "1", "left_out": "0", "host": "c0-0", "mount": "/var"}
    data.update(more)
    return list(data.items())


def secret(work, name, line, mode=0o600):
    path = f"{work}/{name}"
    with open(path, "w") as f:
        f.write(line + "\n")
    os.chmod(path, mode)
    return path


def make_certificate(work, name):
    """A certificate of 127.0.0.1 that signs itself: it is its own CA."""
    key, cert = f"{work}/{name}.key", f"{work}/{name}.pem"
    run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key, "-out",
        cert, "-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1")
    return cert, key


def parse(mail):
    return email.message_from_bytes(mail.data, policy=email.policy.default)


def utf8(b):
    """As a reader gets it: what is no UTF-8 is U+FFFD, one for each byte."""
    out, at = "", 0
    while at < len(b):
        for n in (1, 2, 3, 4):
            try:
                out += b[at:at + n].decode()
                at += n
                break
            except UnicodeDecodeError:
                continue
        else:
            out += "\ufffd"
            at += 1
    return out


# ---------------------------------------------------------------- mail

HEADERS = ["Date", "From", "To", "Subject", "Message-ID", "References", "Auto-Submitted", "MIME-Version", "Content-Type",
           "Content-Transfer-Encoding"]


def case_mail(work):
    sink = smtp_sink.Sink()
    reply = act("mail", fault(), server=sink.url, to=["ops@example.org", "boss@example.org"], **{"from": "gl@example.org"})
    mail = sink.mails.pop()
    m = parse(mail)
    assert mail.sender == "gl@example.org" and mail.recipients == ["ops@example.org", "boss@example.org"], vars(mail)
    assert m.keys() == HEADERS, m.keys()
    assert m["Subject"] == "[error] c0-0: /var is full" and m["Message-ID"] == "<7.1@example.org>", m.items()
    assert m["References"] == "<00c0ffee00c0ffee@example.org>" and m["Auto-Submitted"] == "auto-generated"
    assert m["Date"].datetime.utcoffset().total_seconds() == 0 and abs(m["Date"].datetime.timestamp() - time.time()) < 60
    body = m.get_content()
    for part in ("c0-0: /var is full", "error", "disk-full", "Remove something.", "mount = /var"):
        assert part in body, body
    assert "faults" not in body and "left out" not in body, body
    assert "ops@example.org and 1 more" in reply.text, reply

    # Many at once, and what is over.
    act("mail", fault(count="100000", left_out="42", list="c0-0: /var is full\nc0-1: /var is full"), server=sink.url, to="ops")
    m = parse(sink.mails.pop())
    assert m["Subject"] == "[error] 100000 faults, the first: c0-0: /var is full", m["Subject"]
    assert "100000 faults:" in m.get_content() and "42 more were left out" in m.get_content(), m.get_content()
    assert "c0-1: /var is full" in m.get_content()
    act("mail", fault(kind="clear"), server=sink.url, to="ops")
    assert parse(sink.mails.pop())["Subject"] == "[cleared] c0-0: /var is full"

    # What an event says can't look like what we say.
    act("mail", fault(summary="c0-0 is well\n\nseverity  info\nThis is about 0 faults."), server=sink.url, to="ops")
    lines = parse(sink.mails.pop()).get_content().splitlines()
    assert lines[0] == "c0-0 is well\\x0a\\x0aseverity  info\\x0aThis is about 0 faults.", lines
    assert [line for line in lines if line.startswith("severity")] == ["severity  error"], lines

    # Repeated: it can be recognised.
    act("mail", fault(), attempt="9.2", server=sink.url, to="ops")
    act("mail", fault(), attempt="9.2", server=sink.url, to="ops")
    assert len({parse(sink.mails.pop())["Message-ID"] for _ in range(2)}) == 1
    # Without any data, as a person would.
    act("mail", server=sink.url, to="ops", subject="try", body="it works\n.\n..\n")
    m = parse(sink.mails.pop())
    assert m["Subject"] == "try" and m.get_content().replace("\r\n", "\n") == "it works\n.\n..\n", m.get_content()
    assert not sink.wrong, sink.wrong


def one_line(s):
    out = "".join(" " if ord(c) < 32 or 127 <= ord(c) < 160 or c in "\u2028\u2029" else c for c in s)
    return out.rstrip(" ")


def case_mail_injection(work):
    sink = smtp_sink.Sink()
    for value in CORPUS:
        # Into the texts that are made for it, and into templates.
        act("mail", fault(summary=value, host=value, severity=value, fault=value, rule=value, list=value, help=value),
            attempt=value.decode("latin-1").replace("\0", "") or "x", server=sink.url, to="ops@example.org")
        act("mail", [("v", value)], server=sink.url, to="ops@example.org", subject="<{v}>", body="<{v}>")
        made, filled = sink.mails
        sink.mails.clear()
        for mail in (made, filled):
            m = parse(mail)
            assert mail.recipients == ["ops@example.org"] and set(m.keys()) <= set(HEADERS), (value, m.keys())
            assert len(m.keys()) == len(set(m.keys())) and not m.defects, (value, m.keys(), m.defects)
        shown = value.replace(b"\0", b"\\x00")  # what a C string can have (template.h)
        if len(value) < 400:
            assert parse(filled)["Subject"] == one_line("<" + utf8(shown) + ">"), (value, parse(filled)["Subject"])
        expected = ("<" + utf8(shown) + ">").replace("\r\n", "\n").replace("\r", "\n") + "\n"
        body = parse(filled).get_payload(decode=True).decode().replace("\r\n", "\n")
        assert body == expected, (value, body, expected)
    # An address that data would make into another, or into two, is none; nobody gets a mail.
    for value in (b"a@b,c@d", b"a@b>\r\nRCPT TO:<c@d", b"a b", b"<a@b>", b"a@b\n", b"-f@x", b"", b"a\0@b"):
        act("mail", [("v", value)], server=sink.url, to="{v}", code=-errno.EINVAL)
    assert not sink.mails and not sink.wrong, (sink.mails, sink.wrong)
    assert not os.path.exists("/tmp/gridline-act-evil")


def case_mail_tls(work):
    good, other = make_certificate(work, "good"), make_certificate(work, "other")
    password = secret(work, "password", "geheim")
    login = ("watch", "geheim")
    for is_smtps in (False, True):
        sink = smtp_sink.Sink(tls=good, is_smtps=is_smtps, login=login)
        more = {"server": sink.url, "to": "ops", "tls": "starttls", "ca_file": good[0]}
        act("mail", fault(), user="watch", password_file=password, **more)
        assert sink.mails[0].is_tls and sink.mails[0].user == "watch", vars(sink.mails[0])
        # A server that is not who it should be gets nothing; nor does one with another password.
        act("mail", fault(), user="watch", password_file=password, code=-errno.EACCES, **dict(more, ca_file=other[0]))
        act("mail", fault(), user="watch", password_file=secret(work, "wrong", "falsch"), code=-errno.EACCES, **more)
        act("mail", fault(), user="watch", password_file=secret(work, "open", "geheim", 0o644), code=-errno.EACCES, **more)
        assert len(sink.mails) == 1 and not sink.wrong, sink.wrong
    plain = smtp_sink.Sink(login=login)
    reply = act("mail", fault(), server=plain.url, to="ops", tls="starttls", code=-errno.EACCES)
    assert not plain.mails, reply
    # In the clear to another host: not even tried.
    act("mail", fault(), server="smtp://192.0.2.1", tls="none", to="ops", user="watch", password_file=password, code=-errno.EINVAL)


def case_mail_refused(work):
    later = smtp_sink.Sink(answers={b"RCPT TO:<ops>": b"451 4.7.1 greylisted"})
    reply = act("mail", fault(), server=later.url, to="ops", code=-errno.EAGAIN)
    assert "greylisted" in reply.text, reply
    never = smtp_sink.Sink(answers={b"RCPT TO:<ops>": b"550 5.1.1 no such user"})
    assert "no such user" in act("mail", fault(), server=never.url, to="ops", code=-errno.EREMOTEIO).text
    # One of two: the other gets it, and it is said.
    reply = act("mail", fault(), server=never.url, to=["ops", "boss"])
    assert never.mails[0].recipients == ["boss"] and "1 of 2 refused: 550 5.1.1 no such user" in reply.text, reply
    closed = smtp_sink.Sink()
    closed.close()
    act("mail", fault(), server=closed.url, to="ops", code=-errno.EAGAIN)
    for at in (b"EHLO", b"DATA", b"."):
        hung = smtp_sink.Sink(hang=at)
        begin = time.monotonic()
        act("mail", fault(), server=hung.url, to="ops", left_s=1, code=-errno.ETIMEDOUT)
        assert time.monotonic() - begin >= 1
    # Called off.
    hung = smtp_sink.Sink(hang=b"DATA")
    p = start([ACT], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    p.stdin.write(request("mail", {"server": hung.url, "to": "ops"}, fault()))
    p.stdin.close()
    wait_for(lambda: b"DATA" in hung.lines, "the mail")
    p.send_signal(signal.SIGTERM)
    assert Reply(p.stdout.read()).code == -errno.ECANCELED
    p.wait(30)


# ---------------------------------------------------------------- webhook

class Web:
    """answer: what a request gets: (status, headers, body)."""

    def __init__(self, tls=None):
        self.requests, self.answer = [], (200, {}, b"thanks")
        web = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def handle_any(self):
                body = self.rfile.read(int(self.headers["Content-Length"] or 0))
                web.requests.append((self.command, self.path, self.headers, body))
                status, headers, answer = web.answer
                if status == 0:
                    self.rfile.read()  # until it gives up
                    return
                self.send_response(status)
                for h in {"Content-Length": str(len(answer)), **headers}.items():
                    self.send_header(*h)
                self.end_headers()
                self.wfile.write(answer)

            do_POST = do_PUT = do_GET = handle_any

            def log_message(self, *_):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.http.handle_error = lambda *_: None  # a client that hangs up is what some of these test
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self.http.socket = context.wrap_socket(self.http.socket, server_side=True)
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.http.server_address[1]}/hook"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()


def case_webhook(work):
    web = Web()
    reply = act("webhook", fault(), url=web.url)
    method, path, headers, body = web.requests.pop()
    assert (method, path) == ("POST", "/hook") and json.loads(body) == dict(fault()), body
    assert headers["Content-Type"] == "application/json" and headers["Idempotency-Key"] == "7.1" and reply.output == b"thanks"
    token = secret(work, "token", "s3cret")
    reply = act("webhook", fault(), url=web.url + "?key=hidden", body='{{"t": "{summary}", "n": {count|json}}', method="PUT",
                header=["X-Host: {host}", "X-Empty:"], token_file=token)
    method, path, headers, body = web.requests.pop()
    assert (method, path) == ("PUT", "/hook?key=hidden") and json.loads(body) == {"t": "c0-0: /var is full", "n": "1"}, body
    assert headers["X-Host"] == "c0-0" and headers["Authorization"] == "Bearer s3cret"
    assert "hidden" not in reply.text and "s3cret" not in reply.text, reply
    act("webhook", fault(), url_file=secret(work, "url", web.url), text="{host} down")
    _, _, headers, body = web.requests.pop()
    assert body == b"c0-0 down" and headers["Content-Type"] == "text/plain; charset=utf-8"

    for value in CORPUS:
        act("webhook", fault(host=value) + [(b"v", value)], url=web.url)
        assert json.loads(web.requests.pop()[3])["v"] == utf8(value), value
        act("webhook", [("v", value)], url=web.url, body='{{"v": "{v}", "w": {v|json}, "u": "{v|url}"}',
            header="X-Value: <{v}>")
        _, _, headers, body = web.requests.pop()
        sent = json.loads(body)
        assert set(sent) == {"v", "w", "u"}, (value, sent)
        if len(value) < 10_000:
            assert sent["v"] == sent["w"] == utf8(value), (value, sent)
        assert len(headers.get_all("X-Value")) == 1 and "Bcc" not in headers, headers
        assert set(headers) == {"Host", "Accept", "Content-Type", "Idempotency-Key", "User-Agent", "X-Value", "Content-Length"}, \
            list(headers)


def case_webhook_answers(work):
    web = Web()
    for status, code in ((204, 0), (200, 0), (404, -errno.EREMOTEIO), (400, -errno.EREMOTEIO), (429, -errno.EAGAIN),
                         (500, -errno.EAGAIN), (503, -errno.EAGAIN), (408, -errno.EAGAIN)):
        web.answer = (status, {}, b"")
        assert str(status) in act("webhook", fault(), url=web.url, code=code).text
    web.requests.clear()
    web.answer = (302, {"Location": web.url + "2"}, b"")
    assert "not followed" in act("webhook", fault(), url=web.url, code=-errno.EREMOTEIO).text
    assert len(web.requests) == 1
    web.answer = (200, {}, b"x" * 10_000_000)
    assert act("webhook", fault(), url=web.url).output == b"x" * 16384
    web.answer = (0, {}, b"")
    act("webhook", fault(), url=web.url, left_s=1, code=-errno.ETIMEDOUT)
    web.http.server_close()
    act("webhook", fault(), url="http://127.0.0.1:1/x", code=-errno.EAGAIN)
    for wrong in ({"url": "file:///etc/passwd"}, {"url": "gopher://127.0.0.1/"}, {}, {"url": web.url, "method": "GET /x"},
                  {"url": web.url, "header": "no colon"}, {"url": web.url, "body": "{host} {", "text": "x"}):
        act("webhook", fault(), code=-errno.EINVAL, **wrong)
    good, other = make_certificate(work, "good"), make_certificate(work, "other")
    web = Web(tls=good)
    act("webhook", fault(), url=web.url, ca_file=good[0])
    act("webhook", fault(), url=web.url, ca_file=other[0], code=-errno.EACCES)
    act("webhook", fault(), url=web.url, code=-errno.EACCES)
    act("webhook", fault(), url=web.url.replace("127.0.0.1", "localhost"), ca_file=good[0], code=-errno.EACCES)
    assert len(web.requests) == 1


# ---------------------------------------------------------------- ldap

def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Slapd:
    def __init__(self, work):
        if not os.path.exists("/usr/sbin/slapd"):
            skip("there is no slapd")
        self.folder = work + "/slapd"
        self.uri = f"ldap://127.0.0.1:{free_port()}"
        os.makedirs(self.folder + "/db")
        with open(self.folder + "/slapd.conf", "w") as f:
            f.write(f"""include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
database mdb
maxsize 67108864
suffix "dc=g"
rootdn "cn=admin,dc=g"
rootpw secret
directory {self.folder}/db
dbnosync
""")
        people = "".join(f"dn: cn=p{i},dc=g\nobjectClass: inetOrgPerson\ncn: p{i}\nsn: x\nuid: u{i}\n\n" for i in range(5))
        run_in = subprocess.run(["/usr/sbin/slapadd", "-f", self.folder + "/slapd.conf"], text=True, stderr=subprocess.PIPE,
                                input="dn: dc=g\nobjectClass: dcObject\nobjectClass: organization\ndc: g\no: g\n\n" + people)
        assert run_in.returncode == 0, run_in.stderr
        self.process = start(["/usr/sbin/slapd", "-f", self.folder + "/slapd.conf", "-h", self.uri, "-d", "0"],
                             stderr=subprocess.DEVNULL)
        wait_for(lambda: self.find("(objectClass=dcObject)") is not None, "slapd")

    def find(self, what, attribute="dn"):
        out = run("ldapsearch", "-x", "-LLL", "-o", "ldif-wrap=no", "-H", self.uri, "-D", "cn=admin,dc=g", "-w", "secret", "-b",
                  "dc=g", what, attribute, check=False)
        if out.returncode:
            return None
        return [line.split(" ", 1)[1] for line in out.stdout.splitlines() if line.startswith(attribute + ":")]


def case_ldap(work):
    slapd = Slapd(work)
    admin = {"server": slapd.uri, "bind_dn": "cn=admin,dc=g", "password_file": secret(work, "password", "secret")}
    reply = act("ldap", server=slapd.uri, base="dc=g", filter="(objectClass=inetOrgPerson)", at_least=5, at_most=5)
    assert "found 5 entries" in reply.text and sorted(reply.output.decode().split()) == [f"cn=p{i},dc=g" for i in range(5)], reply
    act("ldap", server=slapd.uri, base="dc=g", filter="(uid=u3)", at_least=2, code=-errno.ENOENT)
    act("ldap", server=slapd.uri, base="dc=g", filter="(uid=*)", at_most=2, code=E_LIMIT)
    act("ldap", server=slapd.uri, base="dc=nowhere", code=0)
    act("ldap", server=slapd.uri, base="dc=nowhere", at_least=1, code=-errno.ENOENT)
    act("ldap", server=slapd.uri, base="dc=g", scope="base", at_least=1, at_most=1)
    act("ldap", server=slapd.uri, base="dc=g", filter="(uid=", code=-errno.EREMOTEIO)

    act("ldap", [("who", "p1"), ("what", "b=c, d")], dn="cn={who},dc=g", set=["description={what}", "mail=a@b", "mail=c@d"], **admin)
    assert slapd.find("(cn=p1)", "description") == ["b=c, d"] and slapd.find("(cn=p1)", "mail") == ["a@b", "c@d"]
    for _ in range(2):  # twice is as once
        act("ldap", dn="cn=p1,dc=g", set=["mail=e@f", "description="], **admin)
        assert slapd.find("(cn=p1)", "description") == [] and slapd.find("(cn=p1)", "mail") == ["e@f"]
    act("ldap", dn="cn=p9,dc=g", set="description=x", code=-errno.ENOENT, **admin)
    act("ldap", dn="cn=p1,dc=g", set="description=x", server=slapd.uri, code=-errno.EACCES)
    act("ldap", dn="cn=p1,dc=g", set="description=x", code=-errno.EACCES,
        **dict(admin, password_file=secret(work, "wrong", "falsch")))
    act("ldap", dn="cn=p1,dc=g", set="noSuchThing=x", code=-errno.EREMOTEIO, **admin)
    for wrong in ({"base": "dc=g", "dn": "dc=g", "set": "a=b"}, {"dn": "dc=g"}, {"base": "no dn"}, {"base": "dc=g", "scope": "all"},
                  {"dn": "dc=g", "set": "(x)=y"}, {"base": "dc=g", "bind_dn": "cn=x"}):
        act("ldap", server=slapd.uri, code=-errno.EINVAL, **wrong)
    # In the clear to another host: not even tried.
    act("ldap", base="dc=g", code=-errno.EINVAL, **dict(admin, server="ldap://192.0.2.1"))


def case_ldap_injection(work):
    slapd = Slapd(work)
    admin = {"server": slapd.uri, "bind_dn": "cn=admin,dc=g", "password_file": secret(work, "password", "secret")}
    before = slapd.find("(objectClass=*)")
    for value in CORPUS:
        if len(value) > 10_000:
            continue
        # No value finds what it is not: of uids there are u0 to u4.
        for template in ("(uid={v})", "(|(uid={v})(uid={v|json}))", "(&(uid={v|url})(cn=*))"):
            act("ldap", [("v", value)], server=slapd.uri, base="dc=g", filter=template, at_most=0)
        # Nor does one leave the entry that it is to name: there is none of that name.
        p = subprocess.run([ACT], input=request("ldap", dict(admin, dn="cn={v},dc=g", set="description=evil"), [("v", value)]),
                           stdout=subprocess.PIPE)
        assert Reply(p.stdout).code in (-errno.ENOENT, -errno.EINVAL, -errno.EREMOTEIO), (value, Reply(p.stdout))
    assert slapd.find("(description=evil)") == [] and slapd.find("(objectClass=*)") == before
    # As a value it is written as it is.
    for value in CORPUS:
        if 0 < len(value) < 1000 and b"\0" not in value and utf8(value).encode() == value and value.strip(b" "):
            act("ldap", [("v", value)], dn="cn=p2,dc=g", set="description={v}", **admin)
            act("ldap", [("v", value)], server=slapd.uri, base="dc=g", filter="(description={v})", at_least=1, at_most=1)


def case_ldap_away(work):
    act("ldap", server=f"ldap://127.0.0.1:{free_port()}", base="dc=g", code=-errno.EAGAIN)
    with socket.create_server(("127.0.0.1", 0)) as hung:  # takes the connection, and says nothing
        begin = time.monotonic()
        act("ldap", server=f"ldap://127.0.0.1:{hung.getsockname()[1]}", base="dc=g", left_s=1, code=-errno.ETIMEDOUT)
        assert time.monotonic() - begin >= 1
        p = start([ACT], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        p.stdin.write(request("ldap", {"server": f"ldap://127.0.0.1:{hung.getsockname()[1]}", "base": "dc=g"}))
        p.stdin.close()
        connections = [hung.accept()[0], hung.accept()[0]]
        connections[1].recv(1)
        p.send_signal(signal.SIGTERM)
        assert Reply(p.stdout.read()).code == -errno.ECANCELED
        p.wait(30)


# ---------------------------------------------------------------- sensor

def case_sensor(work):
    # An address each: of one host and gateway there can be only one agent.
    gateway = Gateway(GATEWAY, work, "gateway", ",".join(["tcp://127.0.0.1:0"] * 2)).start()
    agents = [Agent(AGENT, work, host, [address], "defaults = false\nload { every = 1s }\n").start()
              for host, address in zip(("c0-0", "c0-1"), gateway.addresses)]
    wait_for(lambda: [gateway.state(h) for h in ("c0-0", "c0-1")] == ["live", "live"], "the agents")
    where = {"gateway": "unix:" + gateway.socket}

    def sensors(host):
        return {r["sensor"]: r for r in gateway.rows("sensor", "list", "*", host) if "sensor" in r}

    act("sensor", [("host", "c0-0")], do="start", sensor="cpu", host="{host}", set="every=2s", **where)
    wait_for(lambda: "cpu" in sensors("c0-0"), "the sensor")
    assert "cpu" not in sensors("c0-1")
    reply = act("sensor", do="set", sensor="load", hosts=["c0-*"], set="every=5s", **where)
    assert reply.output.count(b"\n") == 2 and b"c0-0: " in reply.output and b"c0-1: " in reply.output, reply
    act("sensor", [("host", "c0-0")], do="stop", sensor="cpu", host="{host}", **where)
    act("sensor", do="stop", sensor="nonsense", hosts="c0-0", code=-errno.ENOENT, **where)
    # A host's name is no pattern.
    for value in CORPUS:
        p = subprocess.run([ACT], input=request("sensor", {"do": "stop", "sensor": "load", "host": "{host}", **where},
                                                [("host", value)]), stdout=subprocess.PIPE)
        assert Reply(p.stdout).code < 0, (value, Reply(p.stdout))
    for host in ("c0-0", "c0-1"):
        assert "load" in sensors(host), sensors(host)
    for wrong in ({"do": "kill", "host": "x"}, {"do": "stop"}, {"do": "stop", "host": "x", "hosts": "y"},
                  {"do": "set", "host": "x"}, {"do": "stop", "host": "x", "set": "a=b"}, {"do": "set", "host": "x", "set": "a"}):
        act("sensor", sensor="load", code=-errno.EINVAL, **wrong, **where)
    gateway.stop()
    act("sensor", do="stop", sensor="load", hosts="c0-0", left_s=5, code=-errno.EAGAIN, **where)
    for a in agents:
        a.stop()


main(globals(), sys.argv)
