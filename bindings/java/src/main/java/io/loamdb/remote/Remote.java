package io.loamdb.remote;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A database behind {@code loamd}: one node, or the nodes of a cluster. All methods are safe for
 * concurrent use, and fail with {@link RemoteException}.
 *
 * <p>Reads see everything that had returned when they began, on every node. A change that returned
 * is on stable storage of a majority. One that failed did not happen, {@link
 * RemoteException#isNotApplied}, or may have, {@link RemoteException#isUnknown}. Where a node does
 * not answer, calls go to another one if that is safe: reads, changes that were not sent, and
 * changes with an idempotency key, which take effect once however often they are tried. The nodes
 * know the last 65,536 keys.
 *
 * <p>A connection on which nothing comes, not even an answer to a call for the node's status, is
 * lost when the time of a call on it is over. An answer that is damaged is an error as that of a
 * lost connection: {@link RemoteException#isUnavailable}, of a change {@link
 * RemoteException#isUnknown}.
 */
public final class Remote implements AutoCloseable {
  private enum Kind { READ, WRITE, ONCE }

  private static final long LEARN_EVERY = TimeUnit.SECONDS.toNanos(2);
  private static final Pattern HOST_PORT = Pattern.compile(
      "(?:\\[[^\\[\\]\\s/]+\\]|[^\\[\\]:\\s/]+):([0-9]{1,5})");
  private static final Pattern LEADER = Pattern.compile("\"leader_addr\": *\"([^\"\\\\]*)\"");
  private static final Pattern ADDRESS = Pattern.compile("\"addr\": *\"([^\"\\\\]*)\"");

  /** The answer to a call, and the connection that it came on. */
  record Answer(byte[] result, Link link) {}

  private final RemoteOptions options;
  private final List<String> given;
  private final Map<String, Link> links = new HashMap<>(); // guarded by this, as all below
  private List<String> addrs;
  private String home;
  private String leader;
  private long asked;
  private boolean asking;
  private boolean closed;

  private Remote(List<String> given, RemoteOptions options) {
    this.given = given;
    this.options = options;
    addrs = given;
    home = given.get(ThreadLocalRandom.current().nextInt(given.size()));
  }

  /**
   * A client of some nodes: {@code loam://a:7070,b:7070}, or {@code loams://} for TLS. It does not
   * wait for a node.
   */
  public static Remote connect(String url) {
    return connect(url, new RemoteOptions());
  }

  /** {@link #connect(String)} with options, which are not to be changed any more. */
  public static Remote connect(String url, RemoteOptions options) {
    LinkedHashSet<String> all = new LinkedHashSet<>();
    if (url.matches("loams?://.*")) {
      for (String addr : url.replaceFirst("^loams?://", "").replaceFirst("/$", "").split(",", -1)) {
        all.add(addr.strip());
      }
    }
    if (all.isEmpty()) {
      throw new IllegalArgumentException(
          "'" + url + "' is no list of nodes, as loam://a:7070,b:7070 is");
    }
    for (String addr : all) {
      if (!isAddress(addr)) {
        throw new IllegalArgumentException("'" + addr + "' in '" + url
            + "' is not host:port, an IPv6 address in brackets");
      }
    }
    Objects.requireNonNull(options);
    return new Remote(List.copyOf(all), url.startsWith("loams:") ? options.secure() : options);
  }

  private static boolean isAddress(String text) {
    Matcher m = HOST_PORT.matcher(text);
    if (!m.matches()) {
      return false;
    }
    int port = Integer.parseInt(m.group(1));
    return port > 0 && port < 65536;
  }

  /** The value of a key; null: none. */
  public byte[] get(byte[] key) {
    return found(read(Wire.GET, Wire.LINEARIZABLE, key));
  }

  /** Whether a key has a value. */
  public boolean has(byte[] key) {
    return said(read(Wire.HAS, Wire.LINEARIZABLE, key));
  }

  /** Looks up many keys in one state. A missing key has null. */
  public List<byte[]> getAll(List<byte[]> keys) {
    return values(keys.size(), call(Wire.MULTI_GET, many(Wire.LINEARIZABLE, keys)).result());
  }

  static byte[] found(byte[] answer) {
    Wire.In in = new Wire.In(answer);
    if (in.bool()) {
      return in.rest();
    }
    in.end();
    return null;
  }

  /** An answer that is yes or no. */
  static boolean said(byte[] answer) {
    Wire.In in = new Wire.In(answer);
    boolean yes = in.bool();
    in.end();
    return yes;
  }

  static byte[] many(byte[] view, List<byte[]> keys) {
    Wire.Out out = new Wire.Out().raw(view).number(keys.size());
    keys.forEach(out::bytes);
    return out.toByteArray();
  }

  static List<byte[]> values(int n, byte[] answer) {
    Wire.In in = new Wire.In(answer);
    List<byte[]> values = new ArrayList<>(n);
    for (int i = 0; i < n; i++) {
      values.add(in.bool() ? in.bytes() : null);
    }
    in.end();
    return values;
  }

  private byte[] read(int op, byte[] view, byte[] key) {
    return call(op, new Wire.Out().raw(view).bytes(key).toByteArray()).result();
  }

  /** A fixed state of one node, to be closed. */
  public RemoteSnapshot snapshot() {
    Answer a = call(Wire.SNAPSHOT, Wire.LINEARIZABLE);
    return new RemoteSnapshot(a.link(), new Wire.In(a.result()).number(),
        options.timeout.toMillis());
  }

  /** An iterator over the present state, to be closed. A null bound is none; upper is excluded. */
  public RemoteIterator iterator(byte[] lower, byte[] upper) {
    try (RemoteSnapshot s = snapshot()) {
      return s.iterator(lower, upper);
    }
  }

  /** What a node knows about itself and the cluster, as JSON. */
  public String status() {
    return new String(call(Wire.STATUS, new byte[0]).result(), StandardCharsets.UTF_8);
  }

  /** Sets key to value. */
  public void put(byte[] key, byte[] value) {
    write(new RemoteBatch().put(key, value), "");
  }

  /** Removes key, whether it exists or not. */
  public void delete(byte[] key) {
    write(new RemoteBatch().delete(key), "");
  }

  /** Makes all operations of a batch take effect together. It has at most 8 MiB. */
  public void write(RemoteBatch batch) {
    write(batch, "");
  }

  /** {@link #write(RemoteBatch)} with an idempotency key of at most 255 bytes. */
  public void write(RemoteBatch batch, String once) {
    change(once, new Wire.Out(), 0, null, batch);
  }

  /** Removes all keys from start up to, not including, limit. */
  public void deleteRange(byte[] start, byte[] limit) {
    change("", new Wire.Out(), 0, new Wire.Out().number(1).bytes(start).bytes(limit),
        new RemoteBatch());
  }

  /**
   * Sets key to value if its value is old, and returns whether it did. A null old stands for no
   * value; a null value removes the key.
   */
  public boolean compareAndSwap(byte[] key, byte[] old, byte[] value) {
    Wire.Out condition = new Wire.Out();
    Wire.condition(condition, key, old);
    RemoteBatch batch = new RemoteBatch();
    return change("", condition, 1, null,
        value == null ? batch.delete(key) : batch.put(key, value));
  }

  /** Sets key to value if it has none, and returns whether it did. */
  public boolean putIfAbsent(byte[] key, byte[] value) {
    return compareAndSwap(key, null, Objects.requireNonNull(value));
  }

  /**
   * Calls f with a transaction and commits what it wrote. Nothing that it read was changed by
   * others before the commit: else f is called again, up to the time-out. Returns what f gave.
   */
  public <T> T update(Function<RemoteTransaction, T> f) {
    long end = System.nanoTime() + options.timeout.toNanos();
    while (true) {
      RemoteSnapshot snapshot;
      try {
        snapshot = snapshot();
      } catch (RemoteException e) {
        throw e.with(RemoteException.NOT_APPLIED, "change not applied");
      }
      RemoteTransaction tx = new RemoteTransaction(snapshot);
      T result;
      try (snapshot) {
        result = f.apply(tx);
      } catch (RemoteException e) {
        if (!e.isSnapshotGone() || System.nanoTime() >= end) {
          throw e;
        }
        continue;
      }
      if (change("", tx.conditions(), tx.reads(), null, tx.batch())) {
        return result;
      }
      if (System.nanoTime() >= end) {
        throw RemoteException.local("others changed what the transaction read, again and again",
            RemoteException.NOT_APPLIED | RemoteException.CONFLICT, null);
      }
    }
  }

  /** Returns whether the conditions held. */
  private boolean change(String once, Wire.Out conditions, int n, Wire.Out ranges,
      RemoteBatch batch) {
    if (!StandardCharsets.UTF_8.newEncoder().canEncode(once)) { // all such keys would be the same
      throw new IllegalArgumentException("an idempotency key with half of a character: " + once);
    }
    byte[] key = Wire.text(once);
    if (key.length > 255) {
      throw new IllegalArgumentException("an idempotency key has at most 255 bytes");
    }
    Wire.Out out = new Wire.Out().one(ranges == null ? 1 : 2).bytes(key).number(n)
        .raw(conditions.toByteArray());
    if (ranges != null) {
      out.raw(ranges.toByteArray());
    }
    out.raw(batch.bytes());
    if (out.size() > Wire.MAX_CHANGE) {
      throw RemoteException.local("a change of " + out.size() + " bytes, and at most "
          + Wire.MAX_CHANGE + " go: cut it",
          RemoteException.NOT_APPLIED | RemoteException.TOO_LARGE, null);
    }
    byte[] answer = call(once.isEmpty() ? Kind.WRITE : Kind.ONCE, Wire.WRITE, out.toByteArray())
        .result();
    try {
      return said(answer);
    } catch (RemoteException e) {
      throw e.with(RemoteException.UNKNOWN, "outcome of the change unknown");
    }
  }

  private Answer call(int op, byte[] args) {
    return call(Kind.READ, op, args);
  }

  /** Makes a call on some node, and tries again where that is safe. */
  private Answer call(Kind kind, int op, byte[] args) {
    long end = System.nanoTime() + options.timeout.toNanos();
    String addr = target(kind);
    boolean doubt = false; // a try whose outcome is unknown
    for (int n = 1;; n++) {
      try {
        Link link = link(addr, soon(end));
        learn(link);
        return new Answer(link.call(op, args, kind == Kind.WRITE ? left(end) : soon(end)), link);
      } catch (Link.Failure e) {
        doubt |= kind != Kind.READ && e.sent && !e.error.isNotApplied();
        long pause = Math.min(1L << Math.min(n, 10), 200);
        if (e.error.again()) {
          addr = avoid(addr);
        }
        if (Thread.currentThread().isInterrupted() || isClosed() || !e.error.again()
            || doubt && kind == Kind.WRITE
            || System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(pause) >= end) {
          throw conclude(kind, e.error, doubt);
        }
        try {
          Thread.sleep(pause);
        } catch (InterruptedException interrupted) {
          Thread.currentThread().interrupt();
          throw conclude(kind, e.error, doubt);
        }
      }
    }
  }

  /** Milliseconds up to an end. */
  private static long left(long end) {
    return Math.max(1, TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime()));
  }

  private long soon(long end) {
    return Math.min(left(end), options.tryTimeout.toMillis());
  }

  private static RemoteException conclude(Kind kind, RemoteException e, boolean doubt) {
    if (kind == Kind.READ) {
      return e;
    }
    return doubt ? e.with(RemoteException.UNKNOWN, "outcome of the change unknown")
        : e.with(RemoteException.NOT_APPLIED, "change not applied");
  }

  private synchronized boolean isClosed() {
    return closed;
  }

  private synchronized String target(Kind kind) {
    return kind != Kind.READ && leader != null ? leader : home;
  }

  /** Says that a node did not answer, and returns the next one. */
  private synchronized String avoid(String addr) {
    if (addr.equals(leader)) {
      leader = null;
    }
    String next = addrs.get((addrs.indexOf(addr) + 1) % addrs.size());
    if (addr.equals(home)) {
      home = next;
    }
    asked = 0;
    return next;
  }

  /** The connection to a node, which may have to be made. */
  private Link link(String addr, long limit) throws Link.Failure {
    synchronized (this) {
      Link link = links.get(addr);
      if (link != null && !link.isLost()) {
        return link;
      }
    }
    Link made = new Link(addr, options, limit);
    synchronized (this) {
      if (closed) {
        made.lose(shut());
        throw new Link.Failure(shut(), false);
      }
      Link other = links.get(addr); // another thread's
      if (other != null && !other.isLost()) {
        made.lose(shut());
        return other;
      }
      links.put(addr, made);
      return made;
    }
  }

  private static RemoteException shut() {
    return new RemoteException("the database was closed", 0, true, null);
  }

  /** Asks a node for the leader and the members from time to time. */
  private void learn(Link link) {
    synchronized (this) {
      long now = System.nanoTime();
      if (asking || closed || asked != 0 && now - asked < LEARN_EVERY) {
        return;
      }
      asking = true;
      asked = now;
    }
    Thread t = new Thread(() -> {
      String status = null;
      try {
        status = new String(link.call(Wire.STATUS, new byte[0], options.tryTimeout.toMillis()),
            StandardCharsets.UTF_8);
      } catch (Link.Failure e) {
        // the next call asks again
      } finally {
        learned(status);
      }
    }, "loam status");
    t.setDaemon(true);
    try {
      t.start();
    } catch (OutOfMemoryError e) { // there is no thread for it
      learned(null);
    }
  }

  private synchronized void learned(String status) {
    asking = false;
    if (status == null) {
      return;
    }
    Matcher m = LEADER.matcher(status);
    leader = m.find() && isAddress(m.group(1)) ? m.group(1) : null;
    LinkedHashSet<String> all = new LinkedHashSet<>(given);
    for (m = ADDRESS.matcher(status); m.find();) {
      if (isAddress(m.group(1))) {
        all.add(m.group(1));
      }
    }
    addrs = List.copyOf(all);
  }

  /** Ends the connections. Calls that wait fail. */
  @Override
  public void close() {
    List<Link> all;
    synchronized (this) {
      closed = true;
      all = List.copyOf(links.values());
      links.clear();
    }
    all.forEach(link -> link.lose(shut()));
  }
}
