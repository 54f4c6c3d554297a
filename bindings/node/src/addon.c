#include "addon.h"

#include <stdio.h>

/* ---- arguments ---- */

static bool text_long(napi_env env, napi_value value, text *t) {
  size_t len;
  if (napi_get_value_string_utf8(env, value, NULL, 0, &len) != napi_ok) return false;
  t->heap = malloc(len + 1);
  if (t->heap == NULL) {
    napi_throw_error(env, NULL, "out of memory");
    return false;
  }
  if (napi_get_value_string_utf8(env, value, t->heap, len + 1, &t->len) != napi_ok) return false;
  t->data = t->heap;
  return true;
}

bool text_read(napi_env env, napi_value value, text *t) {
  napi_typedarray_type type;
  void *data;
  t->heap = NULL;
  /* A buffer three times as long as the string takes V8's fast path. */
  napi_status status = napi_get_value_string_utf8(env, value, t->local, sizeof t->local, &t->len);
  if (status == napi_ok) {
    t->data = t->local;
    return t->len < sizeof t->local - 4 || text_long(env, value, t); /* else it may be cut off */
  }
  if (status == napi_string_expected &&
      napi_get_typedarray_info(env, value, &type, &t->len, &data, NULL, NULL) == napi_ok && type == napi_uint8_array) {
    t->data = t->len == 0 ? "" : data;
    return true;
  }
  napi_throw_type_error(env, NULL, "a key or value must be a string or a Uint8Array");
  return false;
}

void text_free(text *t) { free(t->heap); }

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
    napi_throw_error(env, NULL, "out of memory");
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

addon *get_addon(napi_env env) {
  void *a = NULL;
  napi_get_instance_data(env, &a);
  return a;
}

/* ---- results ---- */

static const char *code_of(loam_status status) {
  switch (status) {
  case LOAM_ERR_CORRUPTION: return "LEVEL_CORRUPTION";
  case LOAM_ERR_LOCKED: return "LEVEL_LOCKED";
  case LOAM_ERR_IO: return "LEVEL_IO_ERROR";
  case LOAM_ERR_READ_ONLY: return "LEVEL_READ_ONLY";
  case LOAM_ERR_CLOSED:
  case LOAM_ERR_INVALID_HANDLE: return "LEVEL_DATABASE_NOT_OPEN";
  case LOAM_ERR_TOO_LARGE: return "LEVEL_TOO_LARGE";
  case LOAM_ERR_INVALID_ARGUMENT: return "LEVEL_INVALID_ARGUMENT";
  case LOAM_ERR_CANCELLED: return "LEVEL_ABORTED";
  default: return "LEVEL_ERROR";
  }
}

napi_value make_error(napi_env env, loam_status status, const char *message) {
  napi_value code, text, error = NULL;
  if (message == NULL) message = loam.status_string != NULL ? loam.status_string(status) : "loamdb: out of memory";
  if (napi_create_string_utf8(env, code_of(status), NAPI_AUTO_LENGTH, &code) != napi_ok ||
      napi_create_string_utf8(env, message, NAPI_AUTO_LENGTH, &text) != napi_ok ||
      napi_create_error(env, code, text, &error) != napi_ok)
    return NULL;
  return error;
}

void throw_status(napi_env env, loam_status status, char *message) {
  napi_value error = make_error(env, status, message);
  free(message);
  if (error != NULL) napi_throw(env, error);
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

napi_value make_string(napi_env env, const char *data, size_t len) {
  napi_value value = NULL;
  if (is_ascii(data, len)) {
    napi_create_string_latin1(env, data, len, &value);
  } else {
    napi_create_string_utf8(env, data, len, &value);
  }
  return value;
}

napi_value make_external(napi_env env, void *data, napi_finalize finalize) {
  napi_value value;
  if (napi_create_external(env, data, finalize, NULL, &value) == napi_ok) return value;
  finalize(env, data, NULL);
  return NULL;
}

void *get_external(napi_env env, napi_value value, kind kind) {
  void *data = NULL;
  if (napi_get_value_external(env, value, &data) == napi_ok && data != NULL && *(enum kind *)data == kind) return data;
  napi_throw_type_error(env, NULL, "an argument is not the object it should be");
  return NULL;
}

/* ---- environment ---- */

static void cleanup(void *data) { databases_close(data); }

void addon_unref(addon *a) {
  if (--a->refs > 0) return;
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
  if (napi_define_properties(env, exports, sizeof functions / sizeof *functions, functions) != napi_ok) return NULL;
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
  if (napi_add_env_cleanup_hook(env, cleanup, a) != napi_ok ||
      napi_create_buffer(env, SCRATCH_SIZE, (void **)&a->scratch, &scratch) != napi_ok ||
      napi_create_reference(env, scratch, 1, &a->scratch_ref) != napi_ok ||
      napi_set_named_property(env, exports, "scratch", scratch) != napi_ok)
    return NULL;
  return define_functions(env, exports);
}
