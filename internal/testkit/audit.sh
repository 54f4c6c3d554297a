#!/bin/sh
# Audits what the project depends on: checksums of the Go modules, and known
# vulnerabilities of Go, Python and Node packages. A tool or database that
# cannot be had is said in a line and is no failure; a vulnerability is one.
#
# usage: internal/testkit/audit.sh, from the project's directory. GO, PYTHON.
set -u
go=${GO:-go} python=${PYTHON:-python3}
out=$PWD/build/audit
modules=". internal/testkit/interop bench/peers examples/ethdb examples/otel raftlog replica s3 tikv bench/raftlog bench/oltp bench/replicas importers"
requirements="bindings/python/requirements/build.txt bindings/python/requirements/test.txt bindings/python/requirements/freeze.txt internal/testkit/interop/peers/requirements.txt"
locks="bindings/node bench/bindings/node internal/testkit/interop/peers"
mkdir -p "$out"
bad=0 undone=0

ok() { echo "ok    $*"; }
fail() { echo "BAD   $*"; bad=1; sed 's/^/      /' "$out/said"; }
# What was said may hold progress bars; its last lines tell the cause.
skip() { echo "not   $*"; undone=1; tail -n 2 "$out/said" | cut -c1-200 | sed 's/^/      /'; }

for m in $modules; do
	if (cd "$m" && "$go" mod verify) >"$out/said" 2>&1; then
		ok "go mod verify: $m"
	elif grep -q 'SECURITY ERROR\|has been modified' "$out/said"; then
		fail "go mod verify: $m"
	else
		skip "go mod verify: $m"
	fi
done

if ! GOBIN="$out" "$go" install golang.org/x/vuln/cmd/govulncheck@v1.1.4 >"$out/said" 2>&1; then
	skip "govulncheck cannot be installed"
else
	for m in $modules; do
		(cd "$m" && "$out/govulncheck" ./...) >"$out/said" 2>&1
		case $? in
		0) ok "govulncheck: $m" ;;
		3) fail "govulncheck: $m" ;;
		*) skip "govulncheck: $m" ;;
		esac
	done
fi

if ! { "$python" -m venv "$out/venv" && "$out/venv/bin/pip" install -q --disable-pip-version-check pip-audit==2.10.1; } >"$out/said" 2>&1; then
	skip "pip-audit cannot be installed"
else
	for r in $requirements; do
		if "$out/venv/bin/pip-audit" --progress-spinner off --strict --require-hashes --disable-pip -r "$r" >"$out/said" 2>&1; then
			ok "pip-audit: $r"
		elif grep -q 'Found [0-9]* known vulnerabilit' "$out/said"; then
			fail "pip-audit: $r"
		else
			skip "pip-audit: $r"
		fi
	done
fi

for d in $locks; do
	if (cd "$d" && npm audit --package-lock-only) >"$out/said" 2>&1; then
		ok "npm audit: $d"
	elif grep -q '[0-9] vulnerabilit\|Severity:' "$out/said"; then
		fail "npm audit: $d"
	else
		skip "npm audit: $d"
	fi
done

[ "$undone" = 0 ] || echo "lines that begin with \"not\" were not done: their tool or its database was out of reach"
exit "$bad"
