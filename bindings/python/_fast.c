/* loamdb._fast: the calls that Python programs make per key or per entry.
 *
 * The extension is not linked with libloam. Python loads the library when the
 * first database is opened and hands it to bind(). Reads that memory can answer
 * run with the GIL held, as releasing it costs more than they take; whatever
 * may wait for the disk or for another thread releases it.
 */
#include "_dynamic.h"

#include "_fast.h"

#include <stdlib.h>
#include <string.h>

loam_functions *loam;
PyTypeObject *ReaderType, *DatabaseType, *SnapshotType;

enum {
  SMALL_VALUE = 16 << 10, /* values up to this are read through the stack */
  LARGE_VALUE = 256 << 10 /* values from this on are copied without the GIL */
};

/* ---- Errors ---- */

/* An exception of loamdb.errors, of this interpreter. */
static PyObject *make_exception(loam_status status, PyObject *message, int number,
  const char *path) {
  PyObject *errors = PyImport_ImportModule("loamdb.errors"), *exception = NULL;
  PyObject *name = path ? PyUnicode_DecodeFSDefault(path) : Py_NewRef(Py_None);
  if (errors != NULL && message != NULL && name != NULL) {
    exception = PyObject_CallMethod(errors, "from_status", "iOiO", (int)status, message, number,
      name);
  }
  Py_XDECREF(name);
  Py_XDECREF(errors);
  return exception;
}

static void raise_exception(PyObject *exception) {
  if (exception == NULL) return;
  PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
  Py_DECREF(exception);
}

static PyObject *keep_of(Reader *r) { return r->owner ? ((Reader *)r->owner)->keep : r->keep; }

static PyObject *raise_for(PyObject *keep, loam_status status, char *err) {
  PyObject *message = PyUnicode_DecodeUTF8(err ? err : "", err ? (Py_ssize_t)strlen(err) : 0,
    "replace");
  PyObject *exception = make_exception(status, message, err ? loam->loam_error_errno(err) : 0,
    err ? loam->loam_error_path(err) : NULL);
  Py_XDECREF(message);
  if (err != NULL) loam->loam_free(err);
  if (exception != NULL) exception = failure_behind(keep, status, exception);
  raise_exception(exception);
  return NULL;
}

PyObject *raise_status(loam_status status, char *err) { return raise_for(NULL, status, err); }

int finish(Reader *r, loam_status status, char *err) {
  PyObject *keep = r->release ? keep_of(r) : NULL;
  if (keep != NULL && raise_interrupt(keep) < 0) {
    if (status < 0 && err != NULL) loam->loam_free(err);
    return -1;
  }
  if (status >= 0) return 0;
  raise_for(keep, status, err);
  return -1;
}

PyObject *raise_closed(const char *what) {
  PyObject *message = PyUnicode_FromFormat("the %s is closed", what);
  raise_exception(make_exception(LOAM_ERR_CLOSED, message, 0, NULL));
  Py_XDECREF(message);
  return NULL;
}

PyObject *handle_object(const loam_functions *lib, void *handle) {
  if (handle != NULL && lib->forked) return raise_status(LOAM_ERR_FORKED, NULL);
  return PyLong_FromVoidPtr(handle);
}

void free_object(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(self);
  Py_DECREF(type);
}

/* ---- Reading ---- */

loam_db *reader_db(Reader *r, loam_snapshot **snapshot) {
  loam_db *db = HANDLE_OF((r->owner ? (Reader *)r->owner : r)->db);
  *snapshot = HANDLE_OF(r->snapshot);
  if (db == NULL) {
    raise_closed("database");
    return NULL;
  }
  if (r->owner && *snapshot == NULL) {
    raise_closed("snapshot");
    return NULL;
  }
  return db;
}

/* Reads a value of n bytes or, should it have grown meanwhile, more. */
static PyObject *read_large(Reader *r, loam_db *db, loam_snapshot *snapshot, const Bytes *key,
  unsigned flags, size_t n,
                            loam_status *status) {
  for (;;) {
    size_t cap = n;
    char *err = NULL;
    PyObject *value;
    char *p;
    if (n > PY_SSIZE_T_MAX) return PyErr_NoMemory();
    value = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)n);
    if (value == NULL) return NULL;
    p = PyBytes_AsString(value);
    if (n < LARGE_VALUE && flags == 0 && !r->release) {
      *status = r->lib->loam_get(db, READ(snapshot, LOAM_MEMORY_ONLY), key->data, key->len, p, cap,
        &n, &err);
    } else {
      *status = LOAM_WOULD_BLOCK;
    }
    if (*status == LOAM_WOULD_BLOCK) {
      Py_BEGIN_ALLOW_THREADS
      *status = r->lib->loam_get(db, READ(snapshot, flags), key->data, key->len, p, cap, &n, &err);
      Py_END_ALLOW_THREADS
    }
    if (finish(r, *status, err) < 0) {
      Py_DECREF(value);
      return NULL;
    }
    if (*status == LOAM_OK) {
      if (n == cap) return value;
      PyObject *shorter = PyBytes_FromStringAndSize(p, (Py_ssize_t)n);
      Py_DECREF(value);
      return shorter;
    }
    Py_DECREF(value);
    if (*status != LOAM_BUFFER_TOO_SMALL) return NULL;
  }
}

/* The value of a key as a new reference; NULL without an exception when there is
 * none, with one after a failure. */
static PyObject *reader_fetch(Reader *r, PyObject *key_object, unsigned flags) {
  Bytes key;
  char buf[SMALL_VALUE];
  size_t n = 0;
  char *err = NULL;
  loam_status status;
  PyObject *value = NULL;
  loam_snapshot *snapshot;
  loam_db *db = reader_db(r, &snapshot);

  if (db == NULL || bytes_of(key_object, &key) < 0) return NULL;
  if (r->release || flags != 0) {
    status = LOAM_WOULD_BLOCK;
  } else {
    status = r->lib->loam_get(db, READ(snapshot, LOAM_MEMORY_ONLY), key.data, key.len, buf,
      sizeof buf, &n, &err);
  }
  if (status == LOAM_WOULD_BLOCK) {
    Py_BEGIN_ALLOW_THREADS
    status = r->lib->loam_get(db, READ(snapshot, flags), key.data, key.len, buf, sizeof buf, &n,
      &err);
    Py_END_ALLOW_THREADS
  }
  if (finish(r, status, err) == 0) {
    if (status == LOAM_OK) {
      value = PyBytes_FromStringAndSize(buf, (Py_ssize_t)n);
    } else if (status == LOAM_BUFFER_TOO_SMALL) {
      value = read_large(r, db, snapshot, &key, flags, n, &status);
    }
  }
  bytes_done(&key);
  return value;
}

/* get(key, default=None, *, fill_cache=True); with checksums also the keyword
 * verify_checksums, which changes nothing as checksums are always verified. */
static PyObject *reader_get_args(Reader *r, PyObject *const *args, Py_ssize_t nargs,
  PyObject *names, int checksums) {
  PyObject *key = nargs > 0 ? args[0] : NULL, *missing = nargs > 1 ? args[1] : NULL, *value;
  unsigned flags = 0;
  if (nargs > 2) {
    PyErr_Format(PyExc_TypeError, "get() takes at most 2 positional arguments (%zd given)", nargs);
    return NULL;
  }
  for (Py_ssize_t i = 0, n = names ? PyTuple_Size(names) : 0; i < n; i++) {
    PyObject *name = PyTuple_GetItem(names, i), *arg = args[nargs + i];
    if (keyword_is(name, "default") && missing == NULL) {
      missing = arg;
    } else if (keyword_is(name, "key") && key == NULL) {
      key = arg;
    } else if (keyword_is(name, "fill_cache")) {
      int fill = PyObject_IsTrue(arg);
      if (fill < 0) return NULL;
      flags = fill ? 0 : LOAM_NO_FILL;
    } else if (!(checksums && keyword_is(name, "verify_checksums"))) {
      PyErr_Format(PyExc_TypeError, "get() got an unexpected keyword argument '%U'", name);
      return NULL;
    }
  }
  if (key == NULL) {
    PyErr_SetString(PyExc_TypeError, "get() missing 1 required positional argument: 'key'");
    return NULL;
  }
  value = reader_fetch(r, key, flags);
  if (value != NULL || PyErr_Occurred()) return value;
  if (missing == NULL) missing = Py_None;
  Py_INCREF(missing);
  return missing;
}

static PyObject *reader_get(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
  PyObject *names) {
  if (nargs == 1 && names == NULL) {
    PyObject *value = reader_fetch((Reader *)self, args[0], 0);
    if (value != NULL || PyErr_Occurred()) return value;
    Py_RETURN_NONE;
  }
  return reader_get_args((Reader *)self, args, nargs, names, 0);
}

static PyObject *reader_get_plyvel(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
  PyObject *names) {
  return reader_get_args((Reader *)self, args, nargs, names, 1);
}

/* _peek(key, blocks): the value, None when there is none, or blocks when memory does not
 * hold the answer. */
static PyObject *reader_peek(PyObject *self, PyObject *args) {
  Reader *r = (Reader *)self;
  PyObject *key_object, *answer;
  Bytes key;
  char buf[SMALL_VALUE];
  size_t n = 0;
  char *err = NULL;
  loam_status status = LOAM_WOULD_BLOCK;
  loam_snapshot *snapshot;
  loam_db *db = reader_db(r, &snapshot);

  if (db == NULL || !PyArg_ParseTuple(args, "OO:_peek", &key_object, &answer) ||
    bytes_of(key_object, &key) < 0) return NULL;
  if (!r->release) {
    status = r->lib->loam_get(db, READ(snapshot, LOAM_MEMORY_ONLY), key.data, key.len, buf,
      sizeof buf, &n, &err);
  }
  bytes_done(&key);
  if (status == LOAM_OK) return PyBytes_FromStringAndSize(buf, (Py_ssize_t)n);
  if (status == LOAM_NOT_FOUND) Py_RETURN_NONE;
  if (status < 0) return raise_status(status, err);
  Py_INCREF(answer);
  return answer;
}

static PyObject *reader_subscript(PyObject *self, PyObject *key) {
  PyObject *value = reader_fetch((Reader *)self, key, 0);
  if (value == NULL && !PyErr_Occurred()) PyErr_SetObject(PyExc_KeyError, key);
  return value;
}

static int reader_contains(PyObject *self, PyObject *key_object) {
  Reader *r = (Reader *)self;
  Bytes key;
  size_t n;
  char *err = NULL;
  loam_status status = LOAM_WOULD_BLOCK;
  loam_snapshot *snapshot;
  loam_db *db = reader_db(r, &snapshot);

  if (db == NULL || bytes_of(key_object, &key) < 0) return -1;
  if (!r->release) {
    status = r->lib->loam_get(db, READ(snapshot, LOAM_MEMORY_ONLY), key.data, key.len, NULL, 0, &n,
      &err);
  }
  if (status == LOAM_WOULD_BLOCK) {
    Py_BEGIN_ALLOW_THREADS
    status = r->lib->loam_has(db, READ(snapshot, 0), key.data, key.len, &err);
    Py_END_ALLOW_THREADS
  }
  bytes_done(&key);
  if (finish(r, status, err) < 0) return -1;
  return status == LOAM_OK || status == LOAM_BUFFER_TOO_SMALL;
}

static PyObject *reader_has(PyObject *self, PyObject *key) {
  int found = reader_contains(self, key);
  return found < 0 ? NULL : PyBool_FromLong(found);
}

/* Replaces the keys of a list by bytes objects and stores where their bytes are. */
static int list_keys(PyObject *list, size_t n, const void **keys, size_t *lens) {
  for (size_t i = 0; i < n; i++) {
    PyObject *key = PyList_GetItem(list, (Py_ssize_t)i);
    Bytes b;
    if (bytes_of(key, &b) < 0) return -1;
    if (b.view.obj != NULL) {
      PyObject *copy = PyBytes_FromStringAndSize(b.data, (Py_ssize_t)b.len);
      bytes_done(&b);
      if (copy == NULL || PyList_SetItem(list, (Py_ssize_t)i, copy) < 0) return -1;
      b.data = PyBytes_AsString(copy);
    }
    keys[i] = b.data;
    lens[i] = b.len;
  }
  return 0;
}

/* Puts the values into the list, where the keys were. */
static int list_values(PyObject *list, size_t n, const void *const *values, const size_t *lens) {
  for (size_t i = 0; i < n; i++) {
    PyObject *value;
    if (values[i] == NULL) {
      value = Py_None;
      Py_INCREF(value);
    } else {
      value = PyBytes_FromStringAndSize(values[i], (Py_ssize_t)lens[i]);
      if (value == NULL) return -1;
    }
    if (PyList_SetItem(list, (Py_ssize_t)i, value) < 0) return -1;
  }
  return 0;
}

static PyObject *reader_multi_get(PyObject *self, PyObject *keys) {
  Reader *r = (Reader *)self;
  PyObject *list = PySequence_List(keys);
  loam_db *db;
  loam_snapshot *snapshot;
  const void **pointers = NULL;
  size_t *lens = NULL, n;
  void *memory = NULL;
  char *err = NULL;
  int done = -1;

  if (list == NULL) return NULL;
  n = (size_t)PyList_Size(list);
  if (n == 0) return list;
  /* n keys, then n values; n key lengths, then n value lengths */
  pointers = PyMem_Calloc(n, 2 * sizeof *pointers);
  lens = PyMem_Calloc(n, 2 * sizeof *lens);
  if (pointers == NULL || lens == NULL) {
    PyErr_NoMemory();
  } else if (list_keys(list, n, pointers, lens) == 0 && (db = reader_db(r, &snapshot)) != NULL) {
    loam_status status;
    Py_BEGIN_ALLOW_THREADS
    status = r->lib->loam_multi_get(db, READ(snapshot, 0), n, pointers, lens, pointers + n,
      lens + n, &memory, &err);
    Py_END_ALLOW_THREADS
    if (finish(r, status, err) == 0) done = list_values(list, n, pointers + n, lens + n);
    if (status == LOAM_OK) loam->loam_free(memory);
  }
  PyMem_Free(pointers);
  PyMem_Free(lens);
  if (done < 0) Py_CLEAR(list);
  return list;
}

static PyObject *reader_closed(PyObject *self, void *unused) {
  Reader *r = (Reader *)self;
  if (r->owner == NULL) return PyBool_FromLong(HANDLE_OF(r->db) == NULL);
  return PyBool_FromLong(HANDLE_OF(r->snapshot) == NULL ||
    HANDLE_OF(((Reader *)r->owner)->db) == NULL);
}

typedef struct {
  const loam_functions *lib;
  loam_db *db;
} Closing;

static void close_apart(void *arg) {
  Closing *c = arg;
  c->lib->loam_close(c->db, NULL);
  free(c);
  end_thread();
}

/* Closes a database that a callback gave up, by the garbage collector for instance: on a
 * thread of its own, as the library closes none within a callback. */
static void close_later(const loam_functions *lib, loam_db *db) {
  Closing *c = malloc(sizeof *c);
  if (c == NULL) return; /* what is not closed is recovered by the next open */
  *c = (Closing){lib, db};
  if (PyThread_start_new_thread(close_apart, c) == (unsigned long)-1) free(c);
}

/* Closes the handle. The library may call back into Python until loam_close returns,
 * so keep is released only afterwards. */
static void reader_close(Reader *r) {
  loam_db *db = TAKE_HANDLE(r->db);
  loam_snapshot *snapshot = TAKE_HANDLE(r->snapshot);
  if (r->borrowed) snapshot = NULL;
  if (db != NULL) library_may_outlive(r->keep, 1);
  if (db != NULL || snapshot != NULL) {
    loam_status status = LOAM_OK;
    Py_BEGIN_ALLOW_THREADS
    if (snapshot != NULL) r->lib->loam_snapshot_close(snapshot);
    if (db != NULL) status = r->lib->loam_close(db, NULL);
    Py_END_ALLOW_THREADS
    if (status == LOAM_ERR_IN_USE) close_later(r->lib, db);
  }
}

static int reader_traverse(PyObject *self, visitproc visit, void *arg) {
  Reader *r = (Reader *)self;
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(r->owner);
  Py_VISIT(r->keep);
  return 0;
}

static int reader_clear(PyObject *self) {
  Reader *r = (Reader *)self;
  reader_close(r);
  Py_CLEAR(r->owner);
  Py_CLEAR(r->keep);
  return 0;
}

static void reader_dealloc(PyObject *self) {
  PyObject_GC_UnTrack(self);
  reader_clear(self);
  free_object(self);
}

#define FASTCALL(f) (PyCFunction)(void (*)(void))(f)

static PyMethodDef reader_methods[] = {
    {"get", FASTCALL(reader_get), METH_FASTCALL | METH_KEYWORDS,
     "get($self, key, default=None, *, fill_cache=True)\n--\n\nThe value of a key, or default "
     "when it has none."},
    {"_get_plyvel", FASTCALL(reader_get_plyvel), METH_FASTCALL | METH_KEYWORDS,
     "_get_plyvel($self, key, default=None, *, verify_checksums=False, fill_cache=True)\n--\n\n"
     "The value of a key, or default when it has none. Checksums are always verified."},
    {"get_pinned", reader_get_pinned, METH_O,
     "get_pinned($self, key, /)\n--\n\nThe value of a key where it lies in memory: ``with "
     "db.get_pinned(key) as value`` has a memoryview of it.\nKeyError: the key has none."},
    {"_peek", reader_peek, METH_VARARGS, NULL},
    {"has", reader_has, METH_O, "has($self, key, /)\n--\n\nWhether the key has a value."},
    {"multi_get", reader_multi_get, METH_O,
     "multi_get($self, keys, /)\n--\n\nThe values of many keys in one state of the database, in "
     "the order of the keys;\n"
     "None for a key without a value."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef reader_getset[] = {{"closed", reader_closed, NULL, "Whether it was closed.",
  NULL},
                                      {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot reader_slots[] = {{Py_tp_dealloc, reader_dealloc},
                                     {Py_tp_traverse, reader_traverse},
                                     {Py_tp_clear, reader_clear},
                                     {Py_tp_methods, reader_methods},
                                     {Py_tp_getset, reader_getset},
                                     {Py_mp_subscript, reader_subscript},
                                     {Py_sq_contains, reader_contains},
                                     {Py_tp_doc, "What a database and a snapshot have in common."},
                                     {0, NULL}};

static PyType_Spec reader_spec = {"loamdb._fast.Reader", sizeof(Reader), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC |
                                  Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                  reader_slots};

/* ---- Database ---- */

static PyObject *database_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  return alloc(type, 0);
}

/* _attach(handle, keep, release): takes over an open database's handle. */
static PyObject *database_attach(PyObject *self, PyObject *args) {
  Reader *r = (Reader *)self;
  PyObject *handle, *keep;
  int release, taken = 0;
  void *db;
  if (!PyArg_ParseTuple(args, "OOp:_attach", &handle, &keep, &release)) return NULL;
  db = PyLong_AsVoidPtr(handle);
  if (db == NULL && PyErr_Occurred()) return NULL;
  LOCK(self);
  if (r->db == NULL && r->keep == NULL) {
    taken = 1;
    r->keep = Py_NewRef(keep);
    library_may_outlive(keep, 0);
    r->release = release;
    r->lib = loam;
    __atomic_store_n(&r->db, db, __ATOMIC_RELEASE);
  }
  UNLOCK();
  if (!taken) {
    PyErr_SetString(PyExc_RuntimeError, "the database is open already");
    return NULL;
  }
  Py_RETURN_NONE;
}

/* Gives the handle away, to be closed; 0 when there is none. */
static PyObject *database_detach(PyObject *self, PyObject *unused) {
  Reader *r = (Reader *)self;
  loam_db *db = TAKE_HANDLE(r->db);
  if (db != NULL) library_may_outlive(r->keep, 1);
  return handle_object(r->lib, db);
}

/* _reattach(handle): takes a handle back that could not be closed within a callback. */
static PyObject *database_reattach(PyObject *self, PyObject *handle) {
  Reader *r = (Reader *)self;
  void *db = PyLong_AsVoidPtr(handle);
  if (db == NULL && PyErr_Occurred()) return NULL;
  __atomic_store_n(&r->db, db, __ATOMIC_RELEASE);
  library_may_outlive(r->keep, 0);
  Py_RETURN_NONE;
}

/* Closes the database without a report, for finalizers. */
static PyObject *database_release(PyObject *self, PyObject *unused) {
  reader_close((Reader *)self);
  Py_RETURN_NONE;
}

static PyObject *database_handle(PyObject *self, void *unused) {
  loam_snapshot *none;
  loam_db *db = reader_db((Reader *)self, &none);
  return db == NULL ? NULL : handle_object(((Reader *)self)->lib, db);
}

/* Puts value under key or, when value is NULL, removes key. */
static int database_write(Reader *r, PyObject *key_object, PyObject *value_object, int merge,
  unsigned flags) {
  Bytes key, value = {NULL, 0, {0}};
  char *err = NULL;
  loam_status status;
  loam_snapshot *none;
  loam_db *db = reader_db(r, &none);

  if (db == NULL || bytes_of(key_object, &key) < 0) return -1;
  if (value_object != NULL && bytes_of(value_object, &value) < 0) {
    bytes_done(&key);
    return -1;
  }
  Py_BEGIN_ALLOW_THREADS
  if (merge) {
    status = r->lib->loam_merge(db, WRITE(flags), key.data, key.len, value.data, value.len, NULL,
      &err);
  } else if (value_object != NULL) {
    status = r->lib->loam_put(db, WRITE(flags), key.data, key.len, value.data, value.len, NULL,
      &err);
  } else {
    status = r->lib->loam_delete(db, WRITE(flags), key.data, key.len, NULL, &err);
  }
  Py_END_ALLOW_THREADS
  if (value_object != NULL) bytes_done(&value);
  bytes_done(&key);
  return finish(r, status, err);
}

static int named_args(const char *function, const char *const *positional, int want,
  PyObject *const *args, Py_ssize_t nargs,
                      PyObject *names, PyObject **objects, unsigned *flags);

/* The arguments of put, merge and delete: want objects and the keyword sync. */
static int write_args(const char *function, int want, PyObject *const *args, Py_ssize_t nargs,
  PyObject *names, PyObject **objects,
                      unsigned *flags) {
  const char *const key_value[2] = {"key", *function == 'm' ? "operand" : "value"};
  return named_args(function, key_value, want, args, nargs, names, objects, flags);
}

static int named_args(const char *function, const char *const *positional, int want,
  PyObject *const *args, Py_ssize_t nargs,
                      PyObject *names, PyObject **objects, unsigned *flags) {
  *flags = 0;
  if (nargs > want) {
    PyErr_Format(PyExc_TypeError, "%s() takes %d positional arguments (%zd given)", function, want,
      nargs);
    return -1;
  }
  for (int i = 0; i < want; i++) objects[i] = i < nargs ? args[i] : NULL;
  for (Py_ssize_t i = 0, n = names ? PyTuple_Size(names) : 0; i < n; i++) {
    PyObject *name = PyTuple_GetItem(names, i), *arg = args[nargs + i];
    int j = 0;
    if (keyword_is(name, "sync")) {
      int sync = PyObject_IsTrue(arg);
      if (sync < 0) return -1;
      if (sync) *flags |= LOAM_SYNC;
      continue;
    }
    while (j < want && !(objects[j] == NULL && keyword_is(name, positional[j]))) j++;
    if (j == want) {
      PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'", function, name);
      return -1;
    }
    objects[j] = arg;
  }
  for (int i = 0; i < want; i++) {
    if (objects[i] == NULL) {
      PyErr_Format(PyExc_TypeError, "%s() missing required argument '%s'", function, positional[i]);
      return -1;
    }
  }
  return 0;
}

static PyObject *database_put(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
  PyObject *names) {
  PyObject *objects[2];
  unsigned flags;
  if (write_args("put", 2, args, nargs, names, objects, &flags) < 0) return NULL;
  if (database_write((Reader *)self, objects[0], objects[1], 0, flags) < 0) return NULL;
  Py_RETURN_NONE;
}

static PyObject *database_merge(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
  PyObject *names) {
  PyObject *objects[2];
  unsigned flags;
  if (write_args("merge", 2, args, nargs, names, objects, &flags) < 0) return NULL;
  if (database_write((Reader *)self, objects[0], objects[1], 1, flags) < 0) return NULL;
  Py_RETURN_NONE;
}

static PyObject *database_delete(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
  PyObject *names) {
  PyObject *objects[1];
  unsigned flags;
  if (write_args("delete", 1, args, nargs, names, objects, &flags) < 0) return NULL;
  if (database_write((Reader *)self, objects[0], NULL, 0, flags) < 0) return NULL;
  Py_RETURN_NONE;
}

static PyObject *database_delete_range(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
  PyObject *names) {
  static const char *const start_stop[2] = {"start", "stop"};
  Reader *r = (Reader *)self;
  PyObject *objects[2];
  Bytes start, stop;
  unsigned flags;
  char *err = NULL;
  loam_status status;
  loam_snapshot *none;
  loam_db *db;
  if (named_args("delete_range", start_stop, 2, args, nargs, names, objects, &flags) < 0) {
    return NULL;
  }
  if ((db = reader_db(r, &none)) == NULL || bytes_of(objects[0], &start) < 0) return NULL;
  if (bytes_of(objects[1], &stop) < 0) {
    bytes_done(&start);
    return NULL;
  }
  Py_BEGIN_ALLOW_THREADS
  status = r->lib->loam_delete_range(db, WRITE(flags), start.data, start.len, stop.data, stop.len,
    NULL, &err);
  Py_END_ALLOW_THREADS
  bytes_done(&stop);
  bytes_done(&start);
  if (finish(r, status, err) < 0) return NULL;
  Py_RETURN_NONE;
}

static int database_assign(PyObject *self, PyObject *key, PyObject *value) {
  return database_write((Reader *)self, key, value, 0, 0);
}

/* _write(batch, sync): writes a batch, which stays as it is. */
static PyObject *database_write_batch(PyObject *self, PyObject *args) {
  Reader *r = (Reader *)self;
  PyObject *object;
  int sync;
  char *err = NULL;
  loam_status status;
  loam_snapshot *none;
  loam_batch *batch;
  loam_db *db;
  if (!PyArg_ParseTuple(args, "Op:_write", &object, &sync)) return NULL;
  if ((db = reader_db(r, &none)) == NULL || (batch = batch_of(object, r)) == NULL) return NULL;
  Py_BEGIN_ALLOW_THREADS
  status = r->lib->loam_write(db, WRITE(sync ? LOAM_SYNC : 0), batch, NULL, &err);
  Py_END_ALLOW_THREADS
  if (finish(r, status, err) < 0) return NULL;
  Py_RETURN_NONE;
}

static PyMethodDef database_methods[] = {
    {"put", FASTCALL(database_put), METH_FASTCALL | METH_KEYWORDS,
     "put($self, key, value, *, sync=False)\n--\n\nStores a value under a key. sync: return "
     "when it is on disk."},
    {"delete", FASTCALL(database_delete), METH_FASTCALL | METH_KEYWORDS,
     "delete($self, key, *, sync=False)\n--\n\nRemoves a key, whether it has a value or not. "
     "sync: return when it is on disk."},
    {"merge", FASTCALL(database_merge), METH_FASTCALL | METH_KEYWORDS,
     "merge($self, key, operand, *, sync=False)\n--\n\nAdds an operand to a key: the merge "
     "operator makes the value of it and of the value before."},
    {"delete_range", FASTCALL(database_delete_range), METH_FASTCALL | METH_KEYWORDS,
     "delete_range($self, start, stop, *, sync=False)\n--\n\nRemoves all keys from start up to, "
     "not including, stop, at the cost of one put.\nA database in LevelDB's format raises "
     "NeedsNativeError."},
    {"_write", database_write_batch, METH_VARARGS, NULL},
    {"_attach", database_attach, METH_VARARGS, NULL},
    {"_detach", database_detach, METH_NOARGS, NULL},
    {"_reattach", database_reattach, METH_O, NULL},
    {"_release", database_release, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef database_getset[] = {{"_handle", database_handle, NULL, NULL, NULL},
  {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot database_slots[] = {{Py_tp_new, database_new},
                                       {Py_tp_dealloc, reader_dealloc},
                                       {Py_tp_traverse, reader_traverse},
                                       {Py_tp_clear, reader_clear},
                                       {Py_tp_methods, database_methods},
                                       {Py_tp_getset, database_getset},
                                       {Py_mp_subscript, reader_subscript},
                                       {Py_mp_ass_subscript, database_assign},
                                       {Py_sq_contains, reader_contains},
                                       {Py_tp_doc,
                                         "An open database's handle and the calls per key."},
                                       {0, NULL}};

static PyType_Spec database_spec = {"loamdb._fast.Database", sizeof(Reader), 0,
                                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
                                    database_slots};

/* ---- Snapshot ---- */

static PyObject *snapshot_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"db", "of", NULL};
  PyObject *owner, *of = Py_None;
  const loam_functions *lib;
  loam_snapshot *snapshot = NULL, *none;
  loam_db *db;
  loam_status status;
  char *err = NULL;
  Reader *r;

  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|O:Snapshot", names, DatabaseType, &owner,
    &of)) return NULL;
  if ((db = reader_db((Reader *)owner, &none)) == NULL) return NULL;
  lib = ((Reader *)owner)->lib;
  if (of == Py_None) {
    Py_BEGIN_ALLOW_THREADS
    status = lib->loam_snapshot_create(db, &snapshot, &err);
    Py_END_ALLOW_THREADS
    if (status != LOAM_OK) return raise_status(status, err);
  } else {
    if (!PyObject_TypeCheck(of, SnapshotType)) {
      PyErr_SetString(PyExc_TypeError, "of must be a snapshot");
      return NULL;
    }
    if (reader_db((Reader *)of, &snapshot) == NULL) return NULL;
    if (((Reader *)of)->lib != lib) return raise_status(LOAM_ERR_FORKED, NULL);
  }
  r = (Reader *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
  if (r == NULL) {
    if (of == Py_None) lib->loam_snapshot_close(snapshot);
    return NULL;
  }
  if (of != Py_None) {
    r->borrowed = 1;
    r->keep = Py_NewRef(of);
  }
  Py_INCREF(owner);
  r->lib = lib;
  r->owner = owner;
  r->snapshot = snapshot;
  r->release = ((Reader *)owner)->release;
  return (PyObject *)r;
}

static PyObject *snapshot_close(PyObject *self, PyObject *unused) {
  Reader *r = (Reader *)self;
  loam_snapshot *snapshot = TAKE_HANDLE(r->snapshot);
  if (snapshot != NULL && !r->borrowed) {
    Py_BEGIN_ALLOW_THREADS
    r->lib->loam_snapshot_close(snapshot);
    Py_END_ALLOW_THREADS
  }
  Py_RETURN_NONE;
}

static PyMethodDef snapshot_methods[] = {
    {"close", snapshot_close, METH_NOARGS,
      "close($self)\n--\n\nGives the snapshot up. Closing twice is harmless."},
    {NULL, NULL, 0, NULL}};

static PyObject *snapshot_handle(PyObject *self, void *unused) {
  loam_snapshot *snapshot;
  (void)unused;
  return reader_db((Reader *)self, &snapshot) == NULL ? NULL : PyLong_FromVoidPtr(snapshot);
}

static PyGetSetDef snapshot_getset[] = {{"_handle", snapshot_handle, NULL, NULL, NULL},
  {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot snapshot_slots[] = {{Py_tp_new, snapshot_new},
                                       {Py_tp_dealloc, reader_dealloc},
                                       {Py_tp_traverse, reader_traverse},
                                       {Py_tp_clear, reader_clear},
                                       {Py_tp_methods, snapshot_methods},
                                       {Py_tp_getset, snapshot_getset},
                                       {Py_mp_subscript, reader_subscript},
                                       {Py_sq_contains, reader_contains},
                                       {Py_tp_doc, "A snapshot's handle."},
                                       {0, NULL}};

static PyType_Spec snapshot_spec = {"loamdb._fast.Snapshot", sizeof(Reader), 0,
                                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
                                    snapshot_slots};

/* ---- Module ---- */

/* bind(library): takes the functions from a dlopen'ed library, for databases opened from now on. */
static PyObject *bind(PyObject *module, PyObject *library_object) {
  void *library = PyLong_AsVoidPtr(library_object);
  loam_functions *found;
  if (library == NULL) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "no library");
    return NULL;
  }
  found = PyMem_Calloc(1, sizeof *found); /* stays: objects point to it */
  if (found == NULL) return PyErr_NoMemory();
#define X(name)                                                                       \
  *(void **)&found->name = library_function(library, #name);                          \
  if (found->name == NULL) {                                                          \
    PyMem_Free(found);                                                                \
    PyErr_SetString(PyExc_ImportError, "the library has no function " #name);         \
    return NULL;                                                                      \
  }
  LOAM_FUNCTIONS(X)
#undef X
  loam = found;
  Py_RETURN_NONE;
}

/* forked(): this process is a forked child, in which the library's copy is dead. */
static PyObject *forked(PyObject *module, PyObject *unused) {
  if (loam != NULL) loam->forked = 1;
  Py_RETURN_NONE;
}

/* check_bytes(object): TypeError unless it has the buffer interface, with bytes. */
static PyObject *check_bytes(PyObject *module, PyObject *object) {
  Bytes b;
  (void)module;
  if (bytes_of(object, &b) < 0) return NULL;
  bytes_done(&b);
  Py_RETURN_NONE;
}

/* joined(prefix, key): a prefix, which is bytes, and the bytes of a key behind it. */
static PyObject *joined(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
  Bytes prefix, key;
  PyObject *both = NULL;
  (void)module;
  if (nargs != 2) {
    PyErr_SetString(PyExc_TypeError, "joined() takes a prefix and a key");
    return NULL;
  }
  if (bytes_of(args[0], &prefix) < 0) return NULL;
  if (bytes_of(args[1], &key) == 0) {
    if (key.len > PY_SSIZE_T_MAX - prefix.len) {
      PyErr_NoMemory();
    } else {
      both = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(prefix.len + key.len));
    }
    if (both != NULL) {
      char *p = PyBytes_AsString(both);
      memcpy(p, prefix.data, prefix.len);
      memcpy(p + prefix.len, key.data, key.len);
    }
    bytes_done(&key);
  }
  bytes_done(&prefix);
  return both;
}

static PyMethodDef module_methods[] = {{"bind", bind, METH_O, NULL},
                                       {"forked", forked, METH_NOARGS, NULL},
                                       {"check_bytes", check_bytes, METH_O, NULL},
                                       {"joined", FASTCALL(joined), METH_FASTCALL, NULL},
                                       {NULL, NULL, 0, NULL}};

int add_type(PyObject *module, PyTypeObject **type, PyType_Spec *spec, PyTypeObject *base) {
  if (*type == NULL) {
    *type = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, (PyObject *)base);
  }
  return *type == NULL ? -1 : PyModule_AddType(module, *type);
}

/* Fills the module. The types and the library's functions are those of the process, not
 * of an interpreter, and callbacks come into the main one. */
static int module_exec(PyObject *module) {
  if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
    PyErr_SetString(PyExc_ImportError,
      "loamdb works in the main interpreter only, and this is a sub-interpreter");
    return -1;
  }
  if (add_type(module, &ReaderType, &reader_spec, NULL) < 0 ||
    add_type(module, &DatabaseType, &database_spec, ReaderType) < 0 ||
      add_type(module, &SnapshotType, &snapshot_spec, ReaderType) < 0 ||
      add_batch_type(module) < 0 || add_pinned_type(module) < 0 || add_cursor_type(module) < 0 ||
      add_callbacks_type(module) < 0)
    return -1;
  if (PyModule_AddIntConstant(module, "ABI_VERSION", LOAM_ABI_VERSION) < 0) return -1;
  return PyModule_AddIntConstant(module, "ABI_REVISION", LOAM_ABI_REVISION);
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, (void *)module_exec},
#ifdef Py_GIL_DISABLED
                                          {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
                                          {0, NULL}};

static struct PyModuleDef module_def = {PyModuleDef_HEAD_INIT, "_fast",
  "The calls that are made per key or per entry.", 0, module_methods,
                                        module_slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__fast(void) { return PyModuleDef_Init(&module_def); }
