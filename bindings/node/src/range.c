#include "addon.h"

/* The library's ranges include their lower bound and exclude the upper one. The
 * smallest key above another is known bytewise, as that key and a zero byte. In
 * other orders the first key above it that there is does as well: an iterator
 * finds that in its own state of the database. */

bool range_read(napi_env env, range *r, napi_value lower, napi_value upper, uint32_t flags,
  bool bytewise) {
  if (!bytes_copy(env, lower, &r->lower, &r->lower_len) ||
    !bytes_copy(env, upper, &r->upper, &r->upper_len)) return false;
  bool after = r->lower != NULL && flags & FLAG_AFTER_LOWER, through = r->upper != NULL &&
    flags & FLAG_THROUGH_UPPER;
  if (bytewise) {
    /* bytes_copy put a zero behind. */
    r->lower_len += after;
    r->upper_len += through;
  } else {
    r->after_lower = after;
    r->through_upper = through;
  }
  return true;
}

void range_free(range *r) {
  free(r->lower);
  free(r->upper);
}

/* Replaces a key by the first one above it, by NULL when there is none. */
static loam_status step(loam_iter *iter, char **key, size_t *len, char **error) {
  loam_entry entry;
  char *next = NULL;
  loam_status status = loam.iter_seek(iter, *key, *len, &entry, error);
  if (status == LOAM_OK && entry.key_len == *len && memcmp(entry.key, *key, *len) == 0) {
    status = loam.iter_next(iter, &entry, error);
  }
  if (status < 0) return status;
  if (status == LOAM_OK) {
    next = malloc(entry.key_len + 1);
    if (next == NULL) return LOAM_ERR_NO_MEMORY;
    memcpy(next, entry.key, entry.key_len);
    *len = entry.key_len;
  }
  free(*key);
  *key = next;
  return LOAM_OK;
}

loam_status range_resolve(range *r, loam_iter *iter, char **error) {
  loam_status status = LOAM_OK;
  if (!r->after_lower && !r->through_upper) return LOAM_OK;
  if (r->through_upper) status = step(iter, &r->upper, &r->upper_len, error);
  r->through_upper = r->through_upper && status < 0;
  if (status == LOAM_OK && r->after_lower) {
    status = step(iter, &r->lower, &r->lower_len, error);
    r->after_lower = status < 0;
    if (status == LOAM_OK && r->lower == NULL) r->nothing = true;
  }
  if (status < 0) return status;
  return loam.iter_set_bounds(iter, r->lower, r->lower_len, r->upper, r->upper_len, error);
}
