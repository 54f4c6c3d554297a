#!/bin/sh
# engines.sh DIR: makes the directories of RocksDB, LMDB and SQLite in DIR. It needs the libraries
# rocksdb and lmdb with their headers, and the program sqlite3.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cc -o "$work/engines" "$here/engines.c" -lrocksdb -llmdb
rm -rf "$1/rocksdb" "$1/lmdb" "$1/sqlite"
mkdir -p "$1/lmdb" "$1/sqlite"
"$work/engines" "$1"
sqlite3 "$1/sqlite/data" "create table t (k primary key, v); insert into t values ('key', 'value');"
chmod -R u+rw,go+r "$1"
