package io.loamdb.bench;

import io.loamdb.Loam;
import io.loamdb.LoamIterator;
import io.loamdb.iq80.LoamDBFactory;
import java.io.IOException;
import java.nio.file.Path;
import org.fusesource.leveldbjni.JniDBFactory;
import org.iq80.leveldb.DB;
import org.iq80.leveldb.DBFactory;
import org.iq80.leveldb.DBIterator;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;
import org.rocksdb.WriteOptions;

/** What is measured of every engine; all write without a sync and compress with snappy. */
interface Store extends AutoCloseable {
  byte[] get(byte[] key) throws Exception;

  void put(byte[] key, byte[] value) throws Exception;

  void batch(byte[][] keys, byte[] value) throws Exception;

  /** Reads so many entries from the first one on; returns the bytes of keys and values. */
  long iterate(int entries) throws Exception;

  static Store open(String engine, Path directory) throws Exception {
    return switch (engine) {
      case "loam" -> new OfLoam(Loam.open(directory));
      case "loam-iq80" -> new OfLevelDb(LoamDBFactory.factory, directory);
      case "leveldbjni" -> new OfLevelDb(JniDBFactory.factory, directory);
      case "rocksdbjni" -> new OfRocksDb(directory);
      default -> throw new IllegalArgumentException(engine);
    };
  }

  /** Loam by its own face. */
  record OfLoam(Loam db) implements Store {
    @Override
    public byte[] get(byte[] key) {
      return db.get(key);
    }

    @Override
    public void put(byte[] key, byte[] value) {
      db.put(key, value);
    }

    @Override
    public void batch(byte[][] keys, byte[] value) {
      io.loamdb.WriteBatch batch = new io.loamdb.WriteBatch();
      for (byte[] key : keys) {
        batch.put(key, value);
      }
      db.write(batch);
    }

    @Override
    public long iterate(int entries) {
      long bytes = 0;
      try (LoamIterator it = db.iterator()) {
        it.seekToFirst();
        for (int i = 0; i < entries && it.isValid(); i++, it.next()) {
          bytes += it.key().length + it.value().length;
        }
      }
      return bytes;
    }

    @Override
    public void close() {
      db.close();
    }
  }

  /** An engine by org.iq80.leveldb's API. */
  final class OfLevelDb implements Store {
    private final DB db;

    OfLevelDb(DBFactory factory, Path directory) throws IOException {
      db = factory.open(directory.toFile(),
          new org.iq80.leveldb.Options().writeBufferSize(64 << 20).cacheSize(64 << 20));
    }

    @Override
    public byte[] get(byte[] key) {
      return db.get(key);
    }

    @Override
    public void put(byte[] key, byte[] value) {
      db.put(key, value);
    }

    @Override
    public void batch(byte[][] keys, byte[] value) throws IOException {
      try (org.iq80.leveldb.WriteBatch batch = db.createWriteBatch()) {
        for (byte[] key : keys) {
          batch.put(key, value);
        }
        db.write(batch);
      }
    }

    @Override
    public long iterate(int entries) throws IOException {
      long bytes = 0;
      try (DBIterator it = db.iterator()) {
        it.seekToFirst();
        for (int i = 0; i < entries && it.hasNext(); i++) {
          var entry = it.next();
          bytes += entry.getKey().length + entry.getValue().length;
        }
      }
      return bytes;
    }

    @Override
    public void close() throws IOException {
      db.close();
    }
  }

  /** RocksDB by its own face. */
  final class OfRocksDb implements Store {
    private final org.rocksdb.Options options = new org.rocksdb.Options()
        .setCreateIfMissing(true).setWriteBufferSize(64 << 20);
    private final WriteOptions written = new WriteOptions();
    private final RocksDB db;

    OfRocksDb(Path directory) throws RocksDBException {
      RocksDB.loadLibrary();
      db = RocksDB.open(options, directory.toString());
    }

    @Override
    public byte[] get(byte[] key) throws RocksDBException {
      return db.get(key);
    }

    @Override
    public void put(byte[] key, byte[] value) throws RocksDBException {
      db.put(key, value);
    }

    @Override
    public void batch(byte[][] keys, byte[] value) throws RocksDBException {
      try (org.rocksdb.WriteBatch batch = new org.rocksdb.WriteBatch()) {
        for (byte[] key : keys) {
          batch.put(key, value);
        }
        db.write(written, batch);
      }
    }

    @Override
    public long iterate(int entries) {
      long bytes = 0;
      try (RocksIterator it = db.newIterator()) {
        it.seekToFirst();
        for (int i = 0; i < entries && it.isValid(); i++, it.next()) {
          bytes += it.key().length + it.value().length;
        }
      }
      return bytes;
    }

    @Override
    public void close() {
      db.close();
      written.close();
      options.close();
    }
  }
}
