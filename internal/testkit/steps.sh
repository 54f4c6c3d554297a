#!/bin/sh
# steps.sh PHASE...: runs make test-STEP for the steps of all phases, one phase after
# the other. A phase is steps, with a | between those that may run side by side. Every
# step runs, also after one that failed; the last line says how it went.
# MAKE is make, LEFT_OUT the steps that are not among the phases for lack of programs.
set -u
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
MAKE=${MAKE:-make}

# took STEP SECONDS STATUS notes how a step went.
took() {
	echo ", $1 $2 s" >>"$out/times"
	[ "$3" = 0 ] || echo " $1" >>"$out/failed"
}

# lane STEP... runs steps, and shows what each printed when it is over.
lane() {
	for step; do
		at=$(date +%s) status=0
		"$MAKE" --no-print-directory "test-$step" >"$out/$step" 2>&1 || status=$?
		took "$step" $(($(date +%s) - at)) $status
		{ echo "== $step"; cat "$out/$step"; } >"$out/$step.said"
		cat "$out/$step.said"
	done
}

began=$(date +%s)
for phase; do
	case $phase in
	*\|*)
		rest=$phase
		while [ -n "$rest" ]; do
			# shellcheck disable=SC2046,SC2086 # words are steps
			lane ${rest%%|*} &
			case $rest in *\|*) rest=${rest#*|};; *) rest=;; esac
		done
		wait
		;;
	*)
		for step in $phase; do
			echo "== $step"
			at=$(date +%s) status=0
			"$MAKE" --no-print-directory "test-$step" || status=$?
			took "$step" $(($(date +%s) - at)) $status
		done
		;;
	esac
done
echo "== in all $(($(date +%s) - began)) s$(cat "$out/times" 2>/dev/null | tr -d '\n')"
if [ -s "$out/failed" ]; then
	echo "FAILED:$(tr -d '\n' <"$out/failed"); one step alone: make test-<step>"
	exit 1
fi
echo "all tests passed${LEFT_OUT:+; left out as programs are missing: $LEFT_OUT}"
