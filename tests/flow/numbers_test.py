#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One field, one column, whatever path its values took: sum, count, group by and join against plain Python.

    numbers_test.py CASE GATEWAY

paths    generated spellings, bare and quoted, by ULM, BP and JSON files, and words of `gridline log`; into a gateway and into a folder; live,
         and from files after a restart
later    one status=17 after many status=ok, and one `-` among many numbers, change no answer about the others"""
import collections
import json
import os
import random
import re
import subprocess
import sys

sys.dont_write_bytecode = True  # the tree stays as it is
import grid
from grid import Gateway, wait_for

GATEWAY = sys.argv[2]
GRIDLINE = os.path.join(os.path.dirname(GATEWAY), "gridline")
SPELLINGS = ["17", "-3", "0", "17.0", "1.25", "0.50", ".50", "5.", "+0.25", "1e-05", "1.50E+03", "1.1", "1.10", "2.50",
             "080", "00017", "+4930123", "0x1F", "12e4", "1.2.3", "95%", "-", "n/a", "ok"]
START = 1_790_000_000  # seconds: the time of row 0


def number_of(text):
    """What the design's table says of a bare word, written down again."""
    if re.fullmatch(r"-?(0|[1-9]\d*)", text) and text != "-0":
        return int(text)
    if re.fullmatch(r"[+-]?((0|[1-9]\d*)?\.\d+|(0|[1-9]\d*)\.)([eE][+-]?\d+)?", text) or re.fullmatch(r"[+-]?(0|[1-9]\d*)[eE][+-]\d+", text):
        return float(text)
    return None


def make_rows(seed, n=400):
    """(id, text, is quoted): most of them numbers, so that the class is number."""
    r = random.Random(seed)
    numbers = [s for s in SPELLINGS if number_of(s) is not None]
    return [(i, r.choice(numbers) if r.random() < 0.8 else r.choice(SPELLINGS), r.random() < 0.15) for i in range(n)]


def iso(i):
    import datetime
    return datetime.datetime.fromtimestamp(START + i, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.000000Z")


def ulm(name, rows):
    day = lambda i: re.sub(r"[-:TZ]", "", iso(i))
    return "".join(f'DATE={day(i)} HOST=h PROG=p LVL=Info NL.EVNT={name} id={i} v=' + (f'"{v}"' if q else v) + "\n" for i, v, q in rows)


def bp(name, rows):
    return "".join(f'ts={iso(i)} event={name} level=Info host=h prog=p id={i} v=' + (f'"{v}"' if q else v) + "\n" for i, v, q in rows)


def ndjson(name, rows):
    is_json = lambda v: re.fullmatch(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", v)
    return "".join(f'{{"time":"{iso(i)}","host":"h","prog":"p","name":"{name}","id":{i},"v":' +
                   (v if is_json(v) and not q else json.dumps(v)) + "}\n" for i, v, q in rows)


def json_rows(rows):
    """As JSON has them: what is no JSON number is a string."""
    return [(i, v, q or not re.fullmatch(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", v)) for i, v, q in rows]


def expected(rows, is_json=False):
    numbers = {}
    for i, v, q in rows:
        n = None if q and not (not is_json and "+" in v) else number_of(v)
        if is_json and not q and n is None:
            n = float(v)  # JSON says that it is one: 12e4
        if n is not None:
            numbers[i] = n
    return numbers


def ask(where, statement):
    out = subprocess.run([GRIDLINE, "sql", "--format", "json", "--rows", "100000", *where, statement], capture_output=True, text=True)
    assert out.returncode == 0, out
    return json.loads(out.stdout)["rows"]


def check(where, table, rows, is_json=False):
    want = expected(rows, is_json)
    got = ask(where, f'SELECT count(*), count(v), total(v), count("v:text") FROM {table}')[0]
    assert got[0] == len(rows) and got[3] == len(rows), (table, got)
    wrong = [(i, v, q) for (i, v, q), r in zip(rows, ask(where, f'SELECT v, typeof(v) FROM {table} ORDER BY time'))
             if r[0] != want.get(i) or r[1] == "text"]
    assert not wrong, (table, wrong[:5])
    assert got[1] == len(want) and abs(got[2] - sum(want.values())) < 1e-6, (table, got, len(want), sum(want.values()))
    groups = collections.Counter(v for _, v, _ in rows)
    if not is_json:  # a JSON number that is no number as people write them has no spelling
        assert dict(ask(where, f'SELECT "v:text", count(*) FROM {table} GROUP BY 1')) == groups, table
    folded = ask(where, f"SELECT sum(v_count), sum(v_sum) FROM {table}_bucket(NULL, NULL)")[0]
    assert folded[0] == len(want) and abs(folded[1] - sum(want.values())) < 1e-6, (table, folded)
    assert ask(where, f"SELECT count(*) FROM {table} WHERE v >= 1 AND v < 10")[0][0] == sum(1 <= n < 10 for n in want.values())


def check_join(where, tables, n):
    for a, b in zip(tables, tables[1:]):
        assert ask(where, f"SELECT count(*) FROM {a} JOIN {b} USING (id)") == [[n]], (a, b)


def case_paths(work):
    settings = [f"archive.dir={work}/archive", "archive.keep=*=36600d", "http=127.0.0.1:0", "archive.flush=1h"]
    gateway = Gateway(GATEWAY, work, "gateway", "127.0.0.1:0", settings=settings).start()
    where = ("--gateway", "unix:" + gateway.socket)
    seed = int(os.environ.get("GRIDLINE_TEST_SEED", "17"))
    print("seed", seed)
    files = {"n.ulm": ulm, "n.bp": bp, "n.json": ndjson}
    tables, folder = {}, ("--archive", work + "/folder")
    for k, (name, write) in enumerate(files.items()):
        rows = make_rows(seed + k)
        with open(f"{work}/{name}", "w") as f:
            f.write(write(name, rows))
        gateway.gridline("import", f"{work}/{name}")
        subprocess.run([GRIDLINE, "import", *folder, f"{work}/{name}"], check=True, capture_output=True)
        tables[name.replace(".", "_")] = (json_rows(rows) if write is ndjson else rows, write is ndjson)
    rows = [r for r in make_rows(seed + 9, 40) if not r[2]]
    for i, v, _ in rows:
        subprocess.run([GRIDLINE, "log", "--to", "unix:" + gateway.socket, "--time", iso(i), "n.words", f"id={i}", f"v={v}"], check=True)
    tables["n_words"] = (rows, False)

    def check_all(where, which):
        for name in which:
            check(where, name, *tables[name])
        check_join(where, [name for name in which if name != "n_words"], 400)

    check_all(where, tables)
    check_all(folder, [name for name in tables if name != "n_words"])
    assert gateway.stop() == 0
    gateway.start()
    check_all(where, tables)  # from the journal again, or from files
    assert gateway.stop() == 0
    check_all(("--archive", work + "/archive"), tables)


def case_later(work):
    gateway = Gateway(GATEWAY, work, "gateway", "127.0.0.1:0",
                      settings=[f"archive.dir={work}/archive", "archive.keep=*=36600d", "archive.flush=1h"]).start()
    where = ("--gateway", "unix:" + gateway.socket)
    with open(work + "/many.ulm", "w") as f:
        for i in range(5000):
            f.write(f"DATE={re.sub(r'[-:TZ]', '', iso(i))} HOST=h PROG=p LVL=Info NL.EVNT=rpc.call status=ok latency={i % 100 / 4:.2f}\n")
    gateway.gridline("import", work + "/many.ulm")
    before = ask(where, "SELECT count(*), avg(latency), sum(status = 'ok') FROM rpc_call")[0]
    for odd in ("status=17", "latency=-"):
        subprocess.run([GRIDLINE, "log", "--to", "unix:" + gateway.socket, "rpc.call", odd], check=True)
    wait_for(lambda: ask(where, "SELECT count(*) FROM rpc_call") == [[5002]], "both")
    after = ask(where, "SELECT count(*), avg(latency), sum(status = 'ok') FROM rpc_call")[0]
    assert after == [before[0] + 2, before[1], before[2]], (before, after)
    assert ask(where, "SELECT status, typeof(status) FROM rpc_call WHERE status <> 'ok'") == [["17", "text"]]
    assert ask(where, "SELECT \"latency:text\" FROM rpc_call WHERE latency IS NULL AND status IS NULL") == [["-"]]
    shown = {r["field"]: r for r in gateway.rows("schema", "show", "rpc.call")}
    assert (shown["status"]["class"], shown["status"]["by"]) == ("text", "decided"), shown
    assert (shown["latency"]["class"], shown["latency"]["by"]) == ("number", "decided"), shown
    assert gateway.stop() == 0


grid.main(globals(), sys.argv)
