/* LevelDB's interface at its edges: a process that goes into the background
 * before it opens a database, texts of errors, memory that ends, one batch read
 * by several threads. */
#define _GNU_SOURCE
#include <leveldb/c.h>

#include <dirent.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(cond, ...)                                        \
  do {                                                          \
    if (!(cond)) {                                              \
      fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #cond); \
      fprintf(stderr, __VA_ARGS__);                             \
      fputc('\n', stderr);                                      \
      exit(1);                                                  \
    }                                                           \
  } while (0)

#ifndef __SANITIZE_ADDRESS__
/* In front of the C library's, for the libraries too. */
static __thread int out_of_memory;
extern void *__libc_malloc(size_t);
void *malloc(size_t n) { return out_of_memory ? NULL : __libc_malloc(n); }
#endif

/* Fails with exactly this text. */
#define FAILS(text, call)                                                   \
  do {                                                                      \
    char *err = strdup("what was here before is freed");                    \
    call;                                                                   \
    CHECK(err && !strcmp(err, text), "%s: %s", #call, err ? err : "(none)"); \
    leveldb_free(err);                                                      \
  } while (0)

static int compare(void *arg, const char *a, size_t an, const char *b, size_t bn) {
  int c = memcmp(a, b, an < bn ? an : bn);
  (void)arg;
  return c ? c : an < bn ? -1 : an > bn;
}

static const char *name(void *arg) {
  (void)arg;
  return "edges.Order";
}

static void nothing(void *arg) { (void)arg; }

static void background(void) {
  int status;
  /* What a program may have made before it forks. */
  leveldb_options_t *o = leveldb_options_create();
  leveldb_cache_t *cache = leveldb_cache_create_lru(1 << 20);
  leveldb_writebatch_t *b = leveldb_writebatch_create();
  leveldb_options_set_create_if_missing(o, 1);
  leveldb_options_set_cache(o, cache);
  pid_t pid = fork();
  if (pid == 0) {
    char *err = NULL;
    alarm(600);
    leveldb_t *db = leveldb_open(o, "forked", &err);
    CHECK(db && !err, "%s", err);
    leveldb_writeoptions_t *w = leveldb_writeoptions_create();
    leveldb_writebatch_put(b, "k", 1, "v", 1);
    leveldb_write(db, w, b, &err);
    CHECK(!err, "%s", err);
    leveldb_close(db);
    _exit(0);
  }
  CHECK(waitpid(pid, &status, 0) == pid && status == 0, "the child ended with %x", status);
  leveldb_options_destroy(o);
  leveldb_cache_destroy(cache);
  leveldb_writebatch_destroy(b);
}

static void texts(leveldb_t *db, leveldb_options_t *o, leveldb_writeoptions_t *w) {
  struct stat st;
  int status, pipes[2];
  char said[200];
  FAILS("IO error: lock db/LOCK: already held by process", leveldb_open(o, "db", &err));
  CHECK(!pipe(pipes), "pipe");
  pid_t pid = fork();
  if (pid == 0) {
    /* A program of its own: the library does not work in a child. */
    dup2(pipes[1], 1);
    execl("/proc/self/exe", "edges", "open", (char *)NULL);
    _exit(9);
  }
  close(pipes[1]);
  ssize_t n = read(pipes[0], said, sizeof said - 1);
  CHECK(n > 0 && waitpid(pid, &status, 0) == pid && status == 0, "the child ended with %x", status);
  said[n] = 0;
  CHECK(!strcmp(said, "IO error: lock db/LOCK: Resource temporarily unavailable"), "%s", said);

  leveldb_comparator_t *c = leveldb_comparator_create(NULL, nothing, compare, name);
  leveldb_close(db);
  leveldb_options_set_comparator(o, c);
  FAILS("Invalid argument: leveldb.BytewiseComparator does not match existing comparator : edges.Order", leveldb_open(o, "db", &err));
  leveldb_options_set_comparator(o, NULL);
  leveldb_comparator_destroy(c);
  leveldb_options_set_error_if_exists(o, 1);
  FAILS("Invalid argument: db: exists (error_if_exists is true)", leveldb_open(o, "db", &err));
  leveldb_options_set_error_if_exists(o, 0);
  leveldb_options_set_create_if_missing(o, 0);
  FAILS("Invalid argument: none: does not exist (create_if_missing is false)", leveldb_open(o, "none", &err));
  leveldb_options_set_create_if_missing(o, 1);

  /* Parents are not made. */
  char *err = NULL;
  CHECK(!leveldb_open(o, "no/parent", &err) && err && !strncmp(err, "IO error: ", 10), "%s", err ? err : "(none)");
  CHECK(stat("no", &st), "a parent was made");
  leveldb_free(err);

  /* Of a closed handle; thousands of texts leave nothing behind. */
  err = NULL;
  leveldb_put(db, w, "k", 1, "v", 1, &err);
  CHECK(err && strlen(err) > strlen("IO error: ") && !strstr(err, "loam:") && strstr(err, "closed"), "%s", err ? err : "(none)");
#ifndef __SANITIZE_ADDRESS__
  size_t before = mallinfo2().uordblks;
  for (int i = 0; i < 5000; i++) {
    size_t len;
    leveldb_put(db, w, "k", 1, "v", 1, &err);
    leveldb_delete(db, w, "k", 1, &err);
    leveldb_get(db, NULL, "k", 1, &len, &err);
    leveldb_iterator_t *it = leveldb_create_iterator(db, NULL);
    leveldb_iter_seek_to_first(it);
    leveldb_iter_get_error(it, &err);
    leveldb_iter_destroy(it);
  }
  size_t after = mallinfo2().uordblks;
  CHECK(after < before + 100000, "%zu bytes, then %zu", before, after);
#endif
  leveldb_free(err);
}

/* A write that fails for lack of memory, or is told so by nothing but an empty
 * hand, never looks as if it had been done. */
static void memory(leveldb_t *db, leveldb_writeoptions_t *w) {
#ifndef __SANITIZE_ADDRESS__
  for (int i = 0; i < 5; i++) {
    char *err = NULL;
    out_of_memory = 1;
    leveldb_put(db, w, "k", 1, "v", 1, &err); /* of a closed database */
    out_of_memory = 0;
    CHECK(err && !strncmp(err, "IO error: ", 10), "%s", err ? err : "(none)");
    free(err);
  }
#else
  (void)db;
  (void)w;
#endif
}

static leveldb_writebatch_t *shared;
static long runs;

static void count_put(void *n, const char *k, size_t kn, const char *v, size_t vn) {
  CHECK(kn && vn == 1 && k && v, "an operation");
  ++*(int *)n;
}

static void count_delete(void *n, const char *k, size_t kn) {
  CHECK(kn && k, "an operation");
  ++*(int *)n;
}

static void nested(void *n, const char *k, size_t kn, const char *v, size_t vn) {
  int inner = 0;
  count_put(n, k, kn, v, vn);
  leveldb_writebatch_iterate(shared, &inner, count_put, count_delete);
  CHECK(inner == 100, "%d operations within", inner);
}

static void *iterate(void *arg) {
  for (int i = 0; i < 20000; i++) {
    int n = 0;
    leveldb_writebatch_iterate(shared, &n, count_put, count_delete);
    CHECK(n == 100, "%d operations", n);
    if (i % 100 == 0) {
      leveldb_writebatch_t *copy = leveldb_writebatch_create();
      leveldb_writebatch_append(copy, shared);
      n = 0;
      leveldb_writebatch_iterate(copy, &n, count_put, count_delete);
      CHECK(n == 100, "%d operations appended", n);
      leveldb_writebatch_destroy(copy);
    }
    __sync_fetch_and_add(&runs, 1);
  }
  return arg;
}

static void batches(void) {
  pthread_t threads[4];
  int n = 0;
  shared = leveldb_writebatch_create();
  for (int i = 0; i < 100; i++) {
    char key[16];
    size_t len = (size_t)sprintf(key, "%d", i);
    if (i % 3) leveldb_writebatch_put(shared, key, len, "v", 1);
    else leveldb_writebatch_delete(shared, key, len);
  }
  for (int i = 0; i < 4; i++) CHECK(!pthread_create(&threads[i], NULL, iterate, NULL), "thread");
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  leveldb_writebatch_iterate(shared, &n, nested, count_delete);
  CHECK(n == 100 && runs == 80000, "%d operations", n);
  leveldb_writebatch_destroy(shared);
}

/* A cache has any capacity, as with LevelDB. */
static void capacities(leveldb_options_t *o) {
  static const size_t all[] = {0, 1, ((size_t)1 << 46) + 1, SIZE_MAX};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    char *err = NULL;
    leveldb_cache_t *cache = leveldb_cache_create_lru(all[i]);
    leveldb_options_set_cache(o, cache);
    leveldb_t *db = leveldb_open(o, "cached", &err);
    CHECK(db && !err, "%zu bytes: %s", all[i], err);
    leveldb_close(db);
    leveldb_options_set_cache(o, NULL);
    leveldb_cache_destroy(cache);
  }
}

/* Changes a byte in the middle of the largest table. */
static void damage(const char *directory) {
  char path[512], largest[512] = "";
  struct stat st;
  off_t size = 0;
  DIR *d = opendir(directory);
  CHECK(d, "%s", directory);
  for (struct dirent *e; (e = readdir(d)) != NULL;) {
    const char *end = strrchr(e->d_name, '.');
    snprintf(path, sizeof path, "%s/%s", directory, e->d_name);
    if (!end || strcmp(end, ".ldb") || stat(path, &st) || st.st_size <= size) continue;
    size = st.st_size;
    strcpy(largest, path);
  }
  closedir(d);
  FILE *f = fopen(largest, "r+b");
  CHECK(f && !fseek(f, size / 2, SEEK_SET), "%s", largest);
  int byte = fgetc(f) ^ 1;
  CHECK(!fseek(f, size / 2, SEEK_SET) && fputc(byte, f) == byte && !fclose(f), "%s", largest);
}

/* An iterator that met damage says so to the end, also where it goes on behind it. */
static void damaged(leveldb_options_t *o, leveldb_writeoptions_t *w) {
  char *err = NULL, key[16];
  char value[100] = "x";
  leveldb_options_set_compression(o, leveldb_no_compression);
  leveldb_t *db = leveldb_open(o, "damaged", &err);
  for (int i = 1000; i < 3000 && !err; i++) {
    snprintf(key, sizeof key, "%d", i);
    leveldb_put(db, w, key, 4, value, sizeof value, &err);
  }
  CHECK(!err, "%s", err);
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  leveldb_close(db);
  damage("damaged");
  db = leveldb_open(o, "damaged", &err);
  CHECK(db && !err, "%s", err);
  leveldb_readoptions_t *r = leveldb_readoptions_create();
  leveldb_iterator_t *it = leveldb_create_iterator(db, r);
  int found = 0;
  for (int i = 1000; i < 3000; i++) {
    snprintf(key, sizeof key, "%d", i);
    leveldb_iter_seek(it, key, 4);
    found += leveldb_iter_valid(it);
  }
  leveldb_iter_get_error(it, &err);
  CHECK(found > 1000 && found < 2000 && leveldb_iter_valid(it) && err, "%d", found);
  leveldb_free(err);
  leveldb_iter_destroy(it);
  leveldb_readoptions_destroy(r);
  leveldb_close(db);
}

int main(int argc, char **argv) {
  char *err = NULL;
  leveldb_options_t *o = leveldb_options_create();
  leveldb_writeoptions_t *w = leveldb_writeoptions_create();
  leveldb_options_set_create_if_missing(o, 1);
  (void)argv;
  if (argc > 1) {
    leveldb_open(o, "db", &err);
    printf("%s", err ? err : "it opened");
    return 0;
  }
  background();
  leveldb_t *db = leveldb_open(o, "db", &err);
  CHECK(db && !err, "%s", err);
  texts(db, o, w);
  memory(db, w);
  batches();
  capacities(o);
  damaged(o, w);
  leveldb_options_destroy(o);
  leveldb_writeoptions_destroy(w);
  puts("PASS");
  return 0;
}
