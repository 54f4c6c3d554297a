/* What the library takes of a process that loads it: lean LIBRARY [KiB]
 *
 * Without a limit, the memory that loading it and an open database add is bounded,
 * and the addresses are printed, in KiB. With one, on all addresses of the process,
 * a database works there as anywhere. */
#define _GNU_SOURCE
#include "check.h"

#include <dlfcn.h>
#include <sys/resource.h>

#define FUNCTION(name) __typeof__(name) *name##_ = (__typeof__(name) *)dlsym(library, #name)

/* A line of /proc/self/status, in KiB. */
static long status(const char *what) {
  char line[256];
  long kib = -1;
  FILE *f = fopen("/proc/self/status", "r");
  CHECK(f, "status");
  while (fgets(line, sizeof line, f))
    if (!strncmp(line, what, strlen(what))) sscanf(line + strlen(what), ": %ld", &kib);
  fclose(f);
  CHECK(kib >= 0, "no %s", what);
  return kib;
}

int main(int argc, char **argv) {
  static char value[100];
  char *err = NULL, key[16];
  size_t len;
  loam_db *db;
  CHECK(argc > 1, "which library?");
  long limit = argc > 2 ? atol(argv[2]) : 0;
  struct rlimit bound = {(rlim_t)limit << 10, (rlim_t)limit << 10};
  if (limit) CHECK(!setrlimit(RLIMIT_AS, &bound), "setrlimit");
  long addresses = status("VmSize"), memory = status("RssAnon");
  void *library = dlopen(argv[1], RTLD_NOW);
  CHECK(library, "%s", dlerror());
  FUNCTION(loam_open);
  FUNCTION(loam_put);
  FUNCTION(loam_get);
  FUNCTION(loam_flush);
  FUNCTION(loam_close);
  FUNCTION(loam_free);
  FUNCTION(loam_status_name);
#define loam_free loam_free_ /* for WANT */
#define loam_status_name loam_status_name_
  WANT(LOAM_OK, loam_open_("db", NULL, &db, &err));
  addresses = status("VmSize") - addresses;
  int n = limit ? 500000 : 1000;
  for (int i = 0; i < n; i++) WANT(LOAM_OK, loam_put_(db, NULL, key, (size_t)sprintf(key, "%08d", i), value, sizeof value, NULL, &err));
  for (int i = 0; i < n; i += 7) WANT(LOAM_OK, loam_get_(db, NULL, key, (size_t)sprintf(key, "%08d", i), value, sizeof value, &len, &err));
  memory = status("RssAnon") - memory;
  if (limit) WANT(LOAM_OK, loam_flush_(db, &err));
  WANT(LOAM_OK, loam_close_(db, &err));
  fprintf(stderr, "%ld KiB of memory, %ld KiB of addresses\n", memory, addresses);
  if (limit) return 0;
  CHECK(memory <= 3 << 10, "%ld KiB of memory", memory);
  printf("%ld\n", addresses);
  return 0;
}
