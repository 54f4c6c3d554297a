/* LevelDB's C interface as programs use it: every function, its error rules,
 * comparators, filter policies, caches, env. */
#include <leveldb/c.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(cond, ...)                                         \
  do {                                                           \
    if (!(cond)) {                                               \
      fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #cond); \
      fprintf(stderr, __VA_ARGS__);                              \
      fputc('\n', stderr);                                       \
      exit(1);                                                   \
    }                                                            \
  } while (0)

/* LevelDB may have been built without Zstandard. */
#ifdef LEVELDB_ITSELF
enum { CODECS = 2 };
#else
enum { CODECS = 3 };
#endif

#define FINE() CHECK(err == NULL, "%s", err)
#define STARTS(text) CHECK(err && !strncmp(err, text, strlen(text)), "want %s, got %s", text, err ? err : "no error")

static char *err;

static void want(leveldb_t *db, const leveldb_readoptions_t *o, const char *key, const char *value) {
  size_t n = 77;
  char *got = leveldb_get(db, o, key, strlen(key), &n, &err);
  FINE();
  if (!value) CHECK(!got && n == 0, "%s is there", key);
  else CHECK(got && n == strlen(value) && !memcmp(got, value, n), "%s: %.*s", key, (int)n, got ? got : "");
  leveldb_free(got);
}

static void at(const leveldb_iterator_t *it, const char *key, const char *value) {
  size_t kn, vn;
  CHECK(leveldb_iter_valid(it), "no entry, want %s", key);
  const char *k = leveldb_iter_key(it, &kn), *v = leveldb_iter_value(it, &vn);
  CHECK(kn == strlen(key) && !memcmp(k, key, kn), "at %.*s, want %s", (int)kn, k, key);
  CHECK(vn == strlen(value) && !memcmp(v, value, vn), "%s is %.*s", key, (int)vn, v);
}

static int seen;

static void on_put(void *state, const char *k, size_t kn, const char *v, size_t vn) {
  CHECK(state == &seen, "state");
  if (seen == 0) CHECK(kn == 3 && !memcmp(k, "bar", 3) && vn == 1 && *v == 'b', "bar");
  if (seen == 1) CHECK(kn == 3 && !memcmp(k, "box", 3) && vn == 1 && *v == 'c', "box");
  seen++;
}

static void on_delete(void *state, const char *k, size_t kn) {
  CHECK(state == &seen && seen == 2 && kn == 3 && !memcmp(k, "bar", 3), "delete of %.*s", (int)kn, k);
  seen++;
}

static int destroyed;

static void destructor(void *state) {
  CHECK(state == &destroyed, "state");
  destroyed++;
}

static int compare(void *state, const char *a, size_t an, const char *b, size_t bn) {
  size_t n = an < bn ? an : bn;
  int c = n ? memcmp(a, b, n) : 0;
  CHECK(state == &destroyed, "state");
  return c ? -c : an < bn ? 1 : an > bn ? -1 : 0;
}

static const char *compare_name(void *state) {
  CHECK(state == &destroyed, "state");
  return "backwards";
}

static char *create_filter(void *state, const char *const *keys, const size_t *lens, int n, size_t *len) {
  (void)state, (void)keys, (void)lens, (void)n;
  *len = 4;
  return memcpy(malloc(4), "fake", 4);
}

static uint8_t key_may_match(void *state, const char *key, size_t n, const char *filter, size_t fn) {
  (void)state, (void)key, (void)n, (void)filter, (void)fn;
  return 1;
}

static const char *filter_name(void *state) {
  (void)state;
  return "everything";
}

/* A LevelDB directory's CURRENT is a file that can be read. */
static void is_leveldb(const char *dir) {
  char name[5000], c;
  snprintf(name, sizeof name, "%s/CURRENT", dir);
  FILE *f = fopen(name, "r");
  CHECK(f && fread(&c, 1, 1, f) == 1 && c == 'M', "%s", name);
  fclose(f);
}

static void databases(const leveldb_options_t *defaults, leveldb_options_t *o, const char *dir, const leveldb_writeoptions_t *w, leveldb_readoptions_t *r) {
  leveldb_options_t *plain = leveldb_options_create();
  size_t n;
  err = strdup("an old message"); /* is freed and replaced */
  CHECK(!leveldb_open(defaults, dir, &err), "opened what does not exist");
  STARTS("Invalid argument: ");
  CHECK(strstr(err, "does not exist (create_if_missing is false)"), "%s", err);
  leveldb_free(err);
  err = NULL;
  leveldb_destroy_db(plain, dir, &err);
  FINE();
  leveldb_t *db = leveldb_open(o, dir, &err);
  FINE();
  CHECK(db, "open");
  is_leveldb(dir);
  CHECK(!leveldb_open(o, dir, &err), "opened twice");
  STARTS("IO error: ");
  leveldb_free(err);
  err = NULL;

  want(db, r, "foo", NULL);
  leveldb_put(db, w, "foo", 3, "hello", 5, &err);
  FINE();
  want(db, r, "foo", "hello");
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  want(db, r, "foo", "hello");
  leveldb_compact_range(db, "a", 1, "z", 1);
  leveldb_put(db, w, "empty", 5, "", 0, &err);
  FINE();
  char *empty = leveldb_get(db, r, "empty", 5, &n, &err);
  CHECK(empty && n == 0, "an empty value is not NULL");
  leveldb_free(empty);
  leveldb_delete(db, w, "empty", 5, &err);
  FINE();

  leveldb_writebatch_t *b = leveldb_writebatch_create(), *more = leveldb_writebatch_create();
  leveldb_writebatch_put(b, "foo", 3, "a", 1);
  leveldb_writebatch_clear(b);
  leveldb_writebatch_put(b, "bar", 3, "b", 1);
  leveldb_writebatch_put(b, "box", 3, "c", 1);
  leveldb_writebatch_delete(more, "bar", 3);
  leveldb_writebatch_append(b, more);
  leveldb_write(db, w, b, &err);
  FINE();
  want(db, r, "foo", "hello");
  want(db, r, "bar", NULL);
  want(db, r, "box", "c");
  leveldb_writebatch_iterate(b, &seen, on_put, on_delete);
  CHECK(seen == 3, "%d operations", seen);
  leveldb_writebatch_destroy(b);
  leveldb_writebatch_destroy(more);

  leveldb_iterator_t *it = leveldb_create_iterator(db, r);
  CHECK(!leveldb_iter_valid(it), "a new iterator is at an entry");
  leveldb_iter_seek_to_first(it);
  at(it, "box", "c");
  leveldb_iter_next(it);
  at(it, "foo", "hello");
  leveldb_iter_prev(it);
  at(it, "box", "c");
  leveldb_iter_prev(it);
  CHECK(!leveldb_iter_valid(it), "before the first");
  leveldb_iter_seek_to_last(it);
  at(it, "foo", "hello");
  leveldb_iter_next(it);
  CHECK(!leveldb_iter_valid(it), "behind the last");
  leveldb_iter_seek(it, "b", 1);
  at(it, "box", "c");
  leveldb_iter_get_error(it, &err);
  FINE();
  leveldb_iter_destroy(it);

  const leveldb_snapshot_t *snapshot = leveldb_create_snapshot(db);
  leveldb_delete(db, w, "foo", 3, &err);
  FINE();
  leveldb_readoptions_set_snapshot(r, snapshot);
  want(db, r, "foo", "hello");
  it = leveldb_create_iterator(db, r);
  leveldb_iter_seek(it, "foo", 3);
  at(it, "foo", "hello");
  leveldb_iter_destroy(it);
  leveldb_readoptions_set_snapshot(r, NULL);
  want(db, r, "foo", NULL);
  leveldb_release_snapshot(db, snapshot);

  for (int i = 0; i < 20000; i++) {
    char key[16], value[100];
    n = (size_t)snprintf(key, sizeof key, "k%010d", i);
    memset(value, i, sizeof value);
    leveldb_put(db, w, key, n, value, sizeof value, &err);
    FINE();
  }
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  const char *starts[2] = {"a", "k0000010000"}, *limits[2] = {"k0000010000", "z"};
  size_t start_lens[2] = {1, 11}, limit_lens[2] = {11, 1};
  uint64_t sizes[2] = {0, 0};
  leveldb_approximate_sizes(db, 2, starts, start_lens, limits, limit_lens, sizes);
  CHECK(sizes[0] > 1000 && sizes[1] > 1000, "sizes %llu, %llu", (unsigned long long)sizes[0], (unsigned long long)sizes[1]);
  CHECK(!leveldb_property_value(db, "nosuchprop"), "a property");
  char *stats = leveldb_property_value(db, "leveldb.stats");
  CHECK(stats && *stats, "leveldb.stats");
  leveldb_free(stats);
  leveldb_close(db);

  leveldb_options_set_create_if_missing(o, 0);
  leveldb_options_set_error_if_exists(o, 1);
  CHECK(!leveldb_open(o, dir, &err), "opened what exists");
  STARTS("Invalid argument: ");
  CHECK(strstr(err, "exists (error_if_exists is true)"), "%s", err);
  leveldb_free(err);
  err = NULL;
  leveldb_options_set_error_if_exists(o, 0);
  leveldb_repair_db(o, dir, &err);
  FINE();
  db = leveldb_open(o, dir, &err);
  FINE();
  want(db, r, "box", "c");
  leveldb_close(db);
  leveldb_options_destroy(plain);
}

static void comparators(leveldb_options_t *o, const char *dir, const leveldb_writeoptions_t *w, const leveldb_readoptions_t *r) {
  leveldb_comparator_t *c = leveldb_comparator_create(&destroyed, destructor, compare, compare_name);
  leveldb_options_t *other = leveldb_options_create();
  leveldb_options_set_comparator(o, c);
  leveldb_options_set_create_if_missing(o, 1);
  leveldb_t *db = leveldb_open(o, dir, &err);
  FINE();
  leveldb_put(db, w, "a", 1, "1", 1, &err);
  leveldb_put(db, w, "b", 1, "2", 1, &err);
  leveldb_put(db, w, "ab", 2, "3", 1, &err);
  FINE();
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  leveldb_iterator_t *it = leveldb_create_iterator(db, r);
  leveldb_iter_seek_to_first(it);
  at(it, "b", "2");
  leveldb_iter_next(it);
  at(it, "ab", "3");
  leveldb_iter_next(it);
  at(it, "a", "1");
  leveldb_iter_destroy(it);
  leveldb_close(db);
  CHECK(!leveldb_open(other, dir, &err), "opened with another comparator");
  STARTS("Invalid argument: ");
  leveldb_free(err);
  err = NULL;
  leveldb_destroy_db(o, dir, &err);
  FINE();
  CHECK(!destroyed, "destroyed early");
  leveldb_comparator_destroy(c);
  CHECK(destroyed == 1, "destroyed %d times", destroyed);
  leveldb_options_destroy(other);
}

int main(void) {
  CHECK(leveldb_major_version() >= 1 && leveldb_minor_version() >= 1, "version");
  leveldb_env_t *env = leveldb_create_default_env();
  char *dir = leveldb_env_get_test_directory(env), path[4096], second[4200];
  CHECK(dir, "test directory");
  snprintf(path, sizeof path, "%s/db", dir);
  snprintf(second, sizeof second, "%s-2", path);
  leveldb_free(dir);
  leveldb_cache_t *cache = leveldb_cache_create_lru(100000);
  leveldb_readoptions_t *r = leveldb_readoptions_create();
  leveldb_readoptions_set_verify_checksums(r, 1);
  leveldb_readoptions_set_fill_cache(r, 0);
  leveldb_writeoptions_t *w = leveldb_writeoptions_create();
  leveldb_writeoptions_set_sync(w, 0);
  leveldb_filterpolicy_t *filters[3] = {NULL, leveldb_filterpolicy_create_bloom(10),
                                        leveldb_filterpolicy_create(&destroyed, destructor, create_filter, key_may_match, filter_name)};
  leveldb_options_t *defaults = leveldb_options_create(), *o = NULL;
  for (int i = 0; i < 3; i++) {
    o = leveldb_options_create();
    leveldb_options_set_error_if_exists(o, 1);
    leveldb_options_set_create_if_missing(o, 1);
    leveldb_options_set_cache(o, cache);
    leveldb_options_set_env(o, env);
    leveldb_options_set_info_log(o, NULL);
    leveldb_options_set_write_buffer_size(o, 100000);
    leveldb_options_set_paranoid_checks(o, 1);
    leveldb_options_set_max_open_files(o, 10);
    leveldb_options_set_block_size(o, 1024);
    leveldb_options_set_block_restart_interval(o, 8);
    leveldb_options_set_max_file_size(o, 3 << 20);
    leveldb_options_set_compression(o, i < CODECS ? i : leveldb_snappy_compression);
    leveldb_options_set_error_if_exists(o, 0);
    leveldb_options_set_filter_policy(o, filters[i]);
    seen = 0;
    databases(defaults, o, path, w, r);
    leveldb_destroy_db(o, path, &err);
    FINE();
    if (i < 2) leveldb_options_destroy(o);
  }
  comparators(o, second, w, r);
  leveldb_options_destroy(o);
  leveldb_options_destroy(defaults);
  leveldb_filterpolicy_destroy(filters[1]);
  leveldb_filterpolicy_destroy(filters[2]);
  leveldb_readoptions_destroy(r);
  leveldb_writeoptions_destroy(w);
  leveldb_cache_destroy(cache);
  leveldb_env_destroy(env);
  printf("PASS\n");
  return 0;
}
