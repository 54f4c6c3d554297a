/* Feeds of changes: blocks, waits, ends, gaps and bytes that are no change. */
#include "check.h"

#include <pthread.h>
#include <unistd.h>

static char *err;
static loam_db *db;

/* The sequence number of the first change of a block, and how many changes there are. */
static size_t count(const unsigned char *p, size_t len, uint64_t *first) {
  size_t n = 0;
  for (const unsigned char *end = p + len; p < end; n++) {
    uint32_t size;
    memcpy(&size, p, 4);
    if (n == 0) memcpy(first, p + 4, 8);
    p += 4 + size;
  }
  return n;
}

static void *write_later(void *arg) {
  (void)arg;
  usleep(20 * 1000);
  CHECK(loam_put(db, NULL, "later", 5, "", 0, NULL, NULL) == LOAM_OK, "put");
  return NULL;
}

static void *close_later(void *arg) {
  usleep(20 * 1000);
  CHECK(loam_changes_close(arg) == LOAM_OK, "close");
  return NULL;
}

/* A follower's feed has what a catch-up has read. */
static void follower(void) {
  loam_db *follower;
  loam_changes *feed;
  void *block;
  size_t len;
  uint64_t next, first;
  WANT(LOAM_OK, loam_follower_open("db", NULL, &follower, &err));
  WANT(LOAM_ERR_INVALID_ARGUMENT, loam_changes_open(follower, 0, LOAM_CHANGES_DURABLE, &feed, NULL));
  WANT(LOAM_OK, loam_changes_open(follower, 101, 0, &feed, &err));
  WANT(LOAM_OK, loam_changes_next(feed, 0, 0, &block, &len, &err));
  CHECK(count(block, len, &first) && first == 101, "%d", (int)first);
  loam_free(block);
  WANT(LOAM_OK, loam_changes_position(feed, &next, &err));
  WANT(LOAM_OK, loam_put(db, NULL, "more", 4, "", 0, NULL, &err));
  WANT(LOAM_TIMEOUT, loam_changes_next(feed, 0, 0, &block, &len, &err));
  WANT(LOAM_OK, loam_catch_up(follower, &err));
  WANT(LOAM_OK, loam_changes_next(feed, 0, -1, &block, &len, &err));
  CHECK(count(block, len, &first) == 1 && first == next, "%d, not %d", (int)first, (int)next);
  loam_free(block);
  WANT(LOAM_OK, loam_close(follower, &err));
  WANT(LOAM_ERR_CLOSED, loam_changes_next(feed, 0, -1, &block, &len, &err));
  WANT(LOAM_OK, loam_changes_close(feed));
}

int main(void) {
  loam_options *options;
  loam_changes *feed, *second;
  void *block;
  size_t len, offset = 0;
  uint64_t next, first;
  pthread_t thread;
  WANT(LOAM_OK, loam_options_create(&options, &err));
  WANT(LOAM_OK, loam_options_set(options, "wal_retention_seconds", "1h", &err));
  WANT(LOAM_OK, loam_options_set(options, "wal_retention_bytes", "1MiB", &err));
  WANT(LOAM_OK, loam_open("db", options, &db, &err));
  WANT(LOAM_OK, loam_changes_open(db, 0, 0, &feed, &err));
  WANT(LOAM_OK, loam_changes_position(feed, &next, &err));
  CHECK(next == 1, "%d", (int)next);
  WANT(LOAM_TIMEOUT, loam_changes_next(feed, 0, 0, &block, &len, &err));
  CHECK(!block, "a block");
  WANT(LOAM_TIMEOUT, loam_changes_next(feed, 0, 10, &block, &len, &err));

  /* Changes come in blocks of about the size that was asked for, none is lost between. */
  for (int i = 0; i < 100; i++) WANT(LOAM_OK, loam_put(db, NULL, "key", 3, "value", 5, NULL, &err));
  size_t blocks = 0, changes = 0;
  while (changes < 100) {
    WANT(LOAM_OK, loam_changes_next(feed, 300, 0, &block, &len, &err));
    CHECK(len <= 300 + 64, "%zu bytes", len);
    changes += count(block, len, &first);
    loam_free(block);
    WANT(LOAM_OK, loam_changes_position(feed, &next, &err));
    CHECK(next == changes + 1, "%zu changes, then %d", changes, (int)next);
    blocks++;
  }
  CHECK(blocks > 5, "%zu blocks", blocks);

  /* A wait ends with a write, and with the end of the feed. */
  pthread_create(&thread, NULL, write_later, NULL);
  WANT(LOAM_OK, loam_changes_next(feed, 0, -1, &block, &len, &err));
  CHECK(count(block, len, &first) == 1 && first == 101, "%d", (int)first);
  pthread_join(thread, NULL);

  /* The bytes are those of a batch, which loam_write_bytes takes. */
  unsigned char *change = (unsigned char *)block + 4;
  loam_operation o;
  uint64_t expires = 7;
  WANT(LOAM_OK, loam_change_operation(change, len - 4, &offset, &o, &expires, &err));
  CHECK(o.kind == LOAM_OP_PUT && o.key_len == 5 && !memcmp(o.key, "later", 5) && !o.value_len && !o.keyspace && !expires, "kind %d", (int)o.kind);
  WANT(LOAM_END, loam_change_operation(change, len - 4, &offset, &o, NULL, &err));
  for (size_t cut = 0; cut + 5 < len; cut++) {
    offset = 0;
    loam_status s = loam_change_operation(change, cut, &offset, &o, NULL, NULL);
    CHECK(s == LOAM_ERR_INVALID_ARGUMENT || (cut == 12 && s == LOAM_END), "%zu bytes: %s", cut, loam_status_name(s));
  }
  WANT(LOAM_OK, loam_write_bytes(db, NULL, change, len - 4, NULL, &err));
  loam_free(block);

  /* Gaps. */
  WANT(LOAM_ERR_GAP, loam_changes_open(db, 1000, 0, &second, &err));
  CHECK(!second, "a feed");
  WANT(LOAM_ERR_INVALID_ARGUMENT, loam_changes_open(db, 0, 2, &second, &err));

  /* Durable: only after a sync. */
  WANT(LOAM_OK, loam_changes_open(db, 102, LOAM_CHANGES_DURABLE, &second, &err));
  WANT(LOAM_TIMEOUT, loam_changes_next(second, 0, 0, &block, &len, &err));
  WANT(LOAM_OK, loam_put(db, WRITE(LOAM_SYNC), "sync", 4, "", 0, NULL, &err));
  WANT(LOAM_OK, loam_changes_next(second, 0, 0, &block, &len, &err));
  CHECK(count(block, len, &first) == 2 && first == 102, "%d", (int)first);
  loam_free(block);

  pthread_create(&thread, NULL, close_later, second);
  WANT(LOAM_ERR_CLOSED, loam_changes_next(second, 0, -1, &block, &len, &err));
  pthread_join(thread, NULL);
  WANT(LOAM_ERR_CLOSED, loam_changes_close(second));
  WANT(LOAM_OK, loam_changes_close(NULL));
  WANT(LOAM_OK, loam_close(db, &err));
  WANT(LOAM_ERR_CLOSED, loam_changes_next(feed, 0, 0, &block, &len, &err));

  /* After a restart the feed goes on. */
  WANT(LOAM_OK, loam_open("db", options, &db, &err));
  WANT(LOAM_OK, loam_changes_close(feed));
  WANT(LOAM_OK, loam_changes_open(db, 101, 0, &feed, &err));
  WANT(LOAM_OK, loam_changes_next(feed, 0, 0, &block, &len, &err));
  count(block, len, &first);
  CHECK(first == 101, "%d", (int)first);
  loam_free(block);
  WANT(LOAM_OK, loam_changes_close(feed));
  follower();
  WANT(LOAM_OK, loam_options_close(options));
  WANT(LOAM_OK, loam_close(db, &err));
  return 0;
}
