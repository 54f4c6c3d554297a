/* Random walks of iterators against a sorted array. */
#include "check.h"

enum { N = 3000 };
enum { OUTSIDE, BEFORE, AFTER, GAP, AT };

static int lo, hi; /* the entries within bounds */
static int keys_only;

static size_t key_of(int i, char *key) { return (size_t)sprintf(key, "key%06d", 2 * i); }

static size_t value_of(int i, char *value) {
  size_t n = i % 97 == 0 ? 9000 + (size_t)i : (size_t)(i % 61);
  memset(value, 'a' + i % 26, n);
  return n;
}

static void same(const loam_entry *e, int i) {
  static char key[32], value[20000];
  size_t kn = key_of(i, key), vn = keys_only ? 0 : value_of(i, value);
  CHECK(e->key_len == kn && !memcmp(e->key, key, kn), "at %.*s, want %s", (int)e->key_len, (const char *)e->key, key);
  CHECK(e->value_len == vn && !memcmp(e->value, value, vn), "%s: value of %zu bytes, want %zu", key, e->value_len, vn);
}

static uint32_t u32(const uint8_t *p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24; }

static void walk(loam_db *db, int rounds) {
  char *err = NULL, low[32], high[32], key[32];
  loam_iter_options o;
  loam_iter *it;
  loam_entry e;
  int state = OUTSIDE, at = 0; /* AT: the entry; GAP: the first behind it */
  memset(&o, 0, sizeof o);
  o.struct_size = sizeof o;
  lo = 0, hi = N;
  if (rnd() % 2) {
    lo = (int)(rnd() % N);
    o.lower = low;
    o.lower_len = key_of(lo, low);
  }
  if (rnd() % 2) {
    hi = lo + (int)(rnd() % (uint64_t)(N - lo + 1));
    o.upper = high;
    o.upper_len = key_of(hi, high);
  }
  keys_only = rnd() % 4 == 0;
  if (keys_only) o.flags = LOAM_KEYS_ONLY;
  WANT(LOAM_OK, loam_iter_create(db, &o, &it, &err));
  for (int r = 0; r < rounds; r++) {
    int op = (int)(rnd() % 12), repeat = op >= 8 ? (int)(rnd() % 700) : 1;
    if (op >= 10) op = (int)(rnd() % 2) + 8;
    switch (op) {
      case 0: case 1: { /* first, last */
        int none = lo >= hi, end = op ? hi - 1 : lo;
        WANT(none ? LOAM_END : LOAM_OK, op ? loam_iter_last(it, &e, &err) : loam_iter_first(it, &e, &err));
        state = none ? op ? BEFORE : AFTER : AT;
        at = end;
        if (!none) same(&e, at);
        break;
      }
      case 2: case 3: case 4: { /* seek, seek_before, place */
        int x = (int)(rnd() % (2 * N + 2)), ge = (x + 1) / 2;
        size_t n = (size_t)sprintf(key, "key%06d", x);
        int first = ge < lo ? lo : ge > hi ? hi : ge;
        if (op == 4) {
          WANT(LOAM_OK, loam_iter_place(it, key, n, &err));
          state = GAP;
          at = first;
        } else if (op == 2) {
          int found = first < hi;
          WANT(found ? LOAM_OK : LOAM_END, loam_iter_seek(it, key, n, &e, &err));
          state = found ? AT : AFTER;
          at = first;
        } else {
          int found = first - 1 >= lo && first - 1 < hi;
          WANT(found ? LOAM_OK : LOAM_END, loam_iter_seek_before(it, key, n, &e, &err));
          state = found ? AT : BEFORE;
          at = first - 1;
        }
        if (state == AT) same(&e, at);
        break;
      }
      case 5: /* look */
        WANT(state == AT ? LOAM_OK : LOAM_END, loam_iter_entry(it, &e, &err));
        if (state == AT) same(&e, at);
        break;
      case 6: case 7: { /* blocks */
        int back = op == 7, n = 0;
        size_t most = rnd() % 3 ? rnd() % 800 : 0, bytes = rnd() % 3 ? 0 : rnd() % 60000;
        loam_block b;
        int next = state == AT ? at + (back ? -1 : 1) : state == GAP ? at - back : back ? hi - 1 : lo;
        int none = next < lo || next >= hi || (state == BEFORE && back) || (state == AFTER && !back);
        WANT(none ? LOAM_END : LOAM_OK, back ? loam_iter_prev_block(it, most, bytes, &b, &err) : loam_iter_next_block(it, most, bytes, &b, &err));
        if (none) {
          state = back ? BEFORE : AFTER;
          break;
        }
        CHECK(b.count > 0 && (!most || b.count <= most), "%zu entries of %zu", b.count, most);
        for (const uint8_t *p = b.data, *end = p + b.len; p < end; n++, next += back ? -1 : 1) {
          CHECK(!bytes || (size_t)(p - (const uint8_t *)b.data) < bytes, "an entry behind %zu bytes", bytes);
          e.key_len = u32(p), e.value_len = u32(p + 4), e.key = p + 8, e.value = p + 8 + e.key_len;
          same(&e, next);
          p += 8 + e.key_len + e.value_len;
        }
        CHECK((size_t)n == b.count, "%d entries, count %zu", n, b.count);
        state = AT;
        at = next + (back ? 1 : -1);
        break;
      }
      default: /* next, prev */
        for (int back = op == 9; repeat > 0; repeat--) {
          int next = state == AT ? at + (back ? -1 : 1) : state == GAP ? at - back : back ? hi - 1 : lo;
          int none = next < lo || next >= hi || (state == BEFORE && back) || (state == AFTER && !back);
          WANT(none ? LOAM_END : LOAM_OK, back ? loam_iter_prev(it, &e, &err) : loam_iter_next(it, &e, &err));
          if (none) {
            state = back ? BEFORE : AFTER;
            break;
          }
          state = AT;
          at = next;
          same(&e, at);
        }
    }
    if (rnd() % 200 == 0) {
      lo = (int)(rnd() % N);
      hi = lo + (int)(rnd() % (uint64_t)(N - lo + 1));
      size_t nl = key_of(lo, low), nh = key_of(hi, high);
      WANT(LOAM_OK, loam_iter_set_bounds(it, low, nl, high, nh, &err));
      state = OUTSIDE;
    }
  }
  WANT(LOAM_OK, loam_iter_close(it));
}

int main(void) {
  char *err = NULL, key[32];
  static char value[20000];
  loam_db *db;
  loam_options *o;
  WANT(LOAM_OK, loam_options_create(&o, &err));
  WANT(LOAM_OK, loam_options_set(o, "write_buffer_size", "256KiB", &err));
  WANT(LOAM_OK, loam_open("db", o, &db, &err));
  WANT(LOAM_OK, loam_options_close(o));
  /* In parts, so that tables and memtable have to be merged. */
  for (int part = 0; part < 3; part++) {
    for (int i = part; i < N; i += 3) {
      size_t kn = key_of(i, key), vn = value_of(i, value);
      WANT(LOAM_OK, loam_put(db, NULL, key, kn, value, vn, NULL, &err));
      kn = (size_t)sprintf(key, "key%06d", 2 * i + 1);
      WANT(LOAM_OK, loam_put(db, NULL, key, kn, "x", 1, NULL, &err));
      WANT(LOAM_OK, loam_delete(db, NULL, key, kn, NULL, &err));
    }
    if (part == 0) WANT(LOAM_OK, loam_flush(db, &err));
  }
  for (int i = 0; i < 60; i++) walk(db, 300);
  WANT(LOAM_OK, loam_close(db, &err));
  return 0;
}
