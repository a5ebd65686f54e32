#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# One job of the study: reads /study/input/NAME.dat and writes NAME.out where /study/output points when it starts.
# Run by sbatch with the parameter's name: sbatch -J p001 job.sh p001
#
# Its output has its name only when it is whole: a job that dies leaves NAME.part. Before, NAME.expect says what is
# to come: size and SHA-256. The first line of the input says what becomes of this job, so that the example has
# jobs that fail: ok, exit (with 3), kill, silent (ends well without a result), short (ends well, the result does not).
set -u
name=$1
study=/study
input=$study/input/$name.dat
[ -r "$input" ] || exit 66
read -r fate size < "$input"
place=$(readlink -f $study/output)
out=$place/$name

ended() {
    date +%s.%N > "$study/log/$name.end" # when it died or finished, for the figures of the README
}
trap ended EXIT

result() { # the computation: the input again and again
    yes "$(tail -n +2 "$input")" 2> /dev/null | head -c "$size"
}

case $fate in
exit) exit 3 ;;
kill) ended; kill -9 $$ ;;
silent) exit 0 ;;
esac
sum=$(result | sha256sum | cut -d' ' -f1)
echo "$size $sum" > "$study/log/$name.expect"
[ "$fate" = short ] && size=$((size / 2))
if ! result > "$out.part"; then # the disk is full: others need the room
    rm -f "$out.part"
    exit 75
fi
mv "$out.part" "$out.out"
