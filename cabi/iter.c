//go:build cgo

/*
 * Iterators. The engine's iterator is at the last entry of a block that was copied to C memory, and
 * moves are served from the block.
 */
#include "shim.h"

#include "_cgo_export.h"

#include <stdlib.h>
#include <string.h>

enum {
  FIRST_BUFFER = 4 << 10,
  FULL_BUFFER = 36 << 10, /* BLOCK_BYTES and one more entry */
  BLOCK_BYTES = 32 << 10,
  BLOCK_ENTRIES = 512, /* fetched ahead at most */
  GROWTH = 4,          /* of the number fetched, from one block to the next */
  MOST_BYTES = 16 << 20,  /* of a block somebody asks for */
  MOST_ENTRIES = 1 << 20
};

enum state {
  OUTSIDE, /* no entry; next goes to the first, prev to the last */
  BEFORE,  /* before the first entry */
  AFTER,   /* behind the last entry */
  GAP,     /* where the key gap would be */
  AT,      /* at entry number at of the block */
  FAILED   /* no entry until it is sent somewhere else */
};

typedef struct {
  uint64_t engine; /* handle of Go's iterator */
  enum state state;
  bool backward; /* order of the block */
  bool more;     /* the engine has entries behind the block */
  bool unread;   /* AT the block's last entry, which was not looked for yet */
  size_t at;     /* index of the entry */
  size_t start;  /* its offset in the block */
  size_t next;   /* the offset behind it */

  uint8_t *data; /* the block */
  size_t len, count, cap;
  size_t want;  /* entries to fetch next */
  size_t known; /* starts holds the offsets of entries known..at */
  uint32_t starts[BLOCK_ENTRIES];

  uint8_t *gap;
  size_t gap_len, gap_cap;

  bool in_txn;
  loam_status failed; /* FAILED: why */
  char *message;      /* NULL: none */
} iter;

static inline loam_status acquire(const loam_iter *handle, iter **it) {
  void *object = NULL;
  loam_status status = loam_slot_acquire(HANDLE(handle), KIND_ITER, &object);
  *it = object;
  return status;
}

static inline uint32_t u32(const uint8_t *p) {
  uint32_t v;
  memcpy(&v, p, sizeof v);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  v = __builtin_bswap32(v);
#endif
  return v;
}

/* The entry at an offset of the block. */
static inline loam_entry entry_at(const iter *it, size_t offset) {
  const uint8_t *p = it->data + offset;
  uint32_t key_len = u32(p), value_len = u32(p + 4);
  return (loam_entry){p + 8, key_len, p + 8 + key_len, value_len};
}

/* Goes to the entry at an offset of the block, which is number at. The entry is
 * returned and not stored: it is in registers on its way to the caller. */
static inline loam_entry go_to(iter *it, size_t at, size_t offset) {
  loam_entry e = entry_at(it, offset);
  it->at = at;
  it->start = offset;
  it->next = offset + 8 + e.key_len + e.value_len;
  if (at < BLOCK_ENTRIES) it->starts[at] = (uint32_t)offset;
  return e;
}

/* Looks for the block's last entry after the block was handed out. */
static void settle(iter *it) {
  if (!it->unread) return;
  size_t offset = it->next; /* of an entry not behind the last */
  for (size_t i = it->at; i + 1 < it->count; i++) {
    offset += 8 + (size_t)u32(it->data + offset) + u32(it->data + offset + 4);
  }
  go_to(it, it->count - 1, offset);
  it->known = it->at;
  it->unread = false;
}

/* Goes over all entries of the block from number at, at an offset, without
 * reading them. */
static void hand_out(iter *it, size_t at, size_t offset) {
  it->state = AT;
  it->unread = true;
  it->at = at;
  it->next = offset;
}

static loam_status fail_again(const iter *it, char **err) {
  if (err) *err = it->message ? loam_message_copy(it->message) : NULL;
  return it->failed;
}

/* Fetches a block with at least one entry, or says why there is none. The key
 * may lie in the present block. */
static loam_status fetch(iter *it, int op, const void *key, size_t key_len, size_t entries,
  size_t bytes, char **err) {
  ENTER_TO(it->in_txn ? CALL_OTHER : CALL_READS, err); /* before the block is given up */
  uint8_t *old = NULL; /* has the key, perhaps */
  uint8_t *larger = it->cap < FULL_BUFFER && entries > 16 ? malloc(FULL_BUFFER) : NULL;
  if (larger) {
    old = it->data;
    it->data = larger;
    it->cap = FULL_BUFFER;
  }
  loamgo_block block = {0, 0, 0};
  char *message = NULL;
  loam_status status = loamgo_iter_fetch(it->engine, op, (void *)key, key_len, entries, bytes,
    it->data, it->cap, &block, &message);
  free(old);
  if (status == LOAM_BUFFER_TOO_SMALL) {
    size_t cap = block.len + block.len / 4;
    uint8_t *data = malloc(cap);
    if (!data) status = loam_fail(&message, LOAM_ERR_NO_MEMORY, "loam: out of memory");
    else {
      free(it->data);
      it->data = data;
      it->cap = cap;
      status = loamgo_iter_fetch(it->engine, LOAMGO_TAKE, NULL, 0, 0, 0, it->data, it->cap, &block,
        &message);
    }
  }
  it->len = block.len;
  it->count = block.count;
  it->more = block.more != 0;
  it->backward = op >= LOAMGO_BACKWARD;
  it->unread = false;
  it->known = 0;
  if (status == LOAM_OK) return LOAM_OK;
  it->len = it->count = 0;
  it->more = false;
  if (status < 0) {
    free(it->message);
    it->message = message;
    it->failed = status;
    it->state = FAILED;
    return fail_again(it, err);
  }
  free(message);
  it->state = status != LOAM_END ? OUTSIDE : it->backward ? BEFORE : AFTER;
  return status;
}

/* Where the next block in a direction begins; LOAM_END when there is none. */
static loam_status origin(iter *it, bool backward, int *op, const void **key, size_t *key_len,
  char **err) {
  *key = NULL;
  *key_len = 0;
  switch (it->state) {
    case BEFORE:
      if (backward) return LOAM_END;
      *op = LOAMGO_FIRST;
      return LOAM_OK;
    case AFTER:
      if (!backward) return LOAM_END;
      *op = LOAMGO_LAST;
      return LOAM_OK;
    case GAP:
      *op = backward ? LOAMGO_SEEK_LT : LOAMGO_SEEK_GE;
      *key = it->gap;
      *key_len = it->gap_len;
      return LOAM_OK;
    case AT: {
      if (backward == it->backward) {
        if (!it->more) {
          it->state = backward ? BEFORE : AFTER;
          return LOAM_END;
        }
        *op = backward ? LOAMGO_BACKWARD : LOAMGO_CONTINUE;
        return LOAM_OK;
      }
      settle(it);
      *op = backward ? LOAMGO_SEEK_LT : LOAMGO_AFTER;
      loam_entry e = entry_at(it, it->start);
      *key = e.key;
      *key_len = e.key_len;
      it->want = 1;
      return LOAM_OK;
    }
    case FAILED:
      return fail_again(it, err);
    default:
      *op = backward ? LOAMGO_LAST : LOAMGO_FIRST;
      return LOAM_OK;
  }
}

/* Fetches ahead and goes to the first entry fetched. */
static loam_status advance(iter *it, int op, const void *key, size_t key_len, char **err) {
  loam_status status = fetch(it, op, key, key_len, it->want, BLOCK_BYTES, err);
  if (status != LOAM_OK) return status;
  it->want = it->want * GROWTH < BLOCK_ENTRIES ? it->want * GROWTH : BLOCK_ENTRIES;
  it->state = AT;
  go_to(it, 0, 0);
  return LOAM_OK;
}

/* A move within the block: false if there is nothing to move to. */
static inline bool glide(iter *it, bool backward, loam_entry *e) {
  if (it->state != AT || it->unread) return false;
  if (backward == it->backward) {
    if (it->at + 1 >= it->count) return false;
    *e = go_to(it, it->at + 1, it->next);
    return true;
  }
  if (it->at <= it->known || it->at >= BLOCK_ENTRIES) return false;
  *e = go_to(it, it->at - 1, it->starts[it->at - 1]);
  return true;
}

/* A move that has to fetch, or to look for where it is. */
static loam_status stride(iter *it, bool backward, char **err) {
  if (it->state == AT && it->unread) {
    loam_entry e;
    settle(it);
    if (glide(it, backward, &e)) return LOAM_OK;
  }
  int op = 0;
  const void *key;
  size_t key_len;
  loam_status status = origin(it, backward, &op, &key, &key_len, err);
  return status == LOAM_OK ? advance(it, op, key, key_len, err) : status;
}

static loam_status done(const loam_iter *handle, const iter *it, loam_status status,
  loam_entry *entry) {
  if (status == LOAM_OK && entry) *entry = entry_at(it, it->start);
  loam_slot_release(HANDLE(handle));
  return status;
}

static inline loam_status step(loam_iter *handle, bool backward, loam_entry *entry, char **err) {
  iter *it;
  loam_entry e;
  loam_status status = acquire(handle, &it);
  if (__builtin_expect(status != LOAM_OK, 0)) return loam_fail_slot(err, status, "iterator");
  if (!glide(it, backward, &e)) return done(handle, it, stride(it, backward, err), entry);
  loam_slot_release(HANDLE(handle));
  if (entry) *entry = e;
  return LOAM_OK;
}

/* Opens an iterator of a database, or of a transaction in one of its keyspaces. */
static loam_status create(loam_db *db, bool in_txn, loam_txn *txn,
  const loam_iter_options *options, loam_iter **out, char **err) {
  CLEAR(out);
  BEGIN_TO(in_txn ? CALL_OTHER : CALL_READS, err);
  WANT(err, out, "iter");
  loamgo_iter_options o;
  memset(&o, 0, sizeof o);
  if (options) {
    SIZED(err, options, loam_iter_options);
    FLAGS(err, options->flags, LOAM_NO_FILL | LOAM_KEYS_ONLY);
    BOUND(err, options->lower, options->lower_len, "lower");
    BOUND(err, options->upper, options->upper_len, "upper");
    BOUND(err, options->prefix, options->prefix_len, "prefix");
    if (in_txn && options->snapshot) {
      return loam_fail(err, LOAM_ERR_INVALID_ARGUMENT, "loam: a transaction reads no snapshot");
    }
    o.snapshot = HANDLE(options->snapshot);
    o.lower = options->lower, o.lower_len = options->lower_len;
    o.upper = options->upper, o.upper_len = options->upper_len;
    o.prefix = options->prefix, o.prefix_len = options->prefix_len;
    o.flags = options->flags;
  }
  iter *it = malloc(sizeof *it);
  uint8_t *data = malloc(FIRST_BUFFER);
  uint64_t handle = it && data ? loam_slot_add(KIND_ITER, it) : 0;
  if (!handle) {
    free(it);
    free(data);
    return loam_fail(err, LOAM_ERR_NO_MEMORY, "loam: out of memory");
  }
  memset(it, 0, offsetof(iter, starts));
  it->gap = NULL;
  it->message = NULL;
  it->gap_len = it->gap_cap = 0;
  it->data = data;
  it->cap = FIRST_BUFFER;
  it->want = 1;
  it->in_txn = in_txn;
  loam_status status = in_txn ? loamgo_txn_iter_create(HANDLE(txn), HANDLE(db), &o, &it->engine,
    err) : loamgo_iter_create(HANDLE(db), &o, &it->engine, err);
  if (status != LOAM_OK) {
    void *object;
    loam_slot_remove(handle, KIND_ITER, &object);
    free(it);
    free(data);
    return status;
  }
  *out = (loam_iter *)(uintptr_t)handle;
  return LOAM_OK;
}

loam_status loam_iter_create(loam_db *db, const loam_iter_options *options, loam_iter **out,
  char **err) {
  return create(db, false, NULL, options, out, err);
}

loam_status loam_txn_iter_create(loam_txn *txn, loam_db *keyspace,
  const loam_iter_options *options, loam_iter **out, char **err) {
  return create(keyspace, true, txn, options, out, err);
}

loam_status loam_iter_close(loam_iter *handle) {
  BEGIN_C((char **)NULL);
  if (!handle) return LOAM_OK;
  void *object = NULL;
  loam_status status = loam_slot_remove(HANDLE(handle), KIND_ITER, &object);
  if (status != LOAM_OK) return status;
  iter *it = object;
  status = loam_release(it->engine, LOAMGO_ITERATOR);
  free(it->data);
  free(it->gap);
  free(it->message);
  free(it);
  return status;
}

static loam_status seek(loam_iter *handle, int op, const void *key, size_t key_len,
  loam_entry *entry, char **err) {
  iter *it;
  loam_status status = acquire(handle, &it);
  if (status != LOAM_OK) return loam_fail_slot(err, status, "iterator");
  it->want = 1;
  return done(handle, it, advance(it, op, key, key_len, err), entry);
}

loam_status loam_iter_first(loam_iter *handle, loam_entry *entry, char **err) {
  BEGIN_C(err);
  return seek(handle, LOAMGO_FIRST, NULL, 0, entry, err);
}

loam_status loam_iter_last(loam_iter *handle, loam_entry *entry, char **err) {
  BEGIN_C(err);
  return seek(handle, LOAMGO_LAST, NULL, 0, entry, err);
}

loam_status loam_iter_seek(loam_iter *handle, const void *key, size_t key_len, loam_entry *entry,
  char **err) {
  BEGIN_C(err);
  BYTES(err, key, key_len, "key");
  return seek(handle, LOAMGO_SEEK_GE, key, key_len, entry, err);
}

loam_status loam_iter_seek_before(loam_iter *handle, const void *key, size_t key_len,
  loam_entry *entry, char **err) {
  BEGIN_C(err);
  BYTES(err, key, key_len, "key");
  return seek(handle, LOAMGO_SEEK_LT, key, key_len, entry, err);
}

loam_status loam_iter_place(loam_iter *handle, const void *key, size_t key_len, char **err) {
  BEGIN_C(err);
  BYTES(err, key, key_len, "key");
  iter *it;
  loam_status status = acquire(handle, &it);
  if (status != LOAM_OK) return loam_fail_slot(err, status, "iterator");
  if (key_len > it->gap_cap || !it->gap) {
    uint8_t *gap = malloc(key_len + 16); /* key may lie in the old one */
    if (!gap) {
      return done(handle, it, loam_fail(err, LOAM_ERR_NO_MEMORY, "loam: out of memory"), NULL);
    }
    if (key_len) memcpy(gap, key, key_len);
    free(it->gap);
    it->gap = gap;
    it->gap_cap = key_len + 16;
  } else if (key_len) {
    memmove(it->gap, key, key_len);
  }
  it->gap_len = key_len;
  it->state = GAP;
  it->want = 1;
  return done(handle, it, LOAM_OK, NULL);
}

loam_status loam_iter_next(loam_iter *handle, loam_entry *entry, char **err) {
  BEGIN_C(err);
  return step(handle, false, entry, err);
}

loam_status loam_iter_prev(loam_iter *handle, loam_entry *entry, char **err) {
  BEGIN_C(err);
  return step(handle, true, entry, err);
}

loam_status loam_iter_entry(loam_iter *handle, loam_entry *entry, char **err) {
  BEGIN_C(err);
  iter *it;
  loam_status status = acquire(handle, &it);
  if (status != LOAM_OK) return loam_fail_slot(err, status, "iterator");
  if (it->state == AT) settle(it);
  return done(handle, it, it->state == AT ? LOAM_OK : LOAM_END, entry);
}

/* Hands out entries that a move has fetched ahead. */
static void hand_out_rest(iter *it, size_t entries, size_t bytes, loam_block *block) {
  size_t start = it->next, n = it->count - it->at - 1;
  if (n <= entries && it->len - start <= bytes) {
    hand_out(it, it->at + 1, start);
    *block = (loam_block){it->data + start, it->len - start, n};
    return;
  }
  n = 0;
  do {
    go_to(it, it->at + 1, it->next);
    n++;
  } while (n < entries && it->next - start < bytes && it->at + 1 < it->count);
  *block = (loam_block){it->data + start, it->next - start, n};
}

static loam_status move_block(loam_iter *handle, bool backward, size_t entries, size_t bytes,
  loam_block *block, char **err) {
  if (block) *block = (loam_block){NULL, 0, 0};
  BEGIN_C(err);
  WANT(err, block, "block");
  iter *it;
  loam_status status = acquire(handle, &it);
  if (status != LOAM_OK) return loam_fail_slot(err, status, "iterator");
  if (it->state == AT && backward == it->backward) {
    if (it->unread && it->more == false) settle(it);
    if (!it->unread && it->at + 1 < it->count) {
      hand_out_rest(it, entries ? entries : MOST_ENTRIES, bytes ? bytes : MOST_BYTES, block);
      return done(handle, it, LOAM_OK, NULL);
    }
  }
  int op = 0;
  const void *key;
  size_t key_len;
  if ((status = origin(it, backward, &op, &key, &key_len, err)) != LOAM_OK) {
    return done(handle, it, status, NULL);
  }
  if (entries == 0 && bytes == 0) {
    entries = it->want < 16 ? 16 : it->want;
    it->want = entries * GROWTH < BLOCK_ENTRIES ? entries * GROWTH : BLOCK_ENTRIES;
    bytes = BLOCK_BYTES;
  }
  if (entries == 0 || entries > MOST_ENTRIES) entries = MOST_ENTRIES;
  if (bytes == 0 || bytes > MOST_BYTES) bytes = MOST_BYTES;
  if ((status = fetch(it, op, key, key_len, entries, bytes, err)) != LOAM_OK) {
    return done(handle, it, status, NULL);
  }
  hand_out(it, 0, 0);
  *block = (loam_block){it->data, it->len, it->count};
  return done(handle, it, LOAM_OK, NULL);
}

loam_status loam_iter_next_block(loam_iter *handle, size_t max_entries, size_t max_bytes,
  loam_block *block, char **err) {
  return move_block(handle, false, max_entries, max_bytes, block, err);
}

loam_status loam_iter_prev_block(loam_iter *handle, size_t max_entries, size_t max_bytes,
  loam_block *block, char **err) {
  return move_block(handle, true, max_entries, max_bytes, block, err);
}

loam_status loam_iter_set_bounds(loam_iter *handle, const void *lower, size_t lower_len,
  const void *upper, size_t upper_len, char **err) {
  BEGIN_C(err);
  BOUND(err, lower, lower_len, "lower");
  BOUND(err, upper, upper_len, "upper");
  iter *it;
  loam_status status = acquire(handle, &it);
  if (status != LOAM_OK) return loam_fail_slot(err, status, "iterator");
  if (!loam_thread_ready &&
    (status = loam_enter(it->in_txn ? CALL_OTHER : CALL_READS, err)) != LOAM_OK) return done(
    handle, it, status, NULL);
  it->state = OUTSIDE;
  it->want = 1;
  it->more = false;
  return done(handle, it, loamgo_iter_set_bounds(it->engine, (void *)lower, lower_len,
    (void *)upper, upper_len, err), NULL);
}
