//go:build cgo && rocksdb

#include <rocksdb/version.h>

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

extern "C" const char* kv_version(void) {
  return TEXT(ROCKSDB_MAJOR) "." TEXT(ROCKSDB_MINOR) "." TEXT(ROCKSDB_PATCH);
}
