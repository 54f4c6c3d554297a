#!/bin/sh
# fuzz.sh TIME: fuzzes every target for so long, as many side by side as there are
# processors, one worker each. What is found goes to testdata/fuzz of its package.
#
# Each package is built once, in its module. What the engine does differs from run to run, so that
# minimizing an input would never end. Coverage guides long runs. The short ones are too
# short for that: they take the build that all other tests have.
set -u
guided=${LOAM_T2:+-fuzz .}
GO=${GO:-go}
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
jobs=$(getconf _NPROCESSORS_ONLN)

grep -rl --include='*_test.go' '^func Fuzz' internal lsm cabi cmd replica | sort | while read -r file; do
	sed -n "s|^func \(Fuzz[A-Za-z0-9_]*\)(.*|$(dirname "$file") \1|p" "$file"
done >"$out/targets"
cut -d' ' -f1 "$out/targets" | uniq | while read -r dir; do
	# shellcheck disable=SC2086 # a flag and its argument, or nothing
	(cd "$dir" && "$GO" test -c $guided -ldflags '-s -w' -o "$out/$(echo "$dir" | tr / -)" .) || exit 1
done || exit 1

# At the end of its time fuzzing now and then fails with "context deadline exceeded"
# and no failing input (golang/go issue 75804): that is no failure.
cat >"$out/one" <<'END'
out=$1 time=$2 cache=$3 dir=$4 target=$5
cd "$dir" || exit 1
said=$("$out/$(echo "$dir" | tr / -)" -test.run '^$' -test.fuzz "^$target\$" -test.fuzztime "$time" -test.fuzzminimizetime 10x \
	-test.fuzzcachedir "$cache/$dir" -test.parallel 1 2>&1) || case "$said" in
	*"Failing input"*) echo "$dir: $said"; exit 1;;
	*"context deadline exceeded"*) ;;
	*) echo "$dir: $said"; exit 1;;
	esac
echo "$said" | sed -n '/elapsed/h; ${x;s|^fuzz: |'"$dir $target "'|p;}'
END
xargs -P "$jobs" -L 1 sh "$out/one" "$out" "$1" "$("$GO" env GOCACHE)/fuzz/$("$GO" list -m)" <"$out/targets"
