/* Encrypted databases: nothing in clear, missing and wrong keys, another key. */
#include "check.h"

#include <dirent.h>
#include <sys/stat.h>

#define OLD "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define NEW "ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100"
#define MARK "what nobody may read"

static char *err;

static void write_keys(const char *keys) {
  FILE *f = fopen("keys", "w");
  CHECK(f && fputs(keys, f) >= 0 && fclose(f) == 0, "keys");
}

static loam_status open_with(const char *encryption, loam_db **db) {
  loam_options *options;
  WANT(LOAM_OK, loam_options_create(&options, &err));
  WANT(LOAM_OK, loam_options_set(options, "compression", "none", &err));
  if (encryption) WANT(LOAM_OK, loam_options_set(options, "encryption", encryption, &err));
  loam_status status = loam_open("db", options, db, &err);
  loam_options_close(options);
  return status;
}

static bool holds(const char *path, const char *mark) {
  FILE *f = fopen(path, "rb");
  CHECK(f, "%s", path);
  static char b[1 << 20];
  size_t n = fread(b, 1, sizeof b, f), len = strlen(mark);
  fclose(f);
  for (size_t i = 0; i + len <= n; i++)
    if (!memcmp(b + i, mark, len)) return true;
  return false;
}

/* Searches the files of a directory, and returns how many there are. */
static int search(const char *dir, const char *mark) {
  DIR *d = opendir(dir);
  int files = 0;
  CHECK(d, "%s", dir);
  for (struct dirent *e; (e = readdir(d));) {
    char path[600];
    struct stat st;
    if (e->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
    CHECK(!stat(path, &st), "%s", path);
    if (S_ISDIR(st.st_mode)) {
      files += search(path, mark);
      continue;
    }
    files++;
    CHECK(!holds(path, mark), "%s has the value in clear", path);
  }
  closedir(d);
  return files;
}

static void fill(loam_db *db) {
  for (int i = 0; i < 500; i++) {
    char key[64];
    int n = snprintf(key, sizeof key, MARK " %d", i);
    WANT(LOAM_OK, loam_put(db, NULL, key, (size_t)n, MARK, strlen(MARK), NULL, &err));
    if (i == 300) WANT(LOAM_OK, loam_flush(db, &err));
  }
}

/* The id of the only key in use. */
static void one_key(loam_db *db, char id[17]) {
  char *json;
  WANT(LOAM_OK, loam_keys_in_use(db, &json, &err));
  const char *at = strstr(json, "\"id\":\"");
  CHECK(at && strlen(at) > 22 && !strstr(at + 1, "\"id\":"), "%s", json);
  memcpy(id, at + 6, 16);
  id[16] = 0;
  loam_free(json);
}

int main(void) {
  loam_options *options;
  WANT(LOAM_OK, loam_options_create(&options, &err));
  loam_status status = loam_options_set(options, "encryption", "key:" OLD "0", &err);
  CHECK(status == LOAM_ERR_INVALID_ARGUMENT && !strstr(err, "0011"), "%d %s", status, err);
  loam_free(err);
  err = NULL;
  loam_options_close(options);

  loam_db *db;
  char first[17], second[17];
  write_keys("# of a test\n" OLD "\n");
  WANT(LOAM_OK, open_with("file:keys", &db));
  fill(db);
  one_key(db, first);
  WANT(LOAM_OK, loam_close(db, &err));
  CHECK(search("db", MARK) >= 4, "few files");

  const char *wrong[] = {NULL, "key:" NEW, "passphrase:" OLD};
  for (int i = 0; i < 3; i++) {
    status = open_with(wrong[i], &db);
    CHECK(status == LOAM_ERR_ENCRYPTION && strstr(err, first), "%d: %d %s", i, status, err);
    loam_free(err);
    err = NULL;
  }

  write_keys(NEW "\n" OLD "\n");
  WANT(LOAM_OK, open_with("file:keys", &db));
  WANT(LOAM_OK, loam_rekey(db, &err));
  one_key(db, second);
  CHECK(strcmp(first, second), "%s", second);
  loam_job *job;
  WANT(LOAM_OK, loam_rekey_start(db, &job, &err));
  WANT(LOAM_OK, loam_job_wait(job, -1, &err));
  WANT(LOAM_OK, loam_job_close(job));
  WANT(LOAM_OK, loam_close(db, &err));

  WANT(LOAM_OK, open_with("key:" NEW, &db));
  char *value;
  size_t len;
  WANT(LOAM_OK, loam_get_alloc(db, NULL, MARK " 7", strlen(MARK " 7"), (void **)&value, &len, &err));
  CHECK(len == strlen(MARK) && !memcmp(value, MARK, len), "%.*s", (int)len, value);
  loam_free(value);
  WANT(LOAM_OK, loam_close(db, &err));

  loam_db *clear;
  WANT(LOAM_OK, loam_open("clear", NULL, &clear, &err));
  WANT(LOAM_ERR_INVALID_ARGUMENT, loam_rekey(clear, &err));
  WANT(LOAM_OK, loam_close(clear, &err));
  return 0;
}
