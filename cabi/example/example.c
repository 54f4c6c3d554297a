/* A first program with Loam: cc example.c $(pkg-config --cflags --libs loam). */
#include <loam.h>

#include <stdio.h>
#include <string.h>

/* Ends the program's work with the message of a failed call. */
static int failed(const char *what, loam_status status, char *err) {
  fprintf(stderr, "%s: %s\n", what, err ? err : loam_status_string(status));
  loam_free(err);
  return 1;
}

int main(int argc, char **argv) {
  const char *path = argc > 1 ? argv[1] : "example.db";
  char *err = NULL;
  loam_status s;

  loam_options *options;
  if ((s = loam_options_create(&options, &err)) != LOAM_OK) return failed("options", s, err);
  if ((s = loam_options_set(options, "cache_size", "32MiB", &err)) != LOAM_OK) {
    return failed("cache_size", s, err);
  }

  loam_db *db;
  if ((s = loam_open(path, options, &db, &err)) != LOAM_OK) return failed("open", s, err);
  loam_options_close(options);

  /* One key. */
  loam_write_options durable = {sizeof durable, LOAM_SYNC};
  if ((s = loam_put(db, &durable, "apple", 5, "red", 3, NULL, &err)) != LOAM_OK) {
    return failed("put", s, err);
  }
  char value[64];
  size_t len;
  if ((s = loam_get(db, NULL, "apple", 5, value, sizeof value, &len, &err)) != LOAM_OK) {
    return failed("get", s, err);
  }
  printf("apple is %.*s\n", (int)len, value);
  s = loam_get(db, NULL, "quince", 6, value, sizeof value, &len, &err);
  printf("quince: %s\n", loam_status_string(s));

  /* Many at once, or none of them. */
  loam_batch *batch;
  if ((s = loam_batch_create(&batch, &err)) != LOAM_OK) return failed("batch", s, err);
  for (int i = 0; i < 1000; i++) {
    char key[16];
    int n = snprintf(key, sizeof key, "fruit%04d", i);
    if ((s = loam_batch_put(batch, key, (size_t)n, "fresh", 5, &err)) != LOAM_OK) {
      return failed("batch_put", s, err);
    }
  }
  if ((s = loam_write(db, NULL, batch, NULL, &err)) != LOAM_OK) return failed("write", s, err);
  loam_batch_close(batch);

  /* A snapshot does not see what comes after it. */
  loam_snapshot *snapshot;
  if ((s = loam_snapshot_create(db, &snapshot, &err)) != LOAM_OK) return failed("snapshot", s, err);
  if ((s = loam_delete(db, NULL, "apple", 5, NULL, &err)) != LOAM_OK) {
    return failed("delete", s, err);
  }
  loam_read_options then = {sizeof then, 0, snapshot};
  printf("now: %s; then: %s\n", loam_has(db, NULL, "apple", 5, NULL) == LOAM_OK ? "there" : "gone",
         loam_has(db, &then, "apple", 5, NULL) == LOAM_OK ? "there" : "gone");

  /* Entry by entry, over a part of the keys, backwards. */
  loam_iter_options range;
  memset(&range, 0, sizeof range);
  range.struct_size = sizeof range;
  range.snapshot = snapshot;
  range.prefix = "fruit000";
  range.prefix_len = 8;
  loam_iter *iter;
  if ((s = loam_iter_create(db, &range, &iter, &err)) != LOAM_OK) return failed("iter", s, err);
  loam_entry e;
  while ((s = loam_iter_prev(iter, &e, &err)) == LOAM_OK)
    printf("%.*s=%.*s\n", (int)e.key_len, (const char *)e.key, (int)e.value_len,
      (const char *)e.value);
  if (s != LOAM_END) return failed("prev", s, err);
  loam_iter_close(iter);
  loam_snapshot_close(snapshot);

  /* Long work, waited for in slices. */
  loam_job *job;
  if ((s = loam_compact_start(db, NULL, 0, NULL, 0, &job, &err)) != LOAM_OK) {
    return failed("compact", s, err);
  }
  while ((s = loam_job_wait(job, 100, &err)) == LOAM_TIMEOUT) {
  }
  loam_job_close(job);
  if (s != LOAM_OK) return failed("compact", s, err);

  if ((s = loam_close(db, &err)) != LOAM_OK) return failed("close", s, err);
  if ((s = loam_destroy(path, NULL, &err)) != LOAM_OK) return failed("destroy", s, err);
  return 0;
}
