#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The example of script/run: four processes, a gateway, and every event of every job is in its journal once.
#
# usage: pipeline.sh PIPELINE HOPS GATEWAY
set -eu
pipeline=$(realpath "$1") hops=$(realpath "$2") gateway=$(realpath "$3")
work=$(mktemp -d)
pid=
finish() {
    [ -z "$pid" ] || kill "$pid" 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT
cd "$work"
jobs=60

"$gateway" --listen "unix:$work/socket" --journal journal --ready-file ready --quiet &
pid=$!
tries=0
until [ -s ready ]; do
    tries=$((tries + 1))
    if [ "$tries" -ge 600 ] || ! kill -0 "$pid"; then
        echo "the gateway did not start" >&2
        exit 1
    fi
    sleep 0.05 # a shell can wait for a file in no other way
done
"$pipeline" -n "$jobs" "unix:$work/socket"
kill "$pid"
wait "$pid" || { echo "the gateway ended with an error" >&2; exit 1; }
pid=

"$gateway" --dump journal --print ulm | grep -v ' PROG=gridline-gateway ' >events.ulm
expected=$((jobs * 6 + 2 + 4)) # six hops a job, two servers' summaries, four processes' own use
[ "$(wc -l <events.ulm)" -eq "$expected" ] || { echo "$(wc -l <events.ulm) events, not $expected" >&2; exit 1; }
"$hops" events.ulm client.send sched.queue sched.dispatch server.start server.end client.recv >table
[ "$(grep -c -- "->.* $jobs " table)" -eq 6 ] || { echo "a hop is not in every job:" >&2; cat table >&2; exit 1; }
if grep -E -- '->.* -[0-9]' table; then
    echo "an effect before its cause" >&2
    exit 1
fi
