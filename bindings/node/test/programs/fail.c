/*
 * Preloaded into Node and required as an addon: makes one allocation of
 * loamdb.node fail. arm(n): the n-th from now on, counted from 0; disarm():
 * whether it came to that.
 */
#define _GNU_SOURCE
#include <link.h>
#include <node_api.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);

static uintptr_t from, to; /* the addon's code */
static atomic_long left = -1;
static atomic_bool fired;

static bool fails(void *caller) {
  uintptr_t at = (uintptr_t)caller;
  if (atomic_load_explicit(&left, memory_order_relaxed) < 0 || at < from || at >= to) return false;
  if (atomic_fetch_sub(&left, 1) != 0) return false;
  atomic_store(&fired, true);
  return true;
}

void *malloc(size_t size) {
  return fails(__builtin_return_address(0)) ? NULL : __libc_malloc(size);
}
void *calloc(size_t n, size_t size) {
  return fails(__builtin_return_address(0)) ? NULL : __libc_calloc(n, size);
}
void *realloc(void *p, size_t size) {
  return fails(__builtin_return_address(0)) ? NULL : __libc_realloc(p, size);
}

static int find(struct dl_phdr_info *object, size_t size, void *unused) {
  (void)size;
  (void)unused;
  if (strstr(object->dlpi_name, "loamdb.node") == NULL) return 0;
  for (int i = 0; i < object->dlpi_phnum; i++) {
    const ElfW(Phdr) *p = &object->dlpi_phdr[i];
    if (p->p_type != PT_LOAD || !(p->p_flags & PF_X)) continue;
    from = object->dlpi_addr + p->p_vaddr;
    to = from + p->p_memsz;
  }
  return 1;
}

static napi_value arm(napi_env env, napi_callback_info info) {
  size_t argc = 1;
  napi_value argv[1];
  int64_t n = -1;
  napi_get_cb_info(env, info, &argc, argv, NULL, NULL);
  napi_get_value_int64(env, argv[0], &n);
  dl_iterate_phdr(find, NULL);
  atomic_store(&fired, false);
  atomic_store(&left, n);
  return NULL;
}

static napi_value disarm(napi_env env, napi_callback_info info) {
  (void)info;
  napi_value result = NULL;
  atomic_store(&left, -1);
  napi_get_boolean(env, atomic_load(&fired), &result);
  return result;
}

NAPI_MODULE_INIT() {
  napi_value function;
  napi_create_function(env, "arm", NAPI_AUTO_LENGTH, arm, NULL, &function);
  napi_set_named_property(env, exports, "arm", function);
  napi_create_function(env, "disarm", NAPI_AUTO_LENGTH, disarm, NULL, &function);
  napi_set_named_property(env, exports, "disarm", function);
  return exports;
}
