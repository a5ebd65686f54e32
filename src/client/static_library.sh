#!/bin/sh
# static_library.sh OUT DIR CLIENT OTHERS...: one object of all of CLIENT and what it needs of OTHERS, hidden symbols
# made local, in the archive OUT. DIR is for what lies between.
set -eu
out=$1 dir=$2 client=$3
shift 3
mkdir -p "$dir"
${LD:-ld} -r -o "$dir/all.o" --whole-archive "$client" --no-whole-archive --start-group "$@" --end-group
${OBJCOPY:-objcopy} --localize-hidden "$dir/all.o" "$dir/gridline.o"
rm -f "$out"
${AR:-ar} rcs "$out" "$dir/gridline.o"
