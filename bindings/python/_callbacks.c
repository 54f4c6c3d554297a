/* loamdb._fast.Callbacks: a comparator, a logger, a compaction filter and a merge operator
 * written in Python, as libloam calls them.
 *
 * They are called from any thread, with or without the GIL's knowing it, at moments
 * at which no exception can be raised. A comparator's exception is reported to the
 * library, which makes the database read-only, and raised by the call that meets it.
 * An exception of a signal handler (Ctrl-C) may surface inside a callback, as that is
 * where Python code runs. A comparator is a pure function: it is asked again, and if
 * it then answers, the exception was not its own; the call ends early if it can, and
 * raises it. A compaction filter's exception ends the compaction, and is raised by the
 * call that waits for it if there is one; a signal handler's (no Exception) is held
 * back, and the filter is asked again. A merge operator's exception is the cause of the
 * MergeFailedError of the read that asked, on whose thread the operator runs; a signal
 * handler's is held back there, too.
 *
 * The library has a reference from the moment a callback is set until it calls
 * destroy. While a database is open that reference is not counted, as the database
 * has one and closes before it gives that up: so the garbage collector sees a cycle
 * of database, comparator and whatever the comparator belongs to. Before the library
 * may outlive the database (while it opens, and from the beginning of its close) the
 * reference is counted.
 *
 * Those of a keyspace are kept until its database closes, though the keyspace's object may
 * go before. While the database is open its Callbacks have the references, where the
 * collector sees them; from the beginning of its close the library's are counted.
 *
 * compare, logger, filter, merge, partial and database never change. The other fields are
 * guarded by the GIL or, where there is none, the object's lock.
 */
#include "_fast.h"

#include <stdlib.h>
#include <string.h>

enum { TRIES = 3 };

typedef struct {
  PyObject_HEAD
  PyObject *compare, *logger, *filter, *merge, *partial; /* NULL: none */
  /* Callbacks of the database that has this keyspace; NULL: these are a database's */
  PyObject *database;
  PyObject *failure;          /* what the comparator raised; NULL: nothing */
  /* what the compaction filter raised last; NULL: nothing, or it was raised */
  PyObject *filter_failure;
  /* what the merge operator raised last; NULL: nothing, or it was raised */
  PyObject *merge_failure;
  unsigned long merge_failed; /* the thread on which it did */
  PyObject *interrupt;        /* what a signal handler raised in a callback; NULL: nothing */
  unsigned long interrupted;  /* the thread that is to raise it */
  /* Callbacks of keyspaces of an open database, which the library has; NULL: none */
  PyObject *spaces;
  char open;                  /* of a database: from its opening until its close begins */
  int registered;             /* callbacks that the library has not destroyed */
  char counted;               /* the library's reference is counted */
  char told;                  /* failure has been raised */
} Callbacks;

static PyTypeObject *CallbacksType;

/* ---- Exceptions ---- */

/* The exception that is set, as one object; clears it. */
static PyObject *take_exception(void) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  if (value != NULL && trace != NULL) PyException_SetTraceback(value, trace);
  Py_XDECREF(type);
  Py_XDECREF(trace);
  return value;
}

static void raise_object(PyObject *exception) {
  PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
}

/* Tells the library about an exception: "ValueError: what it said". */
static void report(loam_failure *failure, PyObject *exception) {
  PyObject *kind = exception ? PyType_GetName(Py_TYPE(exception)) : NULL;
  PyObject *words = kind ? PyUnicode_FromFormat("%U: %S", kind, exception) : NULL;
  PyObject *bytes = words ? PyUnicode_AsEncodedString(words, "utf-8", "replace") : NULL;
  loam->loam_callback_fail(failure, bytes ? PyBytes_AsString(bytes) : "a Python exception");
  PyErr_Clear();
  Py_XDECREF(bytes);
  Py_XDECREF(words);
  Py_XDECREF(kind);
}

static Callbacks *callbacks_of(PyObject *keep) {
  return keep != NULL && Py_IS_TYPE(keep, CallbacksType) ? (Callbacks *)keep : NULL;
}

static void hold_back(Callbacks *c, PyObject *exception) {
  PyObject *before;
  LOCK(c);
  before = c->interrupt;
  c->interrupt = exception;
  c->interrupted = PyThread_get_thread_ident();
  UNLOCK();
  Py_XDECREF(before);
}

int raise_interrupt(PyObject *keep) {
  Callbacks *c = callbacks_of(keep);
  PyObject *exception = NULL;
  if (c == NULL) return 0;
  if (raise_interrupt(c->database) < 0) return -1;
  LOCK(c);
  if (c->interrupted == PyThread_get_thread_ident()) {
    exception = c->interrupt;
    c->interrupt = NULL;
  }
  UNLOCK();
  if (exception == NULL) return 0;
  raise_object(exception);
  Py_DECREF(exception);
  return -1;
}

/* Makes what the merge operator raised on this thread the cause of an exception. */
static PyObject *merge_failure_behind(Callbacks *c, PyObject *exception) {
  PyObject *failure = NULL;
  LOCK(c);
  if (c->merge_failed == PyThread_get_thread_ident()) {
    failure = c->merge_failure;
    c->merge_failure = NULL;
  }
  UNLOCK();
  if (failure != NULL) PyException_SetCause(exception, failure);
  return exception;
}

PyObject *failure_behind(PyObject *keep, loam_status status, PyObject *exception) {
  Callbacks *c = callbacks_of(keep);
  PyObject *failure;
  int told;
  if (c != NULL && c->database != NULL && exception != NULL) {
    exception = failure_behind(c->database, status, exception);
  }
  if (c != NULL && status == LOAM_ERR_MERGE_FAILED && exception != NULL) {
    return merge_failure_behind(c, exception);
  }
  if (c == NULL || (status != LOAM_ERR_CALLBACK && status != LOAM_ERR_READ_ONLY)) return exception;
  LOCK(c);
  failure = Py_XNewRef(c->failure);
  told = c->told;
  if (failure != NULL) {
    c->told = 1;
  } else if (status == LOAM_ERR_CALLBACK) {
    failure = c->filter_failure;
    c->filter_failure = NULL;
  }
  UNLOCK();
  if (failure == NULL) return exception;
  if (told) {
    PyException_SetCause(exception, failure);
    return exception;
  }
  Py_DECREF(exception);
  return failure;
}

/* ---- What the library calls ---- */

typedef struct {
  PyGILState_STATE gil;
  PyObject *type, *value, *trace; /* an exception that was on its way in this thread */
} Frame;

/* The thread is the library's own, and keeps the state that Python gave it: to make one, and
 * a stack with it, for each comparison takes ten times as long as the comparison. */
static __thread int keeps_state;

static int begin(Frame *f) {
  /* the interpreter is ending: a thread that asks for the GIL would stop */
  if (!Py_IsInitialized()) return -1;
  if (!keeps_state && PyGILState_GetThisThreadState() == NULL) {
    (void)PyGILState_Ensure();
    (void)PyEval_SaveThread(); /* the state stays, as it is not released */
    keeps_state = 1;
  }
  f->gil = PyGILState_Ensure();
  PyErr_Fetch(&f->type, &f->value, &f->trace);
  return 0;
}

static void end(Frame *f) {
  PyErr_Restore(f->type, f->value, f->trace);
  PyGILState_Release(f->gil);
}

void end_thread(void) {
  if (!keeps_state || !Py_IsInitialized()) return;
  keeps_state = 0;
  (void)PyGILState_Ensure();
  PyGILState_Release(PyGILState_LOCKED);
  PyGILState_Release(PyGILState_UNLOCKED);
}

/* Asks the comparator. -1 with an exception when it does not give an order. */
static int ask(Callbacks *c, PyObject *a, PyObject *b, int *order) {
  PyObject *answer = a && b ? PyObject_CallFunctionObjArgs(c->compare, a, b, NULL) : NULL, *zero;
  int less = -1, greater = -1, large;
  if (answer == NULL) return -1;
  if (PyLong_CheckExact(answer)) {
    long n = PyLong_AsLongAndOverflow(answer, &large);
    Py_DECREF(answer);
    *order = large != 0 ? large : (n > 0) - (n < 0);
    return 0;
  }
  zero = PyLong_FromLong(0);
  if (zero != NULL && (less = PyObject_RichCompareBool(answer, zero, Py_LT)) >= 0) {
    greater = PyObject_RichCompareBool(answer, zero, Py_GT);
  }
  Py_XDECREF(zero);
  Py_DECREF(answer);
  if (less < 0 || greater < 0) return -1;
  *order = greater - less; /* the sign: the answer may be larger than any int */
  return 0;
}

static int compare_keys(void *arg, const void *a, size_t a_len, const void *b, size_t b_len,
  loam_failure *failure) {
  Callbacks *c = arg;
  PyObject *x, *y, *first = NULL;
  Frame f;
  int order = 0, done = -1;
  if (begin(&f) < 0) {
    loam->loam_callback_fail(failure, "the Python interpreter is ending");
    return 0;
  }
  x = PyBytes_FromStringAndSize(a, (Py_ssize_t)a_len);
  y = PyBytes_FromStringAndSize(b, (Py_ssize_t)b_len);
  for (int i = 0; i < TRIES && done < 0; i++) {
    done = ask(c, x, y, &order);
    if (done < 0) {
      PyObject *exception = take_exception();
      if (first == NULL) first = exception;
      else Py_XDECREF(exception);
    }
  }
  if (done < 0) {
    report(failure, first);
    LOCK(c);
    if (c->failure == NULL) {
      c->failure = first;
      first = NULL;
    }
    UNLOCK();
  } else if (first != NULL) {
    hold_back(c, first);
    loam->loam_callback_interrupt(failure);
    first = NULL;
  }
  Py_XDECREF(first);
  Py_XDECREF(x);
  Py_XDECREF(y);
  end(&f);
  return order;
}

/* The decision that an answer of the filter is: None keeps the entry, False removes it,
 * bytes are another value. -1 with an exception for any other answer. */
static int decide(PyObject *answer, void **changed, size_t *changed_len) {
  Bytes b;
  if (answer == Py_None) return LOAM_FILTER_KEEP;
  if (answer == Py_False) return LOAM_FILTER_REMOVE;
  if (bytes_of(answer, &b) < 0) return -1;
  *changed = malloc(b.len > 0 ? b.len : 1);
  if (*changed == NULL) {
    bytes_done(&b);
    PyErr_NoMemory();
    return -1;
  }
  memcpy(*changed, b.data, b.len);
  *changed_len = b.len;
  bytes_done(&b);
  return LOAM_FILTER_CHANGE;
}

static int filter_entry(void *arg, int level, const void *key, size_t key_len, const void *value,
  size_t value_len, void **changed, size_t *changed_len, loam_failure *failure) {
  Callbacks *c = arg;
  PyObject *exception = NULL;
  Frame f;
  int decision = -1, own = 0; /* own: the exception is the filter's */
  if (begin(&f) < 0) {
    loam->loam_callback_fail(failure, "the Python interpreter is ending");
    return LOAM_FILTER_KEEP;
  }
  for (int i = 0; i < TRIES && decision < 0 && !own; i++) {
    PyObject *answer = PyObject_CallFunction(c->filter, "iy#y#", level, (const char *)key,
      (Py_ssize_t)key_len, (const char *)value, (Py_ssize_t)value_len);
    if (answer != NULL) decision = decide(answer, changed, changed_len);
    Py_XDECREF(answer);
    if (decision >= 0) break;
    Py_XDECREF(exception);
    own = PyErr_ExceptionMatches(PyExc_Exception);
    exception = take_exception();
    if (!own) hold_back(c, Py_XNewRef(exception)); /* of a signal handler, such as Ctrl-C */
  }
  if (decision < 0) {
    PyObject *before;
    report(failure, exception);
    LOCK(c);
    before = c->filter_failure;
    c->filter_failure = exception;
    UNLOCK();
    exception = before;
    decision = LOAM_FILTER_KEEP;
  }
  Py_XDECREF(exception);
  end(&f);
  return decision;
}

/* Calls the merge operator once, with a list of its own: it may change that, and be asked again. */
static PyObject *ask_operator(PyObject *function, PyObject *args) {
  PyObject *operands, *answer;
  if (PyTuple_Size(args) != 3 || !PyList_Check(PyTuple_GetItem(args, 2))) {
    return PyObject_CallObject(function, args);
  }
  operands = PySequence_List(PyTuple_GetItem(args, 2));
  if (operands == NULL) return NULL;
  answer = PyObject_CallFunctionObjArgs(function, PyTuple_GetItem(args, 0),
    PyTuple_GetItem(args, 1), operands, NULL);
  Py_DECREF(operands);
  return answer;
}

/* Calls the merge operator, again after an exception of a signal handler. NULL after a
 * failure, which has been told. */
static PyObject *fold(Callbacks *c, PyObject *function, PyObject *args, loam_failure *failure) {
  PyObject *answer = NULL, *exception = NULL;
  int own = args == NULL; /* own: the exception is the operator's */
  for (int i = 0; i < TRIES && answer == NULL && !own; i++) {
    answer = ask_operator(function, args);
    if (answer != NULL) break;
    Py_XDECREF(exception);
    own = PyErr_ExceptionMatches(PyExc_Exception);
    exception = take_exception();
    if (!own) hold_back(c, Py_XNewRef(exception)); /* such as Ctrl-C */
  }
  if (answer == NULL) {
    PyObject *before;
    if (exception == NULL) exception = take_exception();
    report(failure, exception);
    LOCK(c);
    before = c->merge_failure;
    c->merge_failure = exception;
    c->merge_failed = PyThread_get_thread_ident();
    UNLOCK();
    exception = before;
  }
  Py_XDECREF(exception);
  Py_XDECREF(args);
  return answer;
}

/* Hands an answer with the buffer interface to the library; any other one is a failure. */
static void answer_merge(Callbacks *c, PyObject *answer, loam_merge_result *result,
  loam_failure *failure) {
  Bytes b;
  if (bytes_of(answer, &b) == 0) {
    loam->loam_merge_result_set(result, b.data, b.len);
    bytes_done(&b);
  } else {
    (void)fold(c, NULL, NULL, failure); /* tells the exception that is set */
  }
  Py_DECREF(answer);
}

static PyObject *bytes_from(const loam_bytes *b) {
  return PyBytes_FromStringAndSize(b->data, (Py_ssize_t)b->len);
}

static void merge_full(void *arg, const void *key, size_t key_len, const loam_bytes *existing,
  const loam_bytes *operands, size_t count, loam_merge_result *result, loam_failure *failure) {
  Callbacks *c = arg;
  PyObject *list, *value, *answer;
  Frame f;
  if (begin(&f) < 0) {
    loam->loam_callback_fail(failure, "the Python interpreter is ending");
    return;
  }
  list = PyList_New((Py_ssize_t)count);
  for (size_t i = 0; list != NULL && i < count; i++) {
    PyObject *operand = bytes_from(&operands[i]);
    if (operand == NULL || PyList_SetItem(list, (Py_ssize_t)i, operand) < 0) Py_CLEAR(list);
  }
  value = existing != NULL ? bytes_from(existing) : Py_NewRef(Py_None);
  answer = fold(c, c->merge, list && value ? Py_BuildValue("y#OO", (const char *)key,
    (Py_ssize_t)key_len, value, list) : NULL, failure);
  Py_XDECREF(value);
  Py_XDECREF(list);
  if (answer != NULL) answer_merge(c, answer, result, failure);
  end(&f);
}

static int merge_partial(void *arg, const void *key, size_t key_len, const loam_bytes *left,
  const loam_bytes *right, loam_merge_result *result, loam_failure *failure) {
  Callbacks *c = arg;
  PyObject *answer;
  Frame f;
  int joined = 0;
  if (begin(&f) < 0) return 0;
  answer = fold(c, c->partial, Py_BuildValue("y#y#y#", (const char *)key, (Py_ssize_t)key_len,
    (const char *)left->data, (Py_ssize_t)left->len, (const char *)right->data,
    (Py_ssize_t)right->len), failure);
  if (answer == Py_None) {
    Py_DECREF(answer);
  } else if (answer != NULL) {
    joined = 1;
    answer_merge(c, answer, result, failure);
  }
  end(&f);
  return joined;
}

/* loam.h's levels are -4 debug, 0 info, 4 warning, 8 error; logging's 10, 20, 30, 40. */
static void log_message(void *arg, int level, const char *message, loam_failure *failure) {
  Callbacks *c = arg;
  PyObject *text, *result;
  Frame f;
  if (begin(&f) < 0) return;
  text = PyUnicode_DecodeUTF8(message, (Py_ssize_t)strlen(message), "replace");
  result = text ? PyObject_CallMethod(c->logger, "log", "isO", 20 + level * 10 / 4, "%s", text) :
    NULL;
  Py_XDECREF(text);
  if (result == NULL) {
    if (PyErr_ExceptionMatches(PyExc_Exception)) {
      PyObject *exception = take_exception();
      report(failure, exception);
      raise_object(exception);
      PyErr_WriteUnraisable(c->logger);
      Py_DECREF(exception);
    } else {
      hold_back(c, take_exception()); /* Ctrl-C, not the logger's own */
    }
  }
  Py_XDECREF(result);
  end(&f);
}

static void destroy(void *arg) {
  Callbacks *c = arg;
  Frame f;
  int last;
  if (begin(&f) < 0) return;
  LOCK(c);
  last = --c->registered == 0 && c->counted;
  if (last) c->counted = 0;
  UNLOCK();
  if (last) Py_DECREF(c);
  end(&f);
}

static void count(Callbacks *c, int may) {
  int change;
  LOCK(c);
  change = c->registered > 0 && c->counted != may;
  if (change) c->counted = (char)may;
  if (change && may) Py_INCREF((PyObject *)c);
  UNLOCK();
  if (change && !may) Py_DECREF((PyObject *)c);
}

/* Hands the library's reference to a keyspace's callbacks over to the database, if that is
 * open. Otherwise, and without memory, it stays counted. */
static void adopt(Callbacks *database, Callbacks *space) {
  int adopted = 0;
  LOCK(database);
  if (database->open && database->spaces == NULL) database->spaces = PyList_New(0);
  if (database->open && database->spaces != NULL) {
    adopted = PyList_Append(database->spaces, (PyObject *)space) == 0;
  }
  UNLOCK();
  if (adopted) count(space, 0);
  else PyErr_Clear();
}

void library_may_outlive(PyObject *keep, int may) {
  Callbacks *c = callbacks_of(keep);
  PyObject *spaces = NULL;
  if (c == NULL) return;
  if (c->database != NULL) {
    if (!may) adopt(callbacks_of(c->database), c);
    return;
  }
  LOCK(c);
  c->open = (char)!may;
  if (may) {
    spaces = c->spaces;
    c->spaces = NULL;
  }
  UNLOCK();
  for (Py_ssize_t i = 0; spaces != NULL && i < PyList_Size(spaces); i++) {
    count((Callbacks *)PyList_GetItem(spaces, i), 1);
  }
  Py_XDECREF(spaces);
  count(c, may);
}

/* ---- The type ---- */

static PyObject *callbacks_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  PyObject *functions[6], **fields[6];
  Callbacks *c;
  if (!PyArg_ParseTuple(args, "OOOOOO:Callbacks", &functions[0], &functions[1], &functions[2],
    &functions[3], &functions[4], &functions[5])) return NULL;
  if (functions[5] != Py_None && !Py_IS_TYPE(functions[5], CallbacksType)) {
    PyErr_SetString(PyExc_TypeError, "not the callbacks of a database");
    return NULL;
  }
  c = (Callbacks *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
  if (c == NULL) return NULL;
  fields[0] = &c->compare, fields[1] = &c->logger, fields[2] = &c->filter;
  fields[3] = &c->merge, fields[4] = &c->partial, fields[5] = &c->database;
  for (int i = 0; i < 6; i++)
    if (functions[i] != Py_None) *fields[i] = Py_NewRef(functions[i]);
  return (PyObject *)c;
}

/* _register(): the library is about to get a callback. Returns the addresses of
 * comparator, logger, compaction filter, merge operator (full, partial), destroy and arg. */
static PyObject *callbacks_register(PyObject *self, PyObject *unused) {
  Callbacks *c = (Callbacks *)self;
  int first;
  LOCK(c);
  c->registered++;
  first = !c->counted;
  if (first) c->counted = 1;
  UNLOCK();
  if (first) Py_INCREF(self);
  return Py_BuildValue("NNNNNNN", PyLong_FromVoidPtr((void *)compare_keys),
    PyLong_FromVoidPtr((void *)log_message),
                       PyLong_FromVoidPtr((void *)filter_entry),
                       PyLong_FromVoidPtr((void *)merge_full),
                       PyLong_FromVoidPtr((void *)merge_partial),
                         PyLong_FromVoidPtr((void *)destroy), PyLong_FromVoidPtr(self));
}

/* _unregister(): the library did not take the callback after all. */
static PyObject *callbacks_unregister(PyObject *self, PyObject *unused) {
  destroy(self);
  Py_RETURN_NONE;
}

/* _outlive(may): says whether the library may have the callbacks for longer than the object
 * that has this one. */
static PyObject *callbacks_outlive(PyObject *self, PyObject *may) {
  int yes = PyObject_IsTrue(may);
  if (yes < 0) return NULL;
  library_may_outlive(self, yes);
  Py_RETURN_NONE;
}

/* _settle(status, exception): the exception to be raised for a failed call, whose
 * cause may be a callback's failure. With exception None only what a signal handler
 * raised meanwhile is raised. */
static PyObject *callbacks_settle(PyObject *self, PyObject *args) {
  int status;
  PyObject *exception;
  if (!PyArg_ParseTuple(args, "iO:_settle", &status, &exception)) return NULL;
  if (raise_interrupt(self) < 0) return NULL;
  return failure_behind(self, status, Py_NewRef(exception));
}

static int callbacks_traverse(PyObject *self, visitproc visit, void *arg) {
  Callbacks *c = (Callbacks *)self;
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(c->compare);
  Py_VISIT(c->logger);
  Py_VISIT(c->filter);
  Py_VISIT(c->merge);
  Py_VISIT(c->partial);
  Py_VISIT(c->database);
  Py_VISIT(c->spaces);
  Py_VISIT(c->failure);
  Py_VISIT(c->filter_failure);
  Py_VISIT(c->merge_failure);
  Py_VISIT(c->interrupt);
  return 0;
}

/* No tp_clear: the library may call until the last reference goes. The databases and
 * objects of a cycle are cleared instead. */
static void callbacks_dealloc(PyObject *self) {
  Callbacks *c = (Callbacks *)self;
  PyObject_GC_UnTrack(self);
  Py_CLEAR(c->compare);
  Py_CLEAR(c->logger);
  Py_CLEAR(c->filter);
  Py_CLEAR(c->merge);
  Py_CLEAR(c->partial);
  Py_CLEAR(c->database);
  Py_CLEAR(c->spaces);
  Py_CLEAR(c->failure);
  Py_CLEAR(c->filter_failure);
  Py_CLEAR(c->merge_failure);
  Py_CLEAR(c->interrupt);
  free_object(self);
}

static PyMethodDef methods[] = {{"_register", callbacks_register, METH_NOARGS, NULL},
                                {"_unregister", callbacks_unregister, METH_NOARGS, NULL},
                                {"_outlive", callbacks_outlive, METH_O, NULL},
                                {"_settle", callbacks_settle, METH_VARARGS, NULL},
                                {NULL, NULL, 0, NULL}};

static PyType_Slot slots[] = {{Py_tp_new, callbacks_new},
                              {Py_tp_dealloc, callbacks_dealloc},
                              {Py_tp_traverse, callbacks_traverse},
                              {Py_tp_methods, methods},
                              {Py_tp_doc,
                                "What is written in Python of a database or keyspace, as the "
                                "library calls it."},
                              {0, NULL}};

static PyType_Spec spec = {"loamdb._fast.Callbacks", sizeof(Callbacks), 0, Py_TPFLAGS_DEFAULT |
  Py_TPFLAGS_HAVE_GC, slots};

int add_callbacks_type(PyObject *module) { return add_type(module, &CallbacksType, &spec, NULL); }
