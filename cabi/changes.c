//go:build cgo

/* Feeds of changes, and the operations of a change, which are read here. */
#include "shim.h"

#include "_cgo_export.h"

#include <string.h>

loam_status loam_changes_open(loam_db *db, uint64_t from, uint64_t flags, loam_changes **changes,
  char **err) {
  CLEAR(changes);
  BEGIN(err);
  WANT(err, changes, "changes");
  FLAGS(err, flags, LOAM_CHANGES_DURABLE);
  uint64_t handle = 0;
  loam_status status = loamgo_changes_open(HANDLE(db), from, flags, &handle, err);
  *changes = (loam_changes *)(uintptr_t)handle;
  return status;
}

loam_status loam_changes_next(loam_changes *changes, size_t max_bytes, int timeout_ms, void **data,
  size_t *len, char **err) {
  CLEAR(data);
  BEGIN(err);
  WANT(err, data, "data");
  WANT(err, len, "len");
  return loamgo_changes_next(HANDLE(changes), max_bytes, timeout_ms, data, len, err);
}

loam_status loam_changes_position(loam_changes *changes, uint64_t *next, char **err) {
  BEGIN(err);
  WANT(err, next, "next");
  return loamgo_changes_position(HANDLE(changes), next, err);
}

loam_status loam_changes_keyspace(loam_changes *changes, uint32_t number, char **name, char **err) {
  CLEAR(name);
  BEGIN(err);
  WANT(err, name, "name");
  return loamgo_changes_keyspace(HANDLE(changes), number, name, err);
}

loam_status loam_changes_close(loam_changes *changes) {
  return loam_release(HANDLE(changes), LOAMGO_CHANGES);
}

/* Reads a varint of at most 32 bits; false: there is none. */
static bool varint(const uint8_t **p, const uint8_t *end, uint32_t *v) {
  uint64_t n = 0;
  for (unsigned shift = 0; *p < end && shift < 35; shift += 7) {
    uint8_t b = *(*p)++;
    n |= (uint64_t)(b & 0x7f) << shift;
    if (b < 0x80) {
      *v = (uint32_t)n;
      return n <= UINT32_MAX;
    }
  }
  return false;
}

static bool bytes(const uint8_t **p, const uint8_t *end, const void **data, size_t *len) {
  uint32_t n;
  if (!varint(p, end, &n) || n > (size_t)(end - *p)) return false;
  *data = *p;
  *len = n;
  *p += n;
  return true;
}

enum {
  CHANGE_HEADER = 12, /* sequence number and count */
  NAMED = 0x80,       /* a keyspace's number follows the kind */
  DEADLINE = 5        /* bytes of seconds behind a value that expires */
};

loam_status loam_change_operation(const void *change, size_t len, size_t *offset,
  loam_operation *operation, uint64_t *expires, char **err) {
  BEGIN_C(err);
  BYTES(err, change, len, "change");
  WANT(err, offset, "offset");
  WANT(err, operation, "operation");
  const uint8_t *begin = change, *end = begin + len;
  size_t at = *offset ? *offset : CHANGE_HEADER;
  if (len < CHANGE_HEADER || at < CHANGE_HEADER || at > len) {
    return loam_fail(err, LOAM_ERR_INVALID_ARGUMENT, "loam: these are not the bytes of a change");
  }
  if (at == len) return LOAM_END;
  const uint8_t *p = begin + at;
  loam_operation o = {.struct_size = sizeof o, .keyspace_named = 1};
  uint64_t deadline = 0;
  bool good = true;
  o.kind = *p++;
  if (o.kind & NAMED) {
    o.kind &= ~NAMED;
    good = varint(&p, end, &o.keyspace);
  }
  good = good && bytes(&p, end, &o.key, &o.key_len);
  if (o.kind != LOAM_OP_DELETE) good = good && bytes(&p, end, &o.value, &o.value_len);
  if (good && o.kind == LOAM_OP_PUT_TTL) {
    good = o.value_len >= DEADLINE;
    if (good) {
      o.value_len -= DEADLINE;
      const uint8_t *d = (const uint8_t *)o.value + o.value_len;
      for (int i = 0; i < DEADLINE; i++) deadline |= (uint64_t)d[i] << 8 * i;
    }
  }
  if (!good) {
    return loam_fail(err, LOAM_ERR_INVALID_ARGUMENT, "loam: these are not the bytes of a change");
  }
  *offset = (size_t)(p - begin);
  *operation = o;
  if (expires) *expires = deadline;
  return LOAM_OK;
}
