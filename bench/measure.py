# SPDX-License-Identifier: Apache-2.0
"""What the Python benches share: the build, the peers' packages, CPU time of a process, and the figure lines."""
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, os.environ.get("GRIDLINE_BUILD", "build"))
short = False


def build(*targets):
    """Everything, or these alone."""
    if not os.path.exists(os.path.join(BUILD, "build.ninja")):
        subprocess.run(["meson", "setup", BUILD, ROOT], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["ninja", "-C", BUILD, "--quiet", *targets], check=True, stdout=subprocess.DEVNULL)


def install(program, package, header=None):
    """The peer, from Debian if it or its library is not here. False when that can't be."""
    def is_here():
        return shutil.which(program) is not None and (not header or os.path.exists("/usr/include/" + header))

    if not is_here():
        print(f"installing {package}", file=sys.stderr)
        env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run("apt-get update -qq && apt-get install -y -qq --no-install-recommends " + package + " >/dev/null",
                       shell=True, env=env)
    return is_here()


def folder():
    """On a disk: /tmp may be memory. The caller uses it with `with`."""
    return tempfile.TemporaryDirectory(prefix="gridline-bench.", dir="/var/tmp")


def memory(pids):
    """PSS and private anonymous memory, in bytes."""
    pss = anonymous = 0
    for pid in pids:
        with open(f"/proc/{pid}/smaps_rollup") as f:
            for line in f:
                if line.startswith("Pss:"):
                    pss += int(line.split()[1]) * 1024
                elif line.startswith("Pss_Anon:"):
                    anonymous += int(line.split()[1]) * 1024
    return pss, anonymous


def tcp_bytes(port):
    """Of connections to the port, both ways, with 52 bytes of IP and TCP head a segment (timestamps on)."""
    out = subprocess.run(["ss", "-tinH", f"dport = :{port}"], stdout=subprocess.PIPE, text=True).stdout
    found = {key: int(value) for key, value in re.findall(r"(bytes_sent|bytes_received|segs_out|segs_in):(\d+)", out)}
    payload = found.get("bytes_sent", 0) + found.get("bytes_received", 0)
    return payload + 52 * (found.get("segs_out", 0) + found.get("segs_in", 0)) if payload else 0


class Used:
    def __init__(self, cpu_s, rss_bytes):
        self.cpu_s, self.rss_bytes = cpu_s, rss_bytes


def run(argv, stdout=subprocess.DEVNULL, env=None):
    """User and system time of the whole process tree (children are waited for by their parent), and the peak
    memory of the largest process."""
    p = subprocess.Popen(argv, stdout=stdout, env={**os.environ, **(env or {})})
    _, status, used = os.wait4(p.pid, 0)
    p.returncode = os.waitstatus_to_exitcode(status)
    if p.returncode != 0:
        raise SystemExit(f"{argv[0]} failed with {p.returncode}")
    return Used(used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)


def interleaved(rounds, contestants, between=None):
    """Each contestant once a round, in turn: {name: [Used, ...]}."""
    results = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, contest in contestants.items():
            if between:
                between()
            results[name].append(contest())
    return results


def median_cpu(results):
    return statistics.median(u.cpu_s for u in results)


def table(rows, head):
    widths = [max(len(str(row[i])) for row in [head] + rows) for i in range(len(head))]
    for row in [head] + rows:
        print("  ".join(str(cell).ljust(w) if i == 0 else str(cell).rjust(w)
                        for i, (cell, w) in enumerate(zip(row, widths))))
    print()


def figure(name, value, relation, goal, reason=None):
    """value None: it could not be measured; reason says why."""
    global short
    if value is None:
        print(f"{name}: not measured: {reason}")
        print(f"figure: {name} - (goal {relation} {goal:g}) short")
        short = True
        return
    good = value >= goal if relation == ">=" else value <= goal
    short = short or not good
    print(f"figure: {name} {value:.4g} (goal {relation} {goal:g}) {'ok' if good else 'short'}")


def rounds_argument(default):
    return int(sys.argv[1]) if len(sys.argv) > 1 else default


def finish():
    sys.exit(1 if short else 0)
