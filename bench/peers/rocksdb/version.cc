//go:build cgo && rocksdb

#include <rocksdb/version.h>

#include <string>

// The library's own version: the headers may be of another release.
extern "C" const char* kv_version(void) {
  static const std::string version = rocksdb::GetRocksVersionAsString(true);
  return version.c_str();
}
