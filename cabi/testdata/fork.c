/* A child of fork() gets a clear error at once, also when the library was only
 * loaded, and does not disturb the parent. */
#include "check.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Results are NULL in the child, too. */
static void results(loam_db *db, loam_iter *iter) {
  void *value = &value, *memory = &memory;
  char *text = (char *)&text, *err = NULL;
  size_t len;
  loam_db *d = (void *)&d;
  loam_snapshot *s = (void *)&s;
  loam_batch *b = (void *)&b;
  loam_iter *it = (void *)&it;
  loam_job *job = (void *)&job;
  loam_options *o = (void *)&o;
  loam_cache *cache = (void *)&cache;
  loam_block block = {&block, 1, 1};
  const void *data = &data;
#define NONE(out, call)                         \
  do {                                          \
    WANT(LOAM_ERR_FORKED, call);                \
    CHECK(!out, "%s leaves %s", #call, #out);   \
  } while (0)
  NONE(value, loam_get_alloc(db, NULL, "k", 1, &value, &len, &err));
  NONE(memory, loam_multi_get(db, NULL, 0, NULL, NULL, NULL, NULL, &memory, &err));
  NONE(d, loam_open("x", NULL, &d, &err));
  d = (void *)&d;
  NONE(d, loam_job_db(NULL, &d, &err));
  NONE(s, loam_snapshot_create(db, &s, &err));
  NONE(b, loam_batch_create(&b, &err));
  NONE(it, loam_iter_create(db, NULL, &it, &err));
  NONE(job, loam_flush_start(db, &job, &err));
  job = (void *)&job;
  NONE(job, loam_open_start("x", NULL, &job, &err));
  NONE(o, loam_options_create(&o, &err));
  NONE(cache, loam_cache_create(1, &cache, &err));
  NONE(text, loam_property(db, "leveldb.stats", &text, &err));
  text = (char *)&text;
  NONE(text, loam_metrics(db, &text, &err));
  text = (char *)&text;
  NONE(text, loam_repair("x", NULL, &text, &err));
  NONE(block.data, loam_iter_next_block(iter, 0, 0, &block, &err));
  NONE(data, loam_batch_data(NULL, &data, &len, &err));
}

/* A database whose process has died is free, though a child of it lives on. */
static void orphan(void) {
  char *err = NULL, byte;
  int born[2], end[2], status;
  loam_db *db;
  CHECK(!pipe(born) && !pipe(end), "pipe");
  CHECK(!fcntl(born[0], F_SETFD, FD_CLOEXEC) && !fcntl(end[1], F_SETFD, FD_CLOEXEC), "pipe");
  char own[2][12];
  sprintf(own[0], "%d", born[1]);
  sprintf(own[1], "%d", end[0]);
  pid_t pid = fork();
  if (pid == 0) {
    execl("/proc/self/exe", "fork", "parent", own[0], own[1], (char *)NULL);
    _exit(9);
  }
  close(born[1]);
  close(end[0]);
  CHECK(read(born[0], &byte, 1) == 1, "no child was born");
  CHECK(waitpid(pid, &status, 0) == pid && status == 0, "the parent ended with %x", status);
  WANT(LOAM_OK, loam_open("orphan", NULL, &db, &err));
  WANT(LOAM_OK, loam_has(db, NULL, "k", 1, &err));
  WANT(LOAM_OK, loam_close(db, &err));
  close(end[1]);
}

/* The process that dies: its child tells that it lives, and waits for the end. */
static int parent(int born, int end) {
  char *err = NULL, byte = 0;
  loam_db *db;
  WANT(LOAM_OK, loam_open("orphan", NULL, &db, &err));
  WANT(LOAM_OK, loam_put(db, NULL, "k", 1, "v", 1, NULL, &err));
  if (fork() == 0) {
    alarm(HANG);
    if (write(born, &byte, 1) != 1) _exit(1);
    while (read(end, &byte, 1) > 0) continue;
    _exit(0);
  }
  _exit(0); /* without closing anything */
}

static void child(loam_db *db, loam_batch *batch, loam_iter *iter) {
  char *err = NULL, buf[8];
  size_t len;
  loam_db *other;
  alarm(HANG); /* a hang ends the child */
  WANT(LOAM_ERR_FORKED, loam_open("db", NULL, &other, &err));
  loam_open("db", NULL, &other, &err);
  CHECK(strstr(err, "fork"), "%s", err);
  loam_free(err);
  err = NULL;
  WANT(LOAM_ERR_FORKED, loam_put(db, NULL, "k", 1, "v", 1, NULL, &err));
  WANT(LOAM_ERR_FORKED, loam_get(db, NULL, "k", 1, buf, sizeof buf, &len, &err));
  WANT(LOAM_ERR_FORKED, loam_batch_put(batch, "k", 1, "v", 1, &err));
  WANT(LOAM_ERR_FORKED, loam_batch_close(batch));
  WANT(LOAM_ERR_FORKED, loam_iter_next(iter, NULL, &err));
  WANT(LOAM_ERR_FORKED, loam_iter_close(iter));
  WANT(LOAM_ERR_FORKED, loam_close(db, &err));
  WANT(LOAM_ERR_FORKED, loam_runtime_set(1, 0, 0, &err));
  CHECK(loam_abi_version() == LOAM_ABI_VERSION && loam_status_string(LOAM_ERR_FORKED), "versions");
  const void *data;
  WANT(LOAM_ERR_FORKED, loam_batch_count(batch, &len, &err));
  WANT(LOAM_ERR_FORKED, loam_batch_data(batch, &data, &len, &err));
  WANT(LOAM_ERR_FORKED, loam_iter_entry(iter, NULL, &err));
  results(db, iter);
  exit(0); /* not _exit: destructors must not hang either */
}

static void forked(loam_db *db, loam_batch *batch, loam_iter *iter) {
  int status;
  pid_t pid = fork();
  if (pid == 0) child(db, batch, iter);
  CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0, "child ended with %x", status);
}

int main(int argc, char **argv) {
  char *err = NULL;
  if (argc == 4) return parent(atoi(argv[2]), atoi(argv[3]));
  loam_db *db;
  loam_batch *batch;
  loam_iter *iter;
  forked(NULL, NULL, NULL);
  orphan();
  WANT(LOAM_OK, loam_open("db", NULL, &db, &err));
  WANT(LOAM_OK, loam_batch_create(&batch, &err));
  WANT(LOAM_OK, loam_iter_create(db, NULL, &iter, &err));
  forked(db, batch, iter);
  WANT(LOAM_OK, loam_put(db, WRITE(LOAM_SYNC), "k", 1, "v", 1, NULL, &err));
  WANT(LOAM_OK, loam_has(db, NULL, "k", 1, &err));
  WANT(LOAM_OK, loam_batch_close(batch));
  WANT(LOAM_OK, loam_iter_close(iter));
  WANT(LOAM_OK, loam_close(db, &err));
  return 0;
}
