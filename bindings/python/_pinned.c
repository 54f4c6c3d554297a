/* loamdb._fast.PinnedValue: a value where it lies in libloam's memory. The memory goes when the
 * value is closed and the last buffer of it is released: no memoryview ever reads memory that was
 * given up. */
#include "_fast.h"

typedef struct {
  PyObject_HEAD
  const loam_functions *lib;
  loam_pinned *pinned; /* NULL once given up */
  const void *data;
  size_t len;
  Py_ssize_t buffers; /* that are not released yet */
  int closed;
  PyObject *view; /* of __enter__ */
} Pinned;

static PyTypeObject *PinnedType;

/* Gives the memory up when nobody can read it any more. */
static void give_up(Pinned *p) {
  loam_pinned *pinned = NULL;
  if (p->closed && p->buffers == 0) {
    pinned = p->pinned;
    p->pinned = NULL;
  }
  if (pinned != NULL) p->lib->loam_pinned_close(pinned);
}

static int pinned_getbuffer(PyObject *self, Py_buffer *view, int flags) {
  Pinned *p = (Pinned *)self;
  int done = -1;
  LOCK(self)
  if (p->closed) {
    view->obj = NULL;
    raise_closed("pinned value");
  } else if (p->len > PY_SSIZE_T_MAX) {
    view->obj = NULL;
    PyErr_NoMemory();
  } else {
    done = PyBuffer_FillInfo(view, self, (void *)p->data, (Py_ssize_t)p->len, 1, flags);
    if (done == 0) p->buffers++;
  }
  UNLOCK()
  return done;
}

static void pinned_releasebuffer(PyObject *self, Py_buffer *view) {
  Pinned *p = (Pinned *)self;
  (void)view;
  LOCK(self)
  p->buffers--;
  give_up(p);
  UNLOCK()
}

/* Closes the value, and ends the view of __enter__. Slices of it, and what numpy made of it, have
 * buffers of their own. */
static PyObject *pinned_close(PyObject *self, PyObject *unused) {
  Pinned *p = (Pinned *)self;
  PyObject *view, *done = NULL;
  (void)unused;
  LOCK(self)
  p->closed = 1;
  view = p->view;
  p->view = NULL;
  give_up(p);
  UNLOCK()
  if (view != NULL) {
    done = PyObject_CallMethod(view, "release", NULL);
    Py_DECREF(view);
    if (done == NULL) {
      if (!PyErr_ExceptionMatches(PyExc_BufferError)) return NULL;
      PyErr_Clear(); /* somebody reads it still */
    }
    Py_XDECREF(done);
  }
  Py_RETURN_NONE;
}

static PyObject *pinned_enter(PyObject *self, PyObject *unused) {
  Pinned *p = (Pinned *)self;
  PyObject *view = PyMemoryView_FromObject(self);
  (void)unused;
  if (view == NULL) return NULL;
  LOCK(self)
  if (p->view == NULL) p->view = Py_NewRef(view);
  UNLOCK()
  return view;
}

static PyObject *pinned_exit(PyObject *self, PyObject *args) {
  (void)args;
  return pinned_close(self, NULL);
}

static Py_ssize_t pinned_len(PyObject *self) { return (Py_ssize_t)((Pinned *)self)->len; }

static PyObject *pinned_closed(PyObject *self, void *unused) {
  (void)unused;
  return PyBool_FromLong(((Pinned *)self)->closed);
}

static int pinned_traverse(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(((Pinned *)self)->view);
  return 0;
}

static int pinned_clear(PyObject *self) {
  Py_CLEAR(((Pinned *)self)->view);
  return 0;
}

static void pinned_dealloc(PyObject *self) {
  Pinned *p = (Pinned *)self;
  PyObject_GC_UnTrack(self);
  pinned_clear(self);
  p->closed = 1; /* and no buffer is left: each has a reference */
  give_up(p);
  free_object(self);
}

PyObject *reader_get_pinned(PyObject *self, PyObject *key_object) {
  Reader *r = (Reader *)self;
  Bytes key;
  char *err = NULL;
  loam_status status;
  loam_snapshot *snapshot;
  Pinned *p;
  loam_db *db = reader_db(r, &snapshot);

  if (db == NULL || bytes_of(key_object, &key) < 0) return NULL;
  p = (Pinned *)((allocfunc)PyType_GetSlot(PinnedType, Py_tp_alloc))(PinnedType, 0);
  if (p == NULL) {
    bytes_done(&key);
    return NULL;
  }
  p->lib = r->lib;
  Py_BEGIN_ALLOW_THREADS
  status = r->lib->loam_get_pinned(db, READ(snapshot, 0), key.data, key.len, &p->pinned, &p->data,
    &p->len, &err);
  Py_END_ALLOW_THREADS
  bytes_done(&key);
  if (finish(r, status, err) == 0) {
    if (status == LOAM_OK) return (PyObject *)p;
    PyErr_SetObject(PyExc_KeyError, key_object);
  }
  Py_DECREF(p);
  return NULL;
}

static PyMethodDef methods[] = {
    {"close", pinned_close, METH_NOARGS,
     "close($self)\n--\n\nGives the value up: its memory goes when the last buffer of it is "
     "released. Closing twice is harmless."},
    {"__enter__", pinned_enter, METH_NOARGS, "__enter__($self)\n--\n\nA memoryview of the value."},
    {"__exit__", pinned_exit, METH_VARARGS,
     "__exit__($self, *exc)\n--\n\nReleases the memoryview, and closes the value."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef getset[] = {{"closed", pinned_closed, NULL, "Whether it was closed.", NULL},
  {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot slots[] = {{Py_tp_dealloc, pinned_dealloc},
                              {Py_tp_traverse, pinned_traverse},
                              {Py_tp_clear, pinned_clear},
                              {Py_tp_methods, methods},
                              {Py_tp_getset, getset},
                              {Py_sq_length, pinned_len},
                              {Py_bf_getbuffer, pinned_getbuffer},
                              {Py_bf_releasebuffer, pinned_releasebuffer},
                              {Py_tp_doc, "A value where it lies in memory, to be read by its "
                               "buffer, until it is closed."},
                              {0, NULL}};

static PyType_Spec spec = {"loamdb._fast.PinnedValue", sizeof(Pinned), 0, Py_TPFLAGS_DEFAULT |
  Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                           slots};

int add_pinned_type(PyObject *module) { return add_type(module, &PinnedType, &spec, NULL); }
