/* loamdb._fast.Batch: puts and deletes that are written together. The entries
 * lie in libloam's batch, which is plain C memory: adding one keeps the GIL. */
#include "_fast.h"

typedef struct {
  PyObject_HEAD
  const loam_functions *lib;
  loam_batch *batch;
  PyObject *owner; /* the database */
} Batch;

static PyObject *batch_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"db", NULL};
  PyObject *owner;
  loam_snapshot *none;
  char *err = NULL;
  loam_status status;
  Batch *b;

  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!:Batch", names, DatabaseType, &owner)) {
    return NULL;
  }
  if (reader_db((Reader *)owner, &none) == NULL) return NULL;
  b = (Batch *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
  if (b == NULL) return NULL;
  Py_INCREF(owner);
  b->lib = ((Reader *)owner)->lib;
  b->owner = owner;
  status = b->lib->loam_batch_create(&b->batch, &err);
  if (status != LOAM_OK) {
    Py_DECREF(b);
    return raise_status(status, err);
  }
  return (PyObject *)b;
}

static int batch_traverse(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(((Batch *)self)->owner);
  return 0;
}

static void batch_dealloc(PyObject *self) {
  Batch *b = (Batch *)self;
  PyObject_GC_UnTrack(self);
  if (b->batch != NULL) b->lib->loam_batch_close(b->batch);
  Py_CLEAR(b->owner);
  free_object(self);
}

/* Adds a put or a merge or, when value is NULL, a delete. */
static int batch_add(Batch *b, PyObject *key_object, PyObject *value_object, int merge) {
  Bytes key, value;
  char *err = NULL;
  loam_status status;

  if (HANDLE_OF(((Reader *)b->owner)->db) == NULL) {
    raise_closed("database");
    return -1;
  }
  if (bytes_of(key_object, &key) < 0) return -1;
  if (value_object == NULL) {
    status = b->lib->loam_batch_delete(b->batch, key.data, key.len, &err);
  } else {
    if (bytes_of(value_object, &value) < 0) {
      bytes_done(&key);
      return -1;
    }
    status = merge ? b->lib->loam_batch_merge(b->batch, key.data, key.len, value.data, value.len,
      &err)
                   : b->lib->loam_batch_put(b->batch, key.data, key.len, value.data, value.len,
                     &err);
    bytes_done(&value);
  }
  bytes_done(&key);
  if (status == LOAM_OK) return 0;
  raise_status(status, err);
  return -1;
}

static PyObject *batch_put(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
  PyObject *names) {
  PyObject *objects[2] = {nargs > 0 ? args[0] : NULL, nargs > 1 ? args[1] : NULL};
  for (Py_ssize_t i = 0, n = names ? PyTuple_Size(names) : 0; i < n; i++) {
    PyObject *name = PyTuple_GetItem(names, i);
    int j = keyword_is(name, "key") ? 0 : keyword_is(name, "value") ? 1 : 2;
    if (j == 2 || objects[j] != NULL) {
      PyErr_Format(PyExc_TypeError, "put() got an unexpected keyword argument '%U'", name);
      return NULL;
    }
    objects[j] = args[nargs + i];
  }
  if (nargs > 2 || objects[0] == NULL || objects[1] == NULL) {
    PyErr_SetString(PyExc_TypeError, "put() takes a key and a value");
    return NULL;
  }
  if (batch_add((Batch *)self, objects[0], objects[1], 0) < 0) return NULL;
  Py_RETURN_NONE;
}

static PyObject *batch_merge(PyObject *self, PyObject *args) {
  PyObject *key, *operand;
  if (!PyArg_ParseTuple(args, "OO:merge", &key, &operand)) return NULL;
  if (batch_add((Batch *)self, key, operand, 1) < 0) return NULL;
  Py_RETURN_NONE;
}

static PyObject *batch_delete(PyObject *self, PyObject *key) {
  if (batch_add((Batch *)self, key, NULL, 0) < 0) return NULL;
  Py_RETURN_NONE;
}

static PyObject *batch_delete_range(PyObject *self, PyObject *args) {
  Batch *b = (Batch *)self;
  PyObject *from, *to;
  Bytes start, stop;
  char *err = NULL;
  loam_status status;
  if (!PyArg_ParseTuple(args, "OO:delete_range", &from, &to)) return NULL;
  if (HANDLE_OF(((Reader *)b->owner)->db) == NULL) {
    raise_closed("database");
    return NULL;
  }
  if (bytes_of(from, &start) < 0) return NULL;
  if (bytes_of(to, &stop) < 0) {
    bytes_done(&start);
    return NULL;
  }
  status = b->lib->loam_batch_delete_range(b->batch, start.data, start.len, stop.data, stop.len,
    &err);
  bytes_done(&stop);
  bytes_done(&start);
  if (status != LOAM_OK) return raise_status(status, err);
  Py_RETURN_NONE;
}

/* Adds a put of a pair, which may be any iterable of two. */
static int batch_add_pair(Batch *b, PyObject *item) {
  PyObject *pair = PySequence_Tuple(item); /* the same, if it is one */
  int added = -1;
  if (pair == NULL) return -1;
  if (PyTuple_Size(pair) == 2) {
    added = batch_add(b, PyTuple_GetItem(pair, 0), PyTuple_GetItem(pair, 1), 0);
  } else {
    PyErr_Format(PyExc_ValueError, "an entry is a key and a value, not %zd things",
      PyTuple_Size(pair));
  }
  Py_DECREF(pair);
  return added;
}

/* _fill(entries, size): puts pairs of an iterator until the batch has size bytes; False: there are
 * no more. */
static PyObject *batch_fill(PyObject *self, PyObject *args) {
  Batch *b = (Batch *)self;
  PyObject *entries, *item;
  Py_ssize_t size;
  if (!PyArg_ParseTuple(args, "On:_fill", &entries, &size)) return NULL;
  while ((item = PyIter_Next(entries)) != NULL) {
    const void *data;
    size_t len;
    char *err = NULL;
    int added = batch_add_pair(b, item);
    Py_DECREF(item);
    if (added < 0) return NULL;
    loam_status status = b->lib->loam_batch_data(b->batch, &data, &len, &err);
    if (status != LOAM_OK) return raise_status(status, err);
    if (len >= (size_t)size) Py_RETURN_TRUE;
  }
  if (PyErr_Occurred()) return NULL;
  Py_RETURN_FALSE;
}

static int batch_assign(PyObject *self, PyObject *key, PyObject *value) {
  return batch_add((Batch *)self, key, value, 0);
}

static PyObject *batch_clear(PyObject *self, PyObject *unused) {
  Batch *b = (Batch *)self;
  loam_status status = b->lib->loam_batch_clear(b->batch);
  if (status != LOAM_OK) return raise_status(status, NULL);
  Py_RETURN_NONE;
}

static PyObject *batch_handle(PyObject *self, void *unused) {
  return handle_object(((Batch *)self)->lib, ((Batch *)self)->batch);
}

static PyMethodDef methods[] = {
    {"put", (PyCFunction)(void (*)(void))batch_put, METH_FASTCALL | METH_KEYWORDS,
     "put($self, key, value)\n--\n\nAdds: store a value under a key."},
    {"delete", batch_delete, METH_O, "delete($self, key, /)\n--\n\nAdds: remove a key."},
    {"merge", batch_merge, METH_VARARGS,
      "merge($self, key, operand, /)\n--\n\nAdds: an operand of a key."},
    {"delete_range", batch_delete_range, METH_VARARGS,
     "delete_range($self, start, stop, /)\n--\n\nAdds: remove all keys from start up to, not "
     "including, stop."},
    {"_clear", batch_clear, METH_NOARGS, NULL},
    {"_fill", batch_fill, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef getset[] = {{"_handle", batch_handle, NULL, NULL, NULL},
  {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot slots[] = {{Py_tp_new, batch_new},
                              {Py_tp_dealloc, batch_dealloc},
                              {Py_tp_traverse, batch_traverse},
                              {Py_tp_methods, methods},
                              {Py_tp_getset, getset},
                              {Py_mp_ass_subscript, batch_assign},
                              {Py_tp_doc, "A batch's handle and the calls per entry."},
                              {0, NULL}};

static PyType_Spec spec = {"loamdb._fast.Batch", sizeof(Batch), 0, Py_TPFLAGS_DEFAULT |
  Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
                           slots};

static PyTypeObject *BatchType;

loam_batch *batch_of(PyObject *batch, Reader *db) {
  if (!PyObject_TypeCheck(batch, BatchType)) {
    PyErr_SetString(PyExc_TypeError, "not a batch");
    return NULL;
  }
  if (((Batch *)batch)->lib != db->lib) {
    raise_status(LOAM_ERR_FORKED, NULL);
    return NULL;
  }
  return ((Batch *)batch)->batch;
}

int add_batch_type(PyObject *module) { return add_type(module, &BatchType, &spec, NULL); }
