/*
 * The JNI half of io.loamdb: the native methods of io.loamdb.Native over loam.h.
 *
 * Conventions
 *
 *  1. Objects. A native method gets Java objects, not handles: so they are reachable while it
 *     runs, and no Cleaner closes them. A null object is the handle NULL, which the library
 *     refuses, as it does that of a closed object.
 *  2. Bytes are copied, into small buffers on the stack or with malloc; arrays are never pinned, as
 *     calls may wait. Direct buffers are used in place.
 *  3. Failures. A function that returns false, NULL or 0 as a failure has left an exception
 *     pending; no other JNI function is called until the native method returns.
 */
#ifndef LOAM_JAVA_SHIM_H
#define LOAM_JAVA_SHIM_H

#include <jni.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loam.h"

#define NATIVE(type, name) JNIEXPORT type JNICALL Java_io_loamdb_Native_##name

enum { SMALL = 512 };

/* Bytes of a Java array, with a 0 behind them. data is NULL for a null array. */
typedef struct bytes {
  void *data;
  size_t len;
  char small[SMALL];
} bytes;

extern JavaVM *java_vm;
extern jclass callbacks_class; /* io.loamdb.Callbacks */

/* A class of the library, for as long as that is loaded; NULL: an exception is pending. */
jclass class_ref(JNIEnv *env, const char *name);

/* The handle in a NativeObject; NULL for null. */
void *handle_of(JNIEnv *env, jobject object);
#define HANDLE(type, object) ((type *)handle_of(env, object))

/* Copies an array; bytes_free is called whatever the result. */
bool bytes_take(JNIEnv *env, jbyteArray array, bytes *b);
/* The same with the first len bytes of the array. */
bool bytes_take_part(JNIEnv *env, jbyteArray array, jint len, bytes *b);
void bytes_free(bytes *b);

/* A new array; NULL: an exception is pending. */
jbyteArray bytes_new(JNIEnv *env, const void *data, size_t len);

/* Throws the exception that belongs to a status, and frees err. */
void throw_status(JNIEnv *env, loam_status status, char *err);
void throw_memory(JNIEnv *env);

/* Whether the status is LOAM_OK; otherwise throws, with the message *err. The call that gives the
 * status may stand in the argument: *err is read afterwards. */
static inline bool succeeded(JNIEnv *env, loam_status status, char **err) {
  if (status == LOAM_OK) return true;
  throw_status(env, status, *err);
  return false;
}

/* The text as a Java array, and frees it; null for LOAM_NOT_FOUND. */
jbyteArray text_result(JNIEnv *env, loam_status status, char *text, char *err);
/* The handle; 0: an exception is pending. */
jlong handle_result(JNIEnv *env, loam_status status, void *handle, char *err);

bool callbacks_load(JNIEnv *env);

static inline uint32_t u32le(const void *p) {
  const unsigned char *b = p;
  return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static inline void put_u32le(void *p, uint32_t n) {
  unsigned char *b = p;
  b[0] = n & 0xff;
  b[1] = n >> 8 & 0xff;
  b[2] = n >> 16 & 0xff;
  b[3] = n >> 24 & 0xff;
}

#endif
