#define _GNU_SOURCE
#include "library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

struct loam_library loam;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static bool loaded; /* under mutex */

__attribute__((format(printf, 1, 2))) static char *sentence(const char *format, ...) {
  va_list args;
  char *text = NULL;
  va_start(args, format);
  if (vasprintf(&text, format, args) < 0) text = NULL;
  va_end(args);
  return text;
}

static char *resolve(void *handle, const char *path) {
#define X(name)                                                                \
  *(void **)&loam.name = dlsym(handle, "loam_" #name);                         \
  if (loam.name == NULL) return sentence("%s is not Loam's library: it has no loam_" #name, path);
  LOAM_FUNCTIONS(X)
#undef X
  char *error = NULL;
  loam.abi_check(LOAM_ABI_VERSION, LOAM_ABI_REVISION, &error);
  return error;
}

static char *load(const char *path) {
#ifdef __linux__
  /* The Go runtime reads the process's arguments and thread-local storage in
   * ways that only glibc provides for (golang/go#54805): it would crash. */
  if (dlsym(RTLD_DEFAULT, "gnu_get_libc_version") == NULL)
    return sentence(
      "loamdb needs glibc: the Go runtime inside it cannot be loaded into a process that uses "
      "musl (Alpine Linux)");
#endif
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (handle == NULL) return sentence("loamdb cannot load its library: %s", dlerror());
  return resolve(handle, path);
}

char *library_load(const char *path) {
  char *error = NULL;
  pthread_mutex_lock(&mutex);
  if (!loaded) {
    error = load(path);
    loaded = error == NULL;
  }
  pthread_mutex_unlock(&mutex);
  return error;
}
