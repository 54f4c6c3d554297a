#define _GNU_SOURCE
#include "library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct loamldb_library loamldb;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int loaded; /* guarded by mutex */

static loam_status failed(char **err, const char *why) {
  static const char text[] = "cannot load libloam.so.0: ";
  size_t n = sizeof text + strlen(why);
  *err = malloc(n);
  if (*err) snprintf(*err, n, "%s%s", text, why);
  return LOAM_ERR_IO;
}

/* Opens libloam where the dynamic linker looks, which is beside this library or
 * in the folder above, if it goes by this library's run path: where something
 * stands between the two (sanitizers do), these are asked for by name. The
 * library stays for the life of the process: Go cannot be unloaded. */
static void *find(void) {
  static const char *const places[] = {"", "../"};
  Dl_info here;
  void *library = dlopen("libloam.so.0", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library || !dladdr(&loamldb, &here) || !here.dli_fname || !strrchr(here.dli_fname, '/')) {
    return library;
  }
  for (int i = 0; i < 2 && !library; i++) {
    char path[4096];
    int n = snprintf(path, sizeof path, "%.*s/%slibloam.so.0",
      (int)(strrchr(here.dli_fname, '/') - here.dli_fname), here.dli_fname, places[i]);
    if (n > 0 && n < (int)sizeof path) {
      library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    }
  }
  return library;
}

static loam_status load(char **err) {
  void *library = find();
  if (!library) return failed(err, dlerror());
#define X(name)                                                                \
  *(void **)&loamldb.name = dlsym(library, #name);                             \
  if (!loamldb.name) return failed(err, "it has no function " #name);
  LOAM_FUNCTIONS(X)
#undef X
  return loamldb.loam_abi_check(LOAM_ABI_VERSION, LOAM_ABI_REVISION, err);
}

loam_status loamldb_load(char **err) {
  loam_status s = LOAM_OK;
  *err = NULL;
  pthread_mutex_lock(&mutex);
  if (!loaded) {
    s = load(err);
    loaded = s == LOAM_OK;
  }
  pthread_mutex_unlock(&mutex);
  return s;
}

const char *loamldb_words(loam_status status) {
  pthread_mutex_lock(&mutex);
  int known = loaded;
  pthread_mutex_unlock(&mutex);
  return known ? loamldb.loam_status_string(status) : "no more is known";
}
