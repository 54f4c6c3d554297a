//go:build cgo

#include "shim.h"

#include "_cgo_export.h"

#include <stdlib.h>

loam_status loam_options_set_compaction_filter(loam_options *options, const char *name,
  loam_filter_fn filter, void *arg, loam_destroy_fn destroy, char **err) {
  BEGIN(err);
  WANT(err, name, "name");
  WANT(err, *name ? name : NULL, "the compaction filter's name");
  WANT(err, filter, "filter");
  return loamgo_options_set_compaction_filter(HANDLE(options), (char *)name, (uintptr_t)filter,
    (uintptr_t)arg, (uintptr_t)destroy, err);
}

loamgo_filtered loamgo_filter(uintptr_t fn, uintptr_t arg, int level, const unsigned char *key,
  size_t key_len, const unsigned char *value, size_t value_len) {
  loam_filter_fn filter = (loam_filter_fn)fn;
  loam_failure failure = {NULL};
  loamgo_filtered result = {0, NULL, 0, 0};
  loam_callback here;
  loam_callback_begin(&here, "a compaction filter", CALLBACK_READS);
  result.decision = filter((void *)arg, level, key ? (const void *)key : "", key_len,
    value ? (const void *)value : "", value_len, &result.value, &result.len, &failure);
  loam_callback_end(&here);
  result.failure = (intptr_t)failure.message;
  return result;
}
