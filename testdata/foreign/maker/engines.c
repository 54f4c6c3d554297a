//go:build ignore

// Makes directories of RocksDB and LMDB below argv[1].
#include <lmdb.h>
#include <rocksdb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(const char *what, const char *error) {
	if (error) {
		fprintf(stderr, "%s: %s\n", what, error);
		exit(1);
	}
}

static void rocks(const char *dir) {
	char *error = NULL;
	rocksdb_options_t *o = rocksdb_options_create();
	rocksdb_options_set_create_if_missing(o, 1);
	rocksdb_options_set_compression(o, rocksdb_no_compression);
	rocksdb_t *db = rocksdb_open(o, dir, &error);
	check("open", error);
	rocksdb_writeoptions_t *w = rocksdb_writeoptions_create();
	rocksdb_flushoptions_t *f = rocksdb_flushoptions_create();
	for (int i = 0; i < 40; i++) {
		char key[20], value[20];
		int n = sprintf(key, "key %04d", i), m = sprintf(value, "value %d", i);
		if (i == 20) {
			rocksdb_flush(db, f, &error);
			check("flush", error);
		}
		rocksdb_put(db, w, key, n, value, m, &error);
		check("put", error);
	}
	rocksdb_close(db);
}

static void lmdb(const char *dir) {
	MDB_env *env;
	MDB_txn *tx;
	MDB_dbi dbi;
	MDB_val key = {3, "key"}, value = {5, "value"};
	int e = mdb_env_create(&env);
	if (!e) e = mdb_env_open(env, dir, 0, 0644);
	if (!e) e = mdb_txn_begin(env, NULL, 0, &tx);
	if (!e) e = mdb_dbi_open(tx, NULL, 0, &dbi);
	if (!e) e = mdb_put(tx, dbi, &key, &value, 0);
	if (!e) e = mdb_txn_commit(tx);
	check("lmdb", e ? mdb_strerror(e) : NULL);
	mdb_env_close(env);
}

int main(int argc, char **argv) {
	char path[4096];
	if (argc < 2) return 2;
	snprintf(path, sizeof path, "%s/rocksdb", argv[1]);
	rocks(path);
	snprintf(path, sizeof path, "%s/lmdb", argv[1]);
	lmdb(path);
	return 0;
}
