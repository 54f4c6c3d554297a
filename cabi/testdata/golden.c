/* Prints the entries of the keyspace argv[2] of the database in argv[1]: each key and value
 * behind its length as a varint. */
#include "check.h"

static void print_bytes(const void *data, size_t len) {
  size_t n = len;
  for (; n >= 128; n >>= 7) putchar((int)(n & 127) | 128);
  putchar((int)n);
  CHECK(fwrite(data, 1, len, stdout) == len, "stdout");
}

int main(int argc, char **argv) {
  char *err = NULL;
  loam_db *db, *keyspace;
  loam_iter *it;
  loam_entry e;
  loam_status s;
  CHECK(argc == 3, "want a directory and a keyspace");
  WANT(LOAM_OK, loam_open(argv[1], NULL, &db, &err));
  if (strcmp(argv[2], "default") == 0) {
    keyspace = db;
  } else {
    WANT(LOAM_OK, loam_keyspace_open(db, argv[2], NULL, &keyspace, &err));
  }
  WANT(LOAM_OK, loam_iter_create(keyspace, NULL, &it, &err));
  for (s = loam_iter_first(it, &e, &err); s == LOAM_OK; s = loam_iter_next(it, &e, &err)) {
    print_bytes(e.key, e.key_len);
    print_bytes(e.value, e.value_len);
  }
  CHECK(s == LOAM_END, "%s: %s", loam_status_name(s), err ? err : "");
  loam_iter_close(it);
  if (keyspace != db) WANT(LOAM_OK, loam_close(keyspace, &err));
  WANT(LOAM_OK, loam_close(db, &err));
  return 0;
}
