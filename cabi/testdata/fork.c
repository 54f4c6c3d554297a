/* A child of fork() gets a clear error at once, also when the library was only
 * loaded, and does not disturb the parent. */
#include "check.h"

#include <sys/wait.h>
#include <unistd.h>

static void child(loam_db *db, loam_batch *batch, loam_iter *iter) {
  char *err = NULL, buf[8];
  size_t len;
  loam_db *other;
  alarm(10); /* a hang ends the child */
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
  exit(0); /* not _exit: destructors must not hang either */
}

static void forked(loam_db *db, loam_batch *batch, loam_iter *iter) {
  int status;
  pid_t pid = fork();
  if (pid == 0) child(db, batch, iter);
  CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0, "child ended with %x", status);
}

int main(void) {
  char *err = NULL;
  loam_db *db;
  loam_batch *batch;
  loam_iter *iter;
  forked(NULL, NULL, NULL);
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
