// engine LIBRARY PREFIX open|repair DIRECTORY
//
// Opens or repairs a directory with LevelDB or RocksDB, by their C API, which is the same
// for what is called here. It prints the engine's error, or "accepted".
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static void *library;
static const char *prefix;

static void *symbol(const char *name) {
  char full[100];
  snprintf(full, sizeof full, "%s_%s", prefix, name);
  return dlsym(library, full);
}

int main(int argc, char **argv) {
  if (argc != 5 || !(library = dlopen(argv[1], RTLD_NOW))) {
    fprintf(stderr, "%s\n", argc == 5 ? dlerror() : "usage: engine LIBRARY PREFIX open|repair DIRECTORY");
    return 2;
  }
  prefix = argv[2];
  void *(*options_create)(void) = (void *(*)(void))symbol("options_create");
  void (*create_if_missing)(void *, unsigned char) = (void (*)(void *, unsigned char))symbol("options_set_create_if_missing");
  void *(*open)(void *, const char *, char **) = (void *(*)(void *, const char *, char **))symbol("open");
  void (*repair)(void *, const char *, char **) = (void (*)(void *, const char *, char **))symbol("repair_db");
  if (!options_create || !create_if_missing || !open || !repair) {
    fprintf(stderr, "the library lacks a function\n");
    return 2;
  }
  char *err = NULL;
  void *options = options_create();
  create_if_missing(options, 1);
  if (!strcmp(argv[3], "repair"))
    repair(options, argv[4], &err);
  else
    open(options, argv[4], &err);
  puts(err ? err : "accepted");
  return 0;
}
