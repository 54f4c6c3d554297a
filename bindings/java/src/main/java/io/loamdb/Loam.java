package io.loamdb;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.function.Function;

/**
 * An embedded, ordered key-value store in a directory.
 *
 * <pre>{@code
 * try (Loam db = Loam.open(Path.of("fruit"))) {
 *   db.put("apple".getBytes(), "red".getBytes());
 *   byte[] colour = db.get("apple".getBytes());
 * }
 * }</pre>
 *
 * <p>{@link #close} waits for running calls and background work. Snapshots, iterators, transactions
 * and keyspaces fail with {@link LoamException.Closed} from then on; they must be closed, too, in
 * any order. A database that is not closed when the JVM ends loses nothing that was written.
 */
public final class Loam extends Keyspace {
  /** The time that values live that do not expire. */
  public static final Duration FOREVER = Duration.ofSeconds(Long.MAX_VALUE);

  private static final Options NONE = new Options();
  private static final int DURABLE = 1;
  private static final int OVERWRITE = 1;

  private Loam(Path directory, Options options, boolean follow) {
    super(null, "default", open(directory, options, follow));
  }

  private static long open(Path directory, Options options, boolean follow) {
    byte[] path = Native.path(directory);
    try (Options.Made made = Options.make(options)) {
      return Native.open(path, made, follow);
    }
  }

  /** Opens the database in a directory, or creates it. */
  public static Loam open(Path directory) {
    return new Loam(directory, NONE, false);
  }

  /**
   * Opens the database in a directory, or creates it unless the options say otherwise. One that
   * exists keeps its format: a LevelDB directory stays one.
   *
   * @throws LoamException.Locked it is open already
   * @throws LoamException.Corruption it is damaged, see {@link #repair}
   * @throws LoamException.NotADatabase the directory is another engine's
   */
  public static Loam open(Path directory, Options options) {
    return new Loam(directory, options, false);
  }

  /**
   * Opens a database for reading while another process, which may be LevelDB, writes it. Nothing in
   * the directory changes, and no lock is taken. {@link #catchUp} shows newer writes, and the
   * option {@code follow_interval} does so in the background.
   */
  public static Loam follow(Path directory, Options options) {
    return new Loam(directory, options, true);
  }

  /** Deletes the database in a directory that is not open: what Loam or LevelDB wrote. */
  public static void destroy(Path directory, Options options) {
    maintain(Native.DESTROY, directory, options);
  }

  /**
   * Brings a damaged database that is not open back to a state that opens, with everything that can
   * still be read.
   *
   * @return a report, as JSON
   */
  public static String repair(Path directory, Options options) {
    return maintain(Native.REPAIR, directory, options);
  }

  /** Converts the LevelDB database in a directory, which is not open, to the native format. */
  public static void upgrade(Path directory, Options options) {
    maintain(Native.UPGRADE, directory, options);
  }

  private static String maintain(int what, Path directory, Options options) {
    byte[] path = Native.path(directory);
    try (Options.Made made = Options.make(options)) {
      return Native.string(Native.maintain(what, path, made));
    }
  }

  /** Copies a database that is not open into a new one, in a format. */
  public static void export(Path directory, Path to, String format, Options options) {
    byte[] name = Native.text(Objects.requireNonNull(format, "format"));
    try (Options.Made made = Options.make(options)) {
      Job.run(Native.exportStart(Native.path(directory), Native.path(to), name, made));
    }
  }

  /** The version of the engine. */
  public static String version() {
    return Native.string(Native.version());
  }

  /**
   * Settings of the Go runtime inside the engine; 0: leave.
   *
   * @param threads how many run Go code at once
   * @param gogc garbage collection percentage; negative: off
   * @param memoryLimit bytes; negative: none
   */
  public static void runtime(int threads, int gogc, long memoryLimit) {
    Native.runtime(threads, gogc, memoryLimit);
  }

  /** A state of the database with all its keyspaces. */
  public Snapshot snapshot() {
    return new Snapshot(this);
  }

  /** Opens a keyspace, and creates it if there is none. */
  public Keyspace keyspace(String name) {
    return keyspace(name, NONE);
  }

  /**
   * Opens a keyspace, and creates it if there is none and the options do not say otherwise. Of
   * these count comparator, merge operator, compression, filters, TTL; unset ones have the
   * database's values.
   *
   * @throws LoamException.NeedsNative the database has LevelDB's format
   */
  public Keyspace keyspace(String name, Options options) {
    byte[] text = Native.text(Objects.requireNonNull(name, "name"));
    try (Options.Made made = Options.make(options)) {
      return new Keyspace(this, name, Native.keyspaceOpen(this, text, made));
    }
  }

  /** Drops a keyspace and its contents, at once. Its space is reclaimed in the background. */
  public void dropKeyspace(String name) {
    Native.keyspaceDrop(this, Native.text(Objects.requireNonNull(name, "name")));
  }

  /** The names of all keyspaces, "default" first. */
  public List<String> keyspaces() {
    return strings(information(Native.KEYSPACES, null));
  }

  /** Begins a transaction, whose commit fails if a key that it wrote was written by others. */
  public Transaction begin() {
    return begin(TransactionOptions.DEFAULT);
  }

  /** Begins a transaction. */
  public Transaction begin(TransactionOptions options) {
    return new Transaction(this, options);
  }

  /**
   * Calls a function with a transaction, and commits it when the function returns; it is rolled
   * back when the function throws. After a conflict, a deadlock or a timeout the function is called
   * again, ten times at most.
   */
  public <T> T transact(TransactionOptions options, Function<Transaction, T> function) {
    for (int tries = 10; ; tries--) {
      try (Transaction txn = begin(options)) {
        T result = function.apply(txn);
        txn.commit();
        return result;
      } catch (LoamException.Conflict | LoamException.Deadlock | LoamException.LockTimeout e) {
        if (tries == 0) {
          throw e;
        }
      }
    }
  }

  /**
   * Reads every table whole and checks it.
   *
   * @throws LoamException.Corruption the message names every damaged table
   */
  public void verify() {
    Job.run(Native.start(Native.VERIFY, this, null, null), this);
  }

  /**
   * Encrypts all files with the current key of the option {@code encryption}, while reads and
   * writes go on. The option, and a key file, are read at opening: open with the new key first.
   *
   * @throws LoamException.InvalidArgument the database has no such option
   */
  public void rekey() {
    Job.run(Native.start(Native.REKEY, this, null, null), this);
  }

  /**
   * The keys of the files in the directory, as a JSON list of objects with {@code provider}, {@code
   * id} and {@code files}, their number; provider and id of files that are not encrypted are empty.
   */
  public String keysInUse() {
    return information(Native.KEYS, null);
  }

  /** Stops automatic compaction, until {@link #resumeCompaction} was called as often as this. */
  public void pauseCompaction() {
    Native.upkeep(Native.PAUSE, this);
  }

  /** See {@link #pauseCompaction}. */
  public void resumeCompaction() {
    Native.upkeep(Native.RESUME, this);
  }

  /** Retries at once the background work that failed for lack of space, memory or descriptors. */
  public void retry() {
    Native.upkeep(Native.RETRY, this);
  }

  /** What the opening found in the logs, and what an unclean end cut off, as JSON. */
  public String recoveryReport() {
    return information(Native.RECOVERY, null);
  }

  /** Makes a follower show everything that the writer has written up to this call, or more. */
  public void catchUp() {
    Job.run(Native.start(Native.CATCH_UP, this, null, null), this);
  }

  /**
   * How far a follower is behind its directory.
   *
   * @param operations how many operations it does not show yet
   * @param microseconds an upper bound of their age; 0: there are none
   */
  public record Lag(long operations, long microseconds) {}

  /** How far a follower is behind. It fails as the last catch-up did. */
  public Lag lag() {
    long[] both = new long[2];
    Native.lag(this, both);
    return new Lag(both[0], both[1]);
  }

  /**
   * Makes a directory a separate database with the present contents of this one, durable and as of
   * one moment, while writes go on. The directory must not exist, or be empty; its parent must
   * exist.
   */
  public void checkpoint(Path to) {
    Job.run(Native.start(Native.CHECKPOINT, this, Native.path(to), null), this);
  }

  /**
   * A feed of all commits, over all keyspaces: every operation once and in order.
   *
   * @param from a sequence number; 0: from the first operation that the logs still have
   * @param durable shows only changes that a power cut cannot take back
   * @throws LoamException.Gap from is in no log any more; the options {@code wal_retention_bytes}
   *     and {@code wal_retention_seconds} keep more
   */
  public Changes changes(long from, boolean durable) {
    return new Changes(this, Native.changesOpen(this, from, durable ? DURABLE : 0));
  }

  /**
   * Writes one state of all keyspaces into a stream, for {@link #load} on any machine and into any
   * format. Must not be called in a callback of this database.
   *
   * @param snapshot the state; null: the present one
   * @param compression {@code "none"}, {@code "snappy"} or {@code "zstd"}
   * @return what was written, as JSON
   * @throws IOException what the stream threw
   */
  public String dump(OutputStream out, Snapshot snapshot, String compression) throws IOException {
    Objects.requireNonNull(out, "out");
    return Native.string(Native.dump(this, snapshot, Native.text(compression), out));
  }

  /** Writes the present state of all keyspaces, compressed with snappy. */
  public String dump(OutputStream out) throws IOException {
    return dump(out, null, "snappy");
  }

  /**
   * Loads a dump into the database, durably. After a failure, repeat the call with the same dump
   * from its beginning: it continues where the first one ended.
   *
   * @param overwrite entries of the dump replace what is there; otherwise its keyspaces must be
   *     empty or missing ({@link LoamException.Exists})
   * @return what was read, as JSON
   * @throws IOException what the stream threw
   * @throws LoamException.Corruption the dump is damaged or was cut
   */
  public String load(InputStream in, boolean overwrite) throws IOException {
    Objects.requireNonNull(in, "in");
    return Native.string(Native.load(this, overwrite ? OVERWRITE : 0, in));
  }

  /** Reads and checks a whole dump. Returns what is in it, as JSON. */
  public static String verifyDump(InputStream in) throws IOException {
    return Native.string(Native.dumpVerify(Objects.requireNonNull(in, "in")));
  }

  /** What a JSON list of strings holds; the library escapes by a backslash. */
  private static List<String> strings(String json) {
    List<String> found = new ArrayList<>();
    StringBuilder text = null; // of the string that is open
    for (int i = 0; i < json.length(); i++) {
      char c = json.charAt(i);
      if (c == '"') {
        if (text != null) {
          found.add(text.toString());
        }
        text = text == null ? new StringBuilder() : null;
      } else if (text != null && c == '\\' && json.charAt(i + 1) == 'u') {
        text.append((char) Integer.parseInt(json.substring(i + 2, i + 6), 16));
        i += 5;
      } else if (text != null) {
        text.append(c == '\\' ? json.charAt(++i) : c);
      }
    }
    return found;
  }
}
