/* Shared by the parts of the extension loamdb._fast: the table of libloam's
 * functions, errors, byte arguments and the types that hold handles.
 *
 * Fields of objects are guarded by the GIL. A free-threaded Python has none: there the
 * object's own lock (LOCK) guards a cursor and callbacks, and the handles of readers
 * are taken and given up atomically. A batch is guarded by the library. As the GIL is,
 * an object's lock is given up wherever Py_BEGIN_ALLOW_THREADS stands. */
#ifndef LOAMDB_FAST_H
#define LOAMDB_FAST_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string.h>

#include "loam.h"

/* Begins and ends a block in which the thread has the object's lock; it is not left by
 * return. */
#ifdef Py_GIL_DISABLED
#define LOCK(object) Py_BEGIN_CRITICAL_SECTION((PyObject *)(object))
#define UNLOCK() Py_END_CRITICAL_SECTION()
#else
#define LOCK(object) {
#define UNLOCK() }
#endif

/* The functions used here, resolved by bind() when the first database opens. */
#define LOAM_FUNCTIONS(X)                                                      \
  X(loam_free) X(loam_error_errno) X(loam_error_path) X(loam_callback_fail)    \
  X(loam_callback_interrupt)                                                   \
  X(loam_merge_result_set)                                                     \
  X(loam_get) X(loam_has) X(loam_multi_get)                                    \
  X(loam_get_pinned) X(loam_pinned_close)                                      \
  X(loam_put) X(loam_delete) X(loam_merge) X(loam_delete_range) X(loam_close)  \
  X(loam_snapshot_create) X(loam_snapshot_close)                               \
  X(loam_batch_create) X(loam_batch_close) X(loam_batch_put)                   \
  X(loam_batch_delete) X(loam_batch_merge) X(loam_batch_delete_range)          \
  X(loam_batch_clear) X(loam_batch_data) X(loam_write)                                            \
  X(loam_iter_create) X(loam_txn_iter_create)                                  \
  X(loam_iter_close) X(loam_iter_place)                                        \
  X(loam_iter_first) X(loam_iter_last) X(loam_iter_seek)                       \
  X(loam_iter_next) X(loam_iter_prev)                                          \
  X(loam_iter_next_block) X(loam_iter_prev_block)

typedef struct {
#define X(name) __typeof__(name) *name;
  LOAM_FUNCTIONS(X)
#undef X
  int forked; /* the library was loaded by a process of which this one is a forked child */
} loam_functions;

/* The copy of the library that new databases use. Errors of all copies are freed and
 * read by it. A forked child can load a second copy; objects of before the fork keep
 * calling the first, which says that they are of no use here. */
extern loam_functions *loam;

/* A database or a snapshot: what can be read. */
typedef struct {
  PyObject_HEAD
  const loam_functions *lib; /* NULL before a database is opened */
  loam_db *db;             /* of a database; NULL once closed */
  loam_snapshot *snapshot; /* of a snapshot; NULL once closed */
  PyObject *owner;         /* a snapshot's database */
  PyObject *keep;          /* lives until the database is closed: callbacks' state */
  int borrowed;            /* the snapshot is another object's, which keep holds */
  int release;             /* Python callbacks exist, so every call releases the GIL */
} Reader;

extern PyTypeObject *ReaderType, *DatabaseType, *SnapshotType;

/* The handle, NULL once closed; taken by whoever is to close it. Where a handle is used
 * after another thread closed it, the library says so. */
#define HANDLE_OF(field) __atomic_load_n(&(field), __ATOMIC_ACQUIRE)
#define TAKE_HANDLE(field) __atomic_exchange_n(&(field), NULL, __ATOMIC_ACQ_REL)

/* Options of one call of the library. */
#define READ(snap, what) (&(loam_read_options){sizeof(loam_read_options), (what), (snap)})
#define WRITE(what) (&(loam_write_options){sizeof(loam_write_options), (what)})

/* A key or value: the bytes of any object with the buffer interface. */
typedef struct {
  const char *data;
  size_t len;
  Py_buffer view; /* view.obj is NULL for bytes objects */
} Bytes;

/* Whether the items of a buffer are bytes and numbers: not addresses, nor characters, whose
 * bytes are no encoding of a text. The names of fields stand between colons. */
static inline int plain_items(const char *format) {
  int name = 0;
  for (; format != NULL && *format != 0; format++) {
    if (*format == ':') name = !name;
    else if (!name && strchr("OPXZz&uw", *format) != NULL) return 0;
  }
  return 1;
}

static inline int bytes_of(PyObject *o, Bytes *b) {
  b->view.obj = NULL;
  if (PyBytes_Check(o)) {
    Py_ssize_t n;
    char *p;
    if (PyBytes_AsStringAndSize(o, &p, &n) < 0) return -1;
    b->data = p;
    b->len = (size_t)n;
    return 0;
  }
  if (PyObject_GetBuffer(o, &b->view, PyBUF_FORMAT | PyBUF_ND) < 0) return -1;
  if (!plain_items(b->view.format)) {
    PyErr_Format(
      PyExc_TypeError,
      "a bytes-like object is required, not one of addresses or characters (format '%s')",
        b->view.format);
    PyBuffer_Release(&b->view);
    return -1;
  }
  b->data = b->view.buf;
  b->len = (size_t)b->view.len;
  return 0;
}

static inline void bytes_done(Bytes *b) {
  if (b->view.obj != NULL) PyBuffer_Release(&b->view);
}

/* Sets the exception for a status and releases the message. Returns NULL. */
PyObject *raise_status(loam_status status, char *err);
/* Ends a call of the library that may have run callbacks. Returns -1 with an exception
 * when it failed, or when a signal handler raised one inside a callback. */
int finish(Reader *r, loam_status status, char *err);
/* Sets the exception for a closed object; what names it. Returns NULL. */
PyObject *raise_closed(const char *what);

/* The database behind a reader and its snapshot (NULL: none), to be used after the
 * GIL is released; NULL with an exception when either is closed. */
loam_db *reader_db(Reader *r, loam_snapshot **snapshot);

/* A handle for Python's calls of the library, 0 for NULL; NULL with an exception when it
 * is of before a fork. */
PyObject *handle_object(const loam_functions *lib, void *handle);

/* Closes and forgets the object of a heap type whose fields are released. */
void free_object(PyObject *self);

/* Whether a keyword argument has this name. */
static inline int keyword_is(PyObject *keyword, const char *name) {
  return PyUnicode_CompareWithASCIIString(keyword, name) == 0;
}

/* Of _callbacks.c; keep is a Callbacks, or another object for a database without
 * callbacks. raise_interrupt raises what a signal handler raised inside a callback
 * (-1). failure_behind takes the exception of a failed call and returns that to be
 * raised. library_may_outlive says whether the library's reference must be counted. */
int raise_interrupt(PyObject *keep);
PyObject *failure_behind(PyObject *keep, loam_status status, PyObject *exception);
void library_may_outlive(PyObject *keep, int may);
/* Gives up what callbacks keep for a thread that ends. */
void end_thread(void);

/* Adds a type, which is made at the first time and stays for the life of the process. */
int add_type(PyObject *module, PyTypeObject **type, PyType_Spec *spec, PyTypeObject *base);
/* A batch's handle for a database; NULL with an exception when it is not a batch, or of
 * before a fork. */
loam_batch *batch_of(PyObject *batch, Reader *db);

int add_callbacks_type(PyObject *module);
int add_cursor_type(PyObject *module);
int add_batch_type(PyObject *module);
int add_pinned_type(PyObject *module);

/* Of _pinned.c: get_pinned(key). */
PyObject *reader_get_pinned(PyObject *self, PyObject *key);

#endif
