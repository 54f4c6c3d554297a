#define _GNU_SOURCE
#include "library.h"

#ifdef _WIN32
#include <windows.h>
#else
#include <dlfcn.h>
#endif
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

#ifdef _WIN32
static void *symbol(void *library, const char *name) {
  return (void *)(uintptr_t)GetProcAddress(library, name);
}

/* Of a path in UTF-8. Libraries that it needs are looked for beside it. */
static void *open_library(const char *path) {
  int n = MultiByteToWideChar(CP_UTF8, 0, path, -1, NULL, 0);
  wchar_t *wide = n == 0 ? NULL : malloc((size_t)n * sizeof *wide);
  if (wide == NULL) return NULL;
  MultiByteToWideChar(CP_UTF8, 0, path, -1, wide, n);
  void *library = LoadLibraryExW(wide, NULL, LOAD_WITH_ALTERED_SEARCH_PATH);
  free(wide);
  return library;
}

static char *why_not(const char *path) {
  return sentence("loamdb cannot load its library: %s: Windows error %lu", path, GetLastError());
}
#else
static void *symbol(void *library, const char *name) { return dlsym(library, name); }

static void *open_library(const char *path) { return dlopen(path, RTLD_NOW | RTLD_LOCAL); }

static char *why_not(const char *path) {
  (void)path; /* in dlerror's text */
  return sentence("loamdb cannot load its library: %s", dlerror());
}
#endif

static char *resolve(void *handle, const char *path) {
#define X(name)                                                                \
  *(void **)&loam.name = symbol(handle, "loam_" #name);                        \
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
  void *handle = open_library(path);
  if (handle == NULL) return why_not(path);
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
