// loam.hpp - the C++ interface of Loam, an ordered persistent key-value store. One header over
// loam.h, for C++17 and newer; a program links with libloam alone.
//
// Conventions
//
//  1. Failures. The last parameter of each function that can fail is Status *failure. Without it
//     the function throws loam::Error. With it nothing is thrown: the status is stored, also that
//     of a success, and after a failure the function returns an empty result. A program compiled
//     without exceptions always passes it. Destructors report nothing; close() does.
//  2. Answers. A missing key, the end of a range and a mismatch are no failures: functions return
//     std::nullopt or false. Any other status than LOAM_OK is a failure, LOAM_WOULD_BLOCK,
//     LOAM_BUSY and LOAM_TIMEOUT included, unless the function says otherwise.
//  3. Objects own handles. They are moved, not copied, and closed by their destructors, in any
//     order. Calls on a moved-from object fail with LOAM_ERR_INVALID_HANDLE.
//  4. Bytes are std::string_view and may hold any bytes. What is given is copied before the call
//     returns. Views that are returned say how long they live.
//  5. Threads. As in loam.h: databases, keyspaces, snapshots, transactions, jobs, options and
//     caches may be used by any number of threads at once, iterators and batches by one at a time.
//  6. Callbacks are std::function. They run on any thread, several at once. An exception that
//     leaves one is reported as its failure (loam_callback_fail). They live until Loam has no more
//     use for them.
//
// Copyright the Loam authors. See LICENSE.
#ifndef LOAM_HPP
#define LOAM_HPP

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "loam.h"

#if defined(__cpp_exceptions) || defined(__EXCEPTIONS) || defined(_CPPUNWIND)
#define LOAM_EXCEPTIONS 1
#define LOAM_FAILURE ::loam::Status *failure = nullptr
#else
#define LOAM_EXCEPTIONS 0
#define LOAM_FAILURE ::loam::Status *failure = ::loam::detail::pass_a_status()
#endif

namespace loam {

class Status;
#if !LOAM_EXCEPTIONS
namespace detail {
// Has no definition: without exceptions each call passes its own Status.
#ifdef __GNUC__
__attribute__((error("without exceptions, pass a loam::Status as the last argument")))
#endif
Status *pass_a_status();
}  // namespace detail
#endif

using Bytes = std::string_view;
// A bound of a range of keys; std::nullopt: none.
using Bound = std::optional<std::string_view>;

// Status is how a call ended.
class Status {
 public:
  // The status of a success.
  Status() = default;
  // code is LOAM_OK or another constant of loam.h. message is what went wrong.
  explicit Status(loam_status code, std::string message = {}, std::string path = {}, int os = 0)
      : code_(code), os_error_(os), message_(std::move(message)), path_(std::move(path)) {}

  bool ok() const { return code_ == LOAM_OK; }
  loam_status code() const { return code_; }
  // The constant's name, such as "LOAM_ERR_CORRUPTION".
  const char *name() const { return loam_status_name(code_); }
  // A sentence, empty after a success.
  const std::string &message() const { return message_; }
  // The file or directory concerned; empty: none.
  const std::string &path() const { return path_; }
  // The operating system's error number; 0: none.
  int os_error() const { return os_error_; }

 private:
  loam_status code_ = LOAM_OK;
  int os_error_ = 0;
  std::string message_, path_;
};

#if LOAM_EXCEPTIONS
// Error is what functions throw. what() is the status's message.
class Error : public std::runtime_error {
 public:
  explicit Error(Status status)
      : std::runtime_error(status.message()),
        status_(std::make_shared<Status>(std::move(status))) {}
  const Status &status() const { return *status_; }
  loam_status code() const { return status_->code(); }

 private:
  std::shared_ptr<const Status> status_;  // shared: copying an exception must not throw
};
#endif

// What the classes below are made of.
namespace detail {

struct Free {
  void operator()(void *p) const { loam_free(p); }
};
using Memory = std::unique_ptr<void, Free>;
using Text = std::unique_ptr<char, Free>;

inline uint64_t flag(bool on, int bit) { return on ? uint64_t(bit) : 0; }

// loam.h refuses 0 seconds, and so a negative time.
inline uint64_t seconds(std::chrono::seconds ttl) {
  return ttl.count() < 0 ? 0 : uint64_t(ttl.count());
}

// loam.h reads a text up to its first zero byte, and refuses NULL.
inline const char *text(const std::string &s) {
  return s.find('\0') == std::string::npos ? s.c_str() : nullptr;
}

// An object that was moved from, or could not be made, has the handle NULL, which loam.h takes for
// "the default" where it is optional. No object has the handle 1.
template <class T>
T *given(T *handle) {
  return handle ? handle : reinterpret_cast<T *>(uintptr_t(1));
}

// The handle of an optional object; NULL where there is no object.
template <class T>
auto given_of(const T *object) -> decltype(object->get()) {
  return object ? given(object->get()) : nullptr;
}

inline std::string take(char *text) {
  Text owned(text);
  return text ? std::string(text) : std::string();
}

inline void fail(Status status, Status *failure) {
#if LOAM_EXCEPTIONS
  if (!failure) throw Error(std::move(status));
#endif
  if (failure) *failure = std::move(status);
}

// Call is one call of loam.h: it holds the message, and turns the status into an answer or a
// failure.
class Call {
 public:
  explicit Call(Status *failure) : failure_(failure) {
    if (failure) *failure = Status();
  }
  char **err() { return &err_; }
  // True after LOAM_OK, false after answer; after anything else it fails, and is false.
  bool operator()(loam_status got, loam_status answer = LOAM_OK) {
    Text message(std::exchange(err_, nullptr));
    if (got == LOAM_OK) return true;
    if (got == answer) return false;
    const char *path = loam_error_path(message.get());
    fail(Status(got, message ? message.get() : loam_status_string(got), path ? path : "",
           loam_error_errno(message.get())),
      failure_);
    return false;
  }

 private:
  char *err_ = nullptr;
  Status *failure_;
};

// Handle owns a handle of loam.h, which close gives up.
template <class T, loam_status (*close)(T *)>
struct Closer {
  void operator()(T *handle) const { close(handle); }
};
template <class T, loam_status (*close)(T *)>
using Handle = std::unique_ptr<T, Closer<T, close>>;

inline loam_status close_db(loam_db *db) { return loam_close(db, nullptr); }

// Whether bytes lie in a string, which may move them.
inline bool within(Bytes bytes, const std::string &s) {
  std::less<const char *> before;
  return !before(bytes.data(), s.data()) && before(bytes.data(), s.data() + s.capacity());
}

inline Bytes bytes(const void *data, size_t len) {
  return Bytes(static_cast<const char *>(data), len);
}
// loam.h takes NULL for "no bound", so the bound "" needs an address.
inline const char *bound(const Bound &b) { return !b ? nullptr : b->data() ? b->data() : ""; }
inline size_t bound_size(const Bound &b) { return b ? b->size() : 0; }

// guarded runs a callback's body, and reports an exception as the callback's failure.
template <class F>
void guarded(loam_failure *failure, F body) {
#if LOAM_EXCEPTIONS
  try {
    body();
  } catch (const std::exception &e) {
    loam_callback_fail(failure, e.what());
  } catch (...) {
    loam_callback_fail(failure, "an exception that is no std::exception");
  }
#else
  (void)failure;
  body();
#endif
}

template <class T>
void destroy(void *arg) {
  delete static_cast<T *>(arg);
}

// Multi holds the arrays of loam_multi_get.
struct Multi {
  explicit Multi(const std::vector<Bytes> &keys)
      : data(keys.size()), sizes(keys.size()), values(keys.size()), value_sizes(keys.size()) {
    for (size_t i = 0; i < keys.size(); i++) data[i] = keys[i].data(), sizes[i] = keys[i].size();
  }
  std::vector<std::optional<std::string>> result() const {
    std::vector<std::optional<std::string>> out(values.size());
    for (size_t i = 0; i < out.size(); i++)
      if (values[i]) out[i].emplace(static_cast<const char *>(values[i]), value_sizes[i]);
    return out;
  }
  std::vector<const void *> data;
  std::vector<size_t> sizes;
  std::vector<const void *> values;
  std::vector<size_t> value_sizes;
};

}  // namespace detail

// Cache is a block cache that several databases may share, or the resources of one process.
class Cache {
 public:
  explicit Cache(uint64_t bytes, LOAM_FAILURE) {
    detail::Call call(failure);
    loam_cache *made = nullptr;
    call(loam_cache_create(bytes, &made, call.err()));
    handle_.reset(made);
  }
  // Limits of all databases that are opened with the resources; 0: the defaults of
  // loam_resources_create; UINT64_MAX as memory: a quarter of what the process may have.
  static Cache resources(uint64_t memory, uint64_t background_jobs = 0,
    uint64_t io_bytes_per_second = 0, uint64_t open_files = 0, LOAM_FAILURE) {
    detail::Call call(failure);
    loam_cache *made = nullptr;
    call(loam_resources_create(memory, background_jobs, io_bytes_per_second, open_files, &made,
      call.err()));
    return Cache(made);
  }
  // Changes a limit of resources by its name, see loam_resources_set.
  void set(const std::string &name, const std::string &value, LOAM_FAILURE) {
    detail::Call call(failure);
    call(loam_resources_set(get(), detail::text(name), detail::text(value), call.err()));
  }
  // How much of the resources is in use, as JSON.
  std::string metrics(LOAM_FAILURE) const {
    detail::Call call(failure);
    char *json = nullptr;
    call(loam_resources_metrics(get(), &json, call.err()));
    return detail::take(json);
  }
  loam_cache *get() const { return handle_.get(); }

 private:
  explicit Cache(loam_cache *made) : handle_(made) {}
  detail::Handle<loam_cache, loam_cache_close> handle_;
};

// What a compaction filter decides about an entry. change is the entry's value from now on.
struct FilterDecision {
  enum Kind { keep = LOAM_FILTER_KEEP, remove = LOAM_FILTER_REMOVE, change = LOAM_FILTER_CHANGE };
  Kind kind = keep;
  std::string value;
};

// Callbacks of options; see loam.h for when they are called and what they may do.
using Comparator = std::function<int(Bytes a, Bytes b)>;
using CompactionFilter = std::function<FilterDecision(int level, Bytes key, Bytes value)>;
using MergeFull = std::function<std::string(Bytes key, std::optional<Bytes> existing,
  const std::vector<Bytes> &operands)>;
using MergePartial =
  std::function<std::optional<std::string>(Bytes key, Bytes left, Bytes right)>;
// level: -4 debug, 0 info, 4 warning, 8 error.
using Logger = std::function<void(int level, const char *message)>;

// Options of a database or keyspace; docs/options.md lists their names.
//
//   loam::Options options{{"write_buffer_size", "64MiB"}, {"compression", "zstd"}};
class Options {
 public:
  explicit Options(LOAM_FAILURE) { create(failure); }
  Options(std::initializer_list<std::pair<const char *, std::string>> list, LOAM_FAILURE) {
    create(failure);
    for (const auto &[name, value] : list) {
      if (failure && !failure->ok()) return;
      set(name, value, failure);
    }
  }
  // Sets an option by name from text, as loam_options_set does.
  Options &set(const std::string &name, const std::string &value, LOAM_FAILURE) {
    detail::Call call(failure);
    call(loam_options_set(get(), detail::text(name), detail::text(value), call.err()));
    return *this;
  }
  // Orders keys by a function; equal_is_bytewise: only equal bytes compare equal, so that filters
  // may be used.
  Options &comparator(const std::string &name, Comparator compare, bool equal_is_bytewise = false,
    LOAM_FAILURE);
  // name is for messages.
  Options &compaction_filter(const std::string &name, CompactionFilter filter, LOAM_FAILURE);
  // Operators that are known by name are set with set("merge_operator", name). partial is
  // optional.
  Options &merge_operator(const std::string &name, MergeFull full, MergePartial partial = nullptr,
    LOAM_FAILURE);
  // nullptr: no messages.
  Options &logger(Logger log, LOAM_FAILURE);
  // A cache or resources to share. The cache may be destroyed while databases use it.
  Options &cache(const Cache &cache, LOAM_FAILURE) {
    detail::Call call(failure);
    call(loam_options_set_cache(get(), cache.get(), call.err()));
    return *this;
  }
  // All options that can be chosen, as JSON.
  static std::string describe(LOAM_FAILURE) {
    detail::Call call(failure);
    char *json = nullptr;
    call(loam_options_describe(&json, call.err()));
    return detail::take(json);
  }
  loam_options *get() const { return handle_.get(); }

 private:
  void create(Status *failure) {
    detail::Call call(failure);
    loam_options *made = nullptr;
    call(loam_options_create(&made, call.err()));
    handle_.reset(made);
  }
  detail::Handle<loam_options, loam_options_close> handle_;
};

// Snapshot is one state of all keyspaces of a database. It keeps overwritten and deleted entries on
// disk while it lives.
class Snapshot {
 public:
  loam_snapshot *get() const { return handle_.get(); }

 private:
  friend class Keyspace;
  explicit Snapshot(loam_snapshot *made) : handle_(made) {}
  detail::Handle<loam_snapshot, loam_snapshot_close> handle_;
};

struct ReadOptions {
  const Snapshot *snapshot = nullptr;  // nullptr: the present state
  bool no_fill = false;                // leave the block cache as it is
  bool memory_only = false;            // LOAM_WOULD_BLOCK where the answer needs I/O

  loam_read_options c() const {
    return {sizeof(loam_read_options),
      detail::flag(no_fill, LOAM_NO_FILL) | detail::flag(memory_only, LOAM_MEMORY_ONLY),
      detail::given_of(snapshot)};
  }
};

struct WriteOptions {
  bool sync = false;      // return when it is on disk, not only in the kernel
  bool no_stall = false;  // LOAM_BUSY instead of waiting for flushes or compactions

  loam_write_options c() const {
    return {sizeof(loam_write_options),
      detail::flag(sync, LOAM_SYNC) | detail::flag(no_stall, LOAM_NO_STALL)};
  }
};

// db.put(key, value, loam::sync) returns when the write survives a power cut.
inline constexpr WriteOptions sync{true, false};

struct IterOptions {
  const Snapshot *snapshot = nullptr;  // nullptr: the present state
  Bound lower;                         // first key of the range
  Bound upper;                         // first key behind the range
  Bound prefix;                        // only keys that begin so
  bool no_fill = false;                // leave the block cache as it is
  bool keys_only = false;              // values are empty

  loam_iter_options c() const {
    return {sizeof(loam_iter_options),
      detail::flag(no_fill, LOAM_NO_FILL) | detail::flag(keys_only, LOAM_KEYS_ONLY),
      detail::given_of(snapshot), detail::bound(lower),
      detail::bound_size(lower), detail::bound(upper), detail::bound_size(upper),
      detail::bound(prefix), detail::bound_size(prefix)};
  }
};

// An entry of an iterator. Its bytes live until the iterator moves or is closed.
struct Entry {
  Bytes key, value;
};

// Iterator walks over a range of keys in both directions. Moves return whether there is an entry.
// A new iterator stands outside the range: next goes to the first entry, prev to the last.
class Iterator {
 public:
  bool first(LOAM_FAILURE) { return move(loam_iter_first, failure); }
  bool last(LOAM_FAILURE) { return move(loam_iter_last, failure); }
  // To the first key at or after key.
  bool seek(Bytes key, LOAM_FAILURE) { return move_to(loam_iter_seek, key, failure); }
  // To the last key before key.
  bool seek_before(Bytes key, LOAM_FAILURE) {
    return move_to(loam_iter_seek_before, key, failure);
  }
  bool next(LOAM_FAILURE) { return move(loam_iter_next, failure); }
  bool prev(LOAM_FAILURE) { return move(loam_iter_prev, failure); }
  // Whether the last move found an entry.
  bool valid() const { return valid_; }
  // The entry at which the iterator is; empty unless it is valid.
  Bytes key() const { return at_.key; }
  Bytes value() const { return at_.value; }
  const Entry &entry() const { return at_; }
  // Replaces the bounds, not the prefix; the iterator then stands outside the range.
  void set_bounds(Bound lower, Bound upper, LOAM_FAILURE) {
    leave();
    detail::Call call(failure);
    call(loam_iter_set_bounds(get(), detail::bound(lower), detail::bound_size(lower),
      detail::bound(upper), detail::bound_size(upper), call.err()));
  }
  loam_iter *get() const { return handle_.get(); }

 private:
  friend class Keyspace;
  friend class Transaction;
  explicit Iterator(loam_iter *made) : handle_(made) {}

  void leave() { at_ = Entry(), valid_ = false; }
  bool arrive(const loam_entry &e) {
    at_ = {detail::bytes(e.key, e.key_len), detail::bytes(e.value, e.value_len)};
    return valid_ = true;
  }
  bool move(loam_status (*to)(loam_iter *, loam_entry *, char **), Status *failure) {
    leave();
    detail::Call call(failure);
    loam_entry e{};
    return call(to(get(), &e, call.err()), LOAM_END) && arrive(e);
  }
  bool move_to(loam_status (*to)(loam_iter *, const void *, size_t, loam_entry *, char **),
    Bytes key, Status *failure) {
    leave();
    detail::Call call(failure);
    loam_entry e{};
    return call(to(get(), key.data(), key.size(), &e, call.err()), LOAM_END) && arrive(e);
  }

  detail::Handle<loam_iter, loam_iter_close> handle_;
  Entry at_;
  bool valid_ = false;
};

// Entries is a range of a loop, once: for (auto [key, value] : db.entries()). In C++20 it is a
// std::ranges::input_range. A failure ends the loop: it throws, or is stored where the range was
// told to.
class Entries {
 public:
  struct Sentinel {};
  class Cursor {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Entry;
    using difference_type = std::ptrdiff_t;
    using pointer = const Entry *;
    using reference = const Entry &;

    Cursor() = default;
    const Entry &operator*() const { return of_->it_.entry(); }
    const Entry *operator->() const { return &of_->it_.entry(); }
    Cursor &operator++() {
      of_->step();
      return *this;
    }
    void operator++(int) { ++*this; }
    friend bool operator==(const Cursor &c, Sentinel) { return c.done(); }
    friend bool operator!=(const Cursor &c, Sentinel s) { return !(c == s); }
    friend bool operator==(Sentinel s, const Cursor &c) { return c == s; }
    friend bool operator!=(Sentinel s, const Cursor &c) { return !(c == s); }

   private:
    friend class Entries;
    explicit Cursor(Entries *of) : of_(of) {}
    bool done() const { return !of_->it_.valid(); }
    Entries *of_ = nullptr;
  };

  Cursor begin() {
    step();
    return Cursor(this);
  }
  Sentinel end() const { return {}; }

 private:
  friend class Keyspace;
  friend class Transaction;
  Entries(Iterator it, bool reverse, Status *failure)
      : it_(std::move(it)), reverse_(reverse), failure_(failure) {}
  void step() {
    if (!it_.get()) return;  // it could not be opened, which was reported
    reverse_ ? it_.prev(failure_) : it_.next(failure_);
  }
  Iterator it_;
  bool reverse_;
  Status *failure_;
};

class Keyspace;

// An operation of a batch or a change; its bytes live as long as those of the batch or change.
struct Operation {
  int64_t kind;  // LOAM_OP_*
  Bytes key;
  Bytes value;  // the limit of LOAM_OP_DELETE_RANGE
  uint32_t keyspace;
  bool keyspace_named;
};

// Batch collects operations that take effect together or not at all.
class Batch {
 public:
  explicit Batch(LOAM_FAILURE) {
    detail::Call call(failure);
    loam_batch *made = nullptr;
    call(loam_batch_create(&made, call.err()));
    handle_.reset(made);
  }
  // From the bytes of data(), which are checked.
  static Batch from(Bytes data, LOAM_FAILURE) {
    detail::Call call(failure);
    loam_batch *made = nullptr;
    call(loam_batch_create_from(data.data(), data.size(), &made, call.err()));
    return Batch(made);
  }
  Batch &put(Bytes key, Bytes value, LOAM_FAILURE) {
    detail::Call call(failure);
    call(loam_batch_put(get(), key.data(), key.size(), value.data(), value.size(), call.err()));
    return *this;
  }
  Batch &put_ttl(Bytes key, Bytes value, std::chrono::seconds ttl, LOAM_FAILURE) {
    detail::Call call(failure);
    call(loam_batch_put_ttl(get(), key.data(), key.size(), value.data(), value.size(),
      detail::seconds(ttl), call.err()));
    return *this;
  }
  Batch &remove(Bytes key, LOAM_FAILURE) {
    detail::Call call(failure);
    call(loam_batch_delete(get(), key.data(), key.size(), call.err()));
    return *this;
  }
  Batch &remove_range(Bytes start, Bytes limit, LOAM_FAILURE) {
    detail::Call call(failure);
    call(loam_batch_delete_range(get(), start.data(), start.size(), limit.data(), limit.size(),
      call.err()));
    return *this;
  }
  Batch &merge(Bytes key, Bytes operand, LOAM_FAILURE) {
    detail::Call call(failure);
    call(loam_batch_merge(get(), key.data(), key.size(), operand.data(), operand.size(),
      call.err()));
    return *this;
  }
  // Chooses the keyspace of the operations that follow; nullptr: that which the batch is written
  // to.
  Batch &in(const Keyspace *keyspace, LOAM_FAILURE);
  Batch &append(const Batch &other, LOAM_FAILURE) {
    detail::Call call(failure);
    call(loam_batch_append(get(), other.get(), call.err()));
    return *this;
  }
  void clear() { loam_batch_clear(get()); }
  size_t count(LOAM_FAILURE) const {
    detail::Call call(failure);
    size_t n = 0;
    call(loam_batch_count(get(), &n, call.err()));
    return n;
  }
  // In LevelDB's layout; lives until the batch changes.
  Bytes data(LOAM_FAILURE) const {
    detail::Call call(failure);
    const void *p = nullptr;
    size_t n = 0;
    call(loam_batch_data(get(), &p, &n, call.err()));
    return detail::bytes(p, n);
  }
  // Calls visit for each operation, in order, until it returns false.
  void each(const std::function<bool(const Operation &)> &visit, LOAM_FAILURE) const;
  loam_batch *get() const { return handle_.get(); }

 private:
  explicit Batch(loam_batch *made) : handle_(made) {}
  detail::Handle<loam_batch, loam_batch_close> handle_;
};

// Job is long work on a thread of its own. Destroying it lets the work go on.
class Job {
 public:
  // Waits for the end at most so long; false: it still runs. It fails as the work did.
  bool wait_for(std::chrono::milliseconds timeout, LOAM_FAILURE) {
    auto ms = timeout.count();
    return wait_ms(ms < 0 ? 0 : ms > INT32_MAX ? INT32_MAX : int(ms), failure);
  }
  // Waits for the end.
  void wait(LOAM_FAILURE) { wait_ms(-1, failure); }
  // Bytes done and to be done, as an estimate; both 0 when unknown.
  std::pair<uint64_t, uint64_t> progress(LOAM_FAILURE) const {
    detail::Call call(failure);
    uint64_t done = 0, total = 0;
    call(loam_job_progress(get(), &done, &total, call.err()));
    return {done, total};
  }
  // Asks the work to end early, with LOAM_ERR_CANCELLED.
  void cancel(LOAM_FAILURE) {
    detail::Call call(failure);
    call(loam_job_cancel(get(), call.err()));
  }
  // The JSON report of finished work that makes one.
  std::string report(LOAM_FAILURE) const {
    detail::Call call(failure);
    char *json = nullptr;
    call(loam_job_report(get(), &json, call.err()));
    return detail::take(json);
  }
  loam_job *get() const { return handle_.get(); }

 private:
  friend class Keyspace;
  friend class DB;
  friend class Backups;
  explicit Job(loam_job *made) : handle_(made) {}
  bool wait_ms(int ms, Status *failure) {
    detail::Call call(failure);
    return call(loam_job_wait(get(), ms, call.err()), LOAM_TIMEOUT);
  }
  detail::Handle<loam_job, loam_job_close> handle_;
};

// Pinned is a value in the library's memory, read without a copy; see loam_get_pinned.
class Pinned {
 public:
  // Lives as long as this object.
  Bytes value() const { return value_; }

 private:
  friend class Keyspace;
  Pinned(loam_pinned *made, Bytes value) : handle_(made), value_(value) {}
  detail::Handle<loam_pinned, loam_pinned_close> handle_;
  Bytes value_;
};

struct TransactionOptions {
  bool serializable = false;  // keys and ranges that were read must not have changed either
  bool lock = false;          // writes and get_for_update lock their keys
  bool read_only = false;     // writes are LOAM_ERR_INVALID_ARGUMENT
  // How long a lock is waited for; 0: 1 second; negative: without end.
  std::chrono::milliseconds lock_timeout{0};
  std::string name;  // in messages about locks; empty: a number
};

class Transaction;

// Keyspace is a key space of a database: all reads and writes of keys. The database itself is the
// keyspace "default". It must not be used after the database was closed: calls then fail with
// LOAM_ERR_CLOSED.
class Keyspace {
 public:
  // ---- reading ----

  // The value of a key, or nullopt if it has none.
  std::optional<std::string> get(Bytes key, const ReadOptions &options = {}, LOAM_FAILURE) const {
    std::optional<std::string> value(std::in_place);
    if (!get_into(key, *value, options, failure)) value.reset();
    return value;
  }
  // The same into a string, whose memory is used again. False, with value empty: there is none.
  bool get_into(Bytes key, std::string &value, const ReadOptions &options = {},
    LOAM_FAILURE) const {
    char small[512];
    size_t len = 0;
    auto o = options.c();
    detail::Call call(failure);
    auto got =
      loam_get(handle(), &o, key.data(), key.size(), small, sizeof small, &len, call.err());
    if (got == LOAM_OK) {
      value.assign(small, len);
      return call(got);
    }
    std::string own;
    if (got == LOAM_BUFFER_TOO_SMALL && detail::within(key, value)) key = own.assign(key);
    while (got == LOAM_BUFFER_TOO_SMALL) {  // again if a longer value was put meanwhile
      value.resize(len);
      got = loam_get(handle(), &o, key.data(), key.size(), value.data(), value.size(), &len,
        call.err());
    }
    value.resize(got == LOAM_OK ? len : 0);
    return call(got, LOAM_NOT_FOUND);
  }
  // The value where it lies in memory, without a copy: worth it from some KiB on.
  std::optional<Pinned> get_pinned(Bytes key, const ReadOptions &options = {},
    LOAM_FAILURE) const {
    loam_pinned *made = nullptr;
    const void *p = nullptr;
    size_t len = 0;
    auto o = options.c();
    detail::Call call(failure);
    if (!call(loam_get_pinned(handle(), &o, key.data(), key.size(), &made, &p, &len, call.err()),
          LOAM_NOT_FOUND))
      return std::nullopt;
    return Pinned(made, detail::bytes(p, len));
  }
  bool has(Bytes key, const ReadOptions &options = {}, LOAM_FAILURE) const {
    auto o = options.c();
    detail::Call call(failure);
    return call(loam_has(handle(), &o, key.data(), key.size(), call.err()), LOAM_NOT_FOUND);
  }
  // The values of many keys, all of one state.
  std::vector<std::optional<std::string>> multi_get(const std::vector<Bytes> &keys,
    const ReadOptions &options = {}, LOAM_FAILURE) const {
    detail::Multi m(keys);
    void *memory = nullptr;
    auto o = options.c();
    detail::Call call(failure);
    bool ok = call(loam_multi_get(handle(), &o, keys.size(), m.data.data(), m.sizes.data(),
      m.values.data(), m.value_sizes.data(), &memory, call.err()));
    detail::Memory owned(memory);
    if (!ok) return {};
    return m.result();
  }
  // How long a key has its value; nullopt: it has none; milliseconds::max(): for ever.
  std::optional<std::chrono::milliseconds> ttl(Bytes key, const ReadOptions &options = {},
    LOAM_FAILURE) const {
    uint64_t ms = 0;
    auto o = options.c();
    detail::Call call(failure);
    if (!call(loam_ttl(handle(), &o, key.data(), key.size(), &ms, call.err()), LOAM_NOT_FOUND))
      return std::nullopt;
    if (ms == LOAM_TTL_NEVER) return std::chrono::milliseconds::max();
    return std::chrono::milliseconds(ms);
  }
  Iterator iterator(const IterOptions &options = {}, LOAM_FAILURE) const {
    loam_iter *made = nullptr;
    auto o = options.c();
    detail::Call call(failure);
    call(loam_iter_create(handle(), &o, &made, call.err()));
    return Iterator(made);
  }
  // The entries of a range for a loop, in ascending order.
  Entries entries(const IterOptions &options = {}, LOAM_FAILURE) const {
    return Entries(iterator(options, failure), false, failure);
  }
  // The same in descending order.
  Entries reversed(const IterOptions &options = {}, LOAM_FAILURE) const {
    return Entries(iterator(options, failure), true, failure);
  }
  // Fixes the present state of all keyspaces.
  Snapshot snapshot(LOAM_FAILURE) const {
    loam_snapshot *made = nullptr;
    detail::Call call(failure);
    call(loam_snapshot_create(handle(), &made, call.err()));
    return Snapshot(made);
  }

  // ---- writing; each returns the sequence number of its last operation ----

  uint64_t put(Bytes key, Bytes value, const WriteOptions &options = {}, LOAM_FAILURE) {
    return write_(options, failure, [&](auto *o, auto *seq, char **err) {
      return loam_put(handle(), o, key.data(), key.size(), value.data(), value.size(), seq, err);
    });
  }
  // Puts a value that expires after ttl, which is at least a second.
  uint64_t put_ttl(Bytes key, Bytes value, std::chrono::seconds ttl,
    const WriteOptions &options = {}, LOAM_FAILURE) {
    auto seconds = detail::seconds(ttl);
    return write_(options, failure, [&](auto *o, auto *seq, char **err) {
      return loam_put_ttl(handle(), o, key.data(), key.size(), value.data(), value.size(),
        seconds, seq, err);
    });
  }
  // Removes a key, whether it exists or not.
  uint64_t remove(Bytes key, const WriteOptions &options = {}, LOAM_FAILURE) {
    return write_(options, failure, [&](auto *o, auto *seq, char **err) {
      return loam_delete(handle(), o, key.data(), key.size(), seq, err);
    });
  }
  // Removes all keys from start up to, not including, limit.
  uint64_t remove_range(Bytes start, Bytes limit, const WriteOptions &options = {},
    LOAM_FAILURE) {
    return write_(options, failure, [&](auto *o, auto *seq, char **err) {
      return loam_delete_range(handle(), o, start.data(), start.size(), limit.data(),
        limit.size(), seq, err);
    });
  }
  // Adds an operand to a key, for the merge operator.
  uint64_t merge(Bytes key, Bytes operand, const WriteOptions &options = {}, LOAM_FAILURE) {
    return write_(options, failure, [&](auto *o, auto *seq, char **err) {
      return loam_merge(handle(), o, key.data(), key.size(), operand.data(), operand.size(), seq,
        err);
    });
  }
  // Writes a batch, which stays as it is.
  uint64_t write(const Batch &batch, const WriteOptions &options = {}, LOAM_FAILURE) {
    return write_(options, failure, [&](auto *o, auto *seq, char **err) {
      return loam_write(handle(), o, batch.get(), seq, err);
    });
  }
  // Stores value if the key has the value old now (nullopt: none). value nullopt: the key is
  // removed. False: it has another value, and nothing was done.
  bool compare_and_swap(Bytes key, Bound old, Bound value, const WriteOptions &options = {},
    LOAM_FAILURE) {
    auto o = options.c();
    detail::Call call(failure);
    return call(loam_compare_and_swap(handle(), &o, key.data(), key.size(), detail::bound(old),
                  detail::bound_size(old), detail::bound(value), detail::bound_size(value),
                  call.err()),
      LOAM_MISMATCH);
  }
  // Stores a value if the key has none. False: it has one.
  bool put_if_absent(Bytes key, Bytes value, const WriteOptions &options = {}, LOAM_FAILURE) {
    auto o = options.c();
    detail::Call call(failure);
    return call(loam_put_if_absent(handle(), &o, key.data(), key.size(), value.data(),
                  value.size(), call.err()),
      LOAM_MISMATCH);
  }
  // Begins a transaction over all keyspaces; calls that name none work in this one.
  Transaction transaction(const TransactionOptions &options = {}, LOAM_FAILURE);

  // ---- upkeep ----

  // Writes the memtables into tables.
  void flush(LOAM_FAILURE) {
    detail::Call call(failure);
    call(loam_flush(handle(), call.err()));
  }
  // Merges everything from start up to, not including, stop.
  void compact(Bound start = {}, Bound stop = {}, LOAM_FAILURE) {
    detail::Call call(failure);
    call(loam_compact(handle(), detail::bound(start), detail::bound_size(start),
      detail::bound(stop), detail::bound_size(stop), call.err()));
  }
  Job start_compact(Bound start = {}, Bound stop = {}, LOAM_FAILURE) {
    loam_job *made = nullptr;
    detail::Call call(failure);
    call(loam_compact_start(handle(), detail::bound(start), detail::bound_size(start),
      detail::bound(stop), detail::bound_size(stop), &made, call.err()));
    return Job(made);
  }
  // Takes tables of TableWriter into the keyspace, all or none; they are durable then. move: the
  // files are removed. excise: what there is from first up to, not including, second goes in the
  // same step.
  void ingest(const std::vector<std::string> &paths, bool move = false,
    std::optional<std::pair<Bytes, Bytes>> excise = {}, LOAM_FAILURE) {
    loam_ingest_options o{sizeof o, detail::flag(move, LOAM_INGEST_MOVE), nullptr, 0, nullptr, 0};
    if (excise) {
      o.flags |= LOAM_INGEST_EXCISE;
      o.start = detail::bound(excise->first), o.start_len = excise->first.size();
      o.stop = detail::bound(excise->second), o.stop_len = excise->second.size();
    }
    std::vector<const char *> names;
    for (const auto &p : paths) names.push_back(detail::text(p));
    detail::Call call(failure);
    call(loam_ingest(handle(), &o, names.size(), names.data(), call.err()));
  }
  // Changes an option now, by name; see loam_set_option.
  void set_option(const std::string &name, const std::string &value, LOAM_FAILURE) {
    detail::Call call(failure);
    call(loam_set_option(handle(), detail::text(name), detail::text(value), call.err()));
  }
  std::string option(const std::string &name, LOAM_FAILURE) const {
    char *value = nullptr;
    detail::Call call(failure);
    call(loam_option(handle(), detail::text(name), &value, call.err()));
    return detail::take(value);
  }
  // A property such as "leveldb.stats"; nullopt: there is none of that name.
  std::optional<std::string> property(const std::string &name, LOAM_FAILURE) const {
    char *value = nullptr;
    detail::Call call(failure);
    if (!call(loam_property(handle(), detail::text(name), &value, call.err()), LOAM_NOT_FOUND))
      return std::nullopt;
    return detail::take(value);
  }
  // All counters as JSON, see docs/metrics.md.
  std::string metrics(LOAM_FAILURE) const { return text(loam_metrics, failure); }
  std::string comparator_name(LOAM_FAILURE) const { return text(loam_comparator_name, failure); }
  // Bytes on disk from start up to, not including, stop.
  uint64_t approximate_size(Bound start, Bound stop, LOAM_FAILURE) const {
    const void *starts = detail::bound(start), *stops = detail::bound(stop);
    size_t start_len = detail::bound_size(start), stop_len = detail::bound_size(stop);
    uint64_t size = 0;
    detail::Call call(failure);
    call(loam_approximate_sizes(handle(), 1, &starts, &start_len, &stops, &stop_len, &size,
      call.err()));
    return size;
  }
  // The number by which batches and changes name the keyspace; 0 is "default".
  uint32_t number(LOAM_FAILURE) const {
    uint32_t n = 0;
    detail::Call call(failure);
    call(loam_keyspace_number(handle(), &n, call.err()));
    return n;
  }
  // Gives up the handle, of a DB after its work has stopped. Afterwards calls fail. In a callback
  // of the database it fails with LOAM_ERR_IN_USE, and the handle stays.
  void close(LOAM_FAILURE) {
    detail::Call call(failure);
    loam_db *db = handle_.release();
    auto got = loam_close(db, call.err());
    if (got == LOAM_ERR_IN_USE) handle_.reset(db);
    call(got);
  }
  loam_db *get() const { return handle(); }

 protected:
  friend class DB;
  explicit Keyspace(loam_db *made) : handle_(made) {}
  loam_db *handle() const { return handle_.get(); }
  std::string text(loam_status (*of)(loam_db *, char **, char **), Status *failure) const {
    char *value = nullptr;
    detail::Call call(failure);
    call(of(handle(), &value, call.err()));
    return detail::take(value);
  }

 private:
  template <class F>
  uint64_t write_(const WriteOptions &options, Status *failure, F f) {
    uint64_t sequence = 0;
    auto o = options.c();
    detail::Call call(failure);
    call(f(&o, &sequence, call.err()));
    return sequence;
  }
  detail::Handle<loam_db, detail::close_db> handle_;
};

// Transaction reads one state with its own writes on top; commit writes all of them or none.
// Destroying one that has not ended rolls it back. keyspace: nullptr is that it was begun in.
class Transaction {
 public:
  std::optional<std::string> get(Bytes key, const Keyspace *keyspace = nullptr,
    LOAM_FAILURE) const {
    return read(loam_txn_get, key, keyspace, failure);
  }
  // A read on which the rest depends: another write of the key is LOAM_ERR_CONFLICT.
  std::optional<std::string> get_for_update(Bytes key, const Keyspace *keyspace = nullptr,
    LOAM_FAILURE) {
    return read(loam_txn_get_for_update, key, keyspace, failure);
  }
  bool has(Bytes key, const Keyspace *keyspace = nullptr, LOAM_FAILURE) const {
    detail::Call call(failure);
    return call(loam_txn_has(get(), db(keyspace), key.data(), key.size(), call.err()),
      LOAM_NOT_FOUND);
  }
  std::vector<std::optional<std::string>> multi_get(const std::vector<Bytes> &keys,
    const Keyspace *keyspace = nullptr, LOAM_FAILURE) const {
    detail::Multi m(keys);
    void *memory = nullptr;
    detail::Call call(failure);
    bool ok = call(loam_txn_multi_get(get(), db(keyspace), keys.size(), m.data.data(),
      m.sizes.data(), m.values.data(), m.value_sizes.data(), &memory, call.err()));
    detail::Memory owned(memory);
    if (!ok) return {};
    return m.result();
  }
  void put(Bytes key, Bytes value, const Keyspace *keyspace = nullptr, LOAM_FAILURE) {
    detail::Call call(failure);
    call(loam_txn_put(get(), db(keyspace), key.data(), key.size(), value.data(), value.size(),
      call.err()));
  }
  void put_ttl(Bytes key, Bytes value, std::chrono::seconds ttl,
    const Keyspace *keyspace = nullptr, LOAM_FAILURE) {
    detail::Call call(failure);
    call(loam_txn_put_ttl(get(), db(keyspace), key.data(), key.size(), value.data(),
      value.size(), detail::seconds(ttl), call.err()));
  }
  void remove(Bytes key, const Keyspace *keyspace = nullptr, LOAM_FAILURE) {
    detail::Call call(failure);
    call(loam_txn_delete(get(), db(keyspace), key.data(), key.size(), call.err()));
  }
  void remove_range(Bytes start, Bytes limit, const Keyspace *keyspace = nullptr, LOAM_FAILURE) {
    detail::Call call(failure);
    call(loam_txn_delete_range(get(), db(keyspace), start.data(), start.size(), limit.data(),
      limit.size(), call.err()));
  }
  void merge(Bytes key, Bytes operand, const Keyspace *keyspace = nullptr, LOAM_FAILURE) {
    detail::Call call(failure);
    call(loam_txn_merge(get(), db(keyspace), key.data(), key.size(), operand.data(),
      operand.size(), call.err()));
  }
  // Over what the transaction reads now; it outlives the transaction. options.snapshot must be
  // nullptr.
  Iterator iterator(const IterOptions &options = {}, const Keyspace *keyspace = nullptr,
    LOAM_FAILURE) const {
    loam_iter *made = nullptr;
    auto o = options.c();
    detail::Call call(failure);
    call(loam_txn_iter_create(get(), db(keyspace), &o, &made, call.err()));
    return Iterator(made);
  }
  Entries entries(const IterOptions &options = {}, const Keyspace *keyspace = nullptr,
    LOAM_FAILURE) const {
    return Entries(iterator(options, keyspace, failure), false, failure);
  }
  // Marks the present point, for rollback_to.
  uint64_t savepoint(LOAM_FAILURE) {
    uint64_t point = 0;
    detail::Call call(failure);
    call(loam_txn_savepoint(get(), &point, call.err()));
    return point;
  }
  void rollback_to(uint64_t savepoint, LOAM_FAILURE) {
    detail::Call call(failure);
    call(loam_txn_rollback_to(get(), savepoint, call.err()));
  }
  void commit(const WriteOptions &options = {}, LOAM_FAILURE) {
    auto o = options.c();
    detail::Call call(failure);
    call(loam_txn_commit(get(), &o, call.err()));
  }
  void rollback(LOAM_FAILURE) {
    detail::Call call(failure);
    call(loam_txn_rollback(get(), call.err()));
  }
  loam_txn *get() const { return handle_.get(); }

 private:
  friend class Keyspace;
  explicit Transaction(loam_txn *made) : handle_(made) {}
  static loam_db *db(const Keyspace *keyspace) {
    return detail::given_of(keyspace);
  }
  std::optional<std::string> read(
    loam_status (*how)(loam_txn *, loam_db *, const void *, size_t, void **, size_t *, char **),
    Bytes key, const Keyspace *keyspace, Status *failure) const {
    void *value = nullptr;
    size_t len = 0;
    detail::Call call(failure);
    if (!call(how(get(), db(keyspace), key.data(), key.size(), &value, &len, call.err()),
          LOAM_NOT_FOUND))
      return std::nullopt;
    detail::Memory owned(value);
    return std::string(static_cast<const char *>(value), len);
  }
  detail::Handle<loam_txn, loam_txn_close> handle_;
};

// A change of a feed: the operations of one commit.
class Change {
 public:
  // Calls visit for each operation, in order, with the time at which a value expires, in seconds
  // since 1970, else 0; until it returns false.
  void each(const std::function<bool(const Operation &, uint64_t expires)> &visit,
    LOAM_FAILURE) const;
  // The bytes of a batch, for Batch::from; they live as long as the changes they came with.
  Bytes data() const { return data_; }

 private:
  friend class Changes;
  explicit Change(Bytes data) : data_(data) {}
  Bytes data_;
};

// Changes is a feed of what a database commits; see loam_changes_open.
class Changes {
 public:
  // A block of changes, which owns their bytes. It takes no further memory: a feed does not give
  // its changes again.
  class Block {
   public:
    class Cursor {
     public:
      using iterator_category = std::input_iterator_tag;
      using value_type = Change;
      using difference_type = std::ptrdiff_t;
      using pointer = const Change *;
      using reference = const Change &;

      Cursor() : end_(nullptr), at_(Bytes()) {}
      const Change &operator*() const { return at_; }
      const Change *operator->() const { return &at_; }
      Cursor &operator++() {
        read(at_.data().data() + at_.data().size());
        return *this;
      }
      Cursor operator++(int) {
        Cursor before = *this;
        ++*this;
        return before;
      }
      friend bool operator==(const Cursor &a, const Cursor &b) {
        return a.at_.data().data() == b.at_.data().data();
      }
      friend bool operator!=(const Cursor &a, const Cursor &b) { return !(a == b); }

     private:
      friend class Block;
      Cursor(const char *p, const char *end) : end_(end), at_(Bytes()) { read(p); }
      void read(const char *p);
      const char *end_;
      Change at_;  // without bytes at the end
    };
    std::vector<Change> changes() const { return {begin(), end()}; }
    Cursor begin() const {
      auto *p = static_cast<const char *>(memory_.get());
      return p ? Cursor(p, p + size_) : end();
    }
    Cursor end() const { return Cursor(); }
    bool empty() const { return begin() == end(); }

   private:
    friend class Changes;
    detail::Memory memory_;
    size_t size_ = 0;
  };
  // The changes that are there; waits for the first, at most timeout (negative: as long as it
  // takes). An empty block: there was none until then.
  Block next(std::chrono::milliseconds timeout, size_t max_bytes = 0, LOAM_FAILURE);
  // The sequence number of the next operation, with which a feed goes on.
  uint64_t position(LOAM_FAILURE) const {
    uint64_t next = 0;
    detail::Call call(failure);
    call(loam_changes_position(get(), &next, call.err()));
    return next;
  }
  // The name of the keyspace with a number; nullopt: it was dropped.
  std::optional<std::string> keyspace(uint32_t number, LOAM_FAILURE) const {
    char *name = nullptr;
    detail::Call call(failure);
    if (!call(loam_changes_keyspace(get(), number, &name, call.err()), LOAM_NOT_FOUND))
      return std::nullopt;
    return detail::take(name);
  }
  loam_changes *get() const { return handle_.get(); }

 private:
  friend class DB;
  explicit Changes(loam_changes *made) : handle_(made) {}
  detail::Handle<loam_changes, loam_changes_close> handle_;
};

// Where a dump goes: false ends the call. And where it comes from: at most capacity bytes are
// stored, 0 at the end.
using DumpWriter = std::function<bool(Bytes data)>;
using DumpReader = std::function<size_t(char *data, size_t capacity)>;

// DB is a database, and its keyspace "default".
class DB : public Keyspace {
 public:
  // Opens the database in a directory, and creates it when there is none, unless the option
  // error_if_missing is set.
  explicit DB(const std::string &path, LOAM_FAILURE) : DB(path, nullptr, failure) {}
  DB(const std::string &path, const Options &options, LOAM_FAILURE)
      : DB(path, detail::given(options.get()), failure) {}
  // Opens a database that another process writes, for reading beside it.
  static DB follow(const std::string &path, LOAM_FAILURE) {
    return follow_(path, nullptr, failure);
  }
  static DB follow(const std::string &path, const Options &options, LOAM_FAILURE) {
    return follow_(path, detail::given(options.get()), failure);
  }

  // Opens a keyspace, or creates it.
  Keyspace keyspace(const std::string &name, LOAM_FAILURE) {
    return open_keyspace(name, nullptr, failure);
  }
  Keyspace keyspace(const std::string &name, const Options &options, LOAM_FAILURE) {
    return open_keyspace(name, detail::given(options.get()), failure);
  }
  // Drops a keyspace with all that is in it.
  void drop_keyspace(const std::string &name, LOAM_FAILURE) {
    detail::Call call(failure);
    call(loam_keyspace_drop(handle(), detail::text(name), call.err()));
  }
  // The names of all keyspaces as a JSON list.
  std::string keyspaces(LOAM_FAILURE) const { return text(loam_keyspace_list, failure); }

  // Makes path a database of its own with the present state.
  void checkpoint(const std::string &path, LOAM_FAILURE) {
    detail::Call call(failure);
    call(loam_checkpoint(handle(), detail::text(path), call.err()));
  }
  // Reads every table whole and compares all checksums.
  void verify(LOAM_FAILURE) { plain(loam_verify, failure); }
  // Encrypts all files with the current key of the option "encryption".
  void rekey(LOAM_FAILURE) { plain(loam_rekey, failure); }
  // The keys of the files in the directory, as a JSON list.
  std::string keys_in_use(LOAM_FAILURE) const { return text(loam_keys_in_use, failure); }
  void pause_compaction(LOAM_FAILURE) { plain(loam_pause_compaction, failure); }
  void resume_compaction(LOAM_FAILURE) { plain(loam_resume_compaction, failure); }
  // Tries failed background work again at once.
  void retry(LOAM_FAILURE) { plain(loam_retry, failure); }
  // Of a follower: moves on to what the writer has written.
  void catch_up(LOAM_FAILURE) { plain(loam_catch_up, failure); }
  // Of a follower: operations that it does not show yet, and an upper bound of their age.
  std::pair<uint64_t, std::chrono::microseconds> lag(LOAM_FAILURE) const {
    uint64_t sequences = 0, microseconds = 0;
    detail::Call call(failure);
    call(loam_lag(handle(), &sequences, &microseconds, call.err()));
    return {sequences, std::chrono::microseconds(microseconds)};
  }
  // What opening found in the logs, as JSON.
  std::string recovery_report(LOAM_FAILURE) const { return text(loam_recovery_report, failure); }
  // A feed of changes from a sequence number on; 0: from the first that is there. durable: nothing
  // is shown that a power cut may take.
  Changes changes(uint64_t from = 0, bool durable = false, LOAM_FAILURE) const {
    loam_changes *made = nullptr;
    detail::Call call(failure);
    call(loam_changes_open(handle(), from, detail::flag(durable, LOAM_CHANGES_DURABLE), &made,
      call.err()));
    return Changes(made);
  }
  // Writes a dump of all keyspaces, which does not depend on format or machine. It returns JSON.
  // The writer runs on this thread.
  std::string dump(const DumpWriter &write, const Snapshot *snapshot = nullptr,
    const std::string &compression = "snappy", LOAM_FAILURE) const;
  // Loads a dump. overwrite: its entries replace what is there.
  std::string load(const DumpReader &read, bool overwrite = false, LOAM_FAILURE);

  // ---- of a directory that is not open ----

  // Deletes the database in a directory.
  static void destroy(const std::string &path, LOAM_FAILURE) {
    detail::Call call(failure);
    call(loam_destroy(detail::text(path), nullptr, call.err()));
  }
  // Saves what can be saved of a damaged database, and returns a JSON report.
  static std::string repair(const std::string &path, LOAM_FAILURE) {
    return repair_(path, nullptr, failure);
  }
  static std::string repair(const std::string &path, const Options &options, LOAM_FAILURE) {
    return repair_(path, detail::given(options.get()), failure);
  }
  // Makes a LevelDB database a native one.
  static void upgrade(const std::string &path, LOAM_FAILURE) {
    detail::Call call(failure);
    call(loam_upgrade(detail::text(path), nullptr, call.err()));
  }
  // Writes what a database holds into a new one, in the format "leveldb" or "native".
  static void export_to(const std::string &path, const std::string &to,
    const std::string &format, LOAM_FAILURE) {
    detail::Call call(failure);
    call(loam_export(detail::text(path), detail::text(to), detail::text(format), nullptr,
      call.err()));
  }

 private:
  explicit DB(loam_db *made) : Keyspace(made) {}
  DB(const std::string &path, const loam_options *options, Status *failure) : Keyspace(nullptr) {
    loam_db *made = nullptr;
    detail::Call call(failure);
    call(loam_open(detail::text(path), options, &made, call.err()));
    handle_.reset(made);
  }
  Keyspace open_keyspace(const std::string &name, const loam_options *options, Status *failure) {
    loam_db *made = nullptr;
    detail::Call call(failure);
    call(loam_keyspace_open(handle(), detail::text(name), options, &made, call.err()));
    return Keyspace(made);
  }
  static DB follow_(const std::string &path, const loam_options *options, Status *failure) {
    loam_db *made = nullptr;
    detail::Call call(failure);
    call(loam_follower_open(detail::text(path), options, &made, call.err()));
    return DB(made);
  }
  static std::string repair_(const std::string &path, const loam_options *options,
    Status *failure) {
    char *report = nullptr;
    detail::Call call(failure);
    call(loam_repair(detail::text(path), options, &report, call.err()));
    return detail::take(report);
  }
  void plain(loam_status (*of)(loam_db *, char **), Status *failure) {
    detail::Call call(failure);
    call(of(handle(), call.err()));
  }
};

// TableWriter writes a table outside of a database, for Keyspace::ingest. Keys ascend. A table
// that is not finished is removed.
class TableWriter {
 public:
  explicit TableWriter(const std::string &path, LOAM_FAILURE)
      : TableWriter(path, nullptr, failure) {}
  // Of the options count format and comparator, and what says how tables are written.
  TableWriter(const std::string &path, const Options &options, LOAM_FAILURE)
      : TableWriter(path, detail::given(options.get()), failure) {}
  void put(Bytes key, Bytes value, LOAM_FAILURE) {
    detail::Call call(failure);
    call(loam_table_writer_put(get(), key.data(), key.size(), value.data(), value.size(),
      call.err()));
  }
  void put_ttl(Bytes key, Bytes value, std::chrono::seconds ttl, LOAM_FAILURE) {
    detail::Call call(failure);
    call(loam_table_writer_put_ttl(get(), key.data(), key.size(), value.data(), value.size(),
      detail::seconds(ttl), call.err()));
  }
  void remove(Bytes key, LOAM_FAILURE) {
    detail::Call call(failure);
    call(loam_table_writer_delete(get(), key.data(), key.size(), call.err()));
  }
  void remove_range(Bytes start, Bytes stop, LOAM_FAILURE) {
    detail::Call call(failure);
    call(loam_table_writer_delete_range(get(), start.data(), start.size(), stop.data(),
      stop.size(), call.err()));
  }
  void add(const Batch &batch, LOAM_FAILURE) {
    detail::Call call(failure);
    call(loam_table_writer_add(get(), batch.get(), call.err()));
  }
  // About how many bytes the file would have if the table were finished now.
  uint64_t size(LOAM_FAILURE) const {
    uint64_t n = 0;
    detail::Call call(failure);
    call(loam_table_writer_size(get(), &n, call.err()));
    return n;
  }
  // Makes the table durable, under its name.
  void finish(LOAM_FAILURE) {
    detail::Call call(failure);
    call(loam_table_writer_finish(get(), call.err()));
  }
  loam_table_writer *get() const { return handle_.get(); }

 private:
  TableWriter(const std::string &path, const loam_options *options, Status *failure) {
    loam_table_writer *made = nullptr;
    detail::Call call(failure);
    call(loam_table_writer_create(detail::text(path), options, &made, call.err()));
    handle_.reset(made);
  }
  detail::Handle<loam_table_writer, loam_table_writer_close> handle_;
};

// BulkLoad takes entries in any order, sorts them, and ingests them as tables. A load that is not
// finished leaves nothing.
class BulkLoad {
 public:
  // memory: bytes of entries before a sorted run is written to the disk; 0: the default.
  explicit BulkLoad(Keyspace &to, uint64_t memory = 0, LOAM_FAILURE) {
    loam_bulk_load_options o{sizeof o, 0, memory};
    loam_bulk_load *made = nullptr;
    detail::Call call(failure);
    call(loam_bulk_load_begin(to.get(), &o, &made, call.err()));
    handle_.reset(made);
  }
  // Of entries with the same key the last one counts.
  void put(Bytes key, Bytes value, LOAM_FAILURE) {
    detail::Call call(failure);
    call(loam_bulk_load_put(get(), key.data(), key.size(), value.data(), value.size(),
      call.err()));
  }
  // The batch has nothing but puts.
  void add(const Batch &batch, LOAM_FAILURE) {
    detail::Call call(failure);
    call(loam_bulk_load_add(get(), batch.get(), call.err()));
  }
  // Makes all entries durable in the database, or none if it fails.
  void finish(LOAM_FAILURE) {
    detail::Call call(failure);
    call(loam_bulk_load_finish(get(), call.err()));
  }
  loam_bulk_load *get() const { return handle_.get(); }

 private:
  detail::Handle<loam_bulk_load, loam_bulk_load_close> handle_;
};

// Backups is a folder of backups, locked while it is open. bytes_per_second bounds what is read;
// 0: no bound.
class Backups {
 public:
  // flags: LOAM_BACKUP_*.
  explicit Backups(const std::string &path, uint64_t flags = 0, LOAM_FAILURE) {
    loam_backup *made = nullptr;
    detail::Call call(failure);
    call(loam_backup_open(detail::text(path), flags, &made, call.err()));
    handle_.reset(made);
  }
  // Makes a backup of the present state, and returns its number.
  uint64_t create(DB &db, uint64_t bytes_per_second = 0, LOAM_FAILURE) {
    uint64_t id = 0;
    detail::Call call(failure);
    call(loam_backup_create(get(), db.get(), bytes_per_second, &id, call.err()));
    return id;
  }
  // The same as a job, whose report is what list says of the backup.
  Job start_create(DB &db, uint64_t bytes_per_second = 0, LOAM_FAILURE) {
    loam_job *made = nullptr;
    detail::Call call(failure);
    call(loam_backup_create_start(get(), db.get(), bytes_per_second, &made, call.err()));
    return Job(made);
  }
  // All backups as a JSON list, see loam_backup_list.
  std::string list(LOAM_FAILURE) const {
    char *json = nullptr;
    detail::Call call(failure);
    call(loam_backup_list(get(), &json, call.err()));
    return detail::take(json);
  }
  // Reads a backup whole and compares checksums.
  void verify(uint64_t id, uint64_t bytes_per_second = 0, LOAM_FAILURE) {
    detail::Call call(failure);
    call(loam_backup_verify(get(), id, bytes_per_second, call.err()));
  }
  // Makes to a database as it was at the backup.
  void restore(uint64_t id, const std::string &to, uint64_t bytes_per_second = 0, LOAM_FAILURE) {
    detail::Call call(failure);
    call(loam_backup_restore(get(), id, detail::text(to), bytes_per_second, call.err()));
  }
  void remove(uint64_t id, LOAM_FAILURE) {
    detail::Call call(failure);
    call(loam_backup_delete(get(), id, call.err()));
  }
  // Deletes, of the backups of each database, all but the newest n.
  void keep(uint64_t n, LOAM_FAILURE) {
    detail::Call call(failure);
    call(loam_backup_keep(get(), n, call.err()));
  }
  loam_backup *get() const { return handle_.get(); }

 private:
  detail::Handle<loam_backup, loam_backup_close> handle_;
};

// ---- what needs the classes above ----

inline Batch &Batch::in(const Keyspace *keyspace, Status *failure) {
  detail::Call call(failure);
  call(loam_batch_in(get(), detail::given_of(keyspace), call.err()));
  return *this;
}

namespace detail {
inline Operation operation(const loam_operation &o) {
  return {o.kind, bytes(o.key, o.key_len), bytes(o.value, o.value_len), o.keyspace,
    o.keyspace_named != 0};
}
}  // namespace detail

inline void Batch::each(const std::function<bool(const Operation &)> &visit,
  Status *failure) const {
  auto call_visit = [](void *arg, const loam_operation *o, loam_failure *f) {
    bool go_on = false;
    detail::guarded(f, [&] {
      go_on = (*static_cast<const std::function<bool(const Operation &)> *>(arg))(
        detail::operation(*o));
    });
    return go_on ? 0 : 1;
  };
  detail::Call call(failure);
  call(loam_batch_each(get(), call_visit, const_cast<void *>(static_cast<const void *>(&visit)),
    call.err()));
}

inline void Change::each(const std::function<bool(const Operation &, uint64_t)> &visit,
  Status *failure) const {
  size_t offset = 0;
  for (;;) {
    loam_operation o{};
    o.struct_size = sizeof o;
    uint64_t expires = 0;
    detail::Call call(failure);
    if (!call(loam_change_operation(data_.data(), data_.size(), &offset, &o, &expires, call.err()),
          LOAM_END) ||
        !visit(detail::operation(o), expires))
      return;
  }
}

inline Changes::Block Changes::next(std::chrono::milliseconds timeout, size_t max_bytes,
  Status *failure) {
  auto count = timeout.count();
  int ms = count < 0 ? -1 : count > INT32_MAX ? INT32_MAX : int(count);
  void *data = nullptr;
  Block block;
  detail::Call call(failure);
  if (call(loam_changes_next(get(), max_bytes, ms, &data, &block.size_, call.err()),
        LOAM_TIMEOUT))
    block.memory_.reset(data);
  return block;
}

inline void Changes::Block::Cursor::read(const char *p) {
  auto *u = reinterpret_cast<const unsigned char *>(p);
  if (end_ - p < 4) {
    at_ = Change(Bytes());
    return;
  }
  size_t n = u[0] | size_t(u[1]) << 8 | size_t(u[2]) << 16 | size_t(u[3]) << 24;
  at_ = Change(detail::bytes(p + 4, n));
}

inline Transaction Keyspace::transaction(const TransactionOptions &options, Status *failure) {
  loam_txn_options o{sizeof o,
    detail::flag(options.serializable, LOAM_TXN_SERIALIZABLE) |
      detail::flag(options.lock, LOAM_TXN_LOCK) |
      detail::flag(options.read_only, LOAM_TXN_READ_ONLY),
    options.lock_timeout.count(), options.name.empty() ? nullptr : options.name.c_str()};
  loam_txn *made = nullptr;
  detail::Call call(failure);
  call(loam_txn_begin(handle(), &o, &made, call.err()));
  return Transaction(made);
}

inline Options &Options::comparator(const std::string &name, Comparator compare,
  bool equal_is_bytewise, Status *failure) {
  auto adapt = [](void *arg, const void *a, size_t a_len, const void *b, size_t b_len,
                 loam_failure *f) {
    int order = 0;
    detail::guarded(f, [&] {
      order = (*static_cast<Comparator *>(arg))(detail::bytes(a, a_len), detail::bytes(b, b_len));
    });
    return order;
  };
  auto held = std::make_unique<Comparator>(std::move(compare));
  detail::Call call(failure);
  if (call(loam_options_set_comparator(get(), detail::text(name), adapt, held.get(),
        detail::destroy<Comparator>,
        unsigned(detail::flag(equal_is_bytewise, LOAM_COMPARATOR_EQUAL_IS_BYTEWISE)),
        call.err())))
    held.release();
  return *this;
}

inline Options &Options::compaction_filter(const std::string &name, CompactionFilter filter,
  Status *failure) {
  auto adapt = [](void *arg, int level, const void *key, size_t key_len, const void *value,
                 size_t value_len, void **new_value, size_t *new_len, loam_failure *f) {
    int kind = LOAM_FILTER_KEEP;
    detail::guarded(f, [&] {
      auto d = (*static_cast<CompactionFilter *>(arg))(level, detail::bytes(key, key_len),
        detail::bytes(value, value_len));
      if (d.kind == FilterDecision::change) {
        void *copy = std::malloc(d.value.size() + 1);
        if (!copy) return loam_callback_fail(f, "no memory for the changed value");
        std::memcpy(copy, d.value.data(), d.value.size());
        *new_value = copy, *new_len = d.value.size();
      }
      kind = d.kind;
    });
    return kind;
  };
  auto held = std::make_unique<CompactionFilter>(std::move(filter));
  detail::Call call(failure);
  if (call(loam_options_set_compaction_filter(get(), detail::text(name), adapt, held.get(),
        detail::destroy<CompactionFilter>, call.err())))
    held.release();
  return *this;
}

inline Options &Options::merge_operator(const std::string &name, MergeFull full,
  MergePartial partial, Status *failure) {
  struct Operator {
    MergeFull full;
    MergePartial partial;
  };
  auto adapt_full = [](void *arg, const void *key, size_t key_len, const loam_bytes *existing,
                      const loam_bytes *operands, size_t count, loam_merge_result *result,
                      loam_failure *f) {
    detail::guarded(f, [&] {
      std::vector<Bytes> list;
      for (size_t i = 0; i < count; i++)
        list.push_back(detail::bytes(operands[i].data, operands[i].len));
      std::optional<Bytes> before;
      if (existing) before = detail::bytes(existing->data, existing->len);
      auto value =
        static_cast<Operator *>(arg)->full(detail::bytes(key, key_len), before, list);
      loam_merge_result_set(result, value.data(), value.size());
    });
  };
  auto adapt_partial = [](void *arg, const void *key, size_t key_len, const loam_bytes *left,
                         const loam_bytes *right, loam_merge_result *result, loam_failure *f) {
    int merged = 0;
    detail::guarded(f, [&] {
      auto value = static_cast<Operator *>(arg)->partial(detail::bytes(key, key_len),
        detail::bytes(left->data, left->len), detail::bytes(right->data, right->len));
      if (!value) return;
      loam_merge_result_set(result, value->data(), value->size());
      merged = 1;
    });
    return merged;
  };
  bool has_partial = bool(partial);
  auto held = std::make_unique<Operator>(Operator{std::move(full), std::move(partial)});
  loam_merge_partial_fn partial_fn = nullptr;
  if (has_partial) partial_fn = adapt_partial;
  detail::Call call(failure);
  if (call(loam_options_set_merge_operator(get(), detail::text(name), adapt_full, partial_fn,
        held.get(), detail::destroy<Operator>, call.err())))
    held.release();
  return *this;
}

inline Options &Options::logger(Logger log, Status *failure) {
  auto adapt = [](void *arg, int level, const char *message, loam_failure *f) {
    detail::guarded(f, [&] { (*static_cast<Logger *>(arg))(level, message); });
  };
  detail::Call call(failure);
  if (!log) {
    call(loam_options_set_logger(get(), nullptr, nullptr, nullptr, call.err()));
    return *this;
  }
  auto held = std::make_unique<Logger>(std::move(log));
  if (call(loam_options_set_logger(get(), adapt, held.get(), detail::destroy<Logger>,
        call.err())))
    held.release();
  return *this;
}

inline std::string DB::dump(const DumpWriter &write, const Snapshot *snapshot,
  const std::string &compression, Status *failure) const {
  auto adapt = [](void *arg, const void *data, size_t len, loam_failure *f) {
    bool go_on = false;
    detail::guarded(f, [&] {
      go_on = (*static_cast<const DumpWriter *>(arg))(detail::bytes(data, len));
    });
    return go_on ? 0 : 1;
  };
  char *info = nullptr;
  detail::Call call(failure);
  call(loam_dump(handle(), detail::given_of(snapshot),
    compression.c_str(), adapt, const_cast<void *>(static_cast<const void *>(&write)), &info,
    call.err()));
  return detail::take(info);
}

inline std::string DB::load(const DumpReader &read, bool overwrite, Status *failure) {
  auto adapt = [](void *arg, void *data, size_t capacity, loam_failure *f) {
    size_t n = 0;
    detail::guarded(f, [&] {
      n = (*static_cast<const DumpReader *>(arg))(static_cast<char *>(data), capacity);
    });
    return n;
  };
  char *info = nullptr;
  detail::Call call(failure);
  call(loam_load(handle(), detail::flag(overwrite, LOAM_LOAD_OVERWRITE), adapt,
    const_cast<void *>(static_cast<const void *>(&read)), &info, call.err()));
  return detail::take(info);
}

}  // namespace loam

#endif
