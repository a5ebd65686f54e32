#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The Fortran module and the header in C++: compiles the examples, runs them, and looks at the lines they wrote.
# A compiler that is not there is a skipped test (77).
#
# usage: compiled_bindings.sh fortran|c++ SOURCE LIBRARY
set -eu
language=$1 source=$2 library=$(realpath "$3")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
log=$work/log.ulm

fail() {
    echo "$language: $1" >&2
    cat "$log" >&2
    exit 1
}
expect() { # COUNT PATTERN…: that many lines match all patterns
    count=$1
    shift
    cp "$log" left
    for pattern in "$@"; do
        grep -E -e "$pattern" left >next || true
        mv next left
    done
    [ "$(wc -l <left)" -eq "$count" ] || fail "$(wc -l <left) lines, not $count, have: $*"
}

rpath=-Wl,-rpath,$(dirname "$library")
case $language in
fortran)
    command -v gfortran >/dev/null || exit 77
    gfortran -std=f2018 -Wall -Wextra -Werror "$source/bindings/fortran/gridline.f90" \
        "$source/bindings/fortran/example.f90" "$library" "$rpath" -o example
    ./example "$log"
    expect 6 'PROG=example.f90'
    expect 1 'NL.EVNT=solve.start' ' id=1' ' method=Newton( |$)'
    expect 4 'NL.EVNT=solve.step' 'LVL=Notice' ' residual='
    expect 1 'NL.EVNT=solve.step' ' step=4' ' converged=' 'true'
    expect 1 'NL.EVNT=solve.end' ' flops=5000000000' ' x=1\.41421356' ' single=0\.5'
    ;;
c++)
    command -v g++ >/dev/null || exit 77
    g++ -std=c++17 -Wall -Wextra -Wpedantic -Werror -I"$source/include" "$source/examples/cpp_example.cc" "$library" \
        "$rpath" -o example
    ./example "$log"
    expect 1 'NL.EVNT=sum.begin'
    expect 3 'NL.EVNT=sum.end' ' file=part-[123]' ' ok=' ' sum='
    expect 1 ' id=3' ' sum=4498500\.0'
    expect 0 ' unit='
    expect 1 'NL.EVNT=sum.done' ' parts=3' ' state=ok'
    expect 1 'NL.EVNT=sum.time' ' count=3' ' wall.ns='
    expect 1 'NL.EVNT=sum.value' ' count=3'
    ;;
*)
    exit 2
    ;;
esac
echo "$language: ok"
