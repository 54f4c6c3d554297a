/* loamdb._fast.Cursor: iterators, decoded block by block.
 *
 * A cursor stands in a gap between two entries: forward returns the entry after the gap and steps
 * over it, backward the entry before the gap. libloam moves over whole
 * blocks, so the cursor's gap lags behind the library's position while a block is
 * being handed out. When the direction changes the library is sent to the entry
 * that was returned last, which is the one to return again.
 *
 * The GIL is released while the library fetches a block. busy guards the cursor
 * meanwhile: another thread gets an error, and its close() is left to the thread
 * that is fetching. Methods take the cursor's lock; what they call does not.
 */
#include "_fast.h"

#include <string.h>

enum { MODE_NONE, MODE_KEYS, MODE_VALUES, MODE_ITEMS }; /* include_key + 2 * include_value */

/* Where the gap is. At the edges synced tells whether the library is there, too. */
enum { AT_BEGIN, AT_END, BETWEEN };
enum { FORWARD = 1, BACKWARD = -1 };

typedef struct {
  PyObject_HEAD
  const loam_functions *lib;
  loam_iter *iter;  /* NULL once closed */
  PyObject *owner;  /* the database */
  const char *next; /* the block's entries not yet returned, in the iterator's memory */
  size_t left;      /* how many */
  loam_entry last; /* returned last, in the iterator's memory; valid while has_last */
  size_t strip;    /* bytes cut off the front of keys */
  char has_last;
  char mode, place, synced;
  char direction; /* of block and last; 0: the library stands in the cursor's gap */
  char reverse;   /* __next__ goes backward */
  char busy, closing;
} Cursor;

static PyTypeObject *CursorType;

/* ---- Making ---- */

static PyObject *cursor_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"db", "snapshot", "lower", "upper", "prefix", "mode", "reverse",
    "fill_cache", "strip", "transaction", NULL};
  PyObject *owner, *bound[3] = {Py_None, Py_None, Py_None}, *snapshot = Py_None,
    *transaction = NULL;
  Bytes bytes[3];
  int mode = MODE_ITEMS, reverse = 0, fill = 1, n = 0;
  Py_ssize_t strip = 0;
  loam_iter_options o = {sizeof o, 0};
  const loam_functions *lib = NULL;
  loam_iter *iter = NULL;
  loam_db *db;
  loam_txn *txn = NULL;
  char *err = NULL;
  loam_status status;
  Cursor *c;

  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|OOOOippnO:Cursor", names, DatabaseType,
    &owner, &snapshot, &bound[0], &bound[1],
                                   &bound[2], &mode, &reverse, &fill, &strip, &transaction))
    return NULL;
  if (transaction != NULL && (txn = PyLong_AsVoidPtr(transaction)) == NULL && PyErr_Occurred()) {
    return NULL;
  }
  if (snapshot != Py_None && !PyObject_TypeCheck(snapshot, SnapshotType)) {
    PyErr_SetString(PyExc_TypeError, "not a snapshot");
    return NULL;
  }
  if (snapshot != Py_None && ((Reader *)snapshot)->owner != owner) {
    PyErr_SetString(PyExc_ValueError, "the snapshot is of another database");
    return NULL;
  }
  for (; n < 3; n++) {
    bytes[n].data = NULL;
    bytes[n].len = 0;
    bytes[n].view.obj = NULL;
    if (bound[n] == Py_None) continue;
    if (bytes_of(bound[n], &bytes[n]) < 0) break;
  }
  db = n < 3 ? NULL : reader_db(snapshot != Py_None ? (Reader *)snapshot : (Reader *)owner,
    (loam_snapshot **)&o.snapshot);
  if (db != NULL) {
    lib = ((Reader *)owner)->lib;
    o.lower = bytes[0].data, o.lower_len = bytes[0].len;
    o.upper = bytes[1].data, o.upper_len = bytes[1].len;
    o.prefix = bytes[2].data, o.prefix_len = bytes[2].len;
    o.flags = (mode & MODE_VALUES ? 0 : LOAM_KEYS_ONLY) | (fill ? 0 : LOAM_NO_FILL);
    Py_BEGIN_ALLOW_THREADS
    status = txn ? lib->loam_txn_iter_create(txn, db, &o, &iter, &err) : lib->loam_iter_create(
      db, &o, &iter, &err);
    Py_END_ALLOW_THREADS
    if (finish((Reader *)owner, status, err) < 0 && iter != NULL) {
      lib->loam_iter_close(iter);
      iter = NULL;
    }
  }
  while (n > 0) bytes_done(&bytes[--n]);
  if (iter == NULL) return NULL;
  c = (Cursor *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
  if (c == NULL) {
    lib->loam_iter_close(iter);
    return NULL;
  }
  Py_INCREF(owner);
  c->lib = lib;
  c->owner = owner;
  c->iter = iter;
  c->mode = (char)mode;
  c->reverse = (char)reverse;
  c->strip = (size_t)strip;
  c->place = reverse ? AT_END : AT_BEGIN;
  c->synced = 1;
  return (PyObject *)c;
}

/* ---- Calls of the library, which release the GIL ---- */

static void forget_block(Cursor *c) {
  c->next = NULL;
  c->left = 0;
  c->has_last = 0;
  c->direction = 0;
}

static int enter(Cursor *c) {
  if (c->iter == NULL || c->closing) {
    raise_closed("iterator");
    return -1;
  }
  if (HANDLE_OF(((Reader *)c->owner)->db) == NULL) {
    raise_closed("database");
    return -1;
  }
  if (c->busy) {
    raise_status(LOAM_ERR_IN_USE, NULL);
    return -1;
  }
  c->busy = 1;
  return 0;
}

static void close_now(Cursor *c) {
  loam_iter *iter = c->iter;
  c->iter = NULL;
  forget_block(c);
  if (iter != NULL) {
    Py_BEGIN_ALLOW_THREADS
    c->lib->loam_iter_close(iter);
    Py_END_ALLOW_THREADS
  }
}

/* Ends what enter began. Returns -1 with an exception after a failure or when the
 * cursor was closed meanwhile. After a failure the cursor is over: the library
 * stands outside the range, from where a step would begin again. */
static int leave(Cursor *c, loam_status status, char *err) {
  c->busy = 0;
  if (c->closing) {
    c->closing = 0;
    if (err != NULL) loam->loam_free(err);
    close_now(c);
    raise_closed("iterator");
    return -1;
  }
  if (finish((Reader *)c->owner, status, err) == 0) return 0;
  forget_block(c);
  c->place = c->reverse ? AT_BEGIN : AT_END;
  c->synced = 0;
  return -1;
}

typedef enum { MOVE_FIRST, MOVE_LAST, MOVE_SEEK, MOVE_NEXT, MOVE_PREV } Move;

/* Sends the library to an entry, which becomes the last returned. Returns 1, 0 when
 * there is none, -1 with an exception. key: for MOVE_SEEK. */
static int move(Cursor *c, Move how, const void *key, size_t key_len) {
  loam_iter *iter = c->iter;
  loam_entry entry = {0};
  loam_status status = LOAM_ERR_INTERNAL;
  char *err = NULL;
  if (enter(c) < 0) return -1;
  c->left = 0;
  c->has_last = 0;
  Py_BEGIN_ALLOW_THREADS
  switch (how) {
    case MOVE_FIRST: status = c->lib->loam_iter_first(iter, &entry, &err); break;
    case MOVE_LAST: status = c->lib->loam_iter_last(iter, &entry, &err); break;
    case MOVE_SEEK: status = c->lib->loam_iter_seek(iter, key, key_len, &entry, &err); break;
    case MOVE_NEXT: status = c->lib->loam_iter_next(iter, &entry, &err); break;
    case MOVE_PREV: status = c->lib->loam_iter_prev(iter, &entry, &err); break;
  }
  Py_END_ALLOW_THREADS
  if (leave(c, status, err) < 0) return -1;
  if (status != LOAM_OK) return 0;
  c->last = entry;
  c->has_last = 1;
  return 1;
}

/* Returns to the entry returned last. */
static int move_to_last(Cursor *c) {
  PyObject *key = PyBytes_FromStringAndSize(c->last.key, (Py_ssize_t)c->last.key_len);
  int result;
  if (key == NULL) return -1;
  result = move(c, MOVE_SEEK, PyBytes_AsString(key), c->last.key_len);
  Py_DECREF(key);
  return result;
}

/* Fetches the next block in a direction. Returns 1, 0 at the end, -1 with an
 * exception. */
static int fetch(Cursor *c, int direction) {
  loam_iter *iter = c->iter;
  loam_block block = {0};
  loam_status status;
  char *err = NULL;
  if (enter(c) < 0) return -1;
  c->left = 0;
  c->has_last = 0;
  Py_BEGIN_ALLOW_THREADS
  if (direction == FORWARD) {
    status = c->lib->loam_iter_next_block(iter, 0, 0, &block, &err);
  } else {
    status = c->lib->loam_iter_prev_block(iter, 0, 0, &block, &err);
  }
  Py_END_ALLOW_THREADS
  if (leave(c, status, err) < 0) return -1;
  if (status == LOAM_OK) {
    c->place = BETWEEN;
    c->direction = (char)direction;
    c->next = block.data;
    c->left = block.count;
    return 1;
  }
  forget_block(c);
  c->place = direction == FORWARD ? AT_END : AT_BEGIN;
  c->synced = 1;
  return 0;
}

/* ---- Entries ---- */

static inline uint32_t read_u32(const char *p) {
  const unsigned char *b = (const unsigned char *)p;
  return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

/* Takes the next entry off the block. */
static inline void take(Cursor *c) {
  const char *p = c->next;
  c->last.key_len = read_u32(p);
  c->last.value_len = read_u32(p + 4);
  c->last.key = p + 8;
  c->last.value = p + 8 + c->last.key_len;
  c->next = (const char *)c->last.value + c->last.value_len;
  c->left--;
  c->has_last = 1;
}

static PyObject *entry_object(const loam_entry *e, int mode, size_t strip) {
  PyObject *key = NULL, *value = NULL, *item;
  if (mode & MODE_KEYS) {
    size_t cut = strip < e->key_len ? strip : e->key_len;
    key = PyBytes_FromStringAndSize((const char *)e->key + cut, (Py_ssize_t)(e->key_len - cut));
    if (key == NULL || mode == MODE_KEYS) return key;
  }
  if (mode & MODE_VALUES) {
    value = PyBytes_FromStringAndSize(e->value, (Py_ssize_t)e->value_len);
    if (mode == MODE_VALUES) return value;
    if (value == NULL) {
      Py_DECREF(key);
      return NULL;
    }
    item = PyTuple_New(2);
    if (item == NULL) {
      Py_DECREF(key);
      Py_DECREF(value);
      return NULL;
    }
    PyTuple_SetItem(item, 0, key);
    PyTuple_SetItem(item, 1, value);
    return item;
  }
  Py_RETURN_NONE;
}

/* ---- Stepping ---- */

/* Whether the next entry in a direction is in the block. */
static inline int at_hand(const Cursor *c, int direction) {
  return c->left > 0 && c->direction == direction && !c->busy &&
    HANDLE_OF(((Reader *)c->owner)->db) != NULL;
}

/* Goes one entry on, which becomes the last returned: 1, 0 (none), -1 (exception). Signals are
 * looked at, as list(cursor) never gets to the interpreter: before the block is fetched, so that
 * the cursor is in its gap. Their handlers may move it. */
static int step_slow(Cursor *c, int direction) {
  int from = direction == FORWARD ? AT_BEGIN : AT_END, to = direction == FORWARD ? AT_END :
    AT_BEGIN;
  int found;
  if (PyErr_CheckSignals() < 0) return -1;
  if (at_hand(c, direction)) {
    take(c);
    return 1;
  }
  if (c->place == to) return enter(c) < 0 ? -1 : leave(c, LOAM_OK, NULL);
  if (c->place == from && !c->synced) {
    found = move(c, direction == FORWARD ? MOVE_FIRST : MOVE_LAST, NULL, 0);
  } else if (c->place == BETWEEN && c->direction == -direction && c->has_last) {
    found = move_to_last(c);
  } else {
    /* A block may be empty without being the last. */
    do {
      found = fetch(c, direction);
    } while (found == 1 && c->left == 0);
    if (found == 1) take(c);
    return found;
  }
  if (found == 1) {
    c->place = BETWEEN;
    c->direction = (char)direction;
  } else if (found == 0) {
    forget_block(c);
    c->place = (char)to;
    c->synced = 1;
  }
  return found;
}

static inline PyObject *step(Cursor *c, int direction) {
  if (at_hand(c, direction)) {
    take(c);
  } else if (step_slow(c, direction) != 1) {
    return NULL;
  }
  return entry_object(&c->last, c->mode, c->strip);
}

static PyObject *cursor_next(PyObject *self) {
  Cursor *c = (Cursor *)self;
  PyObject *entry;
  LOCK(c);
  entry = step(c, c->reverse ? BACKWARD : FORWARD);
  UNLOCK();
  return entry;
}

static PyObject *cursor_prev(PyObject *self, PyObject *unused) {
  Cursor *c = (Cursor *)self;
  PyObject *entry;
  LOCK(c);
  entry = step(c, c->reverse ? FORWARD : BACKWARD);
  UNLOCK();
  if (entry == NULL && !PyErr_Occurred()) PyErr_SetNone(PyExc_StopIteration);
  return entry;
}

/* ---- Seeking ---- */

/* Goes to the gap before a key: 0, or -1 with an exception. */
static int seek(Cursor *c, const Bytes *key) {
  loam_iter *iter = c->iter;
  char *err = NULL;
  loam_status status;
  if (enter(c) < 0) return -1;
  Py_BEGIN_ALLOW_THREADS
  status = c->lib->loam_iter_place(iter, key->data, key->len, &err);
  Py_END_ALLOW_THREADS
  if (leave(c, status, err) < 0) return -1;
  forget_block(c);
  c->place = BETWEEN;
  return 0;
}

static PyObject *cursor_seek(PyObject *self, PyObject *target) {
  Bytes key;
  int found;
  if (bytes_of(target, &key) < 0) return NULL;
  LOCK(self);
  found = seek((Cursor *)self, &key);
  UNLOCK();
  bytes_done(&key);
  return found < 0 ? NULL : Py_NewRef(Py_None);
}

static int go_to_edge(Cursor *c, int place) {
  if (enter(c) < 0 || leave(c, LOAM_OK, NULL) < 0) return -1;
  if (c->place != place) {
    forget_block(c);
    c->place = (char)place;
    c->synced = 0;
  }
  return 0;
}

static PyObject *seek_to_edge(PyObject *self, int place) {
  int found;
  LOCK(self);
  found = go_to_edge((Cursor *)self, place);
  UNLOCK();
  return found < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *cursor_seek_to_start(PyObject *self, PyObject *unused) {
  return seek_to_edge(self, AT_BEGIN);
}
static PyObject *cursor_seek_to_stop(PyObject *self, PyObject *unused) {
  return seek_to_edge(self, AT_END);
}

/* _move(how, key=None): the library's own moves, for LevelDB's kind of iterator. A
 * cursor used this way is not stepped. Returns the entry or None. */
static PyObject *cursor_move(PyObject *self, PyObject *args) {
  Cursor *c = (Cursor *)self;
  int how, found;
  PyObject *target = NULL, *entry = NULL;
  Bytes key = {NULL, 0, {0}};
  if (!PyArg_ParseTuple(args, "i|O:_move", &how, &target)) return NULL;
  if (target != NULL && bytes_of(target, &key) < 0) return NULL;
  LOCK(c);
  found = move(c, (Move)how, key.data, key.len);
  if (found == 1) entry = entry_object(&c->last, MODE_ITEMS, 0);
  UNLOCK();
  if (target != NULL) bytes_done(&key);
  return found == 0 ? Py_NewRef(Py_None) : entry;
}

/* _count(): steps to the end of the range and returns over how many entries. */
static PyObject *cursor_count(PyObject *self, PyObject *unused) {
  Cursor *c = (Cursor *)self;
  size_t n = 0;
  int direction = c->reverse ? BACKWARD : FORWARD, found;
  LOCK(c);
  do {
    n += c->left;
    found = PyErr_CheckSignals() < 0 ? -1 : fetch(c, direction);
  } while (found == 1);
  UNLOCK();
  return found < 0 ? NULL : PyLong_FromSize_t(n);
}

static PyObject *cursor_close(PyObject *self, PyObject *unused) {
  Cursor *c = (Cursor *)self;
  LOCK(c);
  if (c->busy) {
    c->closing = 1;
  } else {
    close_now(c);
  }
  UNLOCK();
  Py_RETURN_NONE;
}

static PyObject *cursor_closed(PyObject *self, void *unused) {
  Cursor *c = (Cursor *)self;
  int closed;
  LOCK(c);
  closed = c->iter == NULL || c->closing || HANDLE_OF(((Reader *)c->owner)->db) == NULL;
  UNLOCK();
  return PyBool_FromLong(closed);
}

static PyObject *cursor_iter(PyObject *self) {
  Py_INCREF(self);
  return self;
}

static int cursor_traverse(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(((Cursor *)self)->owner);
  return 0;
}

static void cursor_dealloc(PyObject *self) {
  Cursor *c = (Cursor *)self;
  PyObject_GC_UnTrack(self);
  close_now(c);
  Py_CLEAR(c->owner);
  free_object(self);
}

static PyMethodDef methods[] = {
    {"prev", cursor_prev, METH_NOARGS,
     "prev($self)\n--\n\nThe entry before the one that next() would return, stepping back over "
     "it.\nStopIteration when there is none."},
    {"seek", cursor_seek, METH_O,
     "seek($self, key, /)\n--\n\nGoes to the gap before key: next() of a forward iterator then "
     "returns the first\n"
     "entry at or after key, of a reverse one the last entry before it."},
    {"seek_to_start", cursor_seek_to_start, METH_NOARGS,
      "seek_to_start($self)\n--\n\nGoes before the first entry in key order."},
    {"seek_to_stop", cursor_seek_to_stop, METH_NOARGS,
      "seek_to_stop($self)\n--\n\nGoes behind the last entry in key order."},
    {"close", cursor_close, METH_NOARGS,
      "close($self)\n--\n\nGives the iterator up. Closing twice is harmless."},
    {"_move", cursor_move, METH_VARARGS, NULL},
    {"_count", cursor_count, METH_NOARGS, NULL},
    {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS, NULL},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef getset[] =
  {{"closed", cursor_closed, NULL, "Whether it, or its database, was closed.", NULL},
                               {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot slots[] = {{Py_tp_new, cursor_new},
                              {Py_tp_dealloc, cursor_dealloc},
                              {Py_tp_traverse, cursor_traverse},
                              {Py_tp_iter, cursor_iter},
                              {Py_tp_iternext, cursor_next},
                              {Py_tp_methods, methods},
                              {Py_tp_getset, getset},
                              {Py_tp_doc, "An iterator's handle and the calls per entry."},
                              {0, NULL}};

static PyType_Spec spec = {"loamdb._fast.Cursor", sizeof(Cursor), 0, Py_TPFLAGS_DEFAULT |
  Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
                           slots};

int add_cursor_type(PyObject *module) {
  static const struct {
    const char *name;
    int value;
  } constants[] = {{"NONE", MODE_NONE},       {"KEYS", MODE_KEYS},
    {"VALUES", MODE_VALUES},    {"ITEMS", MODE_ITEMS},
                   {"MOVE_FIRST", MOVE_FIRST}, {"MOVE_LAST", MOVE_LAST}, {"MOVE_SEEK", MOVE_SEEK},
                   {"MOVE_NEXT", MOVE_NEXT},
                   {"MOVE_PREV", MOVE_PREV}};
  if (add_type(module, &CursorType, &spec, NULL) < 0) return -1;
  for (size_t i = 0; i < sizeof constants / sizeof constants[0]; i++) {
    if (PyModule_AddIntConstant(module, constants[i].name, constants[i].value) < 0) return -1;
  }
  return 0;
}
