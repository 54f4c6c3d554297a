//go:build cgo

/* Merges, and merge operators of callbacks. */
#include "shim.h"

#include <stdlib.h>
#include <string.h>

#include "_cgo_export.h"

struct loam_merge_result {
  void *data; /* NULL: empty */
  size_t len;
  const char *failed; /* why there is none; NULL: there is one */
};

void loam_merge_result_set(loam_merge_result *result, const void *data, size_t len) {
  if (!result) return;
  free(result->data);
  result->data = NULL;
  result->len = 0;
  result->failed = NULL;
  if (!len) return;
  if (!data || len >= MAX_BYTES) {
    result->failed = data ? "the result is too large" : "the result is NULL, with a length";
    return;
  }
  result->data = malloc(len);
  if (!result->data) {
    result->failed = "no memory for the result";
    return;
  }
  memcpy(result->data, data, len);
  result->len = len;
}

/* Callbacks may hand the pointers to memcpy, which NULL must not reach. */
static loam_bytes bytes(const unsigned char *data, size_t len) {
  return (loam_bytes){data ? (const void *)data : "", len};
}

/* Hands over the result, or the message of a failure. */
static intptr_t finish(loam_merge_result *result, loam_failure *failure, void **out,
  size_t *out_len) {
  if (result->failed) loam_callback_fail(failure, result->failed);
  if (failure->message) {
    free(result->data);
    return (intptr_t)failure->message;
  }
  *out = result->data;
  *out_len = result->len;
  return 0;
}

intptr_t loamgo_merge_full(uintptr_t fn, uintptr_t arg, const unsigned char *key, size_t key_len,
  const unsigned char *existing, size_t existing_len, int exists,
                           const unsigned char *operands, const uint64_t *ends, size_t count,
                           void **out, size_t *out_len) {
  loam_failure failure = {NULL};
  loam_merge_result result = {NULL, 0, NULL};
  loam_callback here;
  loam_bytes value = bytes(existing, existing_len), few[16], *list = few;
  if (count > sizeof few / sizeof *few && !(list = malloc(count * sizeof *list))) {
    loam_callback_fail(&failure, "no memory for the operands");
    return (intptr_t)failure.message;
  }
  uint64_t start = 0;
  for (size_t i = 0; i < count; i++) {
    list[i] = bytes(operands ? operands + start : NULL, (size_t)(ends[i] - start));
    start = ends[i];
  }
  loam_callback_begin(&here, "a merge operator", CALLBACK_READS);
  ((loam_merge_fn)fn)((void *)arg, key ? (const void *)key : "", key_len, exists ? &value : NULL,
    list, count, &result, &failure);
  loam_callback_end(&here);
  if (list != few) free(list);
  return finish(&result, &failure, out, out_len);
}

intptr_t loamgo_merge_partial(uintptr_t fn, uintptr_t arg, const unsigned char *key,
  size_t key_len, const unsigned char *left, size_t left_len,
                              const unsigned char *right, size_t right_len, int *joined,
                              void **out, size_t *out_len) {
  loam_failure failure = {NULL};
  loam_merge_result result = {NULL, 0, NULL};
  loam_callback here;
  loam_bytes l = bytes(left, left_len), r = bytes(right, right_len);
  loam_callback_begin(&here, "a merge operator", CALLBACK_READS);
  *joined = ((loam_merge_partial_fn)fn)((void *)arg, key ? (const void *)key : "", key_len, &l, &r,
    &result, &failure);
  loam_callback_end(&here);
  return finish(&result, &failure, out, out_len);
}

loam_status loam_options_set_merge_operator(loam_options *options, const char *name,
  loam_merge_fn full, loam_merge_partial_fn partial, void *arg, loam_destroy_fn destroy,
  char **err) {
  BEGIN(err);
  WANT(err, name, "name");
  WANT(err, *name ? name : NULL, "the merge operator's name");
  WANT(err, full, "full");
  return loamgo_options_set_merge_operator(HANDLE(options), (char *)name, (uintptr_t)full,
    (uintptr_t)partial, (uintptr_t)arg, (uintptr_t)destroy, err);
}

loam_status loam_merge(loam_db *db, const loam_write_options *options, const void *key,
  size_t key_len, const void *operand, size_t operand_len, uint64_t *sequence, char **err) {
  BEGIN(err);
  WRITING(err, options);
  BYTES(err, key, key_len, "key");
  BYTES(err, operand, operand_len, "operand");
  if (sequence) {
    return loamgo_put_numbered(HANDLE(db), LOAM_OP_MERGE, (void *)key, key_len, (void *)operand,
      operand_len, flags, sequence, err);
  }
  return loamgo_put(HANDLE(db), LOAM_OP_MERGE, (void *)key, key_len, (void *)operand, operand_len,
    flags, err);
}
