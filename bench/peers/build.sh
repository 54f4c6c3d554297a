#!/bin/sh
# Builds kvbench with the peers: build.sh PROGRAM. An engine whose C++ library
# is not there and cannot be installed is left out, with a line that says so.
set -eu
case $1 in /*) out=$1 ;; *) out=$PWD/$1 ;; esac
go=${GO:-go}
cd "$(dirname "$0")"
tags=
CGO_CFLAGS=${CGO_CFLAGS:--O2 -g}
CGO_CXXFLAGS=${CGO_CXXFLAGS:--O2 -g}
CGO_LDFLAGS=${CGO_LDFLAGS:-}

# there PREFIX LIBRARY HEADER: whether a program that uses the library links.
there() {
	dir=$(mktemp -d)
	printf '#include <%s>\nint main(void) { return 0; }\n' "$3" >"$dir/t.c"
	paths=
	[ -z "$1" ] || paths="-I$1/include -L$1/lib"
	# shellcheck disable=SC2086
	if ${CC:-cc} $paths -o "$dir/t" "$dir/t.c" "-l$2" >/dev/null 2>&1; then r=0; else r=1; fi
	rm -rf "$dir"
	return $r
}

# install ENGINE PACKAGE: where the user may do that.
install() {
	[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 0
	echo "$1: installing $2"
	apt-get install -y "$2" >/dev/null 2>&1 || { apt-get update && apt-get install -y "$2"; } >/dev/null 2>&1 || true
}

# header NAME: whether the compiler finds it.
header() { printf '#include <%s>\n' "$1" | ${CC:-cc} -E - >/dev/null 2>&1; }

# add ENGINE PREFIX HEADER PACKAGE [LIBRARY]
add() {
	library=${5:-$1}
	there "$2" "$library" "$3" || [ -n "$2" ] || install "$1" "$4"
	if ! there "$2" "$library" "$3"; then
		echo "$1: left out: no library${2:+ in $2} (Debian has it in $4; another build can be named, see the Makefile)"
		return
	fi
	tags="$tags $1"
	if [ -n "$2" ]; then
		CGO_CFLAGS="$CGO_CFLAGS -I$2/include"
		CGO_CXXFLAGS="$CGO_CXXFLAGS -I$2/include"
		CGO_LDFLAGS="$CGO_LDFLAGS -L$2/lib -Wl,-rpath,$2/lib"
	fi
}

# own ENGINE PREFIX: a line about a library that the user named.
own() { [ -z "$2" ] || echo "$1: WARNING: the library is your own build, in $2: its figures are not those of a release"; }

if command -v "${CC:-cc}" >/dev/null; then
	own leveldb "${LEVELDB:-}"
	own rocksdb "${ROCKSDB:-}"
	own lmdb "${LMDB:-}"
	own sqlite "${SQLITE:-}"
	add leveldb "${LEVELDB:-}" leveldb/c.h libleveldb-dev
	if [ -z "${ROCKSDB:-}" ]; then # the release build, with the system's headers
		header rocksdb/c.h || install rocksdb librocksdb-dev
		release=$(cd ../.. && pwd)/build/rocksdb
		if CGO_ENABLED=0 "$go" run ./rocksdb/release "$release" && there "$release" rocksdb rocksdb/c.h; then
			ROCKSDB=$release
			# It exports a snappy of its own: LevelDB's comes first.
			! there "" :libsnappy.so.1 stddef.h || CGO_LDFLAGS="$CGO_LDFLAGS -Wl,--push-state,--no-as-needed -l:libsnappy.so.1 -Wl,--pop-state"
		fi
	fi
	add rocksdb "${ROCKSDB:-}" rocksdb/c.h librocksdb-dev
	add lmdb "${LMDB:-}" lmdb.h liblmdb-dev
	add sqlite "${SQLITE:-}" sqlite3.h libsqlite3-dev sqlite3
	export CGO_ENABLED=1
else
	echo "leveldb, rocksdb, lmdb, sqlite: left out: no C compiler; Pebble's cache lies on the Go heap"
	export CGO_ENABLED=0
fi
export CGO_CFLAGS CGO_CXXFLAGS CGO_LDFLAGS
mkdir -p "$(dirname "$out")"
"$go" build -ldflags "${STAMP:-}" -tags "$tags" -o "$out" ./kvbench-peers
