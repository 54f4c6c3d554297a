// engine LIBRARY PREFIX open|repair|play|dump DIRECTORY
//
// Works on a directory with LevelDB or RocksDB, by their C API, which is the same for what is
// called here. It prints the engine's error, or "accepted". play applies the lines of standard
// input: "p KEY VALUE" puts, "d KEY" deletes, "c" compacts, "o" opens the database again, which
// flushes it. dump prints a line "KEY VALUE" for each entry before that.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *library;
static const char *prefix;

static void *symbol(const char *name) {
  char full[100];
  snprintf(full, sizeof full, "%s_%s", prefix, name);
  return dlsym(library, full);
}

typedef void *make(void);
typedef void with_int(void *, int);
typedef void with_size(void *, size_t);
typedef void with_byte(void *, unsigned char);

// set calls an option's setter where the engine has it.
static void set_int(void *options, const char *name, int value) {
  with_int *set = (with_int *)symbol(name);
  if (set)
    set(options, value);
}

static void set_size(void *options, const char *name, size_t value) {
  with_size *set = (with_size *)symbol(name);
  if (set)
    set(options, value);
}

static void *options(void) {
  void *o = ((make *)symbol("options_create"))();
  ((with_byte *)symbol("options_set_create_if_missing"))(o, 1);
  set_int(o, "options_set_compression", 0);
  set_int(o, "options_set_disable_auto_compactions", 1);
  set_size(o, "options_set_max_file_size", 1 << 20);
  set_size(o, "options_set_target_file_size_base", 1 << 20);
  make *table = (make *)symbol("block_based_options_create");
  if (table) { // RocksDB: a footer that names the index block
    void *t = table();
    set_int(t, "block_based_options_set_format_version", 5);
    ((void (*)(void *, void *))symbol("options_set_block_based_table_factory"))(o, t);
  }
  return o;
}

static void *database;
static char *err;

static void open_database(const char *dir) {
  database = ((void *(*)(void *, const char *, char **))symbol("open"))(options(), dir, &err);
}

static void close_database(void) {
  if (database)
    ((void (*)(void *))symbol("close"))(database);
}

static void play(const char *dir) {
  static char line[1 << 16];
  void *wo = ((make *)symbol("writeoptions_create"))();
  void (*put)(void *, void *, const char *, size_t, const char *, size_t, char **) = symbol("put");
  void (*del)(void *, void *, const char *, size_t, char **) = symbol("delete");
  void (*compact)(void *, const char *, size_t, const char *, size_t) = symbol("compact_range");
  open_database(dir);
  while (!err && fgets(line, sizeof line, stdin)) {
    char *key = strtok(line + 1, " \n"), *value = strtok(NULL, " \n");
    switch (line[0]) {
    case 'p':
      put(database, wo, key, strlen(key), value, strlen(value), &err);
      break;
    case 'd':
      del(database, wo, key, strlen(key), &err);
      break;
    case 'c':
      compact(database, NULL, 0, NULL, 0);
      break;
    case 'o':
      close_database();
      open_database(dir);
    }
  }
  close_database();
}

static void dump(const char *dir) {
  void *ro = ((make *)symbol("readoptions_create"))();
  void *(*iterator)(void *, void *) = symbol("create_iterator");
  void (*first)(void *) = symbol("iter_seek_to_first");
  void (*next)(void *) = symbol("iter_next");
  unsigned char (*valid)(void *) = symbol("iter_valid");
  const char *(*key)(void *, size_t *) = symbol("iter_key");
  const char *(*value)(void *, size_t *) = symbol("iter_value");
  void (*failed)(void *, char **) = symbol("iter_get_error");
  open_database(dir);
  if (err)
    return;
  void *it = iterator(database, ro);
  for (first(it); valid(it); next(it)) {
    size_t n;
    const char *p = key(it, &n);
    fwrite(p, 1, n, stdout);
    putchar(' ');
    p = value(it, &n);
    fwrite(p, 1, n, stdout);
    putchar('\n');
  }
  failed(it, &err);
  ((void (*)(void *))symbol("iter_destroy"))(it);
  close_database();
}

int main(int argc, char **argv) {
  if (argc != 5 || !(library = dlopen(argv[1], RTLD_NOW))) {
    fprintf(stderr, "%s\n", argc == 5 ? dlerror() : "usage: see the head of engine.c");
    return 2;
  }
  prefix = argv[2];
  if (!symbol("options_create") || !symbol("open") || !symbol("repair_db")) {
    fprintf(stderr, "the library lacks a function\n");
    return 2;
  }
  if (!strcmp(argv[3], "repair"))
    ((void (*)(void *, const char *, char **))symbol("repair_db"))(options(), argv[4], &err);
  else if (!strcmp(argv[3], "play"))
    play(argv[4]);
  else if (!strcmp(argv[3], "dump"))
    dump(argv[4]);
  else
    open_database(argv[4]);
  puts(err ? err : "accepted");
  return 0;
}
