#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gridline init, token and join as the manual has them, what they write against openssl(1), and what the signer that init
makes is good for.

    site_test.py GRIDLINE        everything is in temporary folders"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

GRIDLINE = os.path.abspath(sys.argv[1])
WORK = tempfile.mkdtemp(prefix="gridline-site-")
SITE = WORK + "/site"


def run(*arguments, code=0, stdin=None):
    done = subprocess.run([GRIDLINE, *arguments], input=stdin, capture_output=True, text=True, timeout=60,
                          env={**os.environ, "HOME": WORK + "/home", "GRIDLINE_IDENTITY": ""})
    if done.returncode != code:
        raise SystemExit(f"{arguments}: exit code {done.returncode}, not {code}: {done.stdout}{done.stderr}")
    return done


def openssl(*arguments, data=None):
    return subprocess.run(["openssl", *arguments], input=data, capture_output=True, timeout=60)


def says(text, *parts):
    for part in parts:
        if not re.search(part, text):
            raise SystemExit(f"{text!r} does not say {part!r}")


def modes():
    """Every file and folder of the site, and the home folder's identity, for their owner alone."""
    for top in (SITE, WORK + "/home/.config/gridline/identity"):
        for folder, _, files in os.walk(top):
            if os.stat(folder).st_mode & 0o077:
                raise SystemExit(f"{folder} is open to others")
            for name in files:
                if name == "key.pem" and os.stat(f"{folder}/{name}").st_mode & 0o777 != 0o600:
                    raise SystemExit(f"{folder}/{name} can be read by others")


def init():
    says(run("init", "--dir", SITE, "--name", "gw1", "--host", "gw.example.org", "--host", "192.0.2.1", "--operator",
             "ann").stderr, "made the site in", "gridline token", "gridline join", "tls://gw.example.org")
    before = openssl("x509", "-in", SITE + "/ca/cert.pem", "-outform", "DER").stdout
    says(run("init", "--dir", SITE, code=1).stderr, "left as it is")
    if openssl("x509", "-in", SITE + "/ca/cert.pem", "-outform", "DER").stdout != before:
        raise SystemExit("init made the CA again")
    run("init", "--dir", WORK + "/bad", "--name", "no name", code=2)
    if os.path.exists(WORK + "/bad"):
        raise SystemExit("a failed init left something")
    modes()


def certificates():
    for path, purpose in ((SITE, "sslserver"), (SITE, "sslclient"), (WORK + "/home/.config/gridline/identity", "sslclient")):
        done = openssl("verify", "-CAfile", SITE + "/ca.pem", "-purpose", purpose, path + "/cert.pem")
        if done.returncode:
            raise SystemExit(f"{path} for {purpose}: {done.stderr.decode()}")
    text = openssl("x509", "-in", SITE + "/cert.pem", "-noout", "-ext", "subjectAltName,extendedKeyUsage").stdout.decode()
    says(text, "URI:gridline:gateway/gw1", "DNS:gw.example.org", "IP Address:192.0.2.1", "Server Auth", "Client Auth")
    text = openssl("x509", "-in", WORK + "/home/.config/gridline/identity/cert.pem", "-noout", "-ext",
                   "subjectAltName").stdout.decode()
    says(text, "URI:gridline:operator/ann")


def signer():
    """What init's signer signs passes where the CA's agents look: usage codeSigning, and no role."""
    with open(WORK + "/document", "wb") as f:
        f.write(b"cpu { every = 1s }\n")
    done = openssl("cms", "-sign", "-binary", "-outform", "DER", "-in", WORK + "/document", "-signer",
                   SITE + "/signer/cert.pem", "-inkey", SITE + "/signer/key.pem", "-out", WORK + "/document.sig")
    if done.returncode:
        raise SystemExit(done.stderr.decode())
    done = openssl("cms", "-verify", "-binary", "-inform", "DER", "-in", WORK + "/document.sig", "-content",
                   WORK + "/document", "-CAfile", SITE + "/ca.pem", "-purpose", "any", "-out", "/dev/null")
    if done.returncode:
        raise SystemExit(done.stderr.decode())
    text = openssl("x509", "-in", SITE + "/signer/cert.pem", "-noout", "-ext", "extendedKeyUsage").stdout.decode()
    says(text, "Code Signing")


def tokens():
    for arguments in ((), ("--host", "a", "--operator", "b"), ("--host", "a b"), ("--host", "a", "--ttl", "99d")):
        run("token", "--dir", SITE, *arguments, code=2)
    says(run("token", "--dir", WORK + "/none", "--host", "a", code=1).stderr, "can't open")
    token = run("token", "--dir", SITE, "--host", "node1", "--gateway", "tls://127.0.0.1:1").stdout.strip()
    says(token, "^gl1_[A-Za-z0-9_-]{100,}$")
    if len(os.listdir(SITE + "/tokens")) != 1 or token in open(f"{SITE}/tokens/{os.listdir(SITE + '/tokens')[0]}").read():
        raise SystemExit("the token is not kept as one hash")
    return token


def joins(token):
    folder = WORK + "/node1"
    says(run("join", "nonsense", "--dir", folder, code=1).stderr, "this is no token")
    says(run("join", token[:-3], "--dir", folder, code=1).stderr, "not a whole token")
    says(run("join", "-", "--dir", folder, code=1, stdin=token + "\n").stderr, "can't reach the gateway at 127.0.0.1:1")
    says(run("join", "-", "--dir", folder, code=1, stdin="").stderr, "no token on standard input")
    if os.path.exists(folder + "/key.pem"):
        raise SystemExit("a join that failed left a key")


try:
    init()
    certificates()
    signer()
    joins(tokens())
finally:
    shutil.rmtree(WORK)
