package io.loamdb;

import static io.loamdb.LoamTest.b;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Method;
import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.file.FileSystem;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.AbstractList;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

/** Wrong use gives exceptions. */
class MisuseTest {
  @TempDir Path directory;

  private Path path() {
    return directory.resolve("db");
  }

  @Test
  void closedObjects() {
    Loam db = Loam.open(path());
    db.put(b("a"), b("1"));
    Snapshot snapshot = db.snapshot();
    Snapshot closedSnapshot = db.snapshot();
    closedSnapshot.close();
    assertThrows(LoamException.Closed.class,
        () -> db.get(b("a"), new ReadOptions().snapshot(closedSnapshot)));
    LoamIterator iterator = db.iterator();
    LoamIterator closedIterator = db.iterator();
    closedIterator.seekToFirst();
    closedIterator.close();
    assertFalse(closedIterator.isValid());
    assertThrows(NoSuchElementException.class, closedIterator::key);
    assertThrows(LoamException.Closed.class, closedIterator::next);
    assertThrows(LoamException.Closed.class, closedIterator::seekToFirst);
    Transaction txn = db.begin();
    Keyspace space = db.keyspace("space");
    Changes changes = db.changes(0, false);
    BulkLoad load = db.bulkLoad(0);
    db.close();
    db.close();
    List<Executable> calls = List.of(
        () -> db.get(b("a")), () -> db.put(b("a"), b("1")), () -> db.multiGet(List.of(b("a"))),
        () -> db.write(new WriteBatch().put(b("a"), b("1"))), db::snapshot, db::iterator,
        db::flush, db::compactRange, db::metrics, db::keyspaces, db::verify, db::begin,
        () -> db.changes(0, false), () -> db.checkpoint(directory.resolve("copy")),
        () -> db.property("leveldb.stats"), () -> db.keyspace("x"), () -> db.bulkLoad(0),
        () -> db.ttl(b("a")), () -> db.option("compression"), iterator::seekToFirst,
        () -> txn.get(b("a")), () -> txn.put(b("a"), b("1")),
        () -> space.get(b("a")), () -> space.put(b("a"), b("1")),
        () -> new WriteBatch().in(space), () -> changes.next(Duration.ZERO),
        () -> load.put(b("a"), new byte[100_000]));
    for (int i = 0; i < calls.size(); i++) {
      assertThrows(LoamException.Closed.class, calls.get(i), "call " + i);
    }
    for (AutoCloseable child : List.of(snapshot, iterator, txn, space, changes, load)) {
      assertDoesNotThrow(child::close);
      assertDoesNotThrow(child::close);
    }
  }

  @Test
  void nulls() {
    try (Loam db = Loam.open(path()); Transaction txn = db.begin();
        LoamIterator it = db.iterator()) {
      WriteBatch batch = new WriteBatch();
      List<Executable> calls = List.of(
          () -> db.get((byte[]) null), () -> db.put(null, b("")), () -> db.put(b(""), null),
          () -> db.delete(null), () -> db.has(null), () -> db.multiGet(null),
          () -> db.multiGet(Arrays.asList(b("a"), null)), () -> db.write(null),
          () -> db.get(b("a"), null), () -> db.put(b("a"), b("a"), null), () -> it.seek(null),
          () -> it.seekBefore(null), () -> txn.get(null), () -> txn.put(b("a"), null),
          () -> txn.in(null), () -> batch.put(null, b("")), () -> batch.put(b(""), null),
          () -> batch.merge(b(""), null), () -> db.ingest(null, Keyspace.Ingest.COPY),
          () -> db.keyspace(null), () -> db.dropKeyspace(null), () -> db.property(null),
          () -> db.dump(null), () -> db.load(null, false), () -> Loam.open(null),
          () -> db.checkpoint(null), () -> db.deleteRange(b("a"), null), () -> db.iterator(null));
      for (int i = 0; i < calls.size(); i++) {
        assertThrows(NullPointerException.class, calls.get(i), "call " + i);
      }
      assertEquals(0, batch.count());
    }
  }

  @Test
  void badArguments() {
    try (Loam db = Loam.open(path()); Loam other = Loam.open(directory.resolve("other"))) {
      List<Executable> calls = List.of(
          () -> db.setOption("nothing", 1), () -> db.setOption("compression", "lzw"),
          () -> db.setOption("a\0b", 1), () -> db.deleteRange(b("b"), b("a")),
          () -> db.put(b("a"), b("1"), 0, WriteOptions.DEFAULT), db::catchUp,
          () -> Loam.open(directory.resolve("x"), new Options().set("write_buffer_size", -1)),
          () -> db.iterator(new ReadOptions().memoryOnly(true)));
      for (int i = 0; i < calls.size(); i++) {
        assertThrows(LoamException.InvalidArgument.class, calls.get(i), "call " + i);
      }
      try (Snapshot foreign = other.snapshot()) {
        assertThrows(LoamException.class,
            () -> db.get(b("a"), new ReadOptions().snapshot(foreign)));
      }
      try (Transaction txn = db.begin()) {
        assertThrows(LoamException.class, () -> txn.in(other).get(b("a")));
      }
      assertThrows(LoamException.NoMergeOperator.class, () -> db.merge(b("a"), b("1")));
    }
  }

  @Test
  void batchesKnowTheirDatabase() {
    try (Loam db = Loam.open(path()); Loam other = Loam.open(directory.resolve("other"));
        Keyspace here = db.keyspace("here"); Keyspace there = other.keyspace("there")) {
      WriteBatch batch = new WriteBatch().in(there).put(b("a"), b("1"));
      assertThrows(LoamException.InvalidArgument.class, () -> db.write(batch));
      assertThrows(LoamException.InvalidArgument.class, () -> here.write(batch));
      assertThrows(LoamException.InvalidArgument.class, () -> batch.in(here));
      batch.in(null).put(b("b"), b("2"));
      there.write(batch);
      assertEquals(null, here.get(b("a")));
      assertArrayEquals(b("1"), there.get(b("a")));
      assertArrayEquals(b("2"), there.get(b("b")));
      batch.clear();
      here.write(batch.in(here).put(b("a"), b("3")));
      assertArrayEquals(b("3"), here.get(b("a")));
    }
  }

  @Test
  void namesStayDifferent() throws Exception {
    Path raw = Path.of(URI.create(directory.toUri() + "caf%E9")); // no text in UTF-8
    try (Loam db = Loam.open(path()); Loam inRaw = Loam.open(raw)) {
      assertTrue(Files.exists(raw.resolve("CURRENT")));
      inRaw.checkpoint(Path.of(URI.create(directory.toUri() + "%E9")));
      assertThrows(LoamException.InvalidArgument.class, () -> db.keyspace("half \ud800"));
      try (FileSystem zip = FileSystems.newFileSystem(directory.resolve("a.zip"),
          Map.of("create", "true"))) {
        Path inside = zip.getPath(directory.resolve("inside").toString());
        assertThrows(LoamException.InvalidArgument.class, () -> Loam.open(inside));
        assertThrows(LoamException.InvalidArgument.class, () -> db.checkpoint(inside));
      }
      assertEquals(List.of("default"), db.keyspaces());
    }
    try (var names = Files.list(directory)) {
      assertEquals(4, names.count());
    }
  }

  @Test
  void timesLongerThanALongHas() throws Exception {
    TransactionOptions options =
        new TransactionOptions(false, true, false, Loam.FOREVER, null);
    try (Loam db = Loam.open(path()); Changes changes = db.changes(1, false);
        Transaction txn = db.begin(options)) {
      txn.put(b("a"), b("1"));
      txn.commit();
      assertEquals(1, changes.next(Loam.FOREVER).sequence());
    }
  }

  /** A buffer of an arena that was closed, in JDK 22 and newer. */
  @Test
  void buffersWithoutMemory() throws Exception {
    if (Runtime.version().feature() < 22) {
      return;
    }
    Class<?> arenas = Class.forName("java.lang.foreign.Arena");
    AutoCloseable arena = (AutoCloseable) arenas.getMethod("ofConfined").invoke(null);
    Object segment = arenas.getMethod("allocate", long.class).invoke(arena, 1L << 20);
    ByteBuffer gone = (ByteBuffer) Class.forName("java.lang.foreign.MemorySegment")
        .getMethod("asByteBuffer").invoke(segment);
    ByteBuffer key = ByteBuffer.allocateDirect(1);
    try (Loam db = Loam.open(path())) {
      db.put(key, gone, WriteOptions.DEFAULT);
      arena.close();
      ReadOptions options = new ReadOptions();
      assertThrows(IllegalStateException.class, () -> db.get(key, gone, options));
      assertThrows(IllegalStateException.class, () -> db.get(gone, key, options));
      assertThrows(IllegalStateException.class, () -> db.put(key, gone, WriteOptions.DEFAULT));
      assertEquals(1 << 20, db.get(new byte[1]).length);
    }
  }

  /** Virtual threads, of JDK 21 and newer, that wait leave others a thread to run on. */
  @Test
  @Timeout(60)
  void virtualThreadsThatWait() throws Exception {
    if (Runtime.version().feature() < 21) {
      return;
    }
    Method start = Thread.class.getMethod("startVirtualThread", Runnable.class);
    int waiting = 2 * Runtime.getRuntime().availableProcessors() + 2;
    CountDownLatch begun = new CountDownLatch(waiting);
    CountDownLatch got = new CountDownLatch(waiting);
    try (Loam db = Loam.open(path())) {
      for (int i = 0; i < waiting; i++) {
        start.invoke(null, (Runnable) () -> {
          try (Changes changes = db.changes(1, false)) {
            begun.countDown();
            changes.next(Duration.ofSeconds(-1));
            got.countDown();
          } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
          }
        });
      }
      begun.await();
      Thread writer = (Thread) start.invoke(null, (Runnable) () -> {
        db.put(b("a"), b("1"));
        db.compactRange();
      });
      got.await();
      writer.join();
    }
  }

  @Test
  void keptObjectsOutliveTheirGarbage() {
    try (Loam db = Loam.open(path())) {
      db.put(b("a"), b("1"));
      for (int i = 0; i < 3000; i++) {
        new LoamIterator(db, null, ReadOptions.DEFAULT).seekToFirst();
        db.snapshot();
        db.begin().put(b("t"), b("" + i));
        if (i % 1000 == 0) {
          System.gc();
        }
      }
      assertTrue(db.has(b("a")));
    }
  }

  @Test
  void oneIteratorInManyThreads() throws InterruptedException {
    try (Loam db = Loam.open(path())) {
      WriteBatch batch = new WriteBatch();
      for (int i = 0; i < 2000; i++) {
        batch.put(b("key" + i), b("value" + i));
      }
      db.write(batch);
      LoamIterator it = db.iterator();
      AtomicReference<Throwable> unexpected = new AtomicReference<>();
      List<Thread> threads = new ArrayList<>();
      for (int n = 0; n < 4; n++) {
        threads.add(new Thread(() -> {
          for (int i = 0; i < 3000; i++) {
            try {
              if (!it.next()) {
                it.seekToFirst();
              }
              it.key();
            } catch (LoamException | IndexOutOfBoundsException | IllegalArgumentException
                | NegativeArraySizeException | NoSuchElementException e) {
              continue; // what a race may give
            } catch (Throwable e) {
              unexpected.set(e);
            }
          }
        }));
      }
      threads.forEach(Thread::start);
      for (Thread thread : threads) {
        thread.join();
      }
      assertEquals(null, unexpected.get());
    }
  }

  /** A call copies entries out of memory that the next call, or close, gives up. */
  @Test
  void callsOnAnIteratorWaitForEachOther() throws InterruptedException {
    try (Loam db = Loam.open(path())) {
      LoamIterator it = db.iterator();
      for (Runnable call : List.<Runnable>of(it::next, it::seekToFirst, it::close)) {
        Thread other = new Thread(call);
        synchronized (it) { // as the call of this thread would
          other.start();
          while (other.getState() != Thread.State.BLOCKED) {
            assertTrue(other.isAlive(), "it waited for nothing");
            Thread.onSpinWait();
          }
        }
        other.join();
      }
    }
  }

  @Test
  void closeBesideCalls() throws InterruptedException {
    for (int round = 0; round < 5; round++) {
      Loam db = Loam.open(path());
      CountDownLatch started = new CountDownLatch(3);
      AtomicReference<Throwable> unexpected = new AtomicReference<>();
      List<Thread> threads = new ArrayList<>();
      for (int n = 0; n < 3; n++) {
        byte[] key = b("key" + n);
        threads.add(new Thread(() -> {
          try {
            for (int i = 0; ; i++) {
              db.put(key, b("" + i));
              try (LoamIterator it = db.iterator()) {
                it.seekToFirst();
              }
              if (i == 20) {
                started.countDown();
              }
            }
          } catch (LoamException.Closed e) {
            return;
          } catch (Throwable e) {
            unexpected.set(e);
          }
        }));
      }
      threads.forEach(Thread::start);
      started.await();
      db.close();
      for (Thread thread : threads) {
        thread.join();
      }
      assertEquals(null, unexpected.get());
    }
  }

  @Test
  void callbacksMayNotWrite() {
    AtomicReference<Loam> opened = new AtomicReference<>();
    AtomicReference<LoamException> refused = new AtomicReference<>();
    CompactionFilter filter = (level, key, value) -> {
      try {
        opened.get().put(b("x"), b("1"));
      } catch (LoamException e) {
        refused.set(e);
      }
      try {
        opened.get().close();
      } catch (LoamException e) {
        refused.get().addSuppressed(e);
      }
      return value;
    };
    Options options = new Options().compactionFilter(filter);
    try (Loam db = Loam.open(path(), options)) {
      opened.set(db);
      db.put(b("a"), b("1"));
      db.compactRange();
      assertEquals(LoamException.InUse.class, refused.get().getClass());
      assertEquals(1, refused.get().getSuppressed().length);
      assertArrayEquals(b("1"), db.get(b("a"))); // close was refused too
    }
    Loam.open(path()).close(); // the second close released the lock
  }

  /** A comparator that runs what is chosen, once, on one thread. */
  private record Hooked(AtomicReference<Runnable> chosen, Thread on) implements KeyComparator {
    @Override
    public String name() {
      return "hooked";
    }

    @Override
    public int compare(byte[] a, byte[] b) {
      Runnable run = Thread.currentThread() == on ? chosen.getAndSet(null) : null;
      if (run != null) {
        run.run();
      }
      return Arrays.compareUnsigned(a, b);
    }
  }

  @Test
  void refusedCallsChangeNothing() {
    AtomicReference<Runnable> chosen = new AtomicReference<>();
    Options options = new Options().comparator(new Hooked(chosen, Thread.currentThread()));
    try (Loam db = Loam.open(path(), options); BulkLoad load = db.bulkLoad(0)) {
      db.put(b("a"), b("1"));
      db.flush();
      db.put(b("b"), b("2"));
      LoamIterator it = db.iterator();
      load.put(b("x"), b("3"));
      chosen.set(() -> {
        assertThrows(LoamException.InUse.class, it::prev);
        assertThrows(LoamException.InUse.class, it::close);
        assertThrows(LoamException.InUse.class, () -> load.put(b("y"), new byte[100_000]));
      });
      assertTrue(it.next());
      assertEquals(null, chosen.get());
      assertArrayEquals(b("a"), it.key());
      assertFalse(it.prev());
      assertTrue(it.seek(b("b")));
      it.close();
      assertThrows(LoamException.Closed.class, it::seekToFirst);
      load.finish();
      assertArrayEquals(b("3"), db.get(b("x")));
      assertFalse(db.has(b("y")));
    }
  }

  @Test
  void putsAfterTheEndOfALoad() {
    try (Loam db = Loam.open(path()); BulkLoad load = db.bulkLoad(0)) {
      load.put(b("a"), b("1"));
      load.finish();
      assertThrows(LoamException.class, () -> load.put(b("b"), b("2")));
      BulkLoad closed = db.bulkLoad(0);
      closed.close();
      assertThrows(LoamException.Closed.class, () -> closed.put(b("b"), b("2")));
      try (Backups backups = Backups.open(directory.resolve("backups"))) {
        for (Executable negative : List.<Executable>of(() -> db.bulkLoad(-1), () -> new Cache(-1),
            () -> new Resources(-2, 0, 0, 0), () -> new Resources(0, -1, 0, 0),
            () -> new Resources(0, 0, -1, 0), () -> new Resources(0, 0, 0, -1),
            () -> backups.keep(-1), () -> backups.create(db, -1))) {
          assertThrows(LoamException.InvalidArgument.class, negative);
        }
      }
    }
  }

  @Test
  void feedsThatWereClosed() throws InterruptedException {
    try (Loam db = Loam.open(path())) {
      db.put(b("a"), b("1"));
      db.put(b("b"), b("2"));
      db.put(b("c"), b("3"));
      Changes changes = db.changes(0, false);
      changes.next(Duration.ZERO); // the others are fetched with it
      changes.close();
      assertThrows(LoamException.Closed.class, () -> changes.next(Duration.ZERO));
      assertThrows(LoamException.Closed.class, changes::position);
    }
  }

  /** A list that says that it has more than it hands out, as one that grows meanwhile does. */
  @Test
  void listsThatChange() {
    List<byte[]> growing = new AbstractList<>() {
      @Override
      public byte[] get(int at) {
        return b("a");
      }

      @Override
      public Iterator<byte[]> iterator() {
        return List.of(b("a")).iterator();
      }

      @Override
      public Object[] toArray() {
        return new Object[] {b("a")};
      }

      @Override
      public <T> T[] toArray(T[] of) {
        return List.of(b("a")).toArray(of);
      }

      @Override
      public int size() {
        return 1 << 20;
      }
    };
    try (Loam db = Loam.open(path()); Transaction txn = db.begin()) {
      db.put(b("a"), b("1"));
      assertEquals(1, db.multiGet(growing).size());
      assertEquals(1, txn.multiGet(growing).size());
    }
  }

  @Test
  void interruptsCancelLongWork() {
    try (Loam db = Loam.open(path())) {
      for (int i = 0; i < 100; i++) {
        db.put(b("key" + i), new byte[1000]);
      }
      Thread.currentThread().interrupt();
      db.put(b("a"), b("1")); // not disturbed
      try {
        db.compactRange();
      } catch (LoamException.Cancelled e) {
        assertTrue(Thread.currentThread().isInterrupted());
      }
      assertTrue(Thread.interrupted());
      Changes changes = db.changes(0, false);
      AtomicReference<Throwable> thrown = new AtomicReference<>();
      Thread waiting = new Thread(() -> {
        try {
          while (changes.next(Duration.ofSeconds(-1)) != null) { }
        } catch (InterruptedException | LoamException e) {
          thrown.set(e);
        }
      });
      waiting.start();
      waiting.interrupt();
      assertDoesNotThrow(() -> waiting.join());
      assertEquals(InterruptedException.class, thrown.get().getClass());
      changes.close();
    }
  }
}
