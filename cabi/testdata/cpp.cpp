// Uses all of loam.hpp, in the C++ of the compiler's -std. Usage: cpp.
#include "loam.hpp"

#include <cstdio>
#include <thread>
#if __cplusplus >= 202002L
#include <ranges>
#endif

using namespace std::chrono_literals;
using loam::Bytes;

#define CHECK(ok) \
  do { \
    if (!(ok)) { \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #ok); \
      std::exit(1); \
    } \
  } while (0)

static std::string text(loam::Entries entries) {
  std::string out;
  for (auto [key, value] : entries) out.append(key).append("=").append(value).append(" ");
  return out;
}

static loam::DB open(const std::string &path) {
  return loam::DB(path, {{"write_buffer_size", "1MiB"}, {"merge_operator", "append:,"}});
}

static void reads_and_writes() {
  loam::DB db = open("rw");
  CHECK(db.put("a", "1", loam::sync) > 0 && db.put("b", std::string(5000, 'x')) > 0);
  CHECK(*db.get("a") == "1" && db.get("b")->size() == 5000 && !db.get("c"));
  CHECK(db.has("a") && !db.has("c"));
  std::string buffer;
  CHECK(db.get_into("b", buffer) && buffer.size() == 5000);
  CHECK(!db.get_into("c", buffer) && buffer.empty());
  CHECK(db.get_pinned("b")->value().size() == 5000 && !db.get_pinned("c"));
  auto many = db.multi_get({"c", "a"});
  CHECK(many.size() == 2 && !many[0] && *many[1] == "1");
  db.put("zero", Bytes("\0\0", 2));
  db.put("", "empty key");
  CHECK(db.get("zero")->size() == 2 && *db.get("") == "empty key" && db.get("")->size() == 9);
  db.remove("");
  db.remove_range("z", "zz");
  CHECK(!db.get("zero"));
  db.merge("m", "1"), db.merge("m", "2");
  CHECK(*db.get("m") == "1,2");
  db.put_ttl("t", "v", 100s);
  CHECK(*db.ttl("t") <= 101s && *db.ttl("a") == std::chrono::milliseconds::max() && !db.ttl("c"));
  CHECK(db.compare_and_swap("s", std::nullopt, "1") && !db.compare_and_swap("s", "2", "3") &&
        db.compare_and_swap("s", "1", std::nullopt) && !db.get("s"));
  CHECK(db.put_if_absent("s", "1") && !db.put_if_absent("s", "2"));
  auto before = db.snapshot();
  db.put("a", "2");
  CHECK(*db.get("a", {&before}) == "1" && *db.get("a") == "2");

  loam::DB moved = std::move(db);
  CHECK(*moved.get("a") == "2");
  loam::Status status;
  CHECK(!db.get("a", {}, &status) && status.code() == LOAM_ERR_INVALID_HANDLE);
  CHECK(!status.message().empty() && std::string(status.name()) == "LOAM_ERR_INVALID_HANDLE");
  CHECK(*moved.get("a", {}, &status) == "2" && status.ok());
  moved.close();
  CHECK(!moved.has("a", {}, &status) && !status.ok());
}

static void iterators() {
  loam::DB db = open("iter");
  for (auto key : {"a", "b", "c", "d"}) db.put(key, std::string("v") + key);
  CHECK(text(db.entries()) == "a=va b=vb c=vc d=vd ");
  CHECK(text(db.reversed()) == "d=vd c=vc b=vb a=va ");
  loam::IterOptions within;
  within.lower = "b", within.upper = "d";
  CHECK(text(db.entries(within)) == "b=vb c=vc " && text(db.reversed(within)) == "c=vc b=vb ");
  within.upper = "";  // a bound, not the lack of one
  CHECK(text(db.entries(within)).empty());
  loam::IterOptions prefix;
  prefix.prefix = "c", prefix.keys_only = true;
  CHECK(text(db.entries(prefix)) == "c= ");
  auto it = db.iterator();
  CHECK(!it.valid() && it.first() && it.key() == "a" && it.next() && it.value() == "vb");
  CHECK(it.seek("bb") && it.key() == "c" && it.prev() && it.key() == "b");
  CHECK(it.seek_before("b") && it.key() == "a" && !it.prev() && !it.valid() && it.key().empty());
  CHECK(it.last() && it.key() == "d" && !it.next() && !it.seek("e"));
  it.set_bounds("c", std::nullopt);
  CHECK(!it.valid() && it.next() && it.entry().key == "c");
#if __cplusplus >= 202002L
  static_assert(std::ranges::input_range<loam::Entries>);
  std::string first;
  for (const auto &e : db.entries() | std::views::take(2)) first.append(e.key);
  CHECK(first == "ab");
#endif
  loam::Status status;
  auto entries = db.entries({}, &status);
  db.close();
  int n = 0;
  for (auto e : entries) n += e.key.empty() ? 100 : 1;
  CHECK(n == 0 && status.code() == LOAM_ERR_CLOSED);
}

static void batches_and_keyspaces() {
  loam::DB db = open("batch");
  auto users = db.keyspace("users");
  loam::Batch batch;
  batch.put("a", "1").remove("b").merge("m", "x").remove_range("x", "y").in(&users);
  batch.put("u", "2").put_ttl("t", "3", 50s).in(nullptr).put("c", "4");
  CHECK(batch.count() == 7);
  db.write(batch);
  CHECK(*db.get("a") == "1" && *users.get("u") == "2" && *db.get("c") == "4");
  int64_t kinds = 0;
  batch.each([&](const loam::Operation &op) {
    kinds = kinds * 100 + op.kind;
    if (op.key == "u") CHECK(op.keyspace == users.number() && op.keyspace_named);
    return op.key != "t";
  });
  CHECK(kinds == 10002150148);
  auto copy = loam::Batch::from(batch.data());
  copy.append(batch);
  CHECK(copy.count() == 14);
  copy.clear();
  CHECK(copy.count() == 0);
  CHECK(db.keyspaces() == "[\"default\",\"users\"]" && db.number() == 0);
  db.drop_keyspace("users");
  loam::Status status;
  users.get("u", {}, &status);
  CHECK(status.code() == LOAM_ERR_NO_KEYSPACE);
}

static void transactions() {
  loam::DB db = open("txn");
  auto users = db.keyspace("users");
  {
    auto txn = db.transaction();
    txn.put("a", "1"), txn.put("u", "2", &users), txn.merge("m", "3"), txn.put_ttl("t", "4", 9s);
    CHECK(*txn.get("a") == "1" && txn.has("u", &users) && !db.get("a"));
    auto point = txn.savepoint();
    txn.remove("a"), txn.remove_range("m", "n");
    CHECK(text(txn.entries()) == "t=4 ");
    txn.rollback_to(point);
    auto many = txn.multi_get({"a", "b"});
    CHECK(*many[0] == "1" && !many[1]);
    txn.commit(loam::sync);
  }
  CHECK(*db.get("a") == "1" && *users.get("u") == "2");
  {
    auto lost = db.transaction();
    lost.put("a", "lost");
  }
  CHECK(*db.get("a") == "1");
  loam::TransactionOptions options;
  options.serializable = true;
  auto txn = db.transaction(options);
  CHECK(*txn.get_for_update("a") == "1");
  db.put("a", "2");
  txn.put("b", "1");
  loam::Status status;
  txn.commit({}, &status);
  CHECK(status.code() == LOAM_ERR_CONFLICT && !db.get("b"));
#if LOAM_EXCEPTIONS
  try {
    txn.commit();
    CHECK(false);
  } catch (const loam::Error &e) {
    CHECK(e.code() == LOAM_ERR_TXN_DONE && e.what() == e.status().message());
  }
#endif
}

static void callbacks() {
  loam::Options options{{"bloom_bits", "10"}};
  bool fail = false;
  int messages = 0;
  options.comparator("reverse", [](Bytes a, Bytes b) { return b.compare(a); }, true)
    .merge_operator(
      "sum",
      [&](Bytes, std::optional<Bytes> existing, const std::vector<Bytes> &operands) {
        if (fail) throw std::runtime_error("sums are off");
        int sum = existing ? std::stoi(std::string(*existing)) : 0;
        for (auto o : operands) sum += std::stoi(std::string(o));
        return std::to_string(sum);
      },
      [](Bytes, Bytes l, Bytes r) {
        return std::optional(std::to_string(std::stoi(std::string(l)) + std::stoi(std::string(r))));
      })
    .compaction_filter("drop",
      [](int, Bytes key, Bytes value) -> loam::FilterDecision {
        if (key == "drop") return {loam::FilterDecision::remove, {}};
        if (key == "twice")
          return {loam::FilterDecision::change, std::string(value) + std::string(value)};
        return {};
      })
    .logger([&](int, const char *) { messages++; });
  loam::Cache cache(8 << 20);
  options.cache(cache);
  loam::DB db("callbacks", options);
  db.put("a", "1"), db.put("b", "2"), db.put("drop", "x"), db.put("twice", "ab");
  CHECK(text(db.entries()) == "twice=ab drop=x b=2 a=1 ");
  db.merge("a", "41");
  CHECK(*db.get("a") == "42");
  fail = true;
  loam::Status status;
  db.get("a", {}, &status);
  CHECK(status.code() == LOAM_ERR_MERGE_FAILED && status.message().find("sums are off") != ~0ul);
  fail = false;
  db.compact();
  CHECK(*db.get("twice") == "abab" && !db.get("drop") && *db.get("a") == "42");
  CHECK(db.comparator_name() == "reverse");
  db.close();
  CHECK(messages >= 0);
  loam::Status other;
  loam::DB wrong("callbacks", &other);
  CHECK(other.code() == LOAM_ERR_COMPARATOR_MISMATCH && !wrong.get());
}

static void copies() {
  loam::DB db = open("copies");
  for (int i = 0; i < 1000; i++) db.put("k" + std::to_string(i), std::string(100, 'v'));
  auto feed = db.changes();
  int operations = 0;
  while (operations < 1000)
    for (const auto &change : feed.next(-1ms))
      change.each([&](const loam::Operation &op, uint64_t) {
        CHECK(op.kind == LOAM_OP_PUT && loam::Batch::from(change.data()).count() == 1);
        return ++operations > 0;
      });
  CHECK(feed.next(0ms).empty() && feed.position() == 1001 && *feed.keyspace(0) == "default");
  db.flush();
  auto job = db.start_compact();
  job.wait();
  CHECK(job.wait_for(0ms));
  db.checkpoint("checkpoint");
  CHECK(loam::DB("checkpoint").get("k999"));
  std::string dump;
  db.dump([&](Bytes part) { return dump.append(part), true; });
  loam::DB loaded("loaded");
  size_t at = 0;
  loaded.load([&](char *to, size_t capacity) {
    size_t n = std::min(capacity, dump.size() - at);
    std::memcpy(to, dump.data() + at, n);
    at += n;
    return n;
  });
  CHECK(loaded.get("k999") && text(loaded.entries()) == text(db.entries()));
  loam::Status status;
  db.dump([](Bytes) -> bool { throw std::runtime_error("no room"); }, nullptr, "none", &status);
  CHECK(status.code() == LOAM_ERR_CALLBACK && status.message().find("no room") != ~0ul);

  loam::Backups backups("backups");
  auto id = backups.create(db);
  backups.verify(id);
  backups.restore(id, "restored");
  CHECK(loam::DB("restored").get("k0") && backups.list().find("created_ms") != ~0ul);
  backups.keep(1);
  backups.remove(id);

  loam::TableWriter table("table");
  table.put("t1", "1"), table.put_ttl("t2", "2", 100s), table.remove("t3"),
    table.remove_range("u", "v");
  CHECK(table.size() > 0);
  table.finish();
  db.ingest({"table"}, true, std::pair<Bytes, Bytes>("k", "w"));
  CHECK(*db.get("t1") == "1" && !db.get("k1"));
  loam::BulkLoad load(db);
  load.put("z", "1"), load.put("y", "2");
  load.add(loam::Batch().put("x", "3"));
  load.finish();
  CHECK(text(db.entries({nullptr, "x"})) == "x=3 y=2 z=1 ");

  auto follower = loam::DB::follow("copies");
  db.put("new", "1");
  follower.catch_up();
  CHECK(*follower.get("new") == "1" && follower.lag().first == 0);
  db.verify();
  db.set_option("compression", "zstd");
  CHECK(db.option("compression") == "zstd" && db.property("leveldb.stats") && !db.property("x"));
  CHECK(db.metrics().find("write_amplification") != ~0ul && db.approximate_size({}, {}) > 0);
  CHECK(db.recovery_report().find("was_clean") != ~0ul);
  follower.close(), db.close();
  loam::DB::export_to("checkpoint", "exported", "leveldb");
  loam::DB::upgrade("exported");
  CHECK(loam::DB::repair("exported").find("{") == 0);
  loam::DB::destroy("exported");
  loam::Status missing;
  loam::DB none("exported", {{"error_if_missing", "true"}}, &missing);
  CHECK(missing.code() == LOAM_ERR_DOES_NOT_EXIST && !missing.path().empty());
}

static void threads() {
  auto resources = loam::Cache::resources(64 << 20);
  loam::Options options;
  options.cache(resources);
  loam::DB db("threads", options);
  std::vector<std::thread> all;
  for (int t = 0; t < 4; t++)
    all.emplace_back([&, t] {
      for (int i = 0; i < 500; i++) {
        auto key = std::to_string(t) + "-" + std::to_string(i);
        db.put(key, key);
        CHECK(*db.get(key) == key);
      }
    });
  for (auto &t : all) t.join();
  int n = 0;
  for (auto e : db.entries()) n += e.key == e.value;
  CHECK(n == 2000 && resources.metrics().find("{") == 0);
}

// The code with which a call fails.
template <class F>
static loam_status code(F call) {
  try {
    call();
  } catch (const loam::Error &e) {
    return e.code();
  }
  return LOAM_OK;
}

// An object without a handle is not "the default", and a text ends where it ends.
static void misuse() {
  auto db = open("misuse");
  auto users = db.keyspace("users"), moved_to = std::move(users);
  CHECK(code([&] { loam::Batch().in(&users); }) == LOAM_ERR_INVALID_HANDLE);
  auto txn = db.transaction();
  CHECK(code([&] { txn.put("a", "1", &users); }) == LOAM_ERR_INVALID_HANDLE);
  CHECK(code([&] { txn.get("a", &users); }) == LOAM_ERR_INVALID_HANDLE);
  auto snapshot = db.snapshot(), other = std::move(snapshot);
  CHECK(code([&] { db.get("a", {&snapshot}); }) == LOAM_ERR_INVALID_HANDLE);
  CHECK(code([&] { db.iterator({&snapshot}); }) == LOAM_ERR_INVALID_HANDLE);
  CHECK(code([&] { db.dump([](Bytes) { return true; }, &snapshot); }) == LOAM_ERR_INVALID_HANDLE);
  loam::Options options, taken = std::move(options);
  CHECK(code([&] { loam::DB("none", options); }) == LOAM_ERR_INVALID_HANDLE);
  CHECK(code([&] { loam::DB::follow("misuse", options); }) == LOAM_ERR_INVALID_HANDLE);
  CHECK(code([&] { loam::DB::repair("none", options); }) == LOAM_ERR_INVALID_HANDLE);
  CHECK(code([&] { loam::TableWriter("none", options); }) == LOAM_ERR_INVALID_HANDLE);
  CHECK(code([&] { db.keyspace("none", options); }) == LOAM_ERR_INVALID_HANDLE);

  const std::string cut("users\0s", 7);
  const auto refused = LOAM_ERR_INVALID_ARGUMENT;
  CHECK(code([&] { db.keyspace(cut); }) == refused);
  CHECK(code([&] { db.drop_keyspace(cut); }) == refused);
  CHECK(code([&] { loam::DB{cut}; }) == refused);
  CHECK(code([&] { loam::DB::destroy(cut); }) == refused);
  CHECK(code([&] { loam::DB::upgrade(cut); }) == refused);
  CHECK(code([&] { loam::DB::repair(cut); }) == refused);
  CHECK(code([&] { loam::DB::follow(cut); }) == refused);
  CHECK(code([&] { loam::DB::export_to("none", cut, "native"); }) == refused);
  CHECK(code([&] { loam::Backups{cut}; }) == refused);
  CHECK(code([&] { loam::TableWriter{cut}; }) == refused);
  CHECK(code([&] { taken.set("merge_operator", std::string("append:\0", 8)); }) == refused);
  CHECK(code([&] { db.checkpoint(cut); }) == refused);
  CHECK(code([&] { db.ingest({cut}); }) == refused);
  CHECK(code([&] { db.option(cut); }) == refused && code([&] { db.property(cut); }) == refused);
  CHECK(db.keyspaces() == "[\"default\",\"users\"]");

  std::string same(1000, 'k'), value(5000, 'v');
  db.put(same, value);
  CHECK(db.get_into(same, same) && same == value);
}

// A database that cannot be closed in its own callback can be closed afterwards.
static void closing() {
  loam::DB *open_one = nullptr;
  loam_status refused = LOAM_OK;
  loam::Options options;
  options.merge_operator("last", [&](Bytes, auto, const std::vector<Bytes> &operands) {
    if (refused == LOAM_OK) refused = code([&] { open_one->close(); });
    return std::string(operands.back());
  });
  loam::DB db("closing", options);
  open_one = &db;
  db.merge("a", "1");
  CHECK(*db.get("a") == "1" && refused == LOAM_ERR_IN_USE);
  db.close();
  loam::DB("closing", options);
}

int main() {
  CHECK(loam::Options::describe().find("write_buffer_size") != ~0ul);
  loam::Status status;
  loam::Options bad({{"write_buffer_size", "much"}}, &status);
  CHECK(status.code() == LOAM_ERR_INVALID_ARGUMENT);
  reads_and_writes();
  iterators();
  batches_and_keyspaces();
  transactions();
  callbacks();
  copies();
  threads();
  misuse();
  closing();
  std::puts("PASS");
}
