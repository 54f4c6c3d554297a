// A program for LevelDB's C++ interface, over loam_leveldb.hpp or, with -DREAL, over LevelDB's own
// headers: both print the same.
#ifdef REAL
#include "leveldb/cache.h"
#include "leveldb/comparator.h"
#include "leveldb/db.h"
#include "leveldb/env.h"
#include "leveldb/filter_policy.h"
#include "leveldb/write_batch.h"
#else
#include "loam_leveldb.hpp"
namespace leveldb = loam::leveldb_compat;
#endif

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

static void say(const char *what, const leveldb::Status &s) {
  std::string text = s.ToString();
  std::printf("%s: %s\n", what, s.ok() || s.IsNotFound() ? text.c_str()
                                : s.IsCorruption()       ? "corruption"
                                : s.IsIOError()          ? "io"
                                : s.IsInvalidArgument()  ? "argument"
                                                         : "else");
}

// Numbers in decimal order, as in LevelDB's documentation of comparators. It knows no other keys.
class ByNumber : public leveldb::Comparator {
 public:
  int Compare(const leveldb::Slice &a, const leveldb::Slice &b) const override {
    int x = Number(a), y = Number(b);
    return x < y ? -1 : x > y;
  }
  static int Number(const leveldb::Slice &key) {
    std::string text = key.ToString();
    if (text.empty() || text.find_first_not_of("0123456789") != std::string::npos) std::abort();
    return std::atoi(text.c_str());
  }
  const char *Name() const override { return "ByNumber"; }
  void FindShortestSeparator(std::string *, const leveldb::Slice &) const override {}
  void FindShortSuccessor(std::string *) const override {}
};

struct Printer : leveldb::WriteBatch::Handler {
  void Put(const leveldb::Slice &key, const leveldb::Slice &value) override {
    std::printf("put %s %s\n", key.ToString().c_str(), value.ToString().c_str());
  }
  void Delete(const leveldb::Slice &key) override {
    std::printf("delete %s\n", key.ToString().c_str());
  }
};

static void print(leveldb::Iterator *it) {
  for (it->SeekToFirst(); it->Valid(); it->Next())
    std::printf("%s=%s ", it->key().ToString().c_str(), it->value().ToString().c_str());
  say("end", it->status());
  delete it;
}

// Changes a byte in the middle of the largest table.
static void damage(const char *directory) {
  std::filesystem::path largest;
  for (const auto &f : std::filesystem::directory_iterator(directory))
    if (f.path().extension() == ".ldb" &&
        (largest.empty() || file_size(f.path()) > file_size(largest)))
      largest = f.path();
  std::fstream file(largest, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(std::streamoff(file_size(largest) / 2));
  char byte = char(file.get() ^ 1);
  file.seekp(std::streamoff(file_size(largest) / 2));
  file.put(byte);
}

// An iterator that met damage says so to the end, also where it goes on behind it.
static void damaged() {
  leveldb::Options options;
  options.create_if_missing = true, options.compression = leveldb::kNoCompression;
  leveldb::DB *db = nullptr;
  say("new", leveldb::DB::Open(options, "damaged", &db));
  for (int i = 1000; i < 3000; i++)
    db->Put(leveldb::WriteOptions(), std::to_string(i), std::string(100, 'x'));
  db->CompactRange(nullptr, nullptr);
  delete db;
  damage("damaged");
  say("again", leveldb::DB::Open(options, "damaged", &db));
  leveldb::ReadOptions checked;
  checked.verify_checksums = true;
  std::unique_ptr<leveldb::Iterator> it(db->NewIterator(checked));
  int found = 0;
  for (int i = 1000; i < 3000; i++) {
    it->Seek(std::to_string(i));
    found += it->Valid() && it->key() == std::to_string(i);
  }
  std::printf("%d %d\n", found > 1000 && found < 2000, it->Valid());
  say("seeks", it->status());
  it.reset();
  delete db;
}

int main() {
  leveldb::Options options;
  leveldb::DB *db = nullptr;
  say("missing", leveldb::DB::Open(options, "cpp", &db));
  std::printf("%d\n", db == nullptr);
  options.create_if_missing = true;
  std::unique_ptr<leveldb::Cache> cache(leveldb::NewLRUCache(1 << 20));
  std::unique_ptr<const leveldb::FilterPolicy> filter(leveldb::NewBloomFilterPolicy(10));
  options.block_cache = cache.get(), options.filter_policy = filter.get();
  options.write_buffer_size = 100 << 10;
  say("open", leveldb::DB::Open(options, "cpp", &db));
  leveldb::WriteOptions sync;
  sync.sync = true;
  std::string value;
  say("put", db->Put(sync, "key1", "one"));
  say("get", db->Get(leveldb::ReadOptions(), "key1", &value));
  leveldb::WriteBatch batch;
  batch.Delete("key1");
  batch.Put("key2", value);
  say("write", db->Write(leveldb::WriteOptions(), &batch));
  say("gone", db->Get(leveldb::ReadOptions(), "key1", &value));
  std::printf("%s\n", value.c_str());
  say("there", db->Get(leveldb::ReadOptions(), "key2", &value));
  leveldb::WriteBatch twice = batch;
  twice.Append(batch);
  Printer printer;
  say("iterate", twice.Iterate(&printer));
  leveldb::ReadOptions at;
  at.snapshot = db->GetSnapshot(), at.fill_cache = false;
  for (int i = 0; i < 3000; i++)
    db->Put(leveldb::WriteOptions(), "n" + std::to_string(i), std::string(100, 'x'));
  db->Delete(leveldb::WriteOptions(), "key2");
  print(db->NewIterator(at));
  db->ReleaseSnapshot(at.snapshot);
  db->CompactRange(nullptr, nullptr);
  leveldb::Slice from("n0"), to("n5");
  db->CompactRange(&from, &to);
  leveldb::Range range("n", "o");
  uint64_t size = 0;
  db->GetApproximateSizes(&range, 1, &size);
  std::printf("%d %d\n", size > 10000, db->GetProperty("leveldb.stats", &value));
  std::printf("%d\n", db->GetProperty("none", &value));
  std::unique_ptr<leveldb::Iterator> it(db->NewIterator(leveldb::ReadOptions()));
  it->Seek("n29");
  std::printf("%s\n", it->key().ToString().c_str());
  it->Prev();
  std::printf("%s\n", it->key().ToString().c_str());
  it->SeekToLast();
  it->RegisterCleanup([](void *a, void *) { std::puts(static_cast<const char *>(a)); },
    const_cast<char *>("cleaned"), nullptr);
  std::printf("%s\n", it->key().ToString().c_str());
  it.reset();
  delete db;
  options.error_if_exists = true;
  say("exists", leveldb::DB::Open(options, "cpp", &db));
  say("repair", leveldb::RepairDB("cpp", options));
  say("destroy", leveldb::DestroyDB("cpp", options));
  ByNumber by_number;
  options.comparator = &by_number;
  say("ordered", leveldb::DB::Open(options, "ordered", &db));
  for (auto key : {"10", "9", "100"}) db->Put(leveldb::WriteOptions(), key, "");
  for (auto key : {"8", "9", "11", "100", "101"}) {
    leveldb::Slice end(key);
    db->CompactRange(nullptr, &end);
    db->CompactRange(&end, nullptr);
    db->CompactRange(&end, &end);
  }
  print(db->NewIterator(leveldb::ReadOptions()));
  delete db;
  options.comparator = leveldb::BytewiseComparator(), options.error_if_exists = false;
  say("other order", leveldb::DB::Open(options, "ordered", &db));
  leveldb::Slice s("hello world");
  s.remove_prefix(6);
  std::printf("%s %d %d %d\n", s.ToString().c_str(), s.starts_with("wor"), s == "world",
    s.compare("x") < 0);
  say("made", leveldb::Status::NotFound("a", "b"));
  damaged();
}
