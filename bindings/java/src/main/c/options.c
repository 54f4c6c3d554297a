/* Options, caches and resources. */
#include "shim.h"

NATIVE(jlong, optionsCreate)(JNIEnv *env, jclass c) {
  loam_options *options = NULL;
  char *err = NULL;
  (void)c;
  loam_status status = loam_options_create(&options, &err);
  return handle_result(env, status, options, err);
}

NATIVE(void, optionsSet)(JNIEnv *env, jclass c, jobject options, jbyteArray name,
  jbyteArray value) {
  bytes n, v = {.data = NULL};
  char *err = NULL;
  (void)c;
  if (bytes_take(env, name, &n) && bytes_take(env, value, &v)) {
    succeeded(env, loam_options_set(HANDLE(loam_options, options), n.data, v.data, &err), &err);
  }
  bytes_free(&n);
  bytes_free(&v);
}

NATIVE(void, optionsCache)(JNIEnv *env, jclass c, jobject options, jobject cache) {
  char *err = NULL;
  (void)c;
  succeeded(env,
    loam_options_set_cache(HANDLE(loam_options, options), HANDLE(loam_cache, cache), &err), &err);
}

NATIVE(jbyteArray, optionsDescribe)(JNIEnv *env, jclass c) {
  char *json = NULL, *err = NULL;
  (void)c;
  loam_status status = loam_options_describe(&json, &err);
  return text_result(env, status, json, err);
}

NATIVE(jlong, cacheCreate)(JNIEnv *env, jclass c, jlong size) {
  loam_cache *cache = NULL;
  char *err = NULL;
  (void)c;
  loam_status status = loam_cache_create((uint64_t)size, &cache, &err);
  return handle_result(env, status, cache, err);
}

NATIVE(jlong, resourcesCreate)(JNIEnv *env, jclass c, jlong memory, jlong jobs, jlong rate,
  jlong files) {
  loam_cache *cache = NULL;
  char *err = NULL;
  (void)c;
  loam_status status = loam_resources_create((uint64_t)memory, (uint64_t)jobs, (uint64_t)rate,
    (uint64_t)files, &cache, &err);
  return handle_result(env, status, cache, err);
}

NATIVE(void, resourcesSet)(JNIEnv *env, jclass c, jobject resources, jbyteArray name,
  jbyteArray value) {
  bytes n, v = {.data = NULL};
  char *err = NULL;
  (void)c;
  if (bytes_take(env, name, &n) && bytes_take(env, value, &v)) {
    succeeded(env, loam_resources_set(HANDLE(loam_cache, resources), n.data, v.data, &err), &err);
  }
  bytes_free(&n);
  bytes_free(&v);
}

NATIVE(jbyteArray, resourcesMetrics)(JNIEnv *env, jclass c, jobject resources) {
  char *json = NULL, *err = NULL;
  (void)c;
  loam_status status = loam_resources_metrics(HANDLE(loam_cache, resources), &json, &err);
  return text_result(env, status, json, err);
}
