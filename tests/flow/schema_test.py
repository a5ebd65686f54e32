#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The class of a field at a real gateway: gridline schema show and set, and WHERE of latest by it.

    schema_test.py CASE GATEWAY

shown   the classes there are, by name and by what was seen
set     one by hand, which stays over a restart and is in the audit"""
import shutil
import sys
import tempfile

sys.dont_write_bytecode = True  # the tree stays as it is
from grid import Gateway, run, stop_all, wait_for


def begin(work):
    g = Gateway(sys.argv[2], work, "gateway", "tcp://127.0.0.1:0", settings=[f"archive.dir={work}/archive"]).start()
    return publish(g)


def publish(g):
    run(g.command, "log", "--to", "unix:" + g.socket, "rpc.call", "status=17", "latency=12", "job_id=9")
    wait_for(lambda: g.gridline("schema", "show", "rpc.call", check=False).returncode == 0, "its schema is known")
    return g


def field(g, name):
    return next(r for r in g.rows("schema", "show", "rpc.call") if r["field"] == name)


def shown(work):
    g = begin(work)
    assert (field(g, "job_id")["class"], field(g, "job_id")["by"]) == ("text", "by name"), field(g, "job_id")
    assert field(g, "latency")["class"] == "number", field(g, "latency")
    assert g.gridline("schema", "show", "nothing", check=False).returncode == 3
    assert len(g.rows("latest", "--where", "job_id = '9' AND job_id = 9 AND latency = '12' AND \"latency:text\" LIKE '1_'")) == 1
    assert g.gridline("latest", "--where", "\"job_id:number\" > 9", check=False).stdout == ""
    for words, code in ((("set", "rpc.call", "status", "int"), 2), (("set", "rpc.call"), 2), (("put",), 2)):
        out = g.gridline("schema", *words, check=False)
        assert out.returncode == code and out.stderr, (words, out)
    g.stop()


def set(work):
    g = begin(work)
    wait_for(lambda: field(g, "status").get("numbers"), "the archive has counted it")
    assert g.gridline("schema", "set", "rpc.call", "nothing", "text", check=False).returncode == 3
    g.gridline("schema", "set", "rpc.call", "status", "text")
    assert (field(g, "status")["class"], field(g, "status")["by"]) == ("text", "by hand"), field(g, "status")
    assert len(g.rows("latest", "--where", "status = '17' AND status < '2'")) == 1
    assert [e for e in g.events("control") if "schema.set" in str(e)], "it is in the audit"
    g.stop()
    publish(g.start())  # the directory knows a schema when an event of it comes
    assert (field(g, "status")["class"], field(g, "status")["by"]) == ("text", "by hand"), "kept over a restart"
    g.stop()


cases = {f.__name__: f for f in (shown, set)}
folder = tempfile.mkdtemp()
try:
    cases[sys.argv[1]](folder)
finally:
    stop_all()
    shutil.rmtree(folder, ignore_errors=True)
