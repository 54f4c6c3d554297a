package io.loamdb.iq80;

import static io.loamdb.iq80.LoamDBFactory.asString;
import static io.loamdb.iq80.LoamDBFactory.bytes;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import org.fusesource.leveldbjni.JniDBFactory;
import org.iq80.leveldb.CompressionType;
import org.iq80.leveldb.DB;
import org.iq80.leveldb.DBComparator;
import org.iq80.leveldb.DBException;
import org.iq80.leveldb.DBFactory;
import org.iq80.leveldb.DBIterator;
import org.iq80.leveldb.Options;
import org.iq80.leveldb.Range;
import org.iq80.leveldb.ReadOptions;
import org.iq80.leveldb.Snapshot;
import org.iq80.leveldb.WriteBatch;
import org.iq80.leveldb.WriteOptions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The API of org.iq80.leveldb, and directories that Loam and LevelDB write in turn. */
class Iq80Test {
  @TempDir Path directory;

  private final DBFactory factory = LoamDBFactory.factory;

  private File path() {
    return directory.resolve("db").toFile();
  }

  private DB open() throws IOException {
    return factory.open(path(), new Options());
  }

  @Test
  void putsGetsDeletes() throws IOException {
    try (DB db = open()) {
      assertNull(db.put(bytes("Tampa"), bytes("green"), new WriteOptions().sync(true)));
      db.put(bytes("London"), bytes("red"));
      try (Snapshot after = db.delete(bytes("London"), new WriteOptions().snapshot(true))) {
        db.put(bytes("London"), bytes("blue"));
        ReadOptions at = new ReadOptions().snapshot(after).fillCache(false).verifyChecksums(true);
        assertNull(db.get(bytes("London"), at));
        assertEquals("green", asString(db.get(bytes("Tampa"), at)));
      }
      assertEquals("blue", asString(db.get(bytes("London"))));
      assertNull(db.get(bytes("Paris")));
    }
  }

  @Test
  void batches() throws IOException {
    try (DB db = open(); WriteBatch batch = db.createWriteBatch()) {
      db.put(bytes("a"), bytes("0"));
      batch.delete(bytes("a")).put(bytes("b"), bytes("1")).put(bytes("c"), bytes("2"));
      db.write(batch);
      db.write(batch, new WriteOptions().sync(true));
      List<String> found = new ArrayList<>();
      for (Map.Entry<byte[], byte[]> entry : db) {
        found.add(asString(entry.getKey()) + asString(entry.getValue()));
      }
      assertEquals(List.of("b1", "c2"), found);
    }
  }

  @Test
  void iterators() throws IOException {
    try (DB db = open()) {
      for (String key : List.of("a", "b", "c")) {
        db.put(bytes(key), bytes(key + key));
      }
      try (DBIterator it = db.iterator()) {
        it.seekToFirst();
        assertFalse(it.hasPrev());
        assertThrows(NoSuchElementException.class, it::peekPrev);
        assertEquals("a", asString(it.peekNext().getKey()));
        assertEquals("aa", asString(it.next().getValue()));
        assertTrue(it.hasPrev());
        assertEquals("a", asString(it.peekPrev().getKey()));
        assertEquals("b", asString(it.next().getKey()));
        assertEquals("b", asString(it.prev().getKey()));
        it.seekToLast();
        assertEquals("c", asString(it.next().getKey()));
        assertFalse(it.hasNext());
        assertThrows(NoSuchElementException.class, it::next);
        assertThrows(NoSuchElementException.class, it::prev);
        assertThrows(UnsupportedOperationException.class, it::remove);
        it.seek(bytes("bb"));
        assertEquals("c", asString(it.peekNext().getKey()));
      }
    }
  }

  @Test
  void information() throws IOException {
    try (DB db = open()) {
      for (int i = 0; i < 2000; i++) {
        db.put(bytes("row" + i), new byte[1000]);
      }
      db.compactRange(null, null);
      db.compactRange(bytes("row1"), bytes("row2"));
      db.compactRange(bytes("row2"), bytes("row1")); // nothing, as in leveldbjni
      long[] sizes = db.getApproximateSizes(
          new Range(bytes("row"), bytes("s")), new Range(bytes("x"), bytes("y")));
      assertTrue(sizes[0] > 0);
      assertEquals(0, sizes[1]);
      assertTrue(db.getProperty("leveldb.stats").contains("Compactions"));
      db.suspendCompactions();
      db.resumeCompactions();
      assertNotNull(((LoamDB) db).loam().metrics());
    } catch (InterruptedException e) {
      throw new AssertionError(e);
    }
  }

  @Test
  void comparatorsAndLoggers() throws IOException {
    List<String> messages = Collections.synchronizedList(new ArrayList<>());
    Options options = new Options().logger(messages::add).comparator(new DBComparator() {
      @Override
      public int compare(byte[] a, byte[] b) {
        return asString(b).compareTo(asString(a));
      }

      @Override
      public String name() {
        return "reverse";
      }

      @Override
      public byte[] findShortestSeparator(byte[] start, byte[] limit) {
        return start;
      }

      @Override
      public byte[] findShortSuccessor(byte[] key) {
        return key;
      }
    });
    try (DB db = factory.open(path(), options)) {
      db.put(bytes("a"), bytes("1"));
      db.put(bytes("b"), bytes("2"));
      assertEquals("b", asString(db.iterator().next().getKey()));
    }
    assertFalse(messages.isEmpty());
    assertThrows(IOException.class, this::open);
    factory.repair(path(), options);
    factory.destroy(path(), options);
    factory.destroy(path(), options);
    open().close();
  }

  @Test
  void failures() throws IOException {
    DB db = open();
    assertThrows(IOException.class, this::open);
    assertThrows(IOException.class, () -> factory.open(
        directory.resolve("none").toFile(), new Options().createIfMissing(false)));
    DBIterator it = db.iterator();
    DBIterator fresh = db.iterator();
    db.close();
    assertThrows(DBException.class, fresh::hasNext);
    assertThrows(DBException.class, fresh::hasNext); // not false, as if there was nothing
    fresh.close();
    assertThrows(IllegalStateException.class, () -> factory.open(path(),
        new Options().logger(message -> {
          throw new IllegalStateException(message);
        })));
    open().close();
    assertThrows(IOException.class,
        () -> factory.open(path(), new Options().errorIfExists(true)));
    assertThrows(DBException.class, () -> db.get(bytes("a")));
    assertThrows(DBException.class, db::iterator);
    assertThrows(DBException.class, it::seekToFirst);
    it.close();
  }

  /** leveldbjni's LevelDB is older than the names that tables have since 1.14: it reads logs. */
  @Test
  void levelDbReadsWhatLoamLogged() throws IOException {
    for (int round = 0; round < 4; round++) {
      try (DB db = (round % 2 == 0 ? factory : JniDBFactory.factory).open(path(), new Options())) {
        assertEquals(round, count(db));
        db.put(bytes("key" + round), bytes("value" + round));
      }
    }
  }

  @Test
  void loamGoesOnWithLevelDbsDirectory() throws IOException {
    for (CompressionType compression : CompressionType.values()) {
      Options options = new Options().compressionType(compression);
      for (int round = 0; round < 4; round++) {
        try (DB db = (round < 2 ? JniDBFactory.factory : factory).open(path(), options)) {
          assertEquals(round * 1000, count(db));
          for (int i = 0; i < 1000; i++) {
            db.put(bytes("key" + round + "-" + i), bytes("value" + i));
          }
          db.compactRange(null, null);
        }
      }
      try (DB db = open()) {
        assertEquals("value999", asString(db.get(bytes("key1-999"))));
      }
      factory.destroy(path(), options);
    }
  }

  private static int count(DB db) throws IOException {
    int n = 0;
    try (DBIterator it = db.iterator()) {
      for (it.seekToFirst(); it.hasNext(); it.next()) {
        n++;
      }
    }
    return n;
  }
}
