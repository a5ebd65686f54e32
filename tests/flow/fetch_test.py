#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Configuration by HTTP(S): remote_config (fetch_probe.c) and gridline-helper against servers of this test.

    fetch_test.py SCENARIO PROBE HELPER

Certificates are made by openssl(1) in a temporary folder. Waits for lines of the probe and requests at the server, never
for a time. Nothing is left running."""

import base64
import http.server
import os
import queue
import shutil
import ssl
import subprocess
import sys
import tempfile
import threading
import time

LIMIT_S = 60
EVERY_MS = "20"
PROBE, HELPER, WORK = "", "", ""


def expect(is_true, what):
    if not is_true:
        raise AssertionError(what)


def until(condition, what):
    end = time.monotonic() + LIMIT_S
    while not condition():
        expect(time.monotonic() < end, f"gave up waiting for {what}")
        time.sleep(0.005)


class Server:
    """Serves self.files (path -> bytes, or a number: that status, or a text: a redirection there) with ETags."""

    def __init__(self, tls=None):
        self.files, self.requests, self.hang = {}, [], threading.Event()
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                server.answer(self)

            def log_message(self, *_):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.http.handle_error = lambda *_: None  # a client that hangs up is what some of these test
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self.http.socket = context.wrap_socket(self.http.socket, server_side=True)
        self.scheme = "https" if tls else "http"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def url(self, path="/agent.conf", host="127.0.0.1", user=""):
        return f"{self.scheme}://{user}{host}:{self.http.server_address[1]}{path}"

    def answer(self, request):
        path = request.path.split("?")[0]
        known = request.headers.get("If-None-Match")
        body = self.files.get(path, 404)
        if body == "hang":
            self.requests.append((path, 0, request.headers))
            self.hang.wait(LIMIT_S)
            return
        if isinstance(body, str):
            status, headers, data = 302, {"Location": body}, b""
        elif isinstance(body, int):
            status, headers, data = body, {}, b"no such thing"
        else:
            etag = f'"{hash(body) & 0xffffffff:x}"'
            status, data = (304, b"") if known == etag else (200, body)
            headers = {"ETag": etag}
        self.requests.append((path, status, request.headers))
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name, value)
        if status != 304:
            request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        request.wfile.write(data)

    def statuses(self, path="/agent.conf"):
        return [s for p, s, _ in self.requests if p == path]


class Probe:
    def __init__(self, url, ca="", every=EVERY_MS):
        environment = dict(os.environ, GRIDLINE_HELPER=HELPER, no_proxy="*")
        self.process = subprocess.Popen([PROBE, url, ca, every], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env=environment)
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line.rstrip("\n"))

    def line(self):
        return self.lines.get(timeout=LIMIT_S)

    def ask(self):
        self.process.stdin.write("ask\n")
        self.process.stdin.flush()

    def end(self, code=0):
        self.process.stdin.close()
        got = self.process.wait(timeout=LIMIT_S)
        expect(got == code, f"the probe ended with {got}")


def first_line(server, ca="", path="/agent.conf", **address):
    probe = Probe(server.url(path, **address), ca)
    line = probe.line()
    probe.end()
    return line


def openssl(*arguments, data=None):
    return subprocess.run(["openssl", *arguments], check=True, cwd=WORK, input=data, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE).stdout


def make_ca(name):
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
            f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem", "-addext", "basicConstraints=critical,CA:TRUE")
    return os.path.join(WORK, name + ".pem")


def make_certificate(name, ca, extensions):
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}", "-keyout",
            f"{name}.key", "-out", f"{name}.csr")
    with open(os.path.join(WORK, name + ".ext"), "w", encoding="utf-8") as f:
        f.write("basicConstraints=CA:FALSE\n" + extensions)
    openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{ca}.pem", "-CAkey", f"{ca}.key", "-CAcreateserial", "-days",
            "2", "-extfile", f"{name}.ext", "-out", f"{name}.pem")
    return os.path.join(WORK, name + ".pem"), os.path.join(WORK, name + ".key")


def sign(document, name, *more):
    return openssl("cms", "-sign", "-binary", "-outform", "DER", "-signer", f"{name}.pem", "-inkey", f"{name}.key", *more,
                   data=document)


def plain():
    server = Server()
    server.files["/agent.conf"] = b"cpu { every = 1s }\nrest\n"
    probe = Probe(server.url())
    expect(probe.line() == "document signed=0 24 bytes: cpu { every = 1s }", "the document")
    until(lambda: server.statuses().count(304) >= 3, "questions answered with: not changed")
    expect(server.statuses()[0] == 200 and server.statuses().count(200) == 1, f"statuses {server.statuses()}")
    expect(probe.lines.empty(), "an unchanged document was given again")
    server.files["/agent.conf"] = b"other\n"
    expect(probe.line() == "document signed=0 6 bytes: other", "the changed document")
    probe.ask()
    expect(probe.line() == "document signed=0 6 bytes: other", "asked for: given though it is the same")
    server.files["/agent.conf"] = b""
    expect(probe.line() == "document signed=0 0 bytes: ", "an empty document is one")
    probe.end()
    expect("/agent.conf.sig" not in [p for p, _, _ in server.requests], "without a CA no signature is asked for")


def failures():
    server = Server()
    at = server.url()
    server.files["/agent.conf"] = 500
    probe = Probe(at)
    line = probe.line()
    expect(line.endswith(f"{at}: the server answered 500"), line)
    probe.ask()
    expect(probe.line() == line, "asked for: told though it is the same")
    server.files["/agent.conf"] = b"good\n"
    probe.ask()
    expect(probe.line() == "document signed=0 5 bytes: good", "good again")
    probe.end()
    expect(first_line(server, path="/none").endswith("the server answered 404"), "404")
    server.files["/long"] = bytes(1 << 20)
    expect(first_line(server, path="/long").startswith("document signed=0 1048576 bytes"), "1 MiB")
    server.files["/long"] = bytes((1 << 20) + 1)
    expect("longer than 1048576 bytes" in first_line(server, path="/long"), "more than 1 MiB")
    server.files["/loop"] = server.url("/loop")
    expect("redirects" in first_line(server, path="/loop"), "redirected for ever")
    server.files["/there"] = server.url("/agent.conf")
    expect(first_line(server, path="/there") == "document signed=0 5 bytes: good", "redirected once")
    server.files["/file"] = "file:///etc/passwd"
    expect(first_line(server, path="/file").startswith("failed "), "redirected to a file")
    server.http.server_close()
    server.http.shutdown()
    expect(first_line(server).startswith("failed "), "nobody listens")
    probe = Probe("file:///etc/passwd")
    expect(probe.line() == "failed: config_url: an address begins with http:// or https://", "no web address")
    probe.end(1)


def secrets():
    """User and password go to the server, and appear neither in messages nor in arguments."""
    server = Server()
    server.files["/agent.conf"] = "hang"
    probe = Probe(server.url(user="joe:secret@"), every="1000000")
    until(lambda: server.requests, "the question")
    expect(base64.b64decode(server.requests[0][2]["Authorization"].split()[1]) == b"joe:secret", "the password")
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                words = f.read().split(b"\0")
        except OSError:
            continue
        if words[0] == HELPER.encode():
            expect(b"secret" not in b" ".join(words), "the password is in the helper's arguments")
    probe.end()  # in the middle of a question
    server.hang.set()
    server.files["/agent.conf"] = 403
    line = first_line(server, user="joe:secret@")
    expect(line.endswith(f"{server.url()}: the server answered 403"), line)


def signatures():
    ca = make_ca("site")
    make_ca("stranger")
    make_certificate("signer", "site", "extendedKeyUsage=codeSigning\n")
    make_certificate("agent", "site", "extendedKeyUsage=clientAuth,serverAuth\n")
    make_certificate("nothing", "site", "")
    make_certificate("foreign", "stranger", "extendedKeyUsage=codeSigning\n")
    server = Server()
    document = b"exec disk { command = {\"/bin/true\"} }\r\nbinary \x00\xff\n"
    server.files["/agent.conf"] = document
    signed = f"document signed=1 {len(document)} bytes: "

    probe = Probe(server.url(), ca)
    expect(probe.line().startswith("document signed=0 "), "no signature there")
    server.files["/agent.conf.sig"] = sign(document, "signer")  # it comes later, the document stays
    expect(probe.line().startswith(signed), "signed now")
    until(lambda: 304 in server.statuses(), "its ETag to be used")
    server.files["/agent.conf"] = document + b"x"  # its signature is not there yet
    expect("the signature is not good" in probe.line(), "another document's signature")
    probe.ask()
    expect("the signature is not good" in probe.line(), "it stays so")
    server.files["/agent.conf.sig"] = sign(document + b"x", "signer")
    probe.ask()
    expect(probe.line().startswith(f"document signed=1 {len(document) + 1} bytes: "), "good again")
    probe.end()

    server.files["/agent.conf"] = document
    cases = {
        "the CA itself": (sign(document, "site"), signed),
        "a key for TLS": (sign(document, "agent"), "codeSigning"),
        "a key for nothing": (sign(document, "nothing"), "codeSigning"),
        "another CA": (sign(document, "foreign"), "the signature is not good"),
        "content of its own": (sign(b"something else", "signer", "-nodetach"), "not a detached one"),
        "its content": (sign(document, "signer", "-nodetach"), "not a detached one"),
        "two signers": (sign(document, "signer", "-signer", "agent.pem", "-inkey", "agent.key"), "codeSigning"),
        "garbage": (b"garbage", "no CMS"),
        "nothing at all": (b"", "no CMS"),
        "cut": (sign(document, "signer")[:-9], "no CMS"),
        "too long": (bytes(100000), "longer than 65536 bytes"),
        "a server that fails": (503, "its signature: the server answered 503"),
        "gone": (410, "document signed=0 "),
    }
    for what, (signature, expected) in cases.items():
        server.files["/agent.conf.sig"] = signature
        line = first_line(server, ca)
        expect(expected in line, f"{what}: {line}")
    server.files["/agent.conf.sig"] = sign(document, "signer")
    expect(first_line(server, ca, path="/agent.conf?host=a").startswith(signed), "an address with a query")
    expect("no certificates can be read" in first_line(server, os.path.join(WORK, "none.pem")), "no CA file")


def https():
    ca = make_ca("site")
    make_ca("stranger")
    good = make_certificate("web", "site", "subjectAltName=IP:127.0.0.1\n")
    other = make_certificate("other", "site", "subjectAltName=DNS:other.example\n")
    make_certificate("signer", "site", "extendedKeyUsage=codeSigning\n")
    server = Server(good)
    server.files["/agent.conf"] = b"secure\n"
    expect(first_line(server, ca) == "document signed=0 7 bytes: secure", "a certificate of the site's CA")
    server.files["/agent.conf.sig"] = sign(b"secure\n", "signer")
    expect(first_line(server, ca) == "document signed=1 7 bytes: secure", "and a signature")
    expect("certificate" in first_line(server), "a certificate of no CA that is known")
    expect("certificate" in first_line(server, os.path.join(WORK, "stranger.pem")), "of another CA")
    plain_server = Server()
    plain_server.files["/agent.conf"] = b"unsafe\n"
    server.files["/down"] = plain_server.url()
    expect(first_line(server, ca, path="/down").startswith("failed "), "from https to http")
    expect(not plain_server.requests, "it was followed")
    wrong = Server(other)
    wrong.files["/agent.conf"] = b"secure\n"
    expect(first_line(wrong, ca).startswith("failed "), "a certificate for another name")


def main():
    global PROBE, HELPER, WORK
    scenario, PROBE, HELPER = sys.argv[1], os.path.realpath(sys.argv[2]), os.path.realpath(sys.argv[3])
    WORK = tempfile.mkdtemp(prefix="gridline-fetch.")
    try:
        {"plain": plain, "failures": failures, "secrets": secrets, "signatures": signatures, "https": https}[scenario]()
    finally:
        shutil.rmtree(WORK)
    return 0


if __name__ == "__main__":
    sys.exit(main())
