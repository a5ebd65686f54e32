#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The viewer's part of a real gateway: its files and their headers, signing in, the live connection.

    viewer_test.py CASE GRIDLINE GATEWAY GUARD"""
import glob
import gzip
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
import http.client

from grid import start, stop, stop_all, wait_for

GRIDLINE, GATEWAY, GUARD = sys.argv[2:5]
sites = []


class Site:
    def __init__(self, work, *settings):
        self.work, self.socket = work, work + "/g.sock"
        ready = work + "/ready"
        argv = [GATEWAY, "--listen", "tcp://127.0.0.1:0", "--state-dir", work + "/state", "--ready-file", ready,
                "-s", "http=127.0.0.1:0", "-s", "socket=" + self.socket]
        for s in settings:
            argv += ["-s", s]
        self.log = open(work + "/log", "ab")
        self.process = start(argv, stderr=self.log)
        wait_for(lambda: self.process.poll() is not None or (os.path.exists(ready) and os.path.getsize(ready)), "the gateway")
        assert self.process.poll() is None, open(work + "/log").read()
        with open(ready) as f:
            lines = f.read().split()
        self.native, self.url = lines[0], lines[-1]
        self.host, _, port = self.url.split("://")[1].rpartition(":")
        self.port = int(port)
        with open(work + "/state/http.token") as f:
            self.token = f.read().strip()
        sites.append(self)

    def stop(self):
        code = stop(self.process)
        self.log.close()
        assert code == 0, code

    def ask(self, path, method="GET", body=None, token=False, **headers):
        """Status, headers, body."""
        c = http.client.HTTPConnection(self.host, self.port, timeout=60)
        headers = {k.replace("_", "-"): v for k, v in headers.items()}
        if token:
            headers["Authorization"] = "Bearer " + self.token
        c.request(method, path, body, headers)
        r = c.getresponse()
        try:
            return r.status, r.headers, r.read()
        finally:
            c.close()

    def json(self, path, status=200, **more):
        got, _, body = self.ask(path, **more)
        assert got == status, (path, got, body[:500])
        return json.loads(body)

    def rows(self, table):
        """0 while there is no such table yet."""
        status, _, body = self.ask(f"/api/v1/sql?q=SELECT+count(*)+FROM+{table}", token=True)
        assert status == 200 or b"no such table" in body, (status, body)
        return json.loads(body)["rows"][0][0] if status == 200 else 0

    def control(self, verb, status=200, token=True, **args):
        return self.json("/api/v1/control", status, method="POST", token=token, body=json.dumps({"verb": verb, "args": args}),
                         Content_Type="application/json")

    def publish(self, events):
        text = "".join(json.dumps(e) + "\n" for e in events)
        got = self.json("/api/v1/events", method="POST", token=True, body=text, Content_Type="application/x-ndjson")
        assert got["taken"] == len(events), got

    def key(self):
        """As a person gets it."""
        said = subprocess.run([GRIDLINE, "viewer", "--gateway", "unix:" + self.socket], capture_output=True, text=True, check=False)
        assert said.returncode == 0 and "once" in said.stderr, said
        address = said.stdout.strip()
        assert address.startswith(self.url + "/#key="), address
        return address.split("#key=")[1]

    def sign_in(self, key, status=200, kind="application/json", **more):
        return self.ask("/api/v1/session", "POST", json.dumps({"key": key}), Content_Type=kind, **more)


# ---------------------------------------------------------------- files

def case_files(work):
    """The page and its files: what they are, who may frame or run them, what may be kept."""
    site = Site(work)
    status, head, page = site.ask("/")
    assert status == 200 and b"gridline" in page and head["Content-Type"] == "text/html; charset=utf-8"
    policy = head["Content-Security-Policy"]
    for part in ("default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'",
                 "require-trusted-types-for 'script'"):
        assert part in policy, policy
    assert "unsafe" not in policy and "*" not in policy, policy
    assert head["X-Content-Type-Options"] == "nosniff" and head["Referrer-Policy"] == "no-referrer"
    assert head["Cross-Origin-Opener-Policy"] == head["Cross-Origin-Resource-Policy"] == "same-origin"
    assert head["Cache-Control"] == "no-cache"
    # what the client has is not sent again
    status, again, body = site.ask("/", If_None_Match=head["ETag"])
    assert status == 304 and body == b"" and again["ETag"] == head["ETag"], (status, body)
    assert site.ask("/", If_None_Match='"other"')[0] == 200
    assert site.ask("/index.html")[2] == page
    status, packed, body = site.ask("/", Accept_Encoding="br, gzip;q=0.9")
    assert status == 200 and (packed["Content-Encoding"] != "gzip" or gzip.decompress(body) == page)
    assert packed["Vary"] == "Accept-Encoding"
    assert site.ask("/", Accept_Encoding="gzip;q=0")[1]["Content-Encoding"] is None
    assert site.ask("/", If_None_Match=packed["ETag"])[0] == 304
    # the files that the page names
    for name in ["/" + name for name in re.findall(r"app-[0-9a-zA-Z]+\.(?:js|css)", page.decode())]:
        status, head, body = site.ask(name)
        assert status == 200 and "immutable" in head["Cache-Control"], (name, status)
        status, head, small = site.ask(name, Accept_Encoding="gzip")
        assert head["Content-Encoding"] == "gzip" and gzip.decompress(small) == body and head["ETag"].startswith("W/")
    # nothing else, however it is written
    for path in ("/app.js", "/favicon.ico", "/..", "/../state/http.token", "/%2e%2e/state/http.token", "/..%2fstate%2fhttp.token",
                 "/etc/passwd", "//", "/index.html/", "/.git"):
        status, head, body = site.ask(path)
        assert status in (400, 404), (path, status, body)
    # a token that is nobody's does not keep anybody from the page; a link from elsewhere leads to it, nothing else does
    assert site.ask("/", Cookie="gridline-token=old")[0] == 200
    assert site.ask("/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate", Sec_Fetch_Dest="document")[0] == 200
    assert site.ask("/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate", Sec_Fetch_Dest="iframe")[0] == 403
    assert site.ask("/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="no-cors", Sec_Fetch_Dest="script")[0] == 403
    assert site.ask("/api/v1/access", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate", Sec_Fetch_Dest="document")[0] == 403
    assert site.ask("/", Host="evil.example")[0] == 421
    assert site.ask("/", "POST", "x")[0] == 405


def case_packed(work):
    """Tiles, results and rows are packed for who takes that, and are the same."""
    site = Site(work, "archive.dir=" + work + "/archive")
    site.publish([{"time": time.time(), "name": "x.a", "host": f"h{i}", "n": i} for i in range(200)])
    ask = lambda path, **headers: site.ask(path, token=True, **headers)
    wait_for(lambda: site.rows("x_a") == 200, "the events")
    level = 20
    index = time.time_ns() // (256 * 4**level)
    for path in (f"/api/v1/tile/points/x.*/{level}/{index}", "/api/v1/sql?q=SELECT+host,n+FROM+x_a+ORDER+BY+n", "/api/v1/latest"):
        status, head, plain = ask(path)
        assert status == 200 and head["Content-Encoding"] is None and len(plain) > 1024, (path, status, len(plain))
        status, head, packed = ask(path, Accept_Encoding="deflate, gzip, br")
        assert head["Content-Encoding"] == "gzip" and "Accept-Encoding" in head["Vary"] and int(head["Content-Length"]) == len(packed)
        assert gzip.decompress(packed) == plain and len(packed) < len(plain), path
        if head["ETag"]:
            assert head["ETag"].startswith('W/"') and ask(path, If_None_Match=head["ETag"])[0] == 304
    assert ask("/api/v1/sql?q=SELECT+1", Accept_Encoding="gzip")[1]["Content-Encoding"] is None, "too short to be worth it"


def case_folder(work):
    """viewer_dir: a folder's files, and nothing beside or behind them. viewer = false: nothing."""
    folder = work + "/page"
    os.mkdir(folder)
    os.mkdir(folder + "/inner")
    for name, text in (("index.html", "<title>mine</title>"), ("a-1.js", "let x = 1"), (".hidden", "no"), ("inner/x.js", "no")):
        with open(f"{folder}/{name}", "w") as f:
            f.write(text)
    with open(work + "/secret", "w") as f:
        f.write("no")
    os.symlink(work + "/secret", folder + "/link.js")
    os.mkfifo(folder + "/pipe.js")
    site = Site(work, "viewer_dir=" + folder)
    status, head, body = site.ask("/")
    assert (status, body, head["Content-Type"]) == (200, b"<title>mine</title>", "text/html; charset=utf-8")
    assert "script-src 'self'" in head["Content-Security-Policy"]
    status, head, body = site.ask("/a-1.js")
    assert (status, body, head["Content-Type"]) == (200, b"let x = 1", "text/javascript; charset=utf-8")
    assert site.ask("/a-1.js", If_None_Match=head["ETag"])[0] == 304
    with open(folder + "/a-1.js", "w") as f:
        f.write("let x = 2")
    assert site.ask("/a-1.js", If_None_Match=head["ETag"])[2] == b"let x = 2"
    for path in ("/.hidden", "/link.js", "/pipe.js", "/inner", "/inner/x.js", "/inner%2fx.js", "/..", "/../secret", "/%2e%2e/secret",
                 "/..%2fsecret", "/none.js", "/" + "a" * 300, "/a-1.js%00"):
        status, _, body = site.ask(path)
        assert status in (400, 404) and b'"no"' not in body and body != b"no", (path, status, body)
    site.stop()
    sites.remove(site)
    os.unlink(work + "/ready")
    site = Site(work, "viewer=false")
    assert site.ask("/")[0] == 404
    assert "viewer = false" in site.control("viewer.key", 404)["detail"]
    bad = subprocess.run([GATEWAY, "--state-dir", work + "/n", "--listen", "tcp://127.0.0.1:0", "-s", "http=127.0.0.1:0",
                          "-s", "viewer_dir=" + work + "/none"], capture_output=True, text=True, check=False)
    assert bad.returncode == 1 and "viewer_dir" in bad.stderr, bad


# ---------------------------------------------------------------- signing in

def case_sign_in(work):
    """A key works once, from the person to the page; the cookie is who asked for it, and no script's."""
    site = Site(work)
    me = site.json("/api/v1/session")
    assert me["kind"] == "local" and not me["signed_in"] and "control" not in me["may"], me
    key = site.key()
    status, head, body = site.sign_in(key)
    assert status == 200, body
    me = json.loads(body)
    assert me["signed_in"] and me["kind"] == "owner" and {"control", "query", "lookup"} <= set(me["may"]), me
    cookie = head["Set-Cookie"]
    value, *flags = cookie.split("; ")
    assert value.startswith("gridline-token=") and {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(flags), cookie
    assert "Secure" not in flags, "it came by plain HTTP"
    assert site.token not in cookie and key not in cookie
    # what it is good for
    mine = {"Cookie": "a=b; " + value}
    assert site.json("/api/v1/session", **mine)["kind"] == "owner"
    assert site.json("/api/v1/sql?q=SELECT+1", **mine)["rows"] == [[1]]
    body = json.dumps({"verb": "status"})
    assert site.ask("/api/v1/control", "POST", body, Content_Type="application/json", **mine)[0] == 200
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", None):
        more = {"Content_Type": kind} if kind else {}
        assert site.ask("/api/v1/control", "POST", body, **more, **mine)[0] == 415, kind
    assert site.ask("/api/v1/control", "POST", body, token=True)[0] == 200, "who has a token is no browser"
    assert site.ask("/api/v1/control", "POST", body, Content_Type="application/json", Origin="http://evil.example", **mine)[0] == 403
    # once
    status, head, _ = site.sign_in(key)
    assert status == 401 and head["Set-Cookie"] is None
    for wrong in ("", "x", key[:-1], key + "x", "A" * 43, value.split("=")[1], site.token):
        assert site.sign_in(wrong)[0] == 401, wrong
    fresh = site.key()
    assert site.sign_in(fresh, kind="text/plain")[0] == 415
    assert site.ask("/api/v1/session", "POST", "{", Content_Type="application/json")[0] == 400
    assert site.sign_in(fresh, Origin="http://evil.example")[0] == 403
    assert site.sign_in(fresh, Cookie="gridline-token=old")[0] == 200, "an old cookie keeps nobody out"
    # out
    status, head, body = site.ask("/api/v1/session", "DELETE", **mine)
    assert status == 200 and not json.loads(body)["signed_in"] and "Max-Age=0" in head["Set-Cookie"]
    assert site.ask("/api/v1/sql?q=SELECT+1", **mine)[0] == 401
    assert site.json("/api/v1/session", **mine)["signed_in"] is False
    assert site.ask("/", **mine)[0] == 200


def case_keys_are_bounded(work):
    """More keys than are kept: the oldest of the same person is of no use any more, the newest is."""
    site = Site(work)
    keys = [site.control("viewer.key")["rows"][0]["address"].split("#key=")[1] for _ in range(9)]
    assert len(set(keys)) == 9
    assert site.sign_in(keys[0])[0] == 401
    assert site.sign_in(keys[1])[0] == 200
    assert site.sign_in(keys[8])[0] == 200
    # who is only somebody on this host gets a key for that, and no more by it
    made = site.control("viewer.key", token=False)
    status, _, body = site.sign_in(made["rows"][0]["address"].split("#key=")[1])
    assert status == 200 and json.loads(body)["kind"] == "local", body


def case_sessions_restart(work):
    """Who is signed in still is when the gateway comes back, however it went: asked to, or killed. Who signed out stays out, and of a
    file that is damaged or that others may read nothing is taken: it is said once, and the gateway starts."""
    def again(signal=None):
        nonlocal site
        if signal:
            site.process.send_signal(signal)
            site.process.wait()
            site.log.close()
        else:
            site.stop()
        sites.remove(site)
        os.unlink(work + "/ready")
        site = Site(work)

    def cookie():
        status, head, body = site.sign_in(site.key())
        assert status == 200, body
        return {"Cookie": head["Set-Cookie"].split("; ")[0]}

    def is_in(mine):
        return site.json("/api/v1/session", **mine)["signed_in"]

    def said(text):
        with open(work + "/log") as f:
            return f.read().count(text)

    site = Site(work)
    file = work + "/state/http.sessions"
    mine, other, key = cookie(), cookie(), site.key()
    assert os.stat(file).st_mode & 0o7777 == 0o600
    with open(file, "rb") as f:
        kept = f.read()
    for secret in (mine, other):
        assert secret["Cookie"].split("=")[1].encode() not in kept, "a hash is enough"
    again()
    assert is_in(mine) and is_in(other) and site.json("/api/v1/session", **mine)["kind"] == "owner"
    assert site.json("/api/v1/sql?q=SELECT+1", **mine)["rows"] == [[1]]
    assert site.sign_in(key)[0] == 401, "a key is not kept"
    again(signal.SIGKILL)
    assert is_in(mine)
    newest = cookie()
    assert site.ask("/api/v1/session", "DELETE", **mine)[0] == 200
    again(signal.SIGKILL)
    assert is_in(newest) and is_in(other) and not is_in(mine), "what was answered is kept"
    # another token of the owner does not end what came by the socket
    os.unlink(work + "/state/http.token")
    again()
    assert is_in(newest)
    # others may read it
    os.chmod(file, 0o644)
    again()
    assert not is_in(newest) and said("others may read or write it") == 1
    newest = cookie()
    assert os.stat(file).st_mode & 0o7777 == 0o600
    again()
    assert is_in(newest) and said("others may read or write it") == 1
    # damaged
    with open(file, "r+b") as f:
        f.seek(90)
        f.write(b"x")
    again()
    assert not is_in(newest) and said("it is damaged") == 1
    newest = cookie()
    again()
    assert is_in(newest) and said("it is damaged") == 1
    # what can't be written ends with the gateway, and is said
    os.unlink(file)
    os.mkdir(file)
    again()
    newest = cookie()
    assert is_in(newest) and said("will not be after a restart") == 1
    assert is_in(cookie()) and said("will not be after a restart") == 1
    again()
    assert not is_in(newest)


# ---------------------------------------------------------------- live

class Live:
    """The live connection: its frames, as docs/http.md has them."""

    def __init__(self, site, body, query="", headers=None, room=None):
        self.socket = socket.socket()
        if room:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
        self.socket.settimeout(60)
        self.socket.connect((site.host, site.port))
        text = json.dumps(body).encode()
        head = {"Host": f"{site.host}:{site.port}", "Content-Type": "application/json", "Content-Length": str(len(text)),
                "Authorization": "Bearer " + site.token, **(headers or {})}
        self.socket.sendall(f"POST /api/v1/live{query} HTTP/1.1\r\n".encode()
                            + "".join(f"{k}: {v}\r\n" for k, v in head.items() if v).encode() + b"\r\n" + text)
        self.answer = http.client.HTTPResponse(self.socket, method="POST")

    def begin(self):
        self.answer.begin()
        assert self.answer.status == 200, (self.answer.status, self.answer.read())
        assert self.answer.headers["Content-Type"] == "application/vnd.gridline.live"
        return self

    def frame(self):
        """lane, kind, payload"""
        n, lane, kind, zero = struct.unpack("<IHBB", self.read(8))
        assert zero == 0 and n < 1 << 20, (n, lane, kind, zero)
        return lane, kind, self.read(n)

    def read(self, n):
        data = b""
        while len(data) < n:
            more = self.answer.read(n - len(data))
            assert more, "the stream has ended"
            data += more
        return data

    def tile(self, lane=None):
        while True:
            got, kind, payload = self.frame()
            if kind == 1 and lane in (None, got):
                assert payload[:4] == b"GLT1" and struct.unpack_from("<I", payload, 44)[0] == len(payload)
                return payload
            assert kind != 2 or b"status" not in payload, payload

    def note(self, member):
        while True:
            lane, kind, payload = self.frame()
            if kind == 2 and member in json.loads(payload):
                return lane, json.loads(payload)

    def close(self):
        self.answer.close()
        self.socket.close()


def lane(number, kind="points", name="x.*", level=16, **params):
    return {"lane": number, "kind": kind, "name": name, "level": level, "params": params}


def index_of(tile):
    return struct.unpack_from("<q", tile, 16)[0]


def now_events(n, name="x.a", **more):
    return [{"time": time.time(), "name": name, "host": "h", "n": i, **more} for i in range(n)]


def case_live(work):
    """What comes is pushed: the tile that holds now, when it changed, the same bytes that its address gives."""
    site = Site(work, "archive.dir=" + work + "/archive")
    site.publish(now_events(3))
    live = Live(site, {"lanes": [lane(1), lane(9, "series", "x.a", field="n")], "every": "50ms"}).begin()
    number, hello = live.note("every_ms")
    assert number == 0 and hello == {"lanes": 2, "every_ms": 50}, hello
    seen = set()
    while seen != {1, 9}:
        number, kind, payload = live.frame()
        if kind == 1:
            seen.add(number)
    site.publish(now_events(2))
    level = 16
    wait_for_tile = lambda check: next(t for t in iter(lambda: live.tile(1), None) if check(t))
    asked = lambda tile: site.ask(f"/api/v1/tile/points/x.*/{level}/{index_of(tile)}", token=True)[2]
    tile = wait_for_tile(lambda t: t == asked(t))
    assert struct.unpack_from("<H", tile, 10)[0] & 1, "it is open"
    span = 256 * 4 ** level
    assert abs(index_of(tile) - time.time_ns() // span) <= 1
    # as it grows, so does the picture
    before = len(tile)
    site.publish(now_events(50, host="other"))
    tile = wait_for_tile(lambda t: len(t) > before)
    live.close()


def case_live_quiet(work):
    """Where nothing happens there is a sign of life all the same, also with ticks that are longer than that."""
    site = Site(work, "archive.dir=" + work + "/archive")
    live = Live(site, {"lanes": [lane(1)], "every": "1m"}).begin()
    while True:
        frame = live.frame()
        if frame[1] == 3:
            break
        assert frame[1] == 2 or frame[0] == 1, frame
    assert frame == (0, 3, b""), frame
    live.close()


def case_live_sse(work):
    """The same for curl: text, a message for each change."""
    site = Site(work, "archive.dir=" + work + "/archive")
    site.publish(now_events(3))
    lanes = json.dumps([lane(4)]).replace(" ", "")
    said = subprocess.Popen(["curl", "-sN", "-G", "-H", "Authorization: Bearer " + site.token, "--data-urlencode", "lanes=" + lanes,
                             "--data-urlencode", "format=sse", "--data-urlencode", "every=100ms", site.url + "/api/v1/live"],
                            stdout=subprocess.PIPE, text=True)
    try:
        kinds = []
        for line in said.stdout:
            if line.startswith("event: "):
                kinds.append(line.split()[1])
            if line.startswith("data: ") and kinds[-1] == "tile":
                tile = json.loads(line[6:])
                assert tile["lane"] == 4 and tile["tile"]["kind"] == "points" and tile["tile"]["open"], tile
                break
        assert kinds[0] == "note" and kinds[-1] == "tile", kinds
    finally:
        said.terminate()
        said.wait()


def case_live_wrong(work):
    """Who may not, what is wrong, and what is wrong with one lane alone."""
    site = Site(work, "archive.dir=" + work + "/archive")
    site.publish(now_events(1))

    def status(body, query="", **headers):
        live = Live(site, body, query, headers)
        live.answer.begin()
        code = live.answer.status
        live.close()
        return code

    good = {"lanes": [lane(1)]}
    assert status(good, Authorization=None) == 403, "a local program may look at the directory alone"
    assert status(good, Authorization="Bearer nobody") == 401
    assert status(good, Origin="http://evil.example") == 403
    assert status(good, Cookie="gridline-token=" + site.token, Authorization=None, **{"Content-Type": "text/plain"}) == 415
    assert status(good, "?format=xml") == status(good, "?more=1") == status({}) == status({"lanes": []}) == 400
    assert status({"lanes": [lane(i) for i in range(1, 34)]}) == 400
    assert status({"lanes": [lane(1), lane(1)]}) == 400
    assert site.ask("/api/v1/live", token=True)[0] == 400
    # a lane that can't be had says so, once; the others go on
    live = Live(site, {"lanes": [lane(1, "series", "none", field="n"), lane(2, "pie"), lane(3)], "every": "50ms"}).begin()
    got = {}
    while len(got) < 3:
        number, kind, payload = live.frame()
        if number:
            got.setdefault(number, []).append(kind)
            assert kind == 1 or json.loads(payload)["lane"] == number
    assert got[1] == [2] and got[2] == [2] and got[3] == [1], got
    for _ in range(3):
        site.publish(now_events(1))
        number, kind, payload = live.frame()
        assert (number, kind) == (3, 1), (number, kind, payload)
    live.close()
    # a session that is ended ends its connections
    key = site.key()
    _, head, _ = site.sign_in(key)
    cookie = head["Set-Cookie"].split("; ")[0]
    live = Live(site, {"lanes": [lane(1)], "every": "50ms"}, headers={"Authorization": None, "Cookie": cookie}).begin()
    live.tile(1)
    site.ask("/api/v1/session", "DELETE", Cookie=cookie)
    while live.answer.read(4096):
        pass
    live.close()
    # and without an archive there is nothing to follow
    site.stop()
    sites.remove(site)
    os.unlink(work + "/ready")
    site = Site(work, "archive.dir=")
    assert site.ask("/api/v1/live", "POST", json.dumps(good), token=True, Content_Type="application/json")[0] == 404


def rss(process):
    with open(f"/proc/{process.pid}/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def case_live_slow(work):
    """A client that does not read is sent the newest state when it reads again, and told how many ticks were skipped; nothing is
    queued for it meanwhile, and others are as fast as before."""
    site = Site(work, "archive.dir=" + work + "/archive")
    lanes = [lane(i, name=f"x.a{i}") for i in range(1, 33)]
    slow = Live(site, {"lanes": lanes, "every": "50ms"}, room=4096).begin()
    other = Live(site, {"lanes": [lane(1, name="x.a1")], "every": "50ms"}).begin()
    n = 0

    def publish(rounds):
        nonlocal n
        for _ in range(rounds):
            site.publish([{"time": time.time(), "name": f"x.a{i}", "host": f"h{k}", "id": f"{n}-{i}-{k}"} for i in range(1, 33)
                          for k in range(20)])
            n += 1
            other.tile(1)  # each round is seen by who reads
    publish(10)
    first = rss(site.process)
    publish(20)
    grown = rss(site.process) - first
    # 32 lanes of 20 rounds that change would be some 20 MiB if they were queued; events in memory are a few.
    with open(f"/proc/{site.process.pid}/maps") as f:
        assert grown < 12 << 20 or "libasan" in f.read(), grown  # which keeps what is freed
    skipped = 0
    newest = {}
    deadline = time.time() + 60
    while time.time() < deadline:
        number, kind, payload = slow.frame()
        if kind == 2 and number == 0:
            skipped += json.loads(payload).get("skipped", 0)
        if kind == 1:
            newest[number] = payload
        if skipped and len(newest) == 32 and all(str(n - 1).encode() + b"-" in t for t in newest.values()):
            break
    assert skipped and len(newest) == 32, (skipped, len(newest))
    for number in (1, 17, 32):
        assert str(n - 1).encode() + b"-" in newest[number], "it is not the newest"
    slow.close()
    other.close()


# ---------------------------------------------------------------- rules

RULE = """rule low {
    query = "SELECT host, free FROM space_latest WHERE free < 100"
    key = {"host"}  every = "10s"  for = "30s"  clear_for = "30s"  fresh = "1m"
    summary = "{host} has {free}"
}
"""


def case_rule_test(work):
    """A rule over what is archived, by its text or by its name: when it would have fired and cleared; bounded, and the owner's."""
    began = int(time.time()) - 3600
    site = Site(work, "archive.dir=" + work + "/archive")
    site.publish([{"time": began + t, "name": "space", "host": "a", "prog": "df", "free": 50 if 600 <= t < 1200 else 500}
                  for t in range(0, 1800, 10)])
    wait_for(lambda: site.rows("space") == 180, "the events")
    verbs = {v["verb"]: v["action"] for v in site.json("/api/v1/control", token=True)["rows"]}
    assert verbs["rule.test"] == "test"
    assert "rule.test" not in {v["verb"] for v in site.json("/api/v1/control")["rows"]}

    def check(got):
        deeds = [r for r in got["rows"] if "what" in r]
        assert [d["what"] for d in deeds] == ["fires", "clears"], got
        assert deeds[0]["summary"] == "a has 50" and 560 <= deeds[1]["lasted_s"] <= 640, deeds
        total = [r for r in got["rows"] if "tested" in r]
        assert len(total) == 1 and total[0]["tested"] and total[0]["fires"] == 1, total
        assert got["end"]["status"] == "done" and got["end"]["rows"] == len(got["rows"]), got["end"]

    span = {"from": began * 10**9, "to": (began + 1800) * 10**9}
    check(site.control("rule.test", text=RULE, **span))
    assert site.control("rule.test", 403, token=False, text=RULE, **span)["status"] == 403
    assert "query" in site.control("rule.test", 400, text="rule x { }", **span)["detail"]
    assert "rule" in site.control("rule.test", 400, **span)["detail"]
    site.control("rule.test", 400, text=RULE, **{"from": "yester day", "to": span["to"]})
    site.control("rule.test", 400, text=RULE, **{"from": "x" * 100})
    site.control("rule.test", 404, rule="low", **span)
    partly = site.control("rule.test", text=RULE.replace("space_latest", "nothing_latest"), **span)
    assert partly["end"]["status"] == "partly" and partly["rows"][-1]["tested"] is False and partly["rows"][-1]["why"], partly
    # what a guard has, by its name: without its actions, which are not run and not needed
    with open(work + "/guard.conf", "w") as f:
        f.write("log note { }\n" + RULE.replace("summary", 'trust = {"space"}  on_fire = {"note"}  summary'))
    guard = start([GUARD, "--config", work + "/guard.conf", "-s", "gateway=" + "unix:" + site.socket, "-s", "agent=", "-s", "default_rules=false",
                   "-s", "state_dir=" + work + "/guard", "-s", "run_dir=" + work + "/guard-run", "-s", "hostname=g"], stderr=site.log)
    rows = lambda: site.json("/api/v1/sql?q=SELECT+query,text,evaluated,every_ms,guard+FROM+rules+WHERE+rule='low'", token=True)["rows"]
    wait_for(lambda: guard.poll() is not None or rows(), "the rule at the gateway", 120)
    query, text, evaluated, every, name = rows()[0]
    assert "space_latest" in query and "on_fire" not in text and text.count("rule ") == 1 and every == 10000, (query, text)
    check(site.control("rule.test", rule="low", guard=name, **span))
    site.control("rule.test", 404, rule="low", guard="other", **span)
    assert stop(guard) == 0


def case_rule_test_ends(work):
    """A client that leaves ends the test; one runs at a time; when the gateway ends so does the test."""
    site = Site(work, "archive.dir=" + work + "/archive")
    site.publish(now_events(10))
    wait_for(lambda: site.rows("x_a") == 10, "the events")
    # 10 ms a round over a day: it would take minutes
    slow = 'rule slow { query = "SELECT count(*) AS n FROM x_a_latest, x_a_latest AS b"  key = {"n"}  every = "100ms"  place = "here" }'
    body = json.dumps({"verb": "rule.test", "args": {"text": slow, "from": "now-30d"}}).encode()

    def begin():
        s = socket.create_connection((site.host, site.port), timeout=60)
        s.sendall(f"POST /api/v1/control HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {site.token}\r\n"
                  f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        return s

    def tests():
        return [p for p in glob.glob("/proc/[0-9]*/cmdline") if work + "/archive" in text_of(p) and "rule" in text_of(p)]

    def text_of(path):
        try:
            with open(path) as f:
                return f.read()
        except OSError:
            return ""
    one = begin()
    wait_for(lambda: tests(), "the test")
    assert site.control("rule.test", 503, text=slow)["status"] == 503
    one.close()
    wait_for(lambda: not tests(), "its end")
    two = begin()
    wait_for(lambda: tests(), "the next test")
    site.stop()
    sites.remove(site)
    assert not tests()
    two.close()


def main():
    work = tempfile.mkdtemp(prefix="gridline-viewer-")
    try:
        globals()["case_" + sys.argv[1]](work)
        for site in sites:
            site.stop()
    except BaseException:
        print("the files are in", work)
        if os.path.exists(work + "/log"):
            print(open(work + "/log").read()[-3000:])
        raise
    stop_all()
    shutil.rmtree(work)


main()
