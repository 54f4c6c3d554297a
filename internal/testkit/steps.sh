#!/bin/sh
# steps.sh LANE...: runs make test-STEP for all steps. A lane is steps, which run one after the
# other; lanes run side by side. Every step runs, also after one that failed; the last line says
# how it went.
# MAKE is make, LEFT_OUT the steps left out for lack of programs.
set -u
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
MAKE=${MAKE:-make}

# took STEP SECONDS CPU STATUS notes how a step went.
took() {
	echo ", $1 $2 s ($3 of processors)" >>"$out/times"
	[ "$4" = 0 ] || echo " $1" >>"$out/failed"
}

# cpu STEP is the processor time of the lane's steps, in seconds.
cpu() {
	times >"$out/$1.cpu" # here: a pipe would be a process of its own, without children
	awk 'NR == 2 { split($1, u, "[ms]"); split($2, s, "[ms]")
		printf "%d", (u[1] + s[1]) * 60 + u[2] + s[2] }' "$out/$1.cpu"
}

# lane STEP... runs steps, and shows what each printed when it is over.
lane() {
	spent=0
	for step; do
		at=$(date +%s) status=0
		"$MAKE" --no-print-directory "test-$step" >"$out/$step" 2>&1 || status=$?
		cpu "$step" >"$out/$step.spent"
		total=$(cat "$out/$step.spent")
		took "$step" $(($(date +%s) - at)) $((total - spent)) $status
		spent=$total
		{ echo "== $step"; cat "$out/$step"; } >"$out/$step.said"
		cat "$out/$step.said"
	done
}

began=$(date +%s)
for steps; do
	# shellcheck disable=SC2086 # words are steps
	lane $steps &
done
wait
echo "== in all $(($(date +%s) - began)) s$(cat "$out/times" 2>/dev/null | tr -d '\n')"
if [ -s "$out/failed" ]; then
	echo "FAILED:$(tr -d '\n' <"$out/failed"); one step alone: make test-<step>"
	exit 1
fi
echo "all tests passed${LEFT_OUT:+; left out as programs are missing: $LEFT_OUT}"
