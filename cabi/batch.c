//go:build cgo

/*
 * Batches, in LevelDB's layout: 8 bytes of sequence number, 4 bytes of count, then kind (1 put, 0
 * delete, 2 merge, 15 delete a range, 48 put with a time to live), key and but for deletes value,
 * each with its length as a varint in front. Integers are little-endian. A kind with bit 7 set is
 * followed by the number of a keyspace, as a varint; 0 is "default".
 */
#include "shim.h"

#include "_cgo_export.h"

#include <stdlib.h>
#include <string.h>

/* KEEP: bytes a cleared batch holds on to */
enum { HEADER = 12, DEADLINE = 5, NAMED = 0x80, KEEP = 1 << 20 };

typedef struct {
  uint8_t *data; /* whole at all times: sequence number 0, and the count */
  size_t len, cap; /* cap <= MAX_BYTES */
  bool named; /* the operations that are added name keyspace, else none: that of the writing */
  uint32_t keyspace;
  uint64_t database; /* which the operations with a keyspace are of; 0: there is none yet */
} batch;

static const uint64_t LONGEST = INT64_MAX / 1000000000; /* seconds to live */

/* An operation takes two bytes at least: they can be counted. */
_Static_assert(MAX_BYTES / 2 < UINT32_MAX, "a batch's count has 32 bits");

static inline loam_status acquire(const loam_batch *handle, batch **b) {
  void *object = NULL;
  loam_status status = loam_slot_acquire(HANDLE(handle), KIND_BATCH, &object);
  *b = object;
  return status;
}

static loam_status share(const loam_batch *handle, batch **b) {
  void *object = NULL;
  loam_status status = loam_slot_share(HANDLE(handle), KIND_BATCH, &object);
  *b = object;
  return status;
}

static inline uint32_t little(uint32_t v) {
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  v = __builtin_bswap32(v);
#endif
  return v;
}

static inline uint32_t counted(const batch *b) {
  uint32_t v;
  memcpy(&v, b->data + 8, sizeof v);
  return little(v);
}

static inline void count(batch *b, uint32_t n) {
  uint32_t v = little(counted(b) + n);
  memcpy(b->data + 8, &v, sizeof v);
}

/* Where bytes lie in the batch; not less than its length: elsewhere. */
static size_t offset_in(const batch *b, const void **bytes) {
  return bytes ? (uintptr_t)*bytes - (uintptr_t)b->data : SIZE_MAX;
}

/* Makes room for n more bytes: LOAM_OK, LOAM_ERR_TOO_LARGE or
 * LOAM_ERR_NO_MEMORY. key and value (or NULL) may point into the batch, and follow it. */
static loam_status grow(batch *b, size_t n, const void **key, const void **value) {
  if (n > MAX_BYTES - b->len) return LOAM_ERR_TOO_LARGE;
  size_t cap = 2 * b->cap > b->len + n ? 2 * b->cap : b->len + n;
  if (cap > MAX_BYTES) cap = MAX_BYTES;
  size_t key_at = offset_in(b, key), value_at = offset_in(b, value);
  uint8_t *data = realloc(b->data, cap);
  if (!data) return LOAM_ERR_NO_MEMORY;
  b->data = data;
  b->cap = cap;
  if (key_at < b->len) *key = data + key_at;
  if (value_at < b->len) *value = data + value_at;
  return LOAM_OK;
}

static loam_status fail_grow(char **err, loam_status status) {
  return loam_fail(err, status, status == LOAM_ERR_TOO_LARGE ?
    "loam: the batch would be larger than 4 GiB - 1 MiB" : "loam: out of memory");
}

static inline uint8_t *put_bytes(uint8_t *p, const void *bytes, size_t n) {
  size_t v = n;
  for (; v >= 0x80; v >>= 7) *p++ = (uint8_t)(v | 0x80);
  *p++ = (uint8_t)v;
  if (n) memcpy(p, bytes, n);
  return p + n;
}

/* Begins an operation. */
static inline uint8_t *put_kind(uint8_t *p, const batch *b, uint8_t kind) {
  if (__builtin_expect(!b->named, 1)) {
    *p++ = kind;
    return p;
  }
  *p++ = kind | NAMED;
  uint32_t v = b->keyspace;
  for (; v >= 0x80; v >>= 7) *p++ = (uint8_t)(v | 0x80);
  *p++ = (uint8_t)v;
  return p;
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
  memset(b->data, 0, 8);
  *out = (loam_batch *)(uintptr_t)handle;
  return LOAM_OK;
}

loam_status loam_batch_create(loam_batch **out, char **err) {
  static const uint8_t empty[HEADER];
  CLEAR(out);
  BEGIN_C(err);
  WANT(err, out, "batch");
  return create(empty, sizeof empty, out, err);
}

loam_status loam_batch_create_from(const void *data, size_t len, loam_batch **out, char **err) {
  CLEAR(out);
  BEGIN_C(err);
  WANT(err, out, "batch");
  BYTES(err, data, len, "batch");
  ENTER(err);
  loam_status status = loamgo_check((void *)data, len, err);
  return status == LOAM_OK ? create(data, len, out, err) : status;
}

loam_status loam_batch_close(loam_batch *handle) {
  BEGIN_C((char **)NULL);
  if (!handle) return LOAM_OK;
  void *object = NULL;
  loam_status status = loam_slot_remove(HANDLE(handle), KIND_BATCH, &object);
  if (status != LOAM_OK) return status;
  batch *b = object;
  free(b->data);
  free(b);
  return LOAM_OK;
}

/* Adds an operation with a value. */
static inline loam_status add(loam_batch *handle, uint8_t kind, const void *key, size_t key_len,
  const void *value, size_t value_len, char **err) {
  loam_slot *slot;
  loam_status status = loam_slot_take(HANDLE(handle), KIND_BATCH, &slot);
  if (__builtin_expect(status != LOAM_OK, 0)) return loam_fail_slot(err, status, "batch");
  batch *b = slot->object;
  size_t most = 16 + key_len + value_len;
  if (__builtin_expect(most > b->cap - b->len, 0) &&
    (status = grow(b, most, &key, &value)) != LOAM_OK) {
    loam_slot_give(slot, HANDLE(handle));
    return fail_grow(err, status);
  }
  uint8_t *p = b->data + b->len;
  p = put_kind(p, b, kind);
  p = put_bytes(p, key, key_len);
  p = put_bytes(p, value, value_len);
  b->len = (size_t)(p - b->data);
  count(b, 1);
  loam_slot_give(slot, HANDLE(handle));
  return LOAM_OK;
}

/* Adds a value with a time to live in five bytes behind it, the highest bit set: the write makes
 * a deadline of it. */
static loam_status add_ttl(loam_batch *handle, const void *key, size_t key_len, const void *value,
  size_t value_len, uint64_t seconds, char **err) {
  loam_slot *slot;
  loam_status status = loam_slot_take(HANDLE(handle), KIND_BATCH, &slot);
  if (status != LOAM_OK) return loam_fail_slot(err, status, "batch");
  batch *b = slot->object;
  size_t most = 16 + DEADLINE + key_len + value_len;
  if (most > b->cap - b->len && (status = grow(b, most, &key, &value)) != LOAM_OK) {
    loam_slot_give(slot, HANDLE(handle));
    return fail_grow(err, status);
  }
  uint8_t *p = put_bytes(put_kind(b->data + b->len, b, LOAM_OP_PUT_TTL), key, key_len);
  size_t v = value_len + DEADLINE;
  for (; v >= 0x80; v >>= 7) *p++ = (uint8_t)(v | 0x80);
  *p++ = (uint8_t)v;
  if (value_len) memcpy(p, value, value_len);
  p += value_len;
  seconds |= (uint64_t)1 << (8 * DEADLINE - 1);
  for (int i = 0; i < DEADLINE; i++) *p++ = (uint8_t)(seconds >> 8 * i);
  b->len = (size_t)(p - b->data);
  count(b, 1);
  loam_slot_give(slot, HANDLE(handle));
  return LOAM_OK;
}

loam_status loam_batch_put(loam_batch *handle, const void *key, size_t key_len, const void *value,
  size_t value_len, char **err) {
  BEGIN_C(err);
  BYTES(err, key, key_len, "key");
  BYTES(err, value, value_len, "value");
  return add(handle, LOAM_OP_PUT, key, key_len, value, value_len, err);
}

loam_status loam_batch_put_ttl(loam_batch *handle, const void *key, size_t key_len,
  const void *value, size_t value_len, uint64_t seconds, char **err) {
  BEGIN_C(err);
  BYTES(err, key, key_len, "key");
  BYTES(err, value, value_len, "value");
  if (seconds < 1 || seconds > LONGEST)
    return loam_fail(err, LOAM_ERR_INVALID_ARGUMENT,
      "loam: a time to live of %llu s: it must be from 1 to %lld", (unsigned long long)seconds,
      (long long)LONGEST);
  return add_ttl(handle, key, key_len, value, value_len, seconds, err);
}

loam_status loam_batch_merge(loam_batch *handle, const void *key, size_t key_len,
  const void *operand, size_t operand_len, char **err) {
  BEGIN_C(err);
  BYTES(err, key, key_len, "key");
  BYTES(err, operand, operand_len, "operand");
  return add(handle, LOAM_OP_MERGE, key, key_len, operand, operand_len, err);
}

loam_status loam_batch_delete_range(loam_batch *handle, const void *start, size_t start_len,
  const void *limit, size_t limit_len, char **err) {
  BEGIN_C(err);
  BYTES(err, start, start_len, "start");
  BYTES(err, limit, limit_len, "limit");
  return add(handle, LOAM_OP_DELETE_RANGE, start, start_len, limit, limit_len, err);
}

loam_status loam_batch_delete(loam_batch *handle, const void *key, size_t key_len, char **err) {
  BEGIN_C(err);
  BYTES(err, key, key_len, "key");
  batch *b;
  loam_status status = acquire(handle, &b);
  if (status != LOAM_OK) return loam_fail_slot(err, status, "batch");
  size_t most = 11 + key_len;
  if (most > b->cap - b->len && (status = grow(b, most, &key, NULL)) != LOAM_OK) {
    loam_slot_release(HANDLE(handle));
    return fail_grow(err, status);
  }
  uint8_t *p = b->data + b->len;
  p = put_kind(p, b, LOAM_OP_DELETE);
  b->len = (size_t)(put_bytes(p, key, key_len) - b->data);
  count(b, 1);
  loam_slot_release(HANDLE(handle));
  return LOAM_OK;
}

loam_status loam_batch_in(loam_batch *handle, loam_db *keyspace, char **err) {
  BEGIN(err);
  uint32_t number = 0;
  uint64_t database = 0;
  batch *b;
  loam_status status;
  if (keyspace &&
    (status = loamgo_keyspace_number(HANDLE(keyspace), &number, &database,
      err)) != LOAM_OK) return status;
  if ((status = acquire(handle, &b)) != LOAM_OK) return loam_fail_slot(err, status, "batch");
  if (b->len == HEADER) b->database = 0;
  if (keyspace && b->database && b->database != database) {
    status = loam_fail(err, LOAM_ERR_INVALID_ARGUMENT,
      "loam: the batch names a keyspace of another database");
  } else {
    b->named = keyspace != NULL;
    b->keyspace = number;
    if (keyspace) b->database = database;
  }
  loam_slot_release(HANDLE(handle));
  return status;
}

loam_status loam_batch_clear(loam_batch *handle) {
  BEGIN_C((char **)NULL);
  batch *b;
  loam_status status = acquire(handle, &b);
  if (status != LOAM_OK) return status;
  b->len = HEADER;
  if (!b->named) b->database = 0;
  count(b, -counted(b));
  uint8_t *smaller = b->cap > KEEP ? realloc(b->data, KEEP) : NULL;
  if (smaller) {
    b->data = smaller;
    b->cap = KEEP;
  }
  loam_slot_release(HANDLE(handle));
  return LOAM_OK;
}

loam_status loam_batch_append(loam_batch *handle, const loam_batch *other, char **err) {
  BEGIN_C(err);
  batch *b, *o;
  loam_status status = acquire(handle, &b);
  if (status != LOAM_OK) return loam_fail_slot(err, status, "batch");
  bool same = HANDLE(handle) == HANDLE(other);
  status = LOAM_OK;
  if (same) o = b;
  else status = share(other, &o);
  if (status != LOAM_OK) {
    loam_slot_release(HANDLE(handle));
    return loam_fail_slot(err, status, "batch");
  }
  size_t n = o->len - HEADER;
  uint32_t operations = counted(o);
  if (b->database && o->database && b->database != o->database) {
    if (!same) loam_slot_unshare(HANDLE(other));
    loam_slot_release(HANDLE(handle));
    return loam_fail(err, LOAM_ERR_INVALID_ARGUMENT,
      "loam: the batches name keyspaces of two databases");
  }
  if (n > b->cap - b->len) status = grow(b, n, NULL, NULL);
  if (status == LOAM_OK) {
    memcpy(b->data + b->len, o->data + HEADER, n);
    b->len += n;
    if (o->database) b->database = o->database;
    count(b, operations);
  }
  if (!same) loam_slot_unshare(HANDLE(other));
  loam_slot_release(HANDLE(handle));
  return status == LOAM_OK ? LOAM_OK : fail_grow(err, status);
}

loam_status loam_batch_count(const loam_batch *handle, size_t *operations, char **err) {
  BEGIN_C(err);
  WANT(err, operations, "count");
  batch *b;
  loam_status status = share(handle, &b);
  if (status != LOAM_OK) return loam_fail_slot(err, status, "batch");
  *operations = counted(b);
  loam_slot_unshare(HANDLE(handle));
  return LOAM_OK;
}

loam_status loam_batch_data(const loam_batch *handle, const void **data, size_t *len, char **err) {
  CLEAR(data);
  BEGIN_C(err);
  WANT(err, data, "data");
  WANT(err, len, "len");
  batch *b;
  loam_status status = share(handle, &b);
  if (status != LOAM_OK) return loam_fail_slot(err, status, "batch");
  *data = b->data;
  *len = b->len;
  loam_slot_unshare(HANDLE(handle));
  return LOAM_OK;
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

loam_status loam_batch_each(const loam_batch *handle, loam_operation_fn visit, void *arg,
  char **err) {
  BEGIN_C(err);
  WANT(err, visit, "visit");
  batch *b;
  loam_status status = share(handle, &b);
  if (status != LOAM_OK) return loam_fail_slot(err, status, "batch");
  loam_visit here = {HANDLE(handle), loam_visits};
  loam_visits = &here;
  loam_failure failure = {NULL};
  int stop = 0;
  for (const uint8_t *p = b->data + HEADER, *end = b->data + b->len; p < end && !stop &&
    !failure.message;) {
    uint8_t kind = *p++;
    uint32_t keyspace = 0, named = (kind & NAMED) != 0;
    if (named) {
      kind ^= NAMED;
      int shift = 0;
      for (; *p & 0x80; shift += 7) keyspace |= (uint32_t)(*p++ & 0x7f) << shift;
      keyspace |= (uint32_t)*p++ << shift;
    }
    loam_operation operation = {sizeof operation, kind, NULL, 0, NULL, 0, keyspace, named};
    p = get_bytes(p, &operation.key, &operation.key_len);
    if (operation.kind == LOAM_OP_PUT || operation.kind == LOAM_OP_MERGE ||
      operation.kind == LOAM_OP_DELETE_RANGE) p = get_bytes(p, &operation.value,
      &operation.value_len);
    else if (operation.kind == LOAM_OP_PUT_TTL) {
      p = get_bytes(p, &operation.value, &operation.value_len);
      operation.value_len -= DEADLINE;
    } else if (operation.kind != LOAM_OP_DELETE) break;
    stop = visit(arg, &operation, &failure);
  }
  loam_visits = here.outer;
  loam_slot_unshare(HANDLE(handle));
  return failure.message ? loam_fail_callback(err, &failure) : LOAM_OK;
}

loam_status loam_write(loam_db *db, const loam_write_options *options, const loam_batch *handle,
  uint64_t *sequence, char **err) {
  BEGIN(err);
  WRITING(err, options);
  batch *b;
  loam_status status = acquire(handle, &b);
  if (status != LOAM_OK) return loam_fail_slot(err, status, "batch");
  status = loamgo_write(HANDLE(db), b->database, b->data, b->len, flags, err);
  if (sequence && status == LOAM_OK) {
    uint64_t first = 0;
    for (int i = 0; i < 8; i++) first |= (uint64_t)b->data[i] << 8 * i;
    *sequence = counted(b) ? first + counted(b) - 1 : 0;
  }
  memset(b->data, 0, 8); /* the write stored its sequence number */
  loam_slot_release(HANDLE(handle));
  return status;
}

static loam_status hand_over(uint64_t object, const loam_batch *handle,
  loam_status (*to)(uint64_t, void *, size_t, char **), char **err) {
  batch *b;
  loam_status status = acquire(handle, &b);
  if (status != LOAM_OK) return loam_fail_slot(err, status, "batch");
  status = to(object, b->data, b->len, err);
  loam_slot_release(HANDLE(handle));
  return status;
}

loam_status loam_table_writer_add(loam_table_writer *writer, const loam_batch *batch, char **err) {
  BEGIN(err);
  return hand_over(HANDLE(writer), batch, loamgo_table_writer_add, err);
}

loam_status loam_bulk_load_add(loam_bulk_load *load, const loam_batch *batch, char **err) {
  BEGIN(err);
  return hand_over(HANDLE(load), batch, loamgo_bulk_load_add, err);
}
