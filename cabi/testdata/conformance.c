/* Runs the operations of the conformance script. Usage: conformance SCRIPT FORMAT. */
#include "check.h"

#include <ctype.h>
#include <sys/stat.h>
#include <unistd.h>
#include <time.h>

enum { WORDS = 64, SNAPSHOTS = 16, TRANSACTIONS = 4 };

typedef struct {
  char *data;
  size_t len;
} text;

static char *err;
static loam_db *root, *db; /* the database, and the keyspace that operations work in */
static struct {
  char name[32];
  loam_snapshot *snapshot;
} snapshots[SNAPSHOTS];

static struct {
  char name[8];
  loam_txn *txn;
} transactions[TRANSACTIONS];
static struct {
  char name[8];
  uint64_t savepoint;
} savepoints[8];

static text decode(const char *word) {
  text t = {malloc(strlen(word) + 1), 0};
  for (const char *p = word; *p && strcmp(p, "%"); p++) {
    unsigned c = (unsigned char)*p;
    if (c == '%') {
      CHECK(sscanf(p + 1, "%2x", &c) == 1, "%s", word);
      p += 2;
    }
    t.data[t.len++] = (char)c;
  }
  return t;
}

static void print(const void *data, size_t len) {
  const unsigned char *p = data;
  if (!len) putchar('%');
  for (size_t i = 0; i < len; i++)
    if (isalnum(p[i]) || (p[i] && strchr("-_.", p[i]))) putchar(p[i]);
    else printf("%%%02x", p[i]);
}

static void entry(const loam_entry *e) {
  print(e->key, e->key_len);
  putchar(' ');
  print(e->value, e->value_len);
  putchar('\n');
}

static int place(const char *name) {
  for (int i = 0; i < SNAPSHOTS; i++)
    if (!strcmp(snapshots[i].name, name)) return i;
  CHECK(0, "no snapshot %s", name);
  return 0;
}

static void value_line(loam_status s, void *value, size_t len) {
  if (s == LOAM_NOT_FOUND) {
    puts("none");
    return;
  }
  WANT(LOAM_OK, s);
  printf("= ");
  print(value, len);
  putchar('\n');
  loam_free(value);
}

static void get(text key, const loam_snapshot *snapshot) {
  void *value;
  size_t len;
  loam_status s = loam_get_alloc(db, READ(snapshot, 0), key.data, key.len, &value, &len, &err);
  value_line(s, value, len);
}

/* In a transaction, unless txn is NULL, and in a keyspace of it. */
static void iterate(loam_txn *txn, loam_db *space, char **words, int n) {
  loam_iter_options o;
  loam_iter *it;
  loam_entry e;
  text bound[3] = {{NULL, 0}, {NULL, 0}, {NULL, 0}};
  static const char *names[3] = {"lower=", "upper=", "prefix="};
  int reverse = 0;
  long limit = -1;
  memset(&o, 0, sizeof o);
  o.struct_size = sizeof o;
  for (int i = 1; i < n; i++) {
    if (words[i][0] == '@') o.snapshot = snapshots[place(words[i] + 1)].snapshot;
    else if (!strcmp(words[i], "reverse")) reverse = 1;
    else if (!strncmp(words[i], "limit=", 6)) limit = atol(words[i] + 6);
    for (int b = 0; b < 3; b++)
      if (!strncmp(words[i], names[b], strlen(names[b]))) bound[b] = decode(words[i] + strlen(names[b]));
  }
  o.lower = bound[0].data, o.lower_len = bound[0].len;
  o.upper = bound[1].data, o.upper_len = bound[1].len;
  o.prefix = bound[2].data, o.prefix_len = bound[2].len;
  if (txn) WANT(LOAM_OK, loam_txn_iter_create(txn, space, &o, &it, &err));
  else WANT(LOAM_OK, loam_iter_create(db, &o, &it, &err));
  loam_status s = LOAM_OK;
  for (; limit != 0 && (s = reverse ? loam_iter_prev(it, &e, &err) : loam_iter_next(it, &e, &err)) == LOAM_OK; limit--) entry(&e);
  CHECK(s == LOAM_OK || s == LOAM_END, "%s", err);
  puts("end");
  WANT(LOAM_OK, loam_iter_close(it));
  for (int b = 0; b < 3; b++) free(bound[b].data);
}

static const char *path = "db";

static void open_root(const char *format) {
  loam_options *options;
  WANT(LOAM_OK, loam_options_create(&options, &err));
  WANT(LOAM_OK, loam_options_set(options, "format", format, &err));
  WANT(LOAM_OK, loam_open(path, options, &root, &err));
  WANT(LOAM_OK, loam_options_close(options));
  WANT(LOAM_OK, loam_keyspace_open(root, "default", NULL, &db, &err));
}

static void close_root(void) {
  WANT(LOAM_OK, loam_close(db, &err));
  WANT(LOAM_OK, loam_close(root, &err));
}

/* Goes on in a database of the same format, into which a dump is loaded. */
static void dump(char *name) {
  struct stat native;
  char current[1024];
  snprintf(current, sizeof current, "%s/CURRENT", path);
  CHECK(!stat(current, &native), "%s", current);
  FILE *f = tmpfile();
  loam_job *job;
  WANT(LOAM_OK, loam_dump_start(root, NULL, NULL, 0, fileno(f), &job, &err));
  WANT(LOAM_OK, loam_job_wait(job, -1, &err));
  WANT(LOAM_OK, loam_job_close(job));
  close_root();
  path = strdup(name);
  open_root(S_ISDIR(native.st_mode) ? "native" : "leveldb");
  CHECK(lseek(fileno(f), 0, SEEK_SET) == 0, "lseek");
  WANT(LOAM_OK, loam_load_start(root, 0, fileno(f), &job, &err));
  WANT(LOAM_OK, loam_job_wait(job, -1, &err));
  WANT(LOAM_OK, loam_job_close(job));
  fclose(f);
}

/* The names without quotes and commas: they have none. */
static void spaces(void) {
  char *names;
  WANT(LOAM_OK, loam_keyspace_list(root, &names, &err));
  for (char *p = names; *p; p++)
    if (*p == ',') putchar(' ');
    else if (!strchr("[]\"", *p)) putchar(*p);
  putchar('\n');
  loam_free(names);
}

static void batch(char **words, int n) {
  loam_batch *b;
  WANT(LOAM_OK, loam_batch_create(&b, &err));
  for (int i = 1; i < n;) {
    text key = decode(words[i + 1]);
    if (!strcmp(words[i], "put") || !strcmp(words[i], "merge")) {
      text value = decode(words[i + 2]);
      if (words[i][0] == 'p') WANT(LOAM_OK, loam_batch_put(b, key.data, key.len, value.data, value.len, &err));
      else WANT(LOAM_OK, loam_batch_merge(b, key.data, key.len, value.data, value.len, &err));
      free(value.data);
      i += 3;
    } else if (!strcmp(words[i], "expire")) {
      text value = decode(words[i + 2]);
      WANT(LOAM_OK, loam_batch_put_ttl(b, key.data, key.len, value.data, value.len, strtoull(words[i + 3], NULL, 10), &err));
      free(value.data);
      i += 4;
    } else if (!strcmp(words[i], "in")) {
      loam_db *space;
      WANT(LOAM_OK, loam_keyspace_open(root, words[i + 1], NULL, &space, &err));
      WANT(LOAM_OK, loam_batch_in(b, space, &err));
      WANT(LOAM_OK, loam_close(space, &err));
      i += 2;
    } else {
      WANT(LOAM_OK, loam_batch_delete(b, key.data, key.len, &err));
      i += 2;
    }
    free(key.data);
  }
  WANT(LOAM_OK, loam_write(db, NULL, b, NULL, &err));
  WANT(LOAM_OK, loam_batch_close(b));
}

/* What a follower gets. */
static void follow(text key) {
  loam_db *writer = db;
  char *err = NULL;
  WANT(LOAM_OK, loam_follower_open(path, NULL, &db, &err));
  WANT(LOAM_OK, loam_catch_up(db, &err));
  get(key, NULL);
  WANT(LOAM_OK, loam_close(db, &err));
  db = writer;
}

static void multi_get(char **words, int n) {
  const void *keys[WORDS], *values[WORDS];
  size_t lens[WORDS], value_lens[WORDS], count = (size_t)n - 1;
  void *memory;
  for (size_t i = 0; i < count; i++) {
    text key = decode(words[i + 1]);
    keys[i] = key.data, lens[i] = key.len;
  }
  WANT(LOAM_OK, loam_multi_get(db, NULL, count, keys, lens, values, value_lens, &memory, &err));
  for (size_t i = 0; i < count; i++) {
    free((void *)keys[i]);
    if (!values[i]) {
      puts("none");
      continue;
    }
    printf("= ");
    print(values[i], value_lens[i]);
    putchar('\n');
  }
  loam_free(memory);
}

static void filter(const char *name) {
  loam_options *o;
  WANT(LOAM_OK, loam_options_create(&o, &err));
  WANT(LOAM_OK, loam_options_set(o, "compaction_filter", name, &err));
  close_root();
  WANT(LOAM_OK, loam_open(path, o, &root, &err));
  WANT(LOAM_OK, loam_compact(root, NULL, 0, NULL, 0, &err));
  WANT(LOAM_OK, loam_close(root, &err));
  open_root("default");
  WANT(LOAM_OK, loam_options_close(o));
}

/* Opens the database with options, compacts it, and prints how many keys there are with a prefix. */
static void tables(text prefix, char **pairs, int n) {
  loam_options *o;
  WANT(LOAM_OK, loam_options_create(&o, &err));
  for (int i = 0; i + 1 < n; i += 2) WANT(LOAM_OK, loam_options_set(o, pairs[i], pairs[i + 1], &err));
  close_root();
  WANT(LOAM_OK, loam_open(path, o, &root, &err));
  WANT(LOAM_OK, loam_compact(root, NULL, 0, NULL, 0, &err));
  loam_iter *it;
  loam_iter_options bounds = {.struct_size = sizeof bounds, .prefix = prefix.data, .prefix_len = prefix.len};
  WANT(LOAM_OK, loam_iter_create(root, &bounds, &it, &err));
  loam_entry e;
  int found = 0;
  while (loam_iter_next(it, &e, &err) == LOAM_OK) found++;
  WANT(LOAM_OK, loam_iter_close(it));
  WANT(LOAM_OK, loam_close(root, &err));
  open_root("default");
  WANT(LOAM_OK, loam_options_close(o));
  printf("%d\n", found);
}

static void delete_range(text start, text limit) {
  loam_status s = loam_delete_range(db, NULL, start.data, start.len, limit.data, limit.len, NULL, &err);
  if (s == LOAM_OK) return;
  CHECK(s == LOAM_ERR_NEEDS_NATIVE, "%s", err);
  loam_free(err);
  err = NULL;
  loam_iter *it;
  loam_iter_options o = {.struct_size = sizeof o, .lower = start.data, .lower_len = start.len, .upper = limit.data, .upper_len = limit.len};
  WANT(LOAM_OK, loam_iter_create(db, &o, &it, &err));
  loam_entry e;
  while (loam_iter_next(it, &e, &err) == LOAM_OK) WANT(LOAM_OK, loam_delete(db, NULL, e.key, e.key_len, NULL, &err));
  WANT(LOAM_OK, loam_iter_close(it));
}

/* The keyspace of a name, which a merge operator may be named for. */
static loam_db *keyspace(const char *name, const char *operator) {
  loam_options *o;
  loam_db *space;
  WANT(LOAM_OK, loam_options_create(&o, &err));
  if (operator) WANT(LOAM_OK, loam_options_set(o, "merge_operator", operator, &err));
  WANT(LOAM_OK, loam_keyspace_open(root, name, operator ? o : NULL, &space, &err));
  WANT(LOAM_OK, loam_options_close(o));
  return space;
}

static void boolean(loam_status s) {
  CHECK(s == LOAM_OK || s == LOAM_MISMATCH, "%s", err);
  puts(s == LOAM_OK ? "true" : "false");
}

static void swap(char **words) {
  text key = decode(words[1]), old = decode(words[2]), value = decode(words[3]);
  boolean(loam_compare_and_swap(db, NULL, key.data, key.len, strcmp(words[2], "-") ? old.data : NULL, old.len,
                                strcmp(words[3], "-") ? value.data : NULL, value.len, &err));
  free(key.data);
  free(old.data);
  free(value.data);
}

static void or_conflict(loam_status s) {
  if (s == LOAM_ERR_CONFLICT) {
    puts("conflict");
    loam_free(err);
    err = NULL;
    return;
  }
  WANT(LOAM_OK, s);
  puts("ok");
}

static int transaction(const char *name) {
  for (int i = 0; i < TRANSACTIONS; i++)
    if (!strcmp(transactions[i].name, name)) return i;
  CHECK(0, "no transaction %s", name);
  return 0;
}

static void begin(char **words, int n) {
  loam_txn_options o = {.struct_size = sizeof o};
  int i = transaction("");
  for (int w = 2; w < n; w++) o.flags |= strcmp(words[w], "lock") ? LOAM_TXN_SERIALIZABLE : LOAM_TXN_LOCK;
  WANT(LOAM_OK, loam_txn_begin(root, &o, &transactions[i].txn, &err));
  snprintf(transactions[i].name, sizeof transactions[i].name, "%s", words[1]);
  puts("ok");
}

static void end(char **words) {
  int i = transaction(words[1]);
  or_conflict(words[0][0] == 'c' ? loam_txn_commit(transactions[i].txn, NULL, &err) : loam_txn_rollback(transactions[i].txn, &err));
  WANT(LOAM_OK, loam_txn_close(transactions[i].txn));
  transactions[i].name[0] = 0;
}

static int savepoint(const char *name) {
  int i = 0;
  while (savepoints[i].name[0] && strcmp(savepoints[i].name, name)) i++;
  snprintf(savepoints[i].name, sizeof savepoints[i].name, "%s", name);
  return i;
}

/* An operation in a transaction: tx T [in NAME] OPERATION ... */
static void within(char **words, int n) {
  loam_txn *txn = transactions[transaction(words[1])].txn;
  loam_db *space = NULL;
  words += 2, n -= 2;
  if (!strcmp(words[0], "in")) {
    space = keyspace(words[1], NULL);
    words += 2, n -= 2;
  }
  text key = n > 1 ? decode(words[1]) : (text){NULL, 0}, value = n > 2 ? decode(words[2]) : (text){NULL, 0};
  void *found = NULL;
  size_t len = 0;
  loam_status s;
  if (!strcmp(words[0], "get")) {
    s = loam_txn_get(txn, space, key.data, key.len, &found, &len, &err);
    value_line(s, found, len);
  } else if (!strcmp(words[0], "update")) {
    s = loam_txn_get_for_update(txn, space, key.data, key.len, &found, &len, &err);
    if (s == LOAM_ERR_CONFLICT) or_conflict(s);
    else value_line(s, found, len);
  } else if (!strcmp(words[0], "put")) or_conflict(loam_txn_put(txn, space, key.data, key.len, value.data, value.len, &err));
  else if (!strcmp(words[0], "del")) or_conflict(loam_txn_delete(txn, space, key.data, key.len, &err));
  else if (!strcmp(words[0], "iter")) iterate(txn, space, words, n);
  else if (!strcmp(words[0], "save")) or_conflict(loam_txn_savepoint(txn, &savepoints[savepoint(words[1])].savepoint, &err));
  else if (!strcmp(words[0], "back")) or_conflict(loam_txn_rollback_to(txn, savepoints[savepoint(words[1])].savepoint, &err));
  else CHECK(0, "no operation %s of a transaction", words[0]);
  if (space) WANT(LOAM_OK, loam_close(space, &err));
  free(key.data);
  free(value.data);
}

static void left(text key) {
  uint64_t milliseconds;
  loam_status s = loam_ttl(db, NULL, key.data, key.len, &milliseconds, &err);
  puts(s == LOAM_NOT_FOUND ? "none" : milliseconds == LOAM_TTL_NEVER ? "never" : "expires");
}

static void option(const char *name, const char *value) {
  char *now;
  if (value) WANT(LOAM_OK, loam_set_option(db, name, value, &err));
  WANT(LOAM_OK, loam_option(db, name, &now, &err));
  printf("= %s\n", now);
  loam_free(now);
}

static const char *op_name(int64_t kind) {
  switch (kind) {
  case LOAM_OP_DELETE: return "delete";
  case LOAM_OP_MERGE: return "merge";
  case LOAM_OP_DELETE_RANGE: return "delete_range";
  }
  return "put";
}

/* Begins a feed behind all that was committed, or prints what has come since. */
static void changes(int listen) {
  static loam_changes *feed;
  void *block;
  size_t len;
  loam_status s;
  if (listen) WANT(LOAM_OK, loam_changes_open(root, 0, 0, &feed, &err));
  while ((s = loam_changes_next(feed, 0, 0, &block, &len, &err)) == LOAM_OK) {
    for (unsigned char *p = block, *end = p + len; p < end;) {
      size_t n = p[0] | p[1] << 8 | p[2] << 16 | (size_t)p[3] << 24, offset = 0;
      loam_operation o;
      uint64_t expires;
      p += 4;
      while ((s = loam_change_operation(p, n, &offset, &o, &expires, &err)) == LOAM_OK) {
        char *name;
        s = loam_changes_keyspace(feed, o.keyspace, &name, &err);
        CHECK(s == LOAM_OK || s == LOAM_NOT_FOUND, "%s", err);
        if (!listen) {
          printf("%s %s ", op_name(o.kind), name ? name : "-");
          print(o.key, o.key_len);
          putchar(' ');
          print(o.value, o.value_len);
          puts(expires ? " expires" : "");
        }
        loam_free(name);
      }
      WANT(LOAM_END, s);
      p += n;
    }
    loam_free(block);
  }
  WANT(LOAM_TIMEOUT, s);
  puts("end");
}

static void ingest(char **words, int n) {
  loam_table_writer *w;
  const char *table = "a-table";
  loam_ingest_options options = {.struct_size = sizeof options, .flags = LOAM_INGEST_MOVE};
  WANT(LOAM_OK, loam_table_writer_create(table, NULL, &w, &err));
  for (int i = 0; i < n;) {
    const char *op = words[i];
    text key = decode(words[i + 1]), value = strcmp(op, "del") ? decode(words[i + 2]) : (text){NULL, 0};
    if (!strcmp(op, "put")) WANT(LOAM_OK, loam_table_writer_put(w, key.data, key.len, value.data, value.len, &err));
    else if (!strcmp(op, "expire")) WANT(LOAM_OK, loam_table_writer_put_ttl(w, key.data, key.len, value.data, value.len, strtoull(words[i + 3], NULL, 10), &err));
    else if (!strcmp(op, "delrange")) WANT(LOAM_OK, loam_table_writer_delete_range(w, key.data, key.len, value.data, value.len, &err));
    else WANT(LOAM_OK, loam_table_writer_delete(w, key.data, key.len, &err));
    i += !strcmp(op, "del") ? 2 : !strcmp(op, "expire") ? 4 : 3;
    free(key.data);
    free(value.data);
  }
  WANT(LOAM_OK, loam_table_writer_finish(w, &err));
  WANT(LOAM_OK, loam_table_writer_close(w));
  WANT(LOAM_OK, loam_ingest(db, &options, 1, &table, &err));
}

static void bulk_load(char **words, int n) {
  loam_bulk_load *l;
  WANT(LOAM_OK, loam_bulk_load_begin(db, NULL, &l, &err));
  for (int i = 0; i + 1 < n; i += 2) {
    text key = decode(words[i]), value = decode(words[i + 1]);
    WANT(LOAM_OK, loam_bulk_load_put(l, key.data, key.len, value.data, value.len, &err));
    free(key.data);
    free(value.data);
  }
  WANT(LOAM_OK, loam_bulk_load_finish(l, &err));
  WANT(LOAM_OK, loam_bulk_load_close(l));
}

static void nap(void) {
  struct timespec t = {0, 10 * 1000 * 1000};
  nanosleep(&t, NULL);
}

static void operation(char **words, int n) {
  const char *op = words[0];
  text key = n > 1 ? decode(words[1]) : (text){NULL, 0}, value = n > 2 ? decode(words[2]) : (text){NULL, 0};
  loam_entry e;
  loam_iter *it;
  if (!strcmp(op, "get")) get(key, n > 2 ? snapshots[place(words[2] + 1)].snapshot : NULL);
  else if (!strcmp(op, "follow")) follow(key);
  else if (!strcmp(op, "has")) puts(loam_has(db, NULL, key.data, key.len, NULL) == LOAM_OK ? "true" : "false");
  else if (!strcmp(op, "multiget")) multi_get(words, n);
  else if (!strcmp(op, "tables")) tables(key, words + 2, n - 2);
  else if (!strcmp(op, "spaces")) spaces();
  else if (!strcmp(op, "left")) left(key);
  else if (!strcmp(op, "option")) option(words[1], n > 2 ? words[2] : NULL);
  else if (!strcmp(op, "listen") || !strcmp(op, "changes")) changes(op[0] == 'l');
  else if (!strcmp(op, "cas")) swap(words);
  else if (!strcmp(op, "putnew")) boolean(loam_put_if_absent(db, NULL, key.data, key.len, value.data, value.len, &err));
  else if (!strcmp(op, "begin")) begin(words, n);
  else if (!strcmp(op, "commit") || !strcmp(op, "rollback")) end(words);
  else if (!strcmp(op, "tx")) within(words, n);
  else if (!strcmp(op, "iter")) iterate(NULL, NULL, words, n);
  else if (!strncmp(op, "seek", 4)) {
    WANT(LOAM_OK, loam_iter_create(db, NULL, &it, &err));
    loam_status s = op[4] ? loam_iter_seek_before(it, key.data, key.len, &e, &err) : loam_iter_seek(it, key.data, key.len, &e, &err);
    if (s == LOAM_OK) entry(&e);
    else puts("none");
    WANT(LOAM_OK, loam_iter_close(it));
  } else {
    if (!strcmp(op, "put")) WANT(LOAM_OK, loam_put(db, NULL, key.data, key.len, value.data, value.len, NULL, &err));
    else if (!strcmp(op, "merge")) WANT(LOAM_OK, loam_merge(db, NULL, key.data, key.len, value.data, value.len, NULL, &err));
    else if (!strcmp(op, "expire")) WANT(LOAM_OK, loam_put_ttl(db, NULL, key.data, key.len, value.data, value.len, strtoull(words[3], NULL, 10), NULL, &err));
    else if (!strcmp(op, "gone")) while (loam_has(db, NULL, key.data, key.len, &err) == LOAM_OK) nap();
    else if (!strcmp(op, "del")) WANT(LOAM_OK, loam_delete(db, NULL, key.data, key.len, NULL, &err));
    else if (!strcmp(op, "delrange")) delete_range(key, value);
    else if (!strcmp(op, "batch")) batch(words, n);
    else if (!strcmp(op, "flush")) WANT(LOAM_OK, loam_flush(db, &err));
    else if (!strcmp(op, "compact")) WANT(LOAM_OK, loam_compact(db, NULL, 0, NULL, 0, &err));
    else if (!strcmp(op, "verify")) WANT(LOAM_OK, loam_verify(db, &err));
    else if (!strcmp(op, "filter")) filter(words[1]);
    else if (!strcmp(op, "ingest")) ingest(words + 1, n - 1);
    else if (!strcmp(op, "bulkload")) bulk_load(words + 1, n - 1);
    else if (!strcmp(op, "reopen")) {
      close_root();
      open_root("default");
    } else if (!strcmp(op, "checkpoint")) {
      WANT(LOAM_OK, loam_checkpoint(root, words[1], &err));
      close_root();
      path = strdup(words[1]);
      open_root("default");
    } else if (!strcmp(op, "backup")) {
      loam_backup *backup;
      uint64_t id;
      WANT(LOAM_OK, loam_backup_open("backups", 0, &backup, &err));
      WANT(LOAM_OK, loam_backup_create(backup, root, 0, &id, &err));
      WANT(LOAM_OK, loam_backup_verify(backup, id, 0, &err));
      WANT(LOAM_OK, loam_backup_restore(backup, id, words[1], 0, &err));
      WANT(LOAM_OK, loam_backup_close(backup));
      close_root();
      path = strdup(words[1]);
      open_root("default");
    } else if (!strcmp(op, "dump")) {
      dump(words[1]);
    } else if (!strcmp(op, "use")) {
      WANT(LOAM_OK, loam_close(db, &err));
      db = keyspace(words[1], n > 2 ? words[2] : NULL);
    } else if (!strcmp(op, "drop")) {
      WANT(LOAM_OK, loam_keyspace_drop(root, words[1], &err));
    } else if (!strcmp(op, "snapshot")) {
      int i = place("");
      snprintf(snapshots[i].name, sizeof snapshots[i].name, "%s", words[1]);
      WANT(LOAM_OK, loam_snapshot_create(db, &snapshots[i].snapshot, &err));
    } else if (!strcmp(op, "release")) {
      int i = place(words[1]);
      WANT(LOAM_OK, loam_snapshot_close(snapshots[i].snapshot));
      snapshots[i].name[0] = 0;
    } else CHECK(0, "no operation %s", op);
    puts("ok");
  }
  free(key.data);
  free(value.data);
}

int main(int argc, char **argv) {
  static char line[65536];
  FILE *script = argc == 3 ? fopen(argv[1], "r") : NULL;
  CHECK(script, "no script");
  open_root(argv[2]);
  while (fgets(line, sizeof line, script)) {
    char *words[WORDS];
    int n = 0;
    line[strcspn(line, "\n")] = 0;
    if (!*line || *line == '#') continue;
    printf("> %s\n", line);
    for (char *w = strtok(line, " "); w && n < WORDS; w = strtok(NULL, " ")) words[n++] = w;
    if (n) operation(words, n);
  }
  close_root();
  fclose(script);
  return 0;
}
