//go:build cgo && !windows

/*
 * Batches, in LevelDB's layout: 8 bytes of sequence number, 4 bytes of count,
 * then kind (1 put, 0 delete), key and for puts value, each with its length as
 * a varint in front. Integers are little-endian.
 */
#include "shim.h"

#include "_cgo_export.h"

#include <stdlib.h>
#include <string.h>

enum { HEADER = 12, KEEP = 1 << 20 /* bytes a cleared batch holds on to */ };

typedef struct {
  uint8_t *data;
  size_t len, cap;
  uint32_t count; /* stored into the header when the bytes are wanted */
} batch;

static inline loam_status acquire(const loam_batch *handle, batch **b) {
  void *object = NULL;
  loam_status status = loam_slot_acquire(HANDLE(handle), KIND_BATCH, &object);
  *b = object;
  return status;
}

static void seal(batch *b) {
  memset(b->data, 0, 8); /* a write stores its sequence number */
  for (int i = 0; i < 4; i++) b->data[8 + i] = (uint8_t)(b->count >> 8 * i);
}

/* Makes room for n more bytes: LOAM_OK, LOAM_ERR_TOO_LARGE or
 * LOAM_ERR_NO_MEMORY. */
static loam_status grow(batch *b, size_t n) {
  if (n > MAX_BYTES - b->len || b->count == UINT32_MAX) return LOAM_ERR_TOO_LARGE;
  size_t cap = 2 * b->cap > b->len + n ? 2 * b->cap : b->len + n;
  uint8_t *data = realloc(b->data, cap);
  if (!data) return LOAM_ERR_NO_MEMORY;
  b->data = data;
  b->cap = cap;
  return LOAM_OK;
}

static loam_status fail_grow(char **err, loam_status status) {
  return loam_fail(err, status, status == LOAM_ERR_TOO_LARGE ? "loam: the batch would be larger than 4 GiB - 1 MiB" : "loam: out of memory");
}

static inline uint8_t *put_bytes(uint8_t *p, const void *bytes, size_t n) {
  size_t v = n;
  for (; v >= 0x80; v >>= 7) *p++ = (uint8_t)(v | 0x80);
  *p++ = (uint8_t)v;
  if (n) memcpy(p, bytes, n);
  return p + n;
}

static loam_status create(const void *data, size_t len, loam_batch **out, char **err) {
  batch *b = calloc(1, sizeof *b);
  size_t cap = len > 256 ? len : 256;
  if (b) b->data = malloc(cap);
  uint64_t handle = b && b->data ? loam_slot_add(KIND_BATCH, b) : 0;
  if (!handle) {
    if (b) free(b->data);
    free(b);
    return loam_fail(err, LOAM_ERR_NO_MEMORY, "loam: out of memory");
  }
  b->cap = cap;
  b->len = len;
  memcpy(b->data, data, len);
  for (int i = 0; i < 4; i++) b->count |= (uint32_t)b->data[8 + i] << 8 * i;
  *out = (loam_batch *)(uintptr_t)handle;
  return LOAM_OK;
}

loam_status loam_batch_create(loam_batch **out, char **err) {
  static const uint8_t empty[HEADER];
  BEGIN(err);
  WANT(err, out, "batch");
  *out = NULL;
  return create(empty, sizeof empty, out, err);
}

loam_status loam_batch_create_from(const void *data, size_t len, loam_batch **out, char **err) {
  BEGIN(err);
  WANT(err, out, "batch");
  *out = NULL;
  BYTES(err, data, len, "batch");
  loam_status status = loamgo_check((void *)data, len, err);
  return status == LOAM_OK ? create(data, len, out, err) : status;
}

loam_status loam_batch_close(loam_batch *handle) {
  BEGIN((char **)NULL);
  if (!handle) return LOAM_OK;
  void *object = NULL;
  loam_status status = loam_slot_remove(HANDLE(handle), KIND_BATCH, &object);
  if (status != LOAM_OK) return status;
  batch *b = object;
  free(b->data);
  free(b);
  return LOAM_OK;
}

loam_status loam_batch_put(loam_batch *handle, const void *key, size_t key_len, const void *value, size_t value_len, char **err) {
  BEGIN(err);
  BYTES(err, key, key_len, "key");
  BYTES(err, value, value_len, "value");
  batch *b;
  loam_status status = acquire(handle, &b);
  if (__builtin_expect(status != LOAM_OK, 0)) return loam_fail_slot(err, status, "batch");
  size_t most = 11 + key_len + value_len;
  if (__builtin_expect(most > b->cap - b->len || b->count == UINT32_MAX, 0) && (status = grow(b, most)) != LOAM_OK) {
    loam_slot_release(HANDLE(handle));
    return fail_grow(err, status);
  }
  uint8_t *p = b->data + b->len;
  *p++ = 1;
  p = put_bytes(p, key, key_len);
  p = put_bytes(p, value, value_len);
  b->len = (size_t)(p - b->data);
  b->count++;
  loam_slot_release(HANDLE(handle));
  return LOAM_OK;
}

loam_status loam_batch_delete(loam_batch *handle, const void *key, size_t key_len, char **err) {
  BEGIN(err);
  BYTES(err, key, key_len, "key");
  batch *b;
  loam_status status = acquire(handle, &b);
  if (status != LOAM_OK) return loam_fail_slot(err, status, "batch");
  size_t most = 6 + key_len;
  if ((most > b->cap - b->len || b->count == UINT32_MAX) && (status = grow(b, most)) != LOAM_OK) {
    loam_slot_release(HANDLE(handle));
    return fail_grow(err, status);
  }
  uint8_t *p = b->data + b->len;
  *p++ = 0;
  b->len = (size_t)(put_bytes(p, key, key_len) - b->data);
  b->count++;
  loam_slot_release(HANDLE(handle));
  return LOAM_OK;
}

loam_status loam_batch_clear(loam_batch *handle) {
  BEGIN((char **)NULL);
  batch *b;
  loam_status status = acquire(handle, &b);
  if (status != LOAM_OK) return status;
  b->len = HEADER;
  b->count = 0;
  uint8_t *smaller = b->cap > KEEP ? realloc(b->data, KEEP) : NULL;
  if (smaller) {
    b->data = smaller;
    b->cap = KEEP;
  }
  loam_slot_release(HANDLE(handle));
  return LOAM_OK;
}

loam_status loam_batch_append(loam_batch *handle, const loam_batch *other, char **err) {
  BEGIN(err);
  batch *b, *o;
  loam_status status = acquire(handle, &b);
  if (status != LOAM_OK) return loam_fail_slot(err, status, "batch");
  bool same = HANDLE(handle) == HANDLE(other);
  status = LOAM_OK;
  if (same) o = b;
  else status = acquire(other, &o);
  if (status != LOAM_OK) {
    loam_slot_release(HANDLE(handle));
    return loam_fail_slot(err, status, "batch");
  }
  size_t n = o->len - HEADER;
  uint32_t count = o->count;
  if (count > UINT32_MAX - b->count) status = LOAM_ERR_TOO_LARGE;
  else if (n > b->cap - b->len) status = grow(b, n);
  if (status == LOAM_OK) {
    memcpy(b->data + b->len, o->data + HEADER, n);
    b->len += n;
    b->count += count;
  }
  if (!same) loam_slot_release(HANDLE(other));
  loam_slot_release(HANDLE(handle));
  return status == LOAM_OK ? LOAM_OK : fail_grow(err, status);
}

size_t loam_batch_count(const loam_batch *handle) {
  batch *b;
  if (loam_forked || acquire(handle, &b) != LOAM_OK) return 0;
  size_t n = b->count;
  loam_slot_release(HANDLE(handle));
  return n;
}

const void *loam_batch_data(const loam_batch *handle, size_t *len) {
  batch *b;
  if (len) *len = 0;
  if (loam_forked || acquire(handle, &b) != LOAM_OK) return NULL;
  seal(b);
  const void *data = b->data;
  if (len) *len = b->len;
  loam_slot_release(HANDLE(handle));
  return data;
}

/* The shim wrote these bytes or had them checked: no bound is looked at. */
static const uint8_t *get_bytes(const uint8_t *p, const void **bytes, size_t *n) {
  size_t v = 0;
  int shift = 0;
  for (; *p & 0x80; shift += 7) v |= (size_t)(*p++ & 0x7f) << shift;
  v |= (size_t)*p++ << shift;
  *bytes = p;
  *n = v;
  return p + v;
}

loam_status loam_batch_each(const loam_batch *handle, void *arg,
                            void (*put)(void *, const void *, size_t, const void *, size_t),
                            void (*del)(void *, const void *, size_t), char **err) {
  BEGIN(err);
  WANT(err, put, "put");
  WANT(err, del, "del");
  batch *b;
  loam_status status = acquire(handle, &b);
  if (status != LOAM_OK) return loam_fail_slot(err, status, "batch");
  for (const uint8_t *p = b->data + HEADER, *end = b->data + b->len; p < end;) {
    const void *key, *value;
    size_t key_len, value_len;
    bool is_put = *p++ == 1;
    p = get_bytes(p, &key, &key_len);
    if (!is_put) {
      del(arg, key, key_len);
      continue;
    }
    p = get_bytes(p, &value, &value_len);
    put(arg, key, key_len, value, value_len);
  }
  loam_slot_release(HANDLE(handle));
  return LOAM_OK;
}

loam_status loam_write(loam_db *db, const loam_batch *handle, unsigned flags, char **err) {
  BEGIN(err);
  FLAGS(err, flags, LOAM_SYNC | LOAM_NO_STALL);
  batch *b;
  loam_status status = acquire(handle, &b);
  if (status != LOAM_OK) return loam_fail_slot(err, status, "batch");
  seal(b);
  status = loamgo_write(HANDLE(db), b->data, b->len, flags, err);
  loam_slot_release(HANDLE(handle));
  return status;
}
