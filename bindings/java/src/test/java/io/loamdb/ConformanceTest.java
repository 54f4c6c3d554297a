package io.loamdb;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.loamdb.iq80.LoamDB;
import io.loamdb.iq80.LoamDBFactory;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.iq80.leveldb.DB;
import org.iq80.leveldb.DBIterator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The scripts that Go, C, Python and Node run, too: testdata/conformance/README.md. */
class ConformanceTest {
  private static final Path SCRIPTS =
      Path.of(System.getProperty("loam.root"), "testdata", "conformance");

  @TempDir Path directory;

  @Test
  void nativeFormat() throws Exception {
    conform(new Runner(directory, "native"), "script", "expected");
  }

  @Test
  void levelDbFormat() throws Exception {
    conform(new Runner(directory, "leveldb"), "script", "expected");
  }

  @Test
  void iq80() throws Exception {
    conform(new Iq80Runner(directory), "script", "expected");
  }

  @Test
  void transactions() throws Exception {
    conform(new Runner(directory, "native"), "transactions", "transactions.expected");
  }

  @Test
  void transactionsInLevelDbFormat() throws Exception {
    conform(new Runner(directory, "leveldb"), "transactions", "transactions.expected");
  }

  @Test
  void keyspaces() throws Exception {
    conform(new Runner(directory, "native"), "native", "native.expected");
  }

  @Test
  void changes() throws Exception {
    conform(new Runner(directory, "native"), "changes", "changes.expected");
  }

  private static void conform(Runner runner, String script, String expected) throws Exception {
    List<String> printed = new ArrayList<>();
    for (String line : Files.readAllLines(SCRIPTS.resolve(script))) {
      String text = line.replaceFirst("#.*", "").strip();
      if (!text.isEmpty()) {
        printed.add("> " + text);
        printed.addAll(runner.run(new ArrayList<>(Arrays.asList(text.split(" +")))));
      }
    }
    runner.close();
    assertEquals(String.join("\n", Files.readAllLines(SCRIPTS.resolve(expected))),
        String.join("\n", printed));
  }

  static byte[] decode(String word) {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    for (int i = 0; i < word.length() && !word.equals("%"); i++) {
      if (word.charAt(i) == '%') {
        out.write(Integer.parseInt(word.substring(i + 1, i + 3), 16));
        i += 2;
      } else {
        out.write(word.charAt(i));
      }
    }
    return out.toByteArray();
  }

  static String encode(byte[] bytes) {
    StringBuilder out = new StringBuilder();
    for (byte b : bytes) {
      boolean plain = b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9'
          || b == '-' || b == '_' || b == '.';
      out.append(plain ? String.valueOf((char) b) : String.format("%%%02x", b));
    }
    return out.isEmpty() ? "%" : out.toString();
  }

  static String shown(byte[] value) {
    return value == null ? "none" : "= " + encode(value);
  }

  /** Runs operations on the package's own face. */
  static class Runner {
    final Path parent;
    final String format;
    Path path;
    Loam db;
    Keyspace used;
    Changes feed;
    final Map<String, Snapshot> snapshots = new HashMap<>();
    final Map<String, Transaction> transactions = new HashMap<>();
    final Map<String, Long> savepoints = new HashMap<>();

    Runner(Path parent, String format) {
      this.parent = parent;
      this.format = format;
      path = parent.resolve("db");
      open();
    }

    void open() {
      db = Loam.open(path, new Options().format(format));
      used = db;
    }

    void close() {
      db.close();
    }

    void reopen() {
      close();
      open();
    }

    List<String> run(List<String> words) throws Exception {
      String operation = words.remove(0);
      ReadOptions at = new ReadOptions();
      words.removeIf(w -> {
        boolean isSnapshot = w.startsWith("@");
        if (isSnapshot) {
          at.snapshot(snapshots.get(w.substring(1)));
        }
        return isSnapshot;
      });
      List<String> found = run(operation, words, at);
      return found == null ? List.of("ok") : found;
    }

    byte[] key(List<String> words, int i) {
      return decode(words.get(i));
    }

    List<String> run(String operation, List<String> words, ReadOptions at) throws Exception {
      switch (operation) {
        case "put" -> used.put(key(words, 0), key(words, 1));
        case "del" -> used.delete(key(words, 0));
        case "delrange" -> deleteRange(key(words, 0), key(words, 1));
        case "batch" -> batch(words);
        case "merge" -> used.merge(key(words, 0), key(words, 1));
        case "expire" -> used.put(key(words, 0), key(words, 1), Long.parseLong(words.get(2)),
            WriteOptions.DEFAULT);
        case "gone" -> awaitExpiry(key(words, 0));
        case "flush" -> used.flush();
        case "compact" -> used.compactRange();
        case "verify" -> db.verify();
        case "reopen" -> reopen();
        case "release" -> snapshots.remove(words.get(0)).close();
        case "snapshot" -> snapshots.put(words.get(0), db.snapshot());
        case "ingest" -> ingest(words);
        case "bulkload" -> bulkLoad(words);
        case "checkpoint" -> move(words.get(0), to -> db.checkpoint(to));
        case "backup" -> move(words.get(0), this::backup);
        case "dump" -> move(words.get(0), this::dump);
        case "filter" -> filter(words.get(0));
        case "use" -> use(words);
        case "drop" -> db.dropKeyspace(words.get(0));
        case "begin" -> transactions.put(words.get(0), db.begin(new TransactionOptions(
            words.contains("serializable"), words.contains("lock"), false, null, null)));
        case "rollback" -> transactions.remove(words.get(0)).rollback();
        default -> {
          return ask(operation, words, at);
        }
      }
      return null;
    }

    List<String> ask(String operation, List<String> words, ReadOptions at) throws Exception {
      return switch (operation) {
        case "get" -> List.of(shown(used.get(key(words, 0), at)));
        case "has" -> List.of(String.valueOf(used.has(key(words, 0), at)));
        case "multiget" -> used.multiGet(words.stream().map(w -> decode(w)).toList(), at).stream()
            .map(v -> shown(v)).toList();
        case "left" -> List.of(used.ttl(key(words, 0))
            .map(left -> left == Loam.FOREVER ? "never" : "expires").orElse("none"));
        case "cas" -> List.of(String.valueOf(used.compareAndSwap(key(words, 0),
            valueOrNone(words.get(1)), valueOrNone(words.get(2)), WriteOptions.DEFAULT)));
        case "putnew" -> List.of(String.valueOf(used.putIfAbsent(key(words, 0), key(words, 1))));
        case "follow" -> follow(key(words, 0));
        case "option" -> option(words);
        case "tables" -> tables(words);
        case "spaces" -> List.of(String.join(" ", db.keyspaces()));
        case "iter" -> iterate(words, at);
        case "seek" -> first(at, it -> it.seek(key(words, 0)));
        case "seeklt" -> first(at, it -> it.seekBefore(key(words, 0)));
        case "commit" -> commit(words.get(0));
        case "tx" -> inTransaction(words);
        case "listen" -> listen();
        case "changes" -> drain();
        default -> throw new AssertionError(operation);
      };
    }

    interface Copy {
      void to(Path path) throws Exception;
    }

    void move(String name, Copy copy) throws Exception {
      Path to = parent.resolve(name);
      copy.to(to);
      path = to;
      reopen();
    }

    void backup(Path to) {
      try (Backups backups = Backups.open(parent.resolve("backups"))) {
        String made = backups.create(db);
        long id = Long.parseLong(made.replaceFirst("(?s).*\"id\": *(\\d+).*", "$1"));
        backups.verify(id, 0);
        backups.restore(id, to, 0);
      }
    }

    void dump(Path to) throws IOException {
      ByteArrayOutputStream out = new ByteArrayOutputStream();
      db.dump(out);
      Loam.verifyDump(new ByteArrayInputStream(out.toByteArray()));
      try (Loam copy = Loam.open(to, new Options().format(format))) {
        copy.load(new ByteArrayInputStream(out.toByteArray()), false);
      }
    }

    void deleteRange(byte[] start, byte[] limit) throws Exception {
      try {
        used.deleteRange(start, limit);
      } catch (LoamException.NeedsNative e) {
        try (var keys = used.stream(new ReadOptions().lowerBound(start).upperBound(limit))) {
          keys.forEach(entry -> used.delete(entry.key()));
        }
      }
    }

    void batch(List<String> words) throws Exception {
      WriteBatch batch = new WriteBatch();
      for (Iterator<String> rest = words.iterator(); rest.hasNext(); ) {
        String kind = rest.next();
        String first = rest.next();
        switch (kind) {
          case "in" -> batch.in(db.keyspace(first));
          case "put" -> batch.put(decode(first), decode(rest.next()));
          case "merge" -> batch.merge(decode(first), decode(rest.next()));
          case "expire" -> batch.put(decode(first), decode(rest.next()),
              Long.parseLong(rest.next()));
          default -> batch.delete(decode(first));
        }
      }
      used.write(batch);
    }

    void awaitExpiry(byte[] key) {
      while (used.has(key)) {
        Thread.onSpinWait();
      }
    }

    void ingest(List<String> words) {
      Path table = parent.resolve("a-table");
      try (TableWriter writer = new TableWriter(table, new Options().format(format))) {
        for (Iterator<String> rest = words.iterator(); rest.hasNext(); ) {
          String kind = rest.next();
          byte[] key = decode(rest.next());
          switch (kind) {
            case "put" -> writer.put(key, decode(rest.next()));
            case "expire" -> writer.put(key, decode(rest.next()), Long.parseLong(rest.next()));
            case "delrange" -> writer.deleteRange(key, decode(rest.next()));
            default -> writer.delete(key);
          }
        }
        writer.finish();
      }
      used.ingest(List.of(table), Keyspace.Ingest.MOVE);
    }

    void bulkLoad(List<String> words) {
      try (BulkLoad load = used.bulkLoad(0)) {
        for (int i = 0; i < words.size(); i += 2) {
          load.put(key(words, i), key(words, i + 1));
        }
        load.finish();
      }
    }

    void filter(String name) {
      db.close();
      try (Loam filtered = Loam.open(path, new Options().compactionFilter(name))) {
        filtered.compactRange();
      }
      open();
    }

    void use(List<String> words) {
      Options options = new Options();
      if (words.size() > 1) {
        options.mergeOperator(words.get(1));
      }
      used = db.keyspace(words.get(0), options);
    }

    byte[] valueOrNone(String word) {
      return word.equals("-") ? null : decode(word);
    }

    List<String> follow(byte[] key) {
      try (Loam follower = Loam.follow(path, new Options())) {
        follower.catchUp();
        return List.of(shown(follower.get(key)));
      }
    }

    List<String> option(List<String> words) {
      if (words.size() > 1) {
        used.setOption(words.get(0), words.get(1));
      }
      return List.of("= " + used.option(words.get(0)));
    }

    List<String> tables(List<String> words) {
      Options options = new Options();
      for (int i = 1; i < words.size(); i += 2) {
        options.set(words.get(i), words.get(i + 1));
      }
      db.close();
      long found;
      try (Loam opened = Loam.open(path, options)) {
        opened.compactRange();
        try (var entries = opened.stream(new ReadOptions().prefix(key(words, 0)))) {
          found = entries.count();
        }
      }
      open();
      return List.of(String.valueOf(found));
    }

    ReadOptions range(List<String> words, ReadOptions range) {
      for (String word : words) {
        String[] parts = word.split("=", 2);
        switch (parts[0]) {
          case "lower" -> range.lowerBound(decode(parts[1]));
          case "upper" -> range.upperBound(decode(parts[1]));
          case "prefix" -> range.prefix(decode(parts[1]));
          default -> { }
        }
      }
      return range;
    }

    static int limit(List<String> words) {
      return words.stream().filter(w -> w.startsWith("limit="))
          .mapToInt(w -> Integer.parseInt(w.substring(6))).findFirst().orElse(Integer.MAX_VALUE);
    }

    List<String> iterate(List<String> words, ReadOptions at) throws Exception {
      return listed(used.iterator(range(words, at)), words);
    }

    static List<String> listed(LoamIterator iterator, List<String> words) {
      List<String> lines = new ArrayList<>();
      boolean reverse = words.contains("reverse");
      try (LoamIterator it = iterator) {
        for (int left = limit(words); left > 0 && (reverse ? it.prev() : it.next()); left--) {
          lines.add(encode(it.key()) + " " + encode(it.value()));
        }
      }
      lines.add("end");
      return lines;
    }

    interface Move {
      boolean of(LoamIterator it);
    }

    List<String> first(ReadOptions at, Move move) throws Exception {
      try (LoamIterator it = used.iterator(at)) {
        return List.of(
            move.of(it) ? encode(it.key()) + " " + encode(it.value()) : "none");
      }
    }

    List<String> commit(String name) {
      try (Transaction txn = transactions.remove(name)) {
        txn.commit();
        return null;
      } catch (LoamException.Conflict e) {
        return List.of("conflict");
      }
    }

    List<String> inTransaction(List<String> words) {
      Transaction txn = transactions.get(words.remove(0));
      Keyspace keyspace = db;
      if (words.get(0).equals("in")) {
        keyspace = db.keyspace(words.get(1));
        words = words.subList(2, words.size());
      }
      try {
        return inTransaction(txn, txn.in(keyspace), words.get(0), words.subList(1, words.size()));
      } catch (LoamException.Conflict e) {
        return List.of("conflict");
      }
    }

    List<String> inTransaction(Transaction txn, Transaction.View view, String operation,
        List<String> words) {
      switch (operation) {
        case "get" -> {
          return List.of(shown(view.get(key(words, 0))));
        }
        case "update" -> {
          return List.of(shown(view.getForUpdate(key(words, 0))));
        }
        case "iter" -> {
          return listed(view.iterator(range(words, new ReadOptions())), words);
        }
        case "put" -> view.put(key(words, 0), key(words, 1));
        case "del" -> view.delete(key(words, 0));
        case "save" -> savepoints.put(words.get(0), txn.savepoint());
        case "back" -> txn.rollbackTo(savepoints.get(words.get(0)));
        default -> throw new AssertionError(operation);
      }
      return null;
    }

    List<String> listen() throws InterruptedException {
      feed = db.changes(0, false);
      drain();
      return List.of("end");
    }

    List<String> drain() throws InterruptedException {
      List<String> lines = new ArrayList<>();
      for (Change c; (c = feed.next(Duration.ZERO)) != null; ) {
        for (Operation o : c.operations()) {
          lines.add(o.kind().name().toLowerCase(Locale.ROOT) + " "
              + (o.keyspace() == null ? "-" : o.keyspace()) + " " + encode(o.key()) + " "
              + (o.value() == null ? "%" : encode(o.value()))
              + (o.expires() != 0 ? " expires" : ""));
        }
      }
      lines.add("end");
      return lines;
    }
  }

  /** Runs operations on org.iq80.leveldb's API. */
  static final class Iq80Runner extends Runner {
    private DB leveldb;
    private final Map<String, org.iq80.leveldb.Snapshot> states = new HashMap<>();

    Iq80Runner(Path parent) {
      super(parent, "leveldb");
    }

    @Override
    void open() {
      try {
        leveldb = LoamDBFactory.factory.open(path.toFile(), new org.iq80.leveldb.Options());
        db = ((LoamDB) leveldb).loam();
        used = db;
      } catch (IOException e) {
        throw new AssertionError(e);
      }
    }

    @Override
    void close() {
      try {
        leveldb.close();
      } catch (IOException e) {
        throw new AssertionError(e);
      }
    }

    @Override
    List<String> run(List<String> words) throws Exception {
      String operation = words.remove(0);
      org.iq80.leveldb.ReadOptions at = new org.iq80.leveldb.ReadOptions();
      words.removeIf(w -> {
        boolean isSnapshot = w.startsWith("@");
        if (isSnapshot) {
          at.snapshot(states.get(w.substring(1)));
        }
        return isSnapshot;
      });
      List<String> found = run(operation, words, at);
      return found == null ? List.of("ok") : found;
    }

    private List<String> run(String operation, List<String> words,
        org.iq80.leveldb.ReadOptions at) throws Exception {
      switch (operation) {
        case "put" -> leveldb.put(key(words, 0), key(words, 1));
        case "del" -> leveldb.delete(key(words, 0));
        case "delrange" -> deleteRange(key(words, 0), key(words, 1));
        case "batch" -> batch(words);
        case "flush", "compact" -> leveldb.compactRange(null, null);
        case "verify" -> { }
        case "reopen", "checkpoint", "backup", "dump" -> reopen();
        case "release" -> states.remove(words.get(0)).close();
        case "snapshot" -> states.put(words.get(0), leveldb.getSnapshot());
        case "get" -> {
          return List.of(shown(leveldb.get(key(words, 0), at)));
        }
        case "has" -> {
          return List.of(String.valueOf(leveldb.get(key(words, 0), at) != null));
        }
        case "multiget" -> {
          return words.stream().map(w -> shown(leveldb.get(decode(w), at))).toList();
        }
        case "iter" -> {
          return listed(words, at);
        }
        case "seek", "seeklt" -> {
          return found(operation.equals("seek"), key(words, 0), at);
        }
        default -> { // the API has no word for it
          return super.run(operation, words, new ReadOptions());
        }
      }
      return null;
    }

    @Override
    void deleteRange(byte[] start, byte[] limit) throws Exception {
      try (DBIterator it = leveldb.iterator()) {
        for (it.seek(start); it.hasNext(); it.next()) {
          if (Arrays.compareUnsigned(it.peekNext().getKey(), limit) >= 0) {
            return;
          }
          leveldb.delete(it.peekNext().getKey());
        }
      }
    }

    @Override
    void batch(List<String> words) throws Exception {
      try (org.iq80.leveldb.WriteBatch batch = leveldb.createWriteBatch()) {
        for (Iterator<String> rest = words.iterator(); rest.hasNext(); ) {
          if (rest.next().equals("put")) {
            batch.put(decode(rest.next()), decode(rest.next()));
          } else {
            batch.delete(decode(rest.next()));
          }
        }
        leveldb.write(batch);
      }
    }

    private List<String> found(boolean atOrAfter, byte[] key, org.iq80.leveldb.ReadOptions at)
        throws IOException {
      try (DBIterator it = leveldb.iterator(at)) {
        it.seek(key);
        if (atOrAfter) {
          return List.of(it.hasNext() ? shown(it.peekNext()) : "none");
        }
        if (it.hasNext()) {
          return List.of(it.hasPrev() ? shown(it.peekPrev()) : "none");
        }
        it.seekToLast();
        return List.of(it.hasNext() ? shown(it.peekNext()) : "none");
      }
    }

    private static String shown(byte[] value) {
      return ConformanceTest.shown(value);
    }

    private static String shown(Map.Entry<byte[], byte[]> entry) {
      return encode(entry.getKey()) + " " + encode(entry.getValue());
    }

    /** The range of the words; the API has no bounds. */
    private List<String> listed(List<String> words, org.iq80.leveldb.ReadOptions at)
        throws IOException {
      ReadOptions range = range(words, new ReadOptions());
      List<String> lines = new ArrayList<>();
      try (DBIterator it = leveldb.iterator(at)) {
        for (it.seekToFirst(); it.hasNext(); it.next()) {
          byte[] key = it.peekNext().getKey();
          if ((range.lower == null || Arrays.compareUnsigned(key, range.lower) >= 0)
              && (range.upper == null || Arrays.compareUnsigned(key, range.upper) < 0)
              && (range.prefix == null || key.length >= range.prefix.length && Arrays.equals(
                  Arrays.copyOf(key, range.prefix.length), range.prefix))) {
            lines.add(shown(it.peekNext()));
          }
        }
      }
      if (words.contains("reverse")) {
        java.util.Collections.reverse(lines);
      }
      int most = Math.min(limit(words), lines.size());
      List<String> limited = new ArrayList<>(lines.subList(0, most));
      limited.add("end");
      return limited;
    }
  }
}
