#include "addon.h"

#include <stdio.h>

/* ---- arguments ---- */

static bool text_long(napi_env env, napi_value value, text *t) {
  size_t len;
  if (napi_get_value_string_utf8(env, value, NULL, 0, &len) != napi_ok) return false;
  t->heap = malloc(len + 1);
  if (t->heap == NULL) {
    throw_memory(env);
    return false;
  }
  if (napi_get_value_string_utf8(env, value, t->heap, len + 1, &t->len) != napi_ok) return false;
  t->data = t->heap;
  return true;
}

/* The bytes of one element; 0 for a type that the headers do not know. */
static size_t element_size(napi_typedarray_type type) {
  switch (type) {
  case napi_int8_array: case napi_uint8_array: case napi_uint8_clamped_array: return 1;
  case napi_int16_array: case napi_uint16_array: return 2;
  case napi_int32_array: case napi_uint32_array: case napi_float32_array: return 4;
  case napi_float64_array: case napi_bigint64_array: case napi_biguint64_array: return 8;
  default: return 0;
  }
}

/* Finds the bytes of a typed array or a DataView. */
static bool view_of(napi_env env, napi_value value, size_t *len, void **data) {
  napi_typedarray_type type;
  if (napi_get_typedarray_info(env, value, &type, len, data, NULL, NULL) == napi_ok) {
    *len *= element_size(type);
    return element_size(type) != 0;
  }
  return napi_get_dataview_info(env, value, len, data, NULL, NULL) == napi_ok;
}

/* Throws if a view without bytes lies outside of its ArrayBuffer, which was transferred, or made
 * smaller: a copy of a typed array, and the length of a DataView, are a TypeError then. */
static bool is_inside(napi_env env, napi_value view) {
  bool typed = false;
  napi_value at, unused;
  if (napi_is_typedarray(env, view, &typed) != napi_ok) return false;
  if (!typed) return napi_get_named_property(env, view, "byteLength", &unused) == napi_ok;
  return napi_get_global(env, &at) == napi_ok &&
    napi_get_named_property(env, at, "Uint8Array", &at) == napi_ok &&
    napi_new_instance(env, at, 1, &view, &unused) == napi_ok;
}

/* The bytes of a Uint8Array or another view. */
static bool read_bytes(napi_env env, napi_value value, text *t) {
  void *data;
  if (!view_of(env, value, &t->len, &data)) {
    napi_throw_type_error(env, NULL, "a key or value must be a string or a Uint8Array");
    return false;
  }
  if (t->len == 0 && !is_inside(env, value)) {
    throw_failure(env);
    return false;
  }
  t->data = t->len == 0 ? "" : data;
  return true;
}

bool text_read(napi_env env, napi_value value, text *t) {
  t->heap = NULL;
  /* A buffer three times as long as the string takes V8's fast path. */
  napi_status status = napi_get_value_string_utf8(env, value, t->local, sizeof t->local, &t->len);
  if (status == napi_ok) {
    t->data = t->local;
    return t->len < sizeof t->local - 4 || text_long(env, value, t); /* else it may be cut off */
  }
  if (status == napi_string_expected) return read_bytes(env, value, t);
  throw_failure(env);
  return false;
}

bool text_pair(napi_env env, const napi_value *argv, text *first, text *second) {
  if (!text_read(env, argv[0], first)) return false;
  bool read = text_read(env, argv[1], second);
  if (read && second->len > 0) return true;
  text_free(first);
  return read && text_read(env, argv[0], first);
}

void text_free(text *t) { free(t->heap); }

char *text_copy(const char *text) {
  size_t size = strlen(text) + 1;
  char *copy = malloc(size);
  return copy == NULL ? NULL : memcpy(copy, text, size);
}

bool bytes_copy(napi_env env, napi_value value, char **data, size_t *len) {
  napi_valuetype type;
  text t;
  *data = NULL;
  *len = 0;
  if (napi_typeof(env, value, &type) != napi_ok) return false;
  if (type == napi_undefined || type == napi_null) return true;
  if (!text_read(env, value, &t)) {
    text_free(&t);
    return false;
  }
  *data = malloc(t.len + 1);
  if (*data == NULL) {
    text_free(&t);
    throw_memory(env);
    return false;
  }
  memcpy(*data, t.data, t.len);
  (*data)[t.len] = 0;
  *len = t.len;
  text_free(&t);
  return true;
}

uint32_t arg_u32(napi_env env, napi_value value) {
  uint32_t n = 0;
  napi_get_value_uint32(env, value, &n);
  return n;
}

size_t arg_size(napi_env env, napi_value value) {
  int64_t n = 0;
  napi_get_value_int64(env, value, &n);
  return n > 0 ? (size_t)n : 0;
}

addon *get_addon(napi_env env) {
  void *a = NULL;
  napi_get_instance_data(env, &a);
  return a;
}

/* ---- results ---- */

static const char *code_of(loam_status status) {
  switch (status) {
  case LOAM_ERR_INVALID_ARGUMENT: return "LEVEL_INVALID_ARGUMENT";
  case LOAM_ERR_CLOSED:
  case LOAM_ERR_INVALID_HANDLE: return "LEVEL_DATABASE_NOT_OPEN";
  case LOAM_ERR_CORRUPTION: return "LEVEL_CORRUPTION";
  case LOAM_ERR_IO: return "LEVEL_IO_ERROR";
  case LOAM_ERR_READ_ONLY: return "LEVEL_READONLY"; /* abstract-level's */
  case LOAM_ERR_LOCKED: return "LEVEL_LOCKED";
  case LOAM_ERR_NOT_A_DATABASE: return "LEVEL_NOT_A_DATABASE";
  case LOAM_ERR_NEWER_FORMAT: return "LEVEL_NEWER_FORMAT";
  case LOAM_ERR_NEEDS_NATIVE: return "LEVEL_NEEDS_NATIVE";
  case LOAM_ERR_NO_KEYSPACE: return "LEVEL_NO_KEYSPACE";
  case LOAM_ERR_NO_MERGE_OPERATOR: return "LEVEL_NO_MERGE_OPERATOR";
  case LOAM_ERR_MERGE_FAILED: return "LEVEL_MERGE_FAILED";
  case LOAM_ERR_CONFLICT: return "LEVEL_CONFLICT";
  case LOAM_ERR_DEADLOCK: return "LEVEL_DEADLOCK";
  case LOAM_ERR_LOCK_TIMEOUT: return "LEVEL_LOCK_TIMEOUT";
  case LOAM_ERR_TXN_DONE: return "LEVEL_TRANSACTION_DONE";
  case LOAM_ERR_GAP: return "LEVEL_GAP";
  case LOAM_ERR_ENCRYPTION: return "LEVEL_ENCRYPTION";
  case LOAM_ERR_EXISTS: return "LEVEL_DATABASE_EXISTS";
  case LOAM_ERR_DOES_NOT_EXIST: return "LEVEL_DATABASE_MISSING";
  case LOAM_ERR_COMPARATOR_MISMATCH: return "LEVEL_COMPARATOR_MISMATCH";
  case LOAM_ERR_TOO_LARGE: return "LEVEL_TOO_LARGE";
  case LOAM_ERR_NO_MEMORY: return "LEVEL_NO_MEMORY";
  case LOAM_ERR_FORKED: return "LEVEL_FORKED";
  case LOAM_ERR_IN_USE: return "LEVEL_IN_USE";
  case LOAM_ERR_CANCELLED: return "LEVEL_ABORTED";
  case LOAM_ERR_NO_SPACE: return "LEVEL_NO_SPACE";
  case LOAM_ERR_TOO_MANY_FILES: return "LEVEL_TOO_MANY_FILES";
  case STATUS_NOT_LOADED: return "LEVEL_LIBRARY_NOT_LOADED";
  default: return "LEVEL_INTERNAL_ERROR";
  }
}

static void set_property(napi_env env, napi_value error, const char *name, napi_value value) {
  /* without it the error still says what happened */
  napi_set_named_property(env, error, name, value);
}

/* As Node's own errors have them: the number is negative. */
static void describe_cause(napi_env env, napi_value error, const char *message) {
  napi_value value;
  int number = loam.error_errno != NULL ? loam.error_errno(message) : 0;
  const char *path = loam.error_path != NULL ? loam.error_path(message) : NULL;
  if (number != 0 && napi_create_int32(env, -number, &value) == napi_ok) {
    set_property(env, error, "errno", value);
  }
  if (path != NULL && napi_create_string_utf8(env, path, NAPI_AUTO_LENGTH, &value) == napi_ok) {
    set_property(env, error, "path", value);
  }
}

napi_value make_error(napi_env env, loam_status status, char *error_text) {
  napi_value code, text, error = NULL;
  const char *message = error_text;
  if (message == NULL) {
    message = loam.status_string != NULL ? loam.status_string(status) : "loamdb: out of memory";
  }
  if (napi_create_string_utf8(env, code_of(status), NAPI_AUTO_LENGTH, &code) != napi_ok ||
      napi_create_string_utf8(env, message, NAPI_AUTO_LENGTH, &text) != napi_ok ||
      napi_create_error(env, code, text, &error) != napi_ok)
    return NULL;
  if (status != STATUS_NOT_LOADED && error_text != NULL) describe_cause(env, error, error_text);
  return error;
}

void throw_status(napi_env env, loam_status status, char *message) {
  napi_value error = make_error(env, status, message);
  if (message != NULL) loam.free(message);
  if (error != NULL) napi_throw(env, error);
}

void throw_memory(napi_env env) {
  napi_throw_error(env, code_of(LOAM_ERR_NO_MEMORY), "out of memory");
}

void throw_failure(napi_env env) {
  bool pending = true;
  if (napi_is_exception_pending(env, &pending) == napi_ok && !pending)
    napi_throw_error(env, code_of(LOAM_ERR_INTERNAL), "Node-API refused a call");
}

bool is_ascii(const char *data, size_t len) {
  uint64_t any = 0, word;
  size_t i = 0;
  for (; i + 8 <= len; i += 8) {
    memcpy(&word, data + i, 8);
    any |= word;
  }
  for (; i < len; i++) any |= (uint64_t)(unsigned char)data[i];
  return (any & 0x8080808080808080u) == 0;
}

static void throw_too_long(napi_env env, size_t len) {
  char message[160];
  bool pending = true;
  if (napi_is_exception_pending(env, &pending) != napi_ok || pending) return;
  snprintf(message, sizeof message,
    "%zu bytes are more than a JavaScript string can hold: read them with the encoding 'buffer' "
    "or 'view'", len);
  napi_throw_error(env, "LEVEL_DECODE_ERROR", message);
}

napi_value make_string(napi_env env, const char *data, size_t len) {
  napi_value value = NULL;
  if (is_ascii(data, len)) {
    napi_create_string_latin1(env, data, len, &value);
  } else {
    napi_create_string_utf8(env, data, len, &value);
  }
  if (value == NULL) throw_too_long(env, len);
  return value;
}

napi_value make_bytes(napi_env env, const void *data, size_t len) {
  napi_value value = NULL;
  if (napi_create_buffer_copy(env, len, data, NULL, &value) != napi_ok) throw_failure(env);
  return value;
}

napi_value make_array(napi_env env) {
  napi_value array = NULL;
  if (napi_create_array(env, &array) != napi_ok) throw_failure(env);
  return array;
}

napi_value make_external(napi_env env, void *data, napi_finalize finalize) {
  napi_value value;
  if (napi_create_external(env, data, finalize, NULL, &value) == napi_ok) return value;
  finalize(env, data, NULL);
  throw_failure(env);
  return NULL;
}

void *get_external(napi_env env, napi_value value, kind kind) {
  void *data = NULL;
  if (napi_get_value_external(env, value, &data) == napi_ok && data != NULL &&
    *(enum kind *)data == kind) return data;
  napi_throw_type_error(env, NULL, "an argument is not the object it should be");
  return NULL;
}

/* ---- environment ---- */

static void cleanup(void *data) {
  addon *a = data;
  works_end(a);
  databases_close(a);
  answers_close(a->answers);
}

void addon_unref(addon *a) {
  if (atomic_fetch_sub(&a->refs, 1) > 1) return;
  if (a->answers != NULL) answers_unref(a->answers);
  free(a->library_path);
  free(a);
}

static void addon_finalize(napi_env env, void *data, void *hint) {
  (void)hint;
  addon *a = data;
  if (a->scratch_ref != NULL) napi_delete_reference(env, a->scratch_ref);
  a->scratch_ref = NULL;
  addon_unref(a);
}

static napi_value define_functions(napi_env env, napi_value exports) {
  static const napi_property_descriptor functions[] = {
#define X(name) {#name, NULL, js_##name, NULL, NULL, NULL, napi_enumerable, NULL},
      NATIVE_FUNCTIONS(X)
#undef X
  };
  if (napi_define_properties(env, exports, sizeof functions / sizeof *functions,
    functions) != napi_ok) return NULL;
  return exports;
}

NAPI_MODULE_INIT() {
  napi_value scratch;
  addon *a = calloc(1, sizeof *a);
  if (a == NULL) return NULL;
  a->refs = 1;
  if (napi_set_instance_data(env, a, addon_finalize, NULL) != napi_ok) {
    free(a);
    return NULL;
  }
  /* Hooks run in reverse: cleanup before the end of the thread-safe function of the answers. */
  a->answers = answers_new(env);
  if (a->answers == NULL || napi_add_env_cleanup_hook(env, cleanup, a) != napi_ok ||
      napi_create_buffer(env, SCRATCH_SIZE, (void **)&a->scratch, &scratch) != napi_ok ||
      napi_create_reference(env, scratch, 1, &a->scratch_ref) != napi_ok ||
      napi_set_named_property(env, exports, "scratch", scratch) != napi_ok)
    return NULL;
  return define_functions(env, exports);
}
