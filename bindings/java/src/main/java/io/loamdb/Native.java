package io.loamdb;

import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.URI;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileSystems;
import java.nio.file.Path;
import java.time.Duration;

/**
 * The native methods, which {@code src/main/c} implements, and what their arguments are made of.
 */
final class Native {
  static {
    Library.load();
  }

  private Native() {}

  /** Flags and numbers of {@code loam.h}. */
  static final int SYNC = 1;
  static final int NO_STALL = 2;

  static final int NO_FILL = 1;
  static final int KEYS_ONLY = 2;
  static final int MEMORY_ONLY = 4;

  static final int OP_DELETE = 0;
  static final int OP_PUT = 1;
  static final int OP_MERGE = 2;
  static final int OP_DELETE_RANGE = 15;
  static final int OP_PUT_TTL = 48;

  static final int DESTROY = 0;
  static final int REPAIR = 1;
  static final int UPGRADE = 2;

  static final int FLUSH = 0;
  static final int PAUSE = 1;
  static final int RESUME = 2;
  static final int RETRY = 3;

  static final int PROPERTY = 0;
  static final int OPTION = 1;
  static final int METRICS = 2;
  static final int RECOVERY = 3;
  static final int COMPARATOR = 4;
  static final int KEYSPACES = 5;
  static final int KEYS = 6;

  static final int FIRST = 0;
  static final int LAST = 1;
  static final int SEEK = 2;
  static final int SEEK_BEFORE = 3;

  static final int COMPACT = 0;
  static final int VERIFY = 1;
  static final int CATCH_UP = 2;
  static final int CHECKPOINT = 3;
  static final int REKEY = 4;

  private static final Charset FILE_NAMES = fileNames();
  /** What stands in a text for bytes that are none. */
  private static final char REPLACED = '\ufffd';
  private static final Duration LONGEST = Duration.ofMillis(Long.MAX_VALUE);

  /** Windows has names in UTF-16, which the library takes in UTF-8. */
  private static Charset fileNames() {
    String name = System.getProperty("sun.jnu.encoding");
    return name == null || File.separatorChar == '\\' ? StandardCharsets.UTF_8
        : Charset.forName(name);
  }

  /** The bytes of a text; null stays null. What UTF-8 cannot say would become another text. */
  static byte[] text(String s) {
    if (s == null) {
      return null;
    }
    if (s.indexOf('\0') >= 0) {
      throw new LoamException.InvalidArgument("a text with a zero byte: " + s.replace('\0', '?'));
    }
    if (!StandardCharsets.UTF_8.newEncoder().canEncode(s)) {
      throw new LoamException.InvalidArgument("a text with half of a character: " + s);
    }
    return s.getBytes(StandardCharsets.UTF_8);
  }

  /** The name of a file as the operating system has it. */
  static byte[] path(Path path) {
    if (path.getFileSystem() != FileSystems.getDefault()) {
      throw new LoamException.InvalidArgument(
          "a path that is not of the default file system: " + path.toUri());
    }
    String text = path.toString();
    return text.indexOf(REPLACED) >= 0 && File.separatorChar == '/' ? bytesOf(path.toUri())
        : text.getBytes(FILE_NAMES);
  }

  /** The bytes of a name that is no text: its URI has them all. */
  private static byte[] bytesOf(URI uri) {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    String raw = uri.getRawPath();
    for (int i = 0; i < raw.length(); i++) {
      if (raw.charAt(i) == '%') {
        bytes.write(Integer.parseInt(raw.substring(i + 1, i + 3), 16));
        i += 2;
      } else {
        bytes.write(raw.charAt(i));
      }
    }
    return bytes.toByteArray();
  }

  /** Milliseconds; the longest time of a long stands for longer ones. */
  static long milliseconds(Duration time) {
    return time.compareTo(LONGEST) > 0 ? Long.MAX_VALUE : time.toMillis();
  }

  /** A number for the library, whose numbers have no sign. */
  static long count(String what, long n) {
    if (n < 0) {
      throw new LoamException.InvalidArgument(what + ": " + n + ", want 0 or more");
    }
    return n;
  }

  static String string(byte[] text) {
    return text == null ? null : new String(text, StandardCharsets.UTF_8);
  }

  /** Called by the native half for every failure. */
  static LoamException exception(int status, byte[] message, int errno, byte[] path) {
    String file = path == null ? null : new String(path, FILE_NAMES);
    LoamException e = LoamException.of(status, string(message), errno, file);
    Throwable cause = Callbacks.causeOf(e);
    if (cause != null) {
      e.initCause(cause);
    }
    return e;
  }

  static native byte[] version();
  static native void runtime(int threads, int gogc, long limit);

  static native long optionsCreate();
  static native void optionsSet(NativeObject options, byte[] name, byte[] value);
  static native void optionsCache(NativeObject options, Cache cache);
  static native void optionsComparator(
      NativeObject options, byte[] name, KeyComparator comparator, boolean equalIsBytewise);
  static native void optionsMergeOperator(
      NativeObject options, byte[] name, MergeOperator operator);
  static native void optionsFilter(NativeObject options, byte[] name, CompactionFilter filter);
  static native void optionsLogger(NativeObject options, Logger logger);
  static native byte[] optionsDescribe();
  static native long cacheCreate(long size);
  static native long resourcesCreate(long memory, long jobs, long rate, long files);
  static native void resourcesSet(Cache resources, byte[] name, byte[] value);
  static native byte[] resourcesMetrics(Cache resources);

  static native long open(byte[] path, NativeObject options, boolean follow);
  static native void close(int kind, long handle);
  static native void release(int kind, long handle);
  static native byte[] maintain(int what, byte[] path, NativeObject options);
  static native long exportStart(byte[] path, byte[] to, byte[] format, NativeObject options);

  static native byte[] get(Keyspace db, Snapshot snapshot, int flags, byte[] key);
  static native long getDirect(
      Keyspace db, Snapshot snapshot, int flags, Object key, int keyAt, int keyLength,
      Object value, int valueAt, int capacity);
  static native boolean has(Keyspace db, Snapshot snapshot, int flags, byte[] key);
  static native byte[] multiGet(Keyspace db, Snapshot snapshot, int flags, byte[] keys, int n);
  static native long ttl(Keyspace db, Snapshot snapshot, int flags, byte[] key);
  static native long snapshotCreate(Keyspace db);

  static native long write(
      Keyspace db, int kind, int flags, byte[] key, byte[] value, long seconds);
  static native long putDirect(
      Keyspace db, int flags, Object key, int keyAt, int keyLength, Object value, int valueAt,
      int valueLength);
  static native long writeBatch(Keyspace db, int flags, byte[] batch, int length);
  static native boolean compareAndSwap(
      Keyspace db, int flags, byte[] key, byte[] old, byte[] value);

  static native long keyspaceOpen(Keyspace db, byte[] name, NativeObject options);
  static native void keyspaceDrop(Keyspace db, byte[] name);
  static native int keyspaceNumber(Keyspace keyspace);

  static native void upkeep(int what, Keyspace db);
  static native byte[] information(int what, Keyspace db, byte[] name);
  static native void setOption(Keyspace db, byte[] name, byte[] value);
  static native long approximateSize(Keyspace db, byte[] start, byte[] stop);
  static native void lag(Keyspace db, long[] result);

  static native long iteratorCreate(
      Keyspace db, Transaction txn, Snapshot snapshot, int flags, byte[] lower, byte[] upper,
      byte[] prefix);
  static native byte[] iteratorSeek(LoamIterator iterator, int where, byte[] key, byte[] reuse);
  static native byte[] iteratorBlock(
      LoamIterator iterator, boolean forward, int maxEntries, int maxBytes, byte[] reuse);

  static native long txnBegin(Keyspace db, int flags, long timeout, byte[] name);
  static native byte[] txnGet(Transaction txn, Keyspace keyspace, byte[] key, boolean forUpdate);
  static native boolean txnHas(Transaction txn, Keyspace keyspace, byte[] key);
  static native byte[] txnMultiGet(Transaction txn, Keyspace keyspace, byte[] keys, int n);
  static native void txnWrite(
      Transaction txn, Keyspace keyspace, int kind, byte[] key, byte[] value, long seconds);
  static native long txnSavepoint(Transaction txn);
  static native void txnRollbackTo(Transaction txn, long savepoint);
  static native void txnCommit(Transaction txn, int flags);
  static native void txnRollback(Transaction txn);

  static native boolean jobWait(NativeObject job, int milliseconds);
  static native void jobCancel(NativeObject job);
  static native byte[] jobReport(NativeObject job);
  static native long start(int what, Keyspace db, byte[] a, byte[] b);

  static native long backupsOpen(byte[] path, int flags);
  static native long backupCreate(Backups backups, Keyspace db, long rate);
  static native byte[] backupsList(Backups backups);
  static native long backupVerify(Backups backups, long id, long rate);
  static native long backupRestore(Backups backups, long id, byte[] to, long rate);
  static native void backupDelete(Backups backups, long id);
  static native void backupsKeep(Backups backups, long n);

  static native long changesOpen(Keyspace db, long from, int flags);
  static native byte[] changesNext(Changes changes, int milliseconds, long[] kept);
  static native void changesFree(long[] kept);
  static native long changesPosition(Changes changes);
  static native byte[] changesKeyspace(Changes changes, int number);

  static native long tableCreate(byte[] path, NativeObject options);
  static native void tableWrite(
      TableWriter writer, int kind, byte[] key, byte[] value, long seconds);
  static native long tableSize(TableWriter writer);
  static native void tableFinish(TableWriter writer);
  static native long ingestStart(
      Keyspace db, int flags, byte[] start, byte[] stop, byte[] paths, int n);
  static native long bulkBegin(Keyspace db, long memory);
  static native void bulkAdd(BulkLoad load, byte[] batch, int length);
  static native long bulkFinish(BulkLoad load);

  static native byte[] dump(Keyspace db, Snapshot snapshot, byte[] compression, OutputStream out)
      throws IOException;
  static native byte[] load(Keyspace db, int flags, InputStream in) throws IOException;
  static native byte[] dumpVerify(InputStream in) throws IOException;
}
