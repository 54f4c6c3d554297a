package io.loamdb;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What the API does when it is used as it should be; the scripts of ConformanceTest hold more. */
class LoamTest {
  @TempDir Path directory;

  static byte[] b(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  static String s(byte[] bytes) {
    return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
  }

  private Path path() {
    return directory.resolve("db");
  }

  private static void fill(Keyspace db, int n) {
    WriteBatch batch = new WriteBatch();
    for (int i = 0; i < n; i++) {
      batch.put(b(String.format("key%06d", i)), b("value" + i));
    }
    db.write(batch);
  }

  @Test
  void licencesAreInTheJar() throws IOException {
    for (String name : new String[] {"LICENSE", "THIRD-PARTY.txt"}) {
      try (InputStream text = Loam.class.getResourceAsStream("/META-INF/" + name)) {
        Path original = Path.of(System.getProperty("loam.root"), name);
        assertArrayEquals(Files.readAllBytes(original), text.readAllBytes());
      }
    }
  }

  @Test
  void valuesOfAllSizes() {
    try (Loam db = Loam.open(path())) {
      for (int size : new int[] {0, 1, 511, 512, 513, 4095, 4096, 4097, 100_000, 3_000_000}) {
        byte[] value = new byte[size];
        for (int i = 0; i < size; i++) {
          value[i] = (byte) (i * 31);
        }
        byte[] key = b("k" + size);
        db.put(key, value);
        assertArrayEquals(value, db.get(key));
        try (LoamIterator it = db.iterator()) {
          assertTrue(it.seek(key));
          assertArrayEquals(value, it.value());
        }
      }
      byte[] longKey = new byte[70_000];
      db.put(longKey, b("v"), WriteOptions.SYNC);
      assertEquals("v", s(db.get(longKey)));
      assertArrayEquals(new byte[0], db.get(b("k0")));
      assertNull(db.get(b("missing")));
    }
  }

  @Test
  void buffers() {
    try (Loam db = Loam.open(path())) {
      for (boolean direct : new boolean[] {false, true}) {
        ByteBuffer key = buffer("xkey" + direct, direct).position(1);
        ByteBuffer value = buffer("xxvalue", direct).position(2);
        db.put(key, value, WriteOptions.DEFAULT);
        assertEquals("value", s(db.get(b("key" + direct))));
        ByteBuffer found = buffer("..........", direct).position(3);
        assertEquals(5, db.get(key, found, new ReadOptions()));
        assertEquals("value", StandardCharsets.UTF_8.decode(found).toString());
        ByteBuffer small = buffer("..", direct);
        assertEquals(5, db.get(key, small, new ReadOptions()));
        assertEquals(2, small.remaining());
        assertEquals(-1, db.get(buffer("none", direct), small, new ReadOptions()));
      }
    }
  }

  private static ByteBuffer buffer(String text, boolean direct) {
    byte[] bytes = b(text);
    ByteBuffer buffer =
        direct ? ByteBuffer.allocateDirect(bytes.length) : ByteBuffer.allocate(bytes.length);
    return buffer.put(bytes).flip();
  }

  @Test
  void iteratorsTurnAnywhere() {
    try (Loam db = Loam.open(path())) {
      fill(db, 3000);
      try (LoamIterator it = db.iterator()) {
        assertFalse(it.isValid());
        assertTrue(it.next());
        assertEquals("key000000", s(it.key()));
        for (int i = 1; i < 1000; i++) {
          assertTrue(it.next());
        }
        assertEquals("key000999", s(it.key()));
        for (int i = 998; i >= 500; i--) {
          assertTrue(it.prev());
          assertEquals(String.format("key%06d", i), s(it.key()));
        }
        for (int i = 501; i < 3000; i++) {
          assertTrue(it.next());
          assertEquals("value" + i, s(it.value()));
        }
        assertFalse(it.next());
        assertFalse(it.isValid());
        assertTrue(it.prev());
        assertEquals("key002999", s(it.key()));
        assertTrue(it.seekToFirst());
        assertFalse(it.prev());
        assertTrue(it.next());
        assertEquals("key000000", s(it.key()));
        assertTrue(it.seek(b("key001500x")));
        assertEquals("key001501", StandardCharsets.UTF_8.decode(it.keyView()).toString());
        assertTrue(it.seekBefore(b("key001500")));
        assertEquals("value1499", StandardCharsets.UTF_8.decode(it.valueView()).toString());
        assertTrue(it.seekToLast());
        assertFalse(it.next());
      }
      try (var entries = db.stream(new ReadOptions().prefix(b("key0001")).keysOnly(true))) {
        assertEquals(100, entries.filter(e -> e.value().length == 0).count());
      }
    }
  }

  @Test
  void batchesAndKeyspaces() {
    try (Loam db = Loam.open(path()); Keyspace users = db.keyspace("us\"er\\s")) {
      WriteBatch batch = new WriteBatch().put(b("a"), b("1")).in(users).put(b("a"), b("2"))
          .delete(b("b")).put(b("t"), b("later"), 1L << 33).in(null).deleteRange(b("x"), b("z"));
      assertEquals(5, batch.count());
      assertEquals(
          List.of(Operation.Kind.PUT, Operation.Kind.PUT, Operation.Kind.DELETE, Operation.Kind.PUT,
              Operation.Kind.DELETE_RANGE),
          batch.operations().stream().map(Operation::kind).collect(Collectors.toList()));
      assertEquals(1L << 33, batch.operations().get(3).expires());
      assertEquals("later", s(batch.operations().get(3).value()));
      long first = db.write(batch);
      assertTrue(db.write(batch) > first);
      assertEquals("1", s(db.get(b("a"))));
      assertEquals("2", s(users.get(b("a"))));
      assertEquals(List.of("default", "us\"er\\s"), db.keyspaces());
      batch.clear();
      assertEquals(0, batch.count());
      assertEquals(0, db.write(batch, WriteOptions.SYNC));
    }
  }

  @Test
  void snapshotsStay() {
    try (Loam db = Loam.open(path())) {
      db.put(b("a"), b("old"));
      try (Snapshot before = db.snapshot()) {
        db.put(b("a"), b("new"));
        db.put(b("b"), b("new"));
        ReadOptions at = new ReadOptions().snapshot(before);
        assertEquals("old", s(db.get(b("a"), at)));
        assertFalse(db.has(b("b"), at));
        assertEquals("old", s(db.multiGet(List.of(b("a"), b("b")), at).get(0)));
        try (var entries = db.stream(at)) {
          assertEquals(1, entries.count());
        }
      }
      assertEquals("new", s(db.get(b("a"))));
    }
  }

  @Test
  void transactionsConflict() {
    try (Loam db = Loam.open(path())) {
      Transaction one = db.begin();
      one.put(b("k"), b("one"));
      db.put(b("k"), b("two"));
      LoamException e = assertThrows(LoamException.Conflict.class, one::commit);
      assertTrue(e.getMessage().contains("k"), e.getMessage());
      assertThrows(LoamException.TransactionDone.class, one::commit);
      one.close();
      assertEquals("done", db.transact(TransactionOptions.LOCK, txn -> {
        txn.getForUpdate(b("k"));
        txn.put(b("k"), b("three"));
        return "done";
      }));
      assertEquals("three", s(db.get(b("k"))));
    }
  }

  @Test
  void mergesInJava() {
    MergeOperator join = new MergeOperator() {
      @Override
      public String name() {
        return "join";
      }

      @Override
      public byte[] merge(byte[] key, byte[] existing, List<byte[]> operands) {
        StringBuilder text = new StringBuilder(existing == null ? "" : s(existing));
        for (byte[] operand : operands) {
          if (s(operand).equals("bad")) {
            throw new IllegalStateException("no such operand");
          }
          text.append(text.length() == 0 ? "" : ",").append(s(operand));
        }
        return b(text.toString());
      }

      @Override
      public byte[] mergePartial(byte[] key, byte[] left, byte[] right) {
        return s(left).equals("bad") || s(right).equals("bad") ? null : b(s(left) + "," + s(right));
      }
    };
    try (Loam db = Loam.open(path(), new Options().mergeOperator(join))) {
      for (int i = 0; i < 40; i++) {
        db.merge(b("k"), b("" + i));
      }
      assertTrue(s(db.get(b("k"))).startsWith("0,1,2,3"));
      db.flush();
      db.compactRange();
      assertTrue(s(db.get(b("k"))).endsWith("38,39"));
      db.merge(b("wrong"), b("bad"));
      LoamException e =
          assertThrows(LoamException.MergeFailed.class, () -> db.get(b("wrong")));
      assertEquals(IllegalStateException.class, e.getCause().getClass());
    }
  }

  /** Throwables that cannot tell what they are, or have texts that the library does not take. */
  @Test
  void callbacksThrowStrangely() {
    RuntimeException mute = new RuntimeException() {
      private static final long serialVersionUID = 1;

      @Override
      public String getMessage() {
        throw new UnsupportedOperationException();
      }
    };
    MergeOperator operator = new MergeOperator() {
      @Override
      public String name() {
        return "strange";
      }

      @Override
      public byte[] merge(byte[] key, byte[] existing, List<byte[]> operands) {
        throw s(key).equals("mute") ? mute : new IllegalStateException("zero \0 half \ud800");
      }
    };
    try (Loam db = Loam.open(path(), new Options().mergeOperator(operator))) {
      for (String key : List.of("mute", "text", "mute", "text")) {
        db.merge(b(key), b("1"));
        LoamException e = assertThrows(LoamException.MergeFailed.class, () -> db.get(b(key)));
        if (key.equals("text")) {
          assertEquals(IllegalStateException.class, e.getCause().getClass());
          assertTrue(e.getMessage().contains("zero ? half ?"), e.getMessage());
        } else {
          assertEquals(mute, e.getCause());
          assertTrue(e.getMessage().contains(mute.getClass().getName()), e.getMessage());
        }
      }
    }
  }

  /** The order of the length, then of the bytes. */
  private static KeyComparator byLength(RuntimeException failure) {
    return new KeyComparator() {
      @Override
      public String name() {
        return "by-length";
      }

      @Override
      public int compare(byte[] x, byte[] y) {
        if (failure != null && (s(x).equals("fail") || s(y).equals("fail"))) {
          throw failure;
        }
        int order = Integer.compare(x.length, y.length);
        return order != 0 ? order : java.util.Arrays.compareUnsigned(x, y);
      }
    };
  }

  @Test
  void comparatorsInJava() {
    RuntimeException failure = new IllegalStateException("this key is not for me");
    Options options = new Options().comparator(byLength(failure));
    try (Loam db = Loam.open(path(), options)) {
      for (String key : List.of("ccc", "b", "aaa", "dd")) {
        db.put(b(key), b(""));
      }
      db.compactRange();
      try (var entries = db.stream(new ReadOptions())) {
        assertEquals(List.of("b", "dd", "aaa", "ccc"),
            entries.map(e -> s(e.key())).collect(Collectors.toList()));
      }
      db.put(b("e"), b(""));
      db.put(b("fail"), b("")); // a reader orders what was written
      LoamException e =
          assertThrows(LoamException.CallbackFailed.class, () -> db.iterator().seekToFirst());
      assertEquals(failure, e.getCause());
    }
    assertThrows(LoamException.ComparatorMismatch.class, () -> Loam.open(path()));
  }

  @Test
  void filtersInJava() {
    CompactionFilter filter = (level, key, value) -> s(key).startsWith("tmp") ? null
        : s(key).equals("upper") ? b(s(value).toUpperCase()) : value;
    try (Loam db = Loam.open(path(), new Options().compactionFilter(filter))) {
      db.put(b("tmp1"), b("x"));
      db.put(b("upper"), b("text"));
      db.put(b("zero"), b("0"));
      db.compactRange();
      assertNull(db.get(b("tmp1")));
      assertEquals("TEXT", s(db.get(b("upper"))));
      assertEquals("0", s(db.get(b("zero"))));
    }
  }

  @Test
  void loggersInJava() throws IOException {
    try (Loam db = Loam.open(path(), new Options().format("leveldb"))) {
      db.put(b("a"), b("1"));
      db.flush();
    }
    try (var files = Files.list(path())) {
      Path log = files.filter(f -> f.toString().endsWith(".log")).max(Path::compareTo).get();
      Files.writeString(log, "damaged".repeat(100)); // something to say at the next open
    }
    List<String> messages = Collections.synchronizedList(new ArrayList<>());
    Logger failing = (level, text) -> {
      messages.add(level + " " + text);
      throw new IllegalStateException("full");
    };
    try (Loam db = Loam.open(path(), new Options().logger(failing))) {
      // The logger is called in the background.
      while (!db.metrics().contains("IllegalStateException: full")) {
        Thread.onSpinWait();
      }
    }
    assertEquals(1, messages.size());
  }

  @Test
  void sharedResources() {
    try (Resources resources = new Resources(32 << 20, 2, 0, 0)) {
      try (Loam one = Loam.open(directory.resolve("1"), new Options().cache(resources));
          Loam two = Loam.open(directory.resolve("2"), new Options().cache(resources))) {
        one.put(b("a"), b("1"));
        two.put(b("a"), b("2"));
        resources.set("background_jobs", 1);
        assertTrue(resources.metrics().startsWith("{"));
        assertThrows(LoamException.InvalidArgument.class, () -> resources.set("nothing", 1));
      }
    }
    try (Resources resources = new Resources(Resources.AUTO_MEMORY, 0, 0, 0)) {
      resources.set("memory", "8MiB");
      assertTrue(resources.metrics().contains("\"memory\":8388608"), resources.metrics());
      resources.set("memory", "auto");
      assertFalse(resources.metrics().contains("\"memory\":8388608"), resources.metrics());
    }
    try (Cache cache = new Cache(1 << 20);
        Loam db = Loam.open(directory.resolve("3"), new Options().cache(cache))) {
      db.put(b("a"), b("1"));
    }
  }

  @Test
  void information() {
    try (Loam db = Loam.open(path())) {
      fill(db, 1000);
      db.flush();
      assertTrue(db.property("leveldb.stats").contains("Compactions"));
      assertNull(db.property("leveldb.nothing"));
      assertTrue(db.metrics().startsWith("{"));
      assertTrue(db.recoveryReport().startsWith("{"));
      assertEquals("leveldb.BytewiseComparator", db.comparatorName());
      assertTrue(db.approximateSize(null, null) > 0);
      assertEquals(0, db.approximateSize(b("x"), b("y")));
      db.setOption("compression", "zstd");
      assertEquals("zstd", db.option("compression"));
      db.pauseCompaction();
      db.resumeCompaction();
      db.retry();
    }
    assertTrue(Options.describe().contains("write_buffer_size"));
    assertFalse(Loam.version().isEmpty());
  }

  @Test
  void encryption() throws IOException {
    String old = "00112233445566778899aabbccddeeff".repeat(2);
    String mark = "what nobody may read";
    Path keys = directory.resolve("keys");
    Files.writeString(keys, old);
    Options options = new Options().compression("none").set("encryption", "file:" + keys);
    String first;
    try (Loam db = Loam.open(path(), options)) {
      db.put(b(mark), b(mark));
      db.flush();
      db.put(b("in the log"), b(mark));
      first = db.keysInUse();
    }
    try (var files = Files.walk(path())) {
      for (Path file : files.filter(Files::isRegularFile).collect(Collectors.toList())) {
        String bytes = Files.readString(file, StandardCharsets.ISO_8859_1);
        assertFalse(bytes.contains(mark), file.toString());
      }
    }
    String renewed = "ff".repeat(32);
    assertThrows(LoamException.Encryption.class, () -> Loam.open(path()));
    assertThrows(LoamException.Encryption.class,
        () -> Loam.open(path(), new Options().set("encryption", "key:" + renewed)));
    Files.writeString(keys, renewed + "\n" + old + "\n");
    try (Loam db = Loam.open(path(), new Options().set("encryption", "file:" + keys))) {
      db.rekey();
      assertFalse(db.keysInUse().equals(first));
    }
    try (Loam db = Loam.open(path(), new Options().set("encryption", "key:" + renewed))) {
      assertEquals(mark, s(db.get(b("in the log"))));
    }
    Path clear = directory.resolve("clear");
    try (Loam db = Loam.open(clear)) {
      assertThrows(LoamException.InvalidArgument.class, db::rekey);
    }
  }

  @Test
  void directories() throws IOException {
    try (Loam db = Loam.open(path(), new Options().format("leveldb"))) {
      fill(db, 100);
      assertThrows(LoamException.Locked.class, () -> Loam.open(path()));
      assertThrows(LoamException.NeedsNative.class, () -> db.keyspace("more"));
    }
    assertTrue(Loam.repair(path(), new Options()).startsWith("{"));
    Loam.upgrade(path(), new Options());
    Path copy = directory.resolve("copy");
    Loam.export(path(), copy, "leveldb", new Options());
    try (Loam db = Loam.open(copy)) {
      assertEquals("value99", s(db.get(b("key000099"))));
    }
    assertThrows(LoamException.Exists.class,
        () -> Loam.open(copy, new Options().errorIfExists(true)));
    Loam.destroy(copy, new Options());
    assertThrows(LoamException.DoesNotExist.class,
        () -> Loam.open(copy, new Options().createIfMissing(false)));
    Path other = Files.createDirectory(directory.resolve("\u00fcml\u00e4ut"));
    try (Loam db = Loam.open(other)) {
      db.put(b("a"), b("1"));
    }
    try (Loam db = Loam.open(other, new Options().readOnly(true))) {
      assertThrows(LoamException.ReadOnly.class, () -> db.put(b("a"), b("2")));
    }
  }

  @Test
  void streamsThatFail() throws IOException {
    ByteArrayOutputStream good = new ByteArrayOutputStream();
    try (Loam db = Loam.open(path())) {
      fill(db, 100);
      db.dump(good);
      IOException broken = new IOException("broken pipe");
      assertEquals(broken, assertThrows(IOException.class, () -> db.dump(new OutputStream() {
        @Override
        public void write(int octet) throws IOException {
          throw broken;
        }
      })));
      assertEquals(broken, assertThrows(IOException.class, () -> db.load(new InputStream() {
        @Override
        public int read() throws IOException {
          throw broken;
        }
      }, false)));
    }
    byte[] cut = java.util.Arrays.copyOf(good.toByteArray(), good.size() / 2);
    assertThrows(LoamException.Corruption.class,
        () -> Loam.verifyDump(new ByteArrayInputStream(cut)));
  }
}
