// loam_leveldb.hpp - LevelDB's C++ interface over Loam, for programs that are written for it:
//
//   #include <loam_leveldb.hpp>
//   namespace leveldb = loam::leveldb_compat;
//
// in the place of the includes of leveldb/*.h, and a link with libloam. Databases that are created
// have LevelDB's format; a directory that exists keeps its own. What differs from LevelDB:
//
//  - Env is a name only: Env::Default() is all there is, and files are the operating system's.
//  - DB, Iterator and Snapshot are those of Loam's databases: a program cannot derive classes from
//    them.
//  - FilterPolicy and Cache have no functions to call or override: NewBloomFilterPolicy and
//    NewLRUCache make them.
//  - Checksums are always verified, reuse_logs and paranoid_checks have no effect, and a comparator
//    is not asked for short separators.
//  - Writes of a database whose log failed are refused until it is opened again.
//
// The classes are declared as in LevelDB's own headers, from version 1.23. As there, functions
// report by Status and do not throw. Databases may be used by any number of threads at once,
// iterators and batches by one at a time.
//
// Copyright the Loam authors. See LICENSE.
#ifndef LOAM_LEVELDB_HPP
#define LOAM_LEVELDB_HPP

#include <algorithm>
#include <cstdarg>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "loam.hpp"

namespace loam {
namespace leveldb_compat {

constexpr int kMajorVersion = 1;
constexpr int kMinorVersion = 23;

class Slice {
 public:
  Slice() = default;
  Slice(const char *d, size_t n) : view_(d, n) {}
  Slice(const std::string &s) : view_(s) {}
  Slice(const char *s) : view_(s) {}
  Slice(Bytes bytes) : view_(bytes) {}

  const char *data() const { return view_.data() ? view_.data() : ""; }
  size_t size() const { return view_.size(); }
  bool empty() const { return view_.empty(); }
  char operator[](size_t n) const { return view_[n]; }
  void clear() { view_ = Bytes(); }
  void remove_prefix(size_t n) { view_.remove_prefix(n); }
  std::string ToString() const { return std::string(view_); }
  int compare(const Slice &b) const { return view_.compare(b.view_); }
  bool starts_with(const Slice &x) const { return view_.substr(0, x.size()) == x.view_; }
  // Loam's own type.
  Bytes bytes() const { return view_; }

 private:
  Bytes view_;
};

inline bool operator==(const Slice &x, const Slice &y) { return x.bytes() == y.bytes(); }
inline bool operator!=(const Slice &x, const Slice &y) { return !(x == y); }

class Status {
 public:
  Status() = default;

  static Status OK() { return Status(); }
  static Status NotFound(const Slice &m, const Slice &n = Slice()) { return {kNotFound, m, n}; }
  static Status Corruption(const Slice &m, const Slice &n = Slice()) {
    return {kCorruption, m, n};
  }
  static Status NotSupported(const Slice &m, const Slice &n = Slice()) {
    return {kNotSupported, m, n};
  }
  static Status InvalidArgument(const Slice &m, const Slice &n = Slice()) {
    return {kInvalidArgument, m, n};
  }
  static Status IOError(const Slice &m, const Slice &n = Slice()) { return {kIOError, m, n}; }

  bool ok() const { return code_ == kOk; }
  bool IsNotFound() const { return code_ == kNotFound; }
  bool IsCorruption() const { return code_ == kCorruption; }
  bool IsIOError() const { return code_ == kIOError; }
  bool IsNotSupportedError() const { return code_ == kNotSupported; }
  bool IsInvalidArgument() const { return code_ == kInvalidArgument; }
  std::string ToString() const {
    static const char *const names[] = {"OK", "NotFound: ", "Corruption: ", "Not implemented: ",
      "Invalid argument: ", "IO error: "};
    return names[code_] + message_;
  }

  // From Loam's own status.
  static Status From(const loam::Status &s) {
    switch (s.code()) {
      case LOAM_OK:
        return Status();
      case LOAM_NOT_FOUND:
        return NotFound(s.message());
      case LOAM_ERR_CORRUPTION:
        return Corruption(s.message());
      case LOAM_ERR_NEEDS_NATIVE:
        return NotSupported(s.message());
      case LOAM_ERR_INVALID_ARGUMENT:
      case LOAM_ERR_INVALID_HANDLE:
      case LOAM_ERR_ENCRYPTION:
      case LOAM_ERR_COMPARATOR_MISMATCH:
      case LOAM_ERR_EXISTS:
      case LOAM_ERR_DOES_NOT_EXIST:
      case LOAM_ERR_NOT_A_DATABASE:
      case LOAM_ERR_TOO_LARGE:
        return InvalidArgument(s.message());
      default:
        return IOError(s.message());
    }
  }

 private:
  enum Code { kOk, kNotFound, kCorruption, kNotSupported, kInvalidArgument, kIOError };
  Status(Code code, const Slice &m, const Slice &n) : code_(code), message_(m.ToString()) {
    if (!n.empty()) message_ += ": " + n.ToString();
  }
  Code code_ = kOk;
  std::string message_;
};

class Comparator {
 public:
  virtual ~Comparator() = default;
  virtual int Compare(const Slice &a, const Slice &b) const = 0;
  virtual const char *Name() const = 0;
  virtual void FindShortestSeparator(std::string *start, const Slice &limit) const = 0;
  virtual void FindShortSuccessor(std::string *key) const = 0;
};

namespace detail {
class Bytewise : public Comparator {
 public:
  int Compare(const Slice &a, const Slice &b) const override { return a.compare(b); }
  const char *Name() const override { return "leveldb.BytewiseComparator"; }
  // Keys are as short as they are: a start is its own separator.
  void FindShortestSeparator(std::string *, const Slice &) const override {}
  void FindShortSuccessor(std::string *) const override {}
};
}  // namespace detail

// The order of bytes; lives for ever.
inline const Comparator *BytewiseComparator() {
  static const detail::Bytewise order;
  return &order;
}

class Env {
 public:
  static Env *Default() {
    static Env env;
    return &env;
  }
};

class Logger {
 public:
  virtual ~Logger() = default;
  virtual void Logv(const char *format, std::va_list ap) = 0;
};

class Cache {
 public:
  explicit Cache(size_t capacity) : cache_(capacity, &status_) {}
  loam::Cache &shared() { return cache_; }

 private:
  loam::Status status_;
  loam::Cache cache_;
};
// The caller deletes the cache, after the databases that use it or before.
inline Cache *NewLRUCache(size_t capacity) { return new Cache(capacity); }

class FilterPolicy {
 public:
  explicit FilterPolicy(int bits_per_key) : bits_per_key_(bits_per_key) {}
  virtual ~FilterPolicy() = default;
  const char *Name() const { return "leveldb.BuiltinBloomFilter2"; }
  int bits_per_key() const { return bits_per_key_; }

 private:
  int bits_per_key_;
};
inline const FilterPolicy *NewBloomFilterPolicy(int bits_per_key) {
  return new FilterPolicy(bits_per_key);
}

enum CompressionType {
  kNoCompression = 0x0,
  kSnappyCompression = 0x1,
  kZstdCompression = 0x2,
};

class Snapshot {
 public:
  const loam::Snapshot &shared() const { return snapshot_; }

 protected:
  virtual ~Snapshot() = default;

 private:
  friend class DB;
  explicit Snapshot(loam::Snapshot snapshot) : snapshot_(std::move(snapshot)) {}
  loam::Snapshot snapshot_;
};

struct Options {
  const Comparator *comparator = BytewiseComparator();
  bool create_if_missing = false;
  bool error_if_exists = false;
  bool paranoid_checks = false;  // no effect: always so
  Env *env = Env::Default();
  Logger *info_log = nullptr;  // nullptr: no messages
  size_t write_buffer_size = 4 * 1024 * 1024;
  int max_open_files = 1000;
  Cache *block_cache = nullptr;  // nullptr: one of Loam's default size
  size_t block_size = 4 * 1024;
  int block_restart_interval = 16;
  size_t max_file_size = 2 * 1024 * 1024;
  CompressionType compression = kSnappyCompression;
  int zstd_compression_level = 1;  // no effect
  bool reuse_logs = false;  // no effect
  const FilterPolicy *filter_policy = nullptr;
};

struct ReadOptions {
  bool verify_checksums = false;  // no effect: always so
  bool fill_cache = true;
  const Snapshot *snapshot = nullptr;
};

struct WriteOptions {
  WriteOptions() = default;
  bool sync = false;
};

struct Range {
  Range() = default;
  Range(const Slice &s, const Slice &l) : start(s), limit(l) {}
  Slice start, limit;
};

class WriteBatch {
 public:
  class Handler {
   public:
    virtual ~Handler() = default;
    virtual void Put(const Slice &key, const Slice &value) = 0;
    virtual void Delete(const Slice &key) = 0;
  };

  WriteBatch() : batch_(&status_) {}
  WriteBatch(const WriteBatch &other) : WriteBatch() { Append(other); }
  WriteBatch &operator=(const WriteBatch &other) {
    if (this != &other) {
      Clear();
      Append(other);
    }
    return *this;
  }
  void Put(const Slice &key, const Slice &value) {
    keep([&](auto *s) { batch_.put(key.bytes(), value.bytes(), s); });
  }
  void Delete(const Slice &key) {
    keep([&](auto *s) { batch_.remove(key.bytes(), s); });
  }
  void Clear() {
    batch_.clear();
    status_ = loam::Status();
  }
  size_t ApproximateSize() const {
    loam::Status s;
    return batch_.data(&s).size();
  }
  void Append(const WriteBatch &source) {
    keep([&](auto *s) { batch_.append(source.batch_, s); });
    if (status_.ok()) status_ = source.status_;
  }
  Status Iterate(Handler *handler) const {
    if (!status_.ok()) return Status::From(status_);
    loam::Status s;
    batch_.each(
      [&](const Operation &op) {
        if (op.kind == LOAM_OP_PUT) handler->Put(op.key, op.value);
        if (op.kind == LOAM_OP_DELETE) handler->Delete(op.key);
        return true;
      },
      &s);
    return Status::From(s);
  }
  // Loam's batch, and the first failure of an operation above, which DB::Write returns.
  const loam::Batch &shared() const { return batch_; }
  const loam::Status &failed() const { return status_; }

 private:
  template <class F>
  void keep(F operation) {
    loam::Status s;
    operation(&s);
    if (status_.ok()) status_ = std::move(s);
  }
  loam::Status status_;
  loam::Batch batch_;
};

class Iterator {
 public:
  Iterator(loam::Iterator it, loam::Status failed)
      : it_(std::move(it)), status_(std::move(failed)) {}
  Iterator(const Iterator &) = delete;
  Iterator &operator=(const Iterator &) = delete;
  virtual ~Iterator() {
    for (auto &f : cleanups_) f();
  }
  virtual bool Valid() const { return it_.valid(); }
  virtual void SeekToFirst() { move([&](auto *s) { it_.first(s); }); }
  virtual void SeekToLast() { move([&](auto *s) { it_.last(s); }); }
  virtual void Seek(const Slice &target) { move([&](auto *s) { it_.seek(target.bytes(), s); }); }
  // REQUIRES: Valid(), here and in the functions that follow.
  virtual void Next() { move([&](auto *s) { it_.next(s); }); }
  virtual void Prev() { move([&](auto *s) { it_.prev(s); }); }
  virtual Slice key() const { return it_.key(); }
  virtual Slice value() const { return it_.value(); }
  // The first failure, also after a seek to where there is none.
  virtual Status status() const { return Status::From(status_); }

  using CleanupFunction = void (*)(void *arg1, void *arg2);
  void RegisterCleanup(CleanupFunction function, void *arg1, void *arg2) {
    cleanups_.push_back([=] { function(arg1, arg2); });
  }

 private:
  template <class F>
  void move(F to) {
    loam::Status s;
    if (it_.get()) to(&s);
    if (status_.ok()) status_ = std::move(s);
  }
  loam::Iterator it_;
  loam::Status status_;
  std::vector<std::function<void()>> cleanups_;
};

namespace detail {

// options gives Loam what LevelDB's options say.
inline loam::Status options(const Options &from, loam::Options *to) {
  loam::Status s, first;
  auto set = [&](const char *name, const std::string &value) {
    to->set(name, value, &s);
    if (first.ok()) first = s;
  };
  auto flag = [&](const char *name, bool value) { set(name, value ? "true" : "false"); };
  set("format", "leveldb");
  flag("error_if_missing", !from.create_if_missing);
  flag("error_if_exists", from.error_if_exists);
  flag("create_dirs", false);
  // Clipped to LevelDB's limits; 0 leaves the default.
  auto number = [&](const char *name, size_t value, size_t least, size_t most) {
    if (value) set(name, std::to_string(std::clamp(value, least, most)));
  };
  number("write_buffer_size", from.write_buffer_size, 64 << 10, 1 << 30);
  number("max_open_files", size_t(std::max(from.max_open_files, 0)), 74, 50000);
  number("block_size", from.block_size, 1 << 10, 4 << 20);
  number("block_restart_interval", size_t(std::max(from.block_restart_interval, 0)), 1, 1 << 16);
  number("max_file_size", from.max_file_size, 1 << 20, 1 << 30);
  set("compression", from.compression == kNoCompression     ? "none"
                     : from.compression == kZstdCompression ? "zstd"
                                                            : "snappy");
  if (from.filter_policy && from.filter_policy->bits_per_key() > 0) {
    number("bloom_bits", size_t(from.filter_policy->bits_per_key()), 1, 64);
    flag("leveldb_filter", true);
  }
  if (from.block_cache) {
    to->cache(from.block_cache->shared(), &s);
    if (first.ok()) first = s;
  }
  if (const Comparator *c = from.comparator;
      c && std::strcmp(c->Name(), BytewiseComparator()->Name()) != 0) {
    to->comparator(
      c->Name(), [c](Bytes a, Bytes b) { return c->Compare(a, b); }, false, &s);
    if (first.ok()) first = s;
  }
  if (Logger *log = from.info_log) {
    to->logger(
      [log](int, const char *message) {
        auto print = [](Logger *l, const char *format, ...) {
          std::va_list ap;
          va_start(ap, format);
          l->Logv(format, ap);
          va_end(ap);
        };
        print(log, "%s", message);
      },
      &s);
    if (first.ok()) first = s;
  }
  return first;
}

}  // namespace detail

class DB {
 public:
  // *dbptr is nullptr after a failure. The caller deletes the database.
  static Status Open(const Options &options, const std::string &name, DB **dbptr) {
    *dbptr = nullptr;
    loam::Status s;
    loam::Options o(&s);
    if (s.ok()) s = detail::options(options, &o);
    if (!s.ok()) return Status::From(s);
    auto db = std::make_unique<loam::DB>(name, o, &s);
    if (s.ok()) *dbptr = new DB(std::move(db));
    return Status::From(s);
  }
  DB(const DB &) = delete;
  DB &operator=(const DB &) = delete;
  virtual ~DB() {
    loam::Status ignored;  // as LevelDB does: every write returned its own status
    db_->close(&ignored);
  }

  virtual Status Put(const WriteOptions &options, const Slice &key, const Slice &value) {
    return call([&](auto *s) { db_->put(key.bytes(), value.bytes(), write(options), s); });
  }
  virtual Status Delete(const WriteOptions &options, const Slice &key) {
    return call([&](auto *s) { db_->remove(key.bytes(), write(options), s); });
  }
  virtual Status Write(const WriteOptions &options, WriteBatch *updates) {
    if (!updates) return Status::InvalidArgument("no batch");
    if (!updates->failed().ok()) return Status::From(updates->failed());
    return call([&](auto *s) { db_->write(updates->shared(), write(options), s); });
  }
  // *value stays as it is where there is none.
  virtual Status Get(const ReadOptions &options, const Slice &key, std::string *value) {
    bool found = false;
    std::string got;
    std::string &into = value->empty() ? *value : got;
    Status s = call([&](auto *f) { found = db_->get_into(key.bytes(), into, read(options), f); });
    if (found && &into == &got) value->swap(got);
    return s.ok() && !found ? Status::NotFound(Slice()) : s;
  }
  virtual Iterator *NewIterator(const ReadOptions &options) {
    IterOptions o;
    o.snapshot = options.snapshot ? &options.snapshot->shared() : nullptr;
    o.no_fill = !options.fill_cache;
    loam::Status s;
    auto it = db_->iterator(o, &s);
    return new Iterator(std::move(it), std::move(s));
  }
  virtual const Snapshot *GetSnapshot() {
    loam::Status s;
    return new Snapshot(db_->snapshot(&s));
  }
  virtual void ReleaseSnapshot(const Snapshot *snapshot) { delete snapshot; }
  virtual bool GetProperty(const Slice &property, std::string *value) {
    loam::Status s;
    auto got = db_->property(property.ToString(), &s);
    if (got) *value = *got;
    return got.has_value();
  }
  virtual void GetApproximateSizes(const Range *range, int n, uint64_t *sizes) {
    for (int i = 0; i < n; i++) {
      loam::Status s;
      sizes[i] = db_->approximate_size(range[i].start.bytes(), range[i].limit.bytes(), &s);
    }
  }
  // nullptr: no bound.
  virtual void CompactRange(const Slice *begin, const Slice *end) {
    loam::Status s;
    std::string behind;
    bool bounded = end && after(end->bytes(), &behind);
    db_->compact(begin ? Bound(begin->bytes()) : Bound(), bounded ? Bound(behind) : Bound(), &s);
  }
  // Loam's own interface of the database.
  loam::DB &loam() { return *db_; }

 private:
  explicit DB(std::unique_ptr<loam::DB> db) : db_(std::move(db)) {}
  template <class F>
  Status call(F f) {
    loam::Status s;
    f(&s);
    return Status::From(s);
  }
  // Finds the first key after key, or returns false. A comparator is asked about keys of the
  // database and of the caller alone, as it may know no others.
  bool after(Bytes key, std::string *found) {
    loam::Status s;
    IterOptions o;
    o.no_fill = o.keys_only = true;
    auto it = db_->iterator(o, &s);
    if (!it.get() || !it.seek(key, &s)) return false;
    if (it.key() == key && !it.next(&s)) return false;
    *found = it.key();
    return true;
  }
  static loam::WriteOptions write(const WriteOptions &o) { return {o.sync, false}; }
  static loam::ReadOptions read(const ReadOptions &o) {
    return {o.snapshot ? &o.snapshot->shared() : nullptr, !o.fill_cache, false};
  }
  std::unique_ptr<loam::DB> db_;
};

// Deletes the database in a directory; one that does not exist is a success.
inline Status DestroyDB(const std::string &name, const Options &) {
  loam::Status s;
  loam::DB::destroy(name, &s);
  return s.code() == LOAM_ERR_DOES_NOT_EXIST ? Status() : Status::From(s);
}

// Saves what can be saved of a damaged database.
inline Status RepairDB(const std::string &name, const Options &options) {
  loam::Status s;
  loam::Options o(&s);
  Options any = options;
  any.create_if_missing = true, any.error_if_exists = false;
  if (s.ok()) s = detail::options(any, &o);
  if (s.ok()) loam::DB::repair(name, o, &s);
  return Status::From(s);
}

}  // namespace leveldb_compat
}  // namespace loam

#endif
