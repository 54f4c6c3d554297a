#define _GNU_SOURCE
#include "addon.h"

#include <pthread.h>

typedef struct entry {
  struct entry *next;
  loam_db *db;
  unsigned users;
  char *path;
} entry;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static entry *entries; /* under mutex, which is also held while one opens or closes */

static loam_status open_entry(const char *path, const loam_options *options, loam_db **db,
  char **err) {
  entry *e;
  for (e = entries; e != NULL; e = e->next) {
    if (strcmp(e->path, path) != 0) continue;
    e->users++;
    *db = e->db;
    return LOAM_OK;
  }
  e = calloc(1, sizeof *e);
  if (e == NULL || (e->path = text_copy(path)) == NULL) {
    free(e);
    return LOAM_ERR_NO_MEMORY;
  }
  loam_status status = loam.open(path, options, &e->db, err);
  if (status != LOAM_OK) {
    free(e->path);
    free(e);
    return status;
  }
  e->users = 1;
  e->next = entries;
  entries = e;
  *db = e->db;
  return LOAM_OK;
}

loam_status shared_open(const char *path, const loam_options *options, loam_db **db, char **err) {
  pthread_mutex_lock(&mutex);
  loam_status status = open_entry(path, options, db, err);
  pthread_mutex_unlock(&mutex);
  return status;
}

loam_status shared_close(loam_db *db, char **err) {
  loam_status status = LOAM_OK;
  pthread_mutex_lock(&mutex);
  for (entry **p = &entries; *p != NULL; p = &(*p)->next) {
    entry *e = *p;
    if (e->db != db) continue;
    if (--e->users > 0) break;
    status = loam.close(db, err);
    *p = e->next;
    free(e->path);
    free(e);
    break;
  }
  pthread_mutex_unlock(&mutex);
  return status;
}
