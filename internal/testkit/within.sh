#!/bin/sh
# within.sh MODULE COMMAND...: runs a command in another module of the repository, in a workspace
# that has also the modules which it replaces by folders of the repository. With -trimpath each
# module would otherwise build its own packages of the engine, as their paths have its version.
set -eu
root=$PWD module=$1
shift
work=$root/build/work/$(echo "$module" | tr / -).work
mkdir -p "$root/build/work"
{
	grep '^go ' go.mod
	cd "$module"
	for dir in . $(sed -n 's|.* => \(\.\..*\)|\1|p' go.mod); do
		echo "use $(cd "$dir" && pwd)"
	done
} >"$work.$$"
mv "$work.$$" "$work"
cd "$root/$module"
GOWORK=$work exec "$@"
