#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# library_test.sh SHARED STATIC: the libraries show the calls of gridline/consumer.h and nothing else, all of them, and need
# nothing but libc.
set -eu
shared=$1 static=$2
header=$(dirname "$0")/../../../include/gridline/consumer.h

shown=$(nm -D --defined-only "$shared" | awk '$2 == "T" {sub(/@.*/, "", $3); print $3}' | sort)
said=$(grep -o 'gridline_\(consumer\|item\|query\)_[a-z_]*(' "$header" | tr -d '(' | sort -u)
[ "$shown" = "$said" ] || { echo "the shared library shows:"; echo "$shown"; echo "the header says:"; echo "$said"; exit 1; }

open=$(nm --defined-only --extern-only "$static" | awk 'NF == 3 {print $3}' | sort)
[ "$open" = "$said" ] || { echo "the static library shows:"; echo "$open"; exit 1; }

needed=$(readelf -d "$shared" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -v '^ld-linux\|^\(libc\|libm\|libdl\|libpthread\)\.so' || true)
[ -z "$needed" ] || { echo "it needs $needed"; exit 1; }
