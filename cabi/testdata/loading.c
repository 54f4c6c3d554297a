/* The library loaded with dlopen, from a thread whose signals are partly
 * blocked; used from threads that come and go. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>

#include "check.h"

static __typeof__(loam_has) *has;

static void *use(void *db) {
  for (int i = 0; i < 100; i++) CHECK(has(db, NULL, "k", 1, NULL) == LOAM_NOT_FOUND, "has");
  return NULL;
}

/* The library stays when its last handle is closed, with the database that is open; threads that
 * used it may end later. */
static void stays(void *lib, const char *path, void *db) {
  pthread_t t;
  CHECK(!pthread_create(&t, NULL, use, db), "thread");
  CHECK(!dlclose(lib), "%s", dlerror());
  pthread_join(t, NULL);
  use(db);
  CHECK(dlopen(path, RTLD_NOW | RTLD_NOLOAD) == lib, "another library, or none");
  CHECK(!dlclose(lib), "%s", dlerror());
  use(db);
}

int main(int argc, char **argv) {
  sigset_t before, mask;
  CHECK(argc == 2, "usage");
  sigemptyset(&before);
  sigaddset(&before, SIGHUP);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  void *lib = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  CHECK(lib, "%s", dlerror());
  pthread_sigmask(SIG_SETMASK, NULL, &mask);
  for (int s = 1; s < 65; s++)
    if (s != 32 && s != 33) CHECK(sigismember(&mask, s) == (s == SIGHUP), "signal %d", s);
  CHECK(!dlsym(RTLD_DEFAULT, "loam_open"), "names are everybody's");
  CHECK(!dlsym(lib, "loamgo_get") && !dlsym(lib, "crosscall2"), "names of the inside are visible");
  loam_status (*open)(const char *, const loam_options *, loam_db **, char **) = (loam_status(*)(const char *, const loam_options *, loam_db **, char **))dlsym(lib, "loam_open");
  loam_status (*close)(loam_db *, char **) = (loam_status(*)(loam_db *, char **))dlsym(lib, "loam_close");
  has = (__typeof__(loam_has) *)dlsym(lib, "loam_has");
  loam_db *db;
  CHECK(open("db", NULL, &db, NULL) == LOAM_OK, "open");
  for (int i = 0; i < 200; i++) {
    pthread_t t;
    CHECK(!pthread_create(&t, NULL, use, db), "thread");
    pthread_join(t, NULL);
  }
  stays(lib, argv[1], db);
  CHECK(close(db, NULL) == LOAM_OK, "close");
  return 0;
}
