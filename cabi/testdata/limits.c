/* What the header says of errors, numbers and limits, sentence by sentence. */
#define _GNU_SOURCE
#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static char *err;

/* A failure with a status, an error number and a path's end; the sentence is one:
 * no prefix in its middle. */
#define FAILS(status, number, tail, call)                                                              \
  do {                                                                                                 \
    loam_status got_ = (call);                                                                         \
    CHECK(got_ == (status) && err, "%s gives %s: %s", #call, loam_status_name(got_), err ? err : "");  \
    CHECK(loam_error_errno(err) == (number), "%s: errno %d in %s", #call, loam_error_errno(err), err); \
    const char *path_ = loam_error_path(err), *tail_ = (tail);                                         \
    CHECK(!tail_ == !path_ && (!tail_ || (strlen(path_) >= strlen(tail_) && !strcmp(path_ + strlen(path_) - strlen(tail_), tail_))), \
          "%s: path %s of %s", #call, path_ ? path_ : "(none)", err);                                  \
    CHECK(!strncmp(err, "loam: ", 6) && !strstr(err + 1, "loam: "), "%s: prefixes in %s", #call, err); \
    loam_free(err);                                                                                    \
    err = NULL;                                                                                        \
  } while (0)

/* Runs f in a process of its own: limits are for ever. */
static void apart(const char *self, const char *what) {
  int status;
  pid_t pid = fork();
  if (pid == 0) {
    execl(self, self, what, (char *)NULL);
    _exit(9);
  }
  CHECK(waitpid(pid, &status, 0) == pid && status == 0, "%s ended with %x", what, status);
}

static void limit(int what, rlim_t n) {
  struct rlimit l = {n, n};
  CHECK(!setrlimit(what, &l), "setrlimit");
}

/* A batch for which the memtable gets no memory. What is left is enough for the
 * Go runtime, which cannot go on without. */
static void out_of_memory(void) {
  loam_options *o;
  loam_db *db;
  loam_batch *b;
  char *value = calloc(1, 96 << 20);
  long pages;
  WANT(LOAM_OK, loam_options_create(&o, &err));
  WANT(LOAM_OK, loam_options_set(o, "write_buffer_size", "256MiB", &err));
  WANT(LOAM_OK, loam_open("memory", o, &db, &err));
  WANT(LOAM_OK, loam_put(db, NULL, "before", 6, "v", 1, NULL, &err));
  WANT(LOAM_OK, loam_batch_create(&b, &err));
  WANT(LOAM_OK, loam_batch_put(b, "k", 1, value, 96 << 20, &err));
  FILE *f = fopen("/proc/self/statm", "r");
  CHECK(f && fscanf(f, "%ld", &pages) == 1, "statm");
  fclose(f);
  limit(RLIMIT_AS, (rlim_t)pages * 4096 + (64 << 20));
  loam_status s = loam_write(db, NULL, b, NULL, &err);
  CHECK(s == LOAM_ERR_NO_MEMORY && err, "%s: %s", loam_status_name(s), err ? err : "(none)");
  loam_free(err);
  err = NULL;
  /* Nothing is lost, and smaller writes go on. */
  WANT(LOAM_OK, loam_has(db, NULL, "before", 6, &err));
  WANT(LOAM_NOT_FOUND, loam_has(db, NULL, "k", 1, &err));
  WANT(LOAM_OK, loam_put(db, NULL, "after", 5, "v", 1, NULL, &err));
}

static void out_of_files(void) {
  loam_db *db;
  loam_db *first;
  char *text;
  /* The runtime has its own descriptors by now. */
  WANT(LOAM_OK, loam_open("first", NULL, &first, &err));
  WANT(LOAM_OK, loam_metrics(first, &text, &err));
  loam_free(text);
  int next = dup(0);
  CHECK(next > 0, "dup");
  close(next);
  limit(RLIMIT_NOFILE, (rlim_t)next);
  loam_status s = loam_open("second", NULL, &db, &err);
  CHECK(s == LOAM_ERR_TOO_MANY_FILES && loam_error_errno(err) == EMFILE && !db, "%s: %s", loam_status_name(s), err ? err : "(none)");
  loam_free(err);
}

static void out_of_space(void) {
  loam_options *o;
  loam_db *db;
  static char value[1 << 16];
  loam_status s = LOAM_OK;
  signal(SIGXFSZ, SIG_IGN);
  WANT(LOAM_OK, loam_options_create(&o, &err));
  WANT(LOAM_OK, loam_options_set(o, "wal_preallocate", "0", &err));
  WANT(LOAM_OK, loam_open("space", o, &db, &err));
  limit(RLIMIT_FSIZE, 1 << 20);
  for (int i = 0; i < 200 && s == LOAM_OK; i++) {
    char key[16];
    s = loam_put(db, NULL, key, (size_t)sprintf(key, "%d", i), value, sizeof value, NULL, &err);
  }
  CHECK(s == LOAM_ERR_NO_SPACE && loam_error_errno(err) == EFBIG && loam_error_path(err), "%s: %s", loam_status_name(s), err ? err : "(none)");
  loam_free(err);
}

static void errors(void) {
  loam_db *db, *again;
  loam_options *o;
  WANT(LOAM_OK, loam_open("errors", NULL, &db, &err));
  FAILS(LOAM_ERR_LOCKED, 0, "errors/LOCK", loam_open("errors", NULL, &again, &err));
  FILE *f = fopen("file", "w");
  CHECK(f && fputs("not a folder", f) >= 0 && !fclose(f), "file");
  WANT(LOAM_OK, loam_options_create(&o, &err));
  WANT(LOAM_OK, loam_options_set(o, "error_if_missing", "true", &err));
  FAILS(LOAM_ERR_DOES_NOT_EXIST, 0, "missing", loam_open("missing", o, &again, &err));
  WANT(LOAM_OK, loam_options_set(o, "error_if_missing", "false", &err));
  loam_status s = loam_open("file/db", o, &again, &err);
  CHECK(s < 0 && loam_error_errno(err) == ENOTDIR && loam_error_path(err), "%s: %s", loam_status_name(s), err);
  loam_free(err);
  /* No directory is made above the database's, unless it is wanted. */
  const loam_options *either[] = {NULL, o};
  for (int i = 0; i < 2; i++) {
    FAILS(LOAM_ERR_IO, ENOENT, "above/db", loam_open("above/db", either[i], &again, &err));
    CHECK(access("above", F_OK) && errno == ENOENT, "above was made");
  }
  WANT(LOAM_OK, loam_options_set(o, "create_dirs", "true", &err));
  WANT(LOAM_OK, loam_open("above/db", o, &again, &err));
  WANT(LOAM_OK, loam_close(again, &err));
  FAILS(LOAM_ERR_INVALID_ARGUMENT, 0, NULL, loam_options_set(o, "cache_size", "-1", &err));
  WANT(LOAM_OK, loam_options_set(o, "cache_size", "0", &err));
  WANT(LOAM_OK, loam_options_set(o, "error_if_exists", "true", &err));
  WANT(LOAM_OK, loam_close(db, &err));
  FAILS(LOAM_ERR_EXISTS, 0, "errors", loam_open("errors", o, &again, &err));
  WANT(LOAM_OK, loam_options_set(o, "error_if_exists", "false", &err));
  WANT(LOAM_OK, loam_options_set(o, "comparator", "idb_cmp1", &err));
  FAILS(LOAM_ERR_COMPARATOR_MISMATCH, 0, "errors", loam_open("errors", o, &again, &err));
  FAILS(LOAM_ERR_CLOSED, 0, NULL, loam_put(db, NULL, "k", 1, "v", 1, NULL, &err));
  FAILS(LOAM_ERR_INVALID_ARGUMENT, 0, NULL, loam_options_set(o, "no_option", "1", &err));
  WANT(LOAM_OK, loam_options_close(o));
  CHECK(loam_error_errno(NULL) == 0 && !loam_error_path(NULL), "of no error");
}

static void sequences(void) {
  loam_db *db;
  loam_batch *b;
  uint64_t n[6] = {0};
  WANT(LOAM_OK, loam_open("sequences", NULL, &db, &err));
  WANT(LOAM_OK, loam_batch_create(&b, &err));
  WANT(LOAM_OK, loam_put(db, NULL, "a", 1, "v", 1, &n[0], &err));
  WANT(LOAM_OK, loam_delete(db, WRITE(LOAM_SYNC), "a", 1, &n[1], &err));
  for (int i = 0; i < 5; i++) WANT(LOAM_OK, loam_batch_put(b, "b", 1, "v", 1, &err));
  WANT(LOAM_OK, loam_write(db, NULL, b, &n[2], &err));
  WANT(LOAM_OK, loam_put(db, NULL, "a", 1, "v", 1, &n[3], &err));
  CHECK(n[0] == 1 && n[1] == 2 && n[2] == 7 && n[3] == 8, "%d %d %d %d", (int)n[0], (int)n[1], (int)n[2], (int)n[3]);
  WANT(LOAM_OK, loam_batch_clear(b));
  n[4] = 99;
  WANT(LOAM_OK, loam_write(db, WRITE(LOAM_SYNC), b, &n[4], &err));
  CHECK(n[4] == 0, "%d", (int)n[4]);
  WANT(LOAM_OK, loam_batch_close(b));
  WANT(LOAM_OK, loam_close(db, &err));
}

/* Reads with each flag, from memory and from tables that nobody has read yet. */
static void flags(void) {
  loam_db *db;
  loam_snapshot *snap;
  static char keys[100][8];
  const void *list[101], *values[101];
  size_t lens[101], value_lens[101];
  void *memory;
  WANT(LOAM_OK, loam_open("flags", NULL, &db, &err));
  for (int i = 0; i < 100; i++) {
    list[i] = keys[i];
    lens[i] = (size_t)sprintf(keys[i], "k%d", i);
    WANT(LOAM_OK, loam_put(db, NULL, keys[i], lens[i], keys[i], i % 5 ? lens[i] : 0, NULL, &err));
  }
  list[100] = "none", lens[100] = 4;
  for (int round = 0; round < 3; round++) {
    WANT(LOAM_OK, loam_snapshot_create(db, &snap, &err));
    for (int f = 0; f < 4; f++) {
      uint64_t what = (f & 1 ? LOAM_NO_FILL : 0) | (f & 2 ? LOAM_MEMORY_ONLY : 0);
      const loam_snapshot *s = (round + f) % 2 ? snap : NULL;
      loam_status got = loam_multi_get(db, READ(s, what), 101, list, lens, values, value_lens, &memory, &err);
      CHECK(got == LOAM_OK || (got == LOAM_WOULD_BLOCK && round == 1 && what & LOAM_MEMORY_ONLY), "round %d, flags %d: %s", round, f, loam_status_name(got));
      CHECK((got == LOAM_OK) == (memory != NULL), "memory");
      for (int i = 0; got == LOAM_OK && i < 101; i++) {
        size_t want = i % 5 ? lens[i] : 0;
        CHECK(!values[i] == (i == 100) && (i == 100 || (value_lens[i] == want && !memcmp(values[i], keys[i], want))), "value %d", i);
      }
      loam_free(memory);
      got = loam_has(db, READ(s, what), "k7", 2, &err);
      CHECK(got == LOAM_OK || (got == LOAM_WOULD_BLOCK && round == 1 && what & LOAM_MEMORY_ONLY), "round %d, flags %d: %s", round, f, loam_status_name(got));
      WANT(LOAM_NOT_FOUND, loam_has(db, READ(s, what & LOAM_NO_FILL), "none", 4, &err));
    }
    WANT(LOAM_OK, loam_snapshot_close(snap));
    if (round) continue;
    WANT(LOAM_OK, loam_flush(db, &err));
    WANT(LOAM_OK, loam_close(db, &err));
    WANT(LOAM_OK, loam_open("flags", NULL, &db, &err));
  }
  WANT(LOAM_OK, loam_close(db, &err));
}

/* Two entries in two tables: a range that ends at the second leaves it alone. */
static void ranges(void) {
  loam_db *db;
  char *before, *after;
  WANT(LOAM_OK, loam_open("ranges", NULL, &db, &err));
  WANT(LOAM_OK, loam_pause_compaction(db, &err));
  for (int i = 0; i < 2; i++) {
    WANT(LOAM_OK, loam_put(db, NULL, "m", 1, "v", 1, NULL, &err));
    WANT(LOAM_OK, loam_flush(db, &err));
  }
  WANT(LOAM_OK, loam_property(db, "leveldb.sstables", &before, &err));
  WANT(LOAM_OK, loam_compact(db, "a", 1, "m", 1, &err));
  WANT(LOAM_OK, loam_compact(db, "m", 1, "m", 1, &err));
  WANT(LOAM_OK, loam_property(db, "leveldb.sstables", &after, &err));
  CHECK(!strcmp(before, after), "%s, then %s", before, after);
  loam_free(after);
  WANT(LOAM_OK, loam_compact(db, "m", 1, "n", 1, &err));
  WANT(LOAM_OK, loam_property(db, "leveldb.sstables", &after, &err));
  CHECK(strcmp(before, after), "%s as before", after);
  loam_free(before);
  loam_free(after);
  WANT(LOAM_OK, loam_close(db, &err));
}

static void versions(void) {
  CHECK(loam_abi_version() == LOAM_ABI_VERSION && loam_abi_revision() == LOAM_ABI_REVISION, "versions");
  WANT(LOAM_OK, loam_abi_check(LOAM_ABI_VERSION, LOAM_ABI_REVISION, &err));
  FAILS(LOAM_ERR_ABI, 0, NULL, loam_abi_check(LOAM_ABI_VERSION, LOAM_ABI_REVISION - 1, &err));
  FAILS(LOAM_ERR_ABI, 0, NULL, loam_abi_check(LOAM_ABI_VERSION, LOAM_ABI_REVISION + 1, &err));
  FAILS(LOAM_ERR_ABI, 0, NULL, loam_abi_check(LOAM_ABI_VERSION + 1, LOAM_ABI_REVISION, &err));
}

/* An iterator in use by many while it is closed: closing waits, and never says
 * that it is in use. */
static loam_iter *volatile racing;
static volatile int stop;

static void *use(void *arg) {
  loam_entry e;
  while (!stop) {
    loam_iter *it = racing;
    if (it) loam_iter_entry(it, &e, NULL);
  }
  return arg;
}

static void closing(void) {
  loam_db *db;
  pthread_t threads[4];
  WANT(LOAM_OK, loam_open("closing", NULL, &db, &err));
  for (int i = 0; i < 4; i++) CHECK(!pthread_create(&threads[i], NULL, use, NULL), "thread");
  for (int i = 0; i < 100000; i++) {
    loam_iter *it;
    WANT(LOAM_OK, loam_iter_create(db, NULL, &it, &err));
    racing = it;
    for (volatile int z = 0; z < 200; z++) continue;
    loam_status s = loam_iter_close(it);
    CHECK(s == LOAM_OK, "round %d: %s", i, loam_status_name(s));
    racing = NULL;
  }
  stop = 1;
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  WANT(LOAM_OK, loam_close(db, &err));
}

/* A batch up to its limit, in steps that leave its memory half empty. */
static void large(void) {
  const size_t most = ((size_t)1 << 32) - (1 << 20), step = (size_t)100 << 20;
  char *zeros = mmap(NULL, step, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  loam_batch *b;
  const void *data;
  size_t len;
  loam_status s;
  CHECK(zeros != MAP_FAILED, "mmap");
  WANT(LOAM_OK, loam_batch_create(&b, &err));
  while ((s = loam_batch_put(b, "k", 1, zeros, step, &err)) == LOAM_OK) {
    WANT(LOAM_OK, loam_batch_data(b, &data, &len, &err));
    CHECK(len < most, "%zu bytes", len);
  }
  CHECK(s == LOAM_ERR_TOO_LARGE, "%s: %s", loam_status_name(s), err);
  loam_free(err);
  err = NULL;
  while ((s = loam_batch_put(b, "k", 1, zeros, 50000, &err)) == LOAM_OK) continue;
  WANT(LOAM_OK, loam_batch_data(b, &data, &len, NULL));
  CHECK(s == LOAM_ERR_TOO_LARGE && len < most && len > most - 60000, "%s at %zu bytes", loam_status_name(s), len);
  loam_free(err);
  err = NULL;
  WANT(LOAM_OK, loam_batch_close(b));
}

int main(int argc, char **argv) {
  if (argc > 1 && !strcmp(argv[1], "memory")) out_of_memory();
  else if (argc > 1 && !strcmp(argv[1], "files")) out_of_files();
  else if (argc > 1 && !strcmp(argv[1], "space")) out_of_space();
  else if (argc > 1 && !strcmp(argv[1], "large")) large();
  else {
    apart(argv[0], "memory");
    apart(argv[0], "files");
    apart(argv[0], "space");
    errors();
    sequences();
    flags();
    ranges();
    versions();
    closing();
  }
  return 0;
}
