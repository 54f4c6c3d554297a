package io.loamdb.remote;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BiConsumer;
import java.util.function.Consumer;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.TrustManager;
import javax.net.ssl.TrustManagerFactory;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

/**
 * The client of loamd: the protocol as its page has it, nodes that are sockets of this process and
 * fail as a test likes, and a real node where Go is there.
 */
class RemoteTest {
  @TempDir Path directory;

  private static byte[] b(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  private static String s(byte[] bytes) {
    return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
  }

  private static Path repository() {
    return Path.of("").toAbsolutePath().resolve("../..").normalize();
  }

  /** The hex dumps of the page, in order. */
  private static List<byte[]> dumps() throws IOException {
    String page = Files.readString(repository().resolve("docs/format-loamd.md"));
    List<byte[]> all = new ArrayList<>();
    for (Matcher m = Pattern.compile("```hex\n([^`]*)```").matcher(page); m.find();) {
      Wire.Out out = new Wire.Out();
      m.group(1).lines().forEach(line -> out.raw(HexFormat.of().parseHex(
          line.substring(6, Math.min(54, line.length())).replace(" ", ""))));
      all.add(out.toByteArray());
    }
    return all;
  }

  @Test
  void framesAreThoseOfThePage() throws IOException {
    List<byte[]> page = dumps();
    assertArrayEquals(page.get(0), Wire.greeting("loam", "secret"));
    assertArrayEquals(page.get(2), Wire.call(7, 5000, Wire.GET,
        new Wire.Out().raw(Wire.LINEARIZABLE).bytes(b("ash")).toByteArray()));
    Wire.Out change = new Wire.Out().one(1).bytes(b("order 17")).number(2);
    Wire.condition(change, b("ash"), null);
    Wire.condition(change, b("elm"), b("Ulmus"));
    change.raw(new RemoteBatch().put(b("ash"), b("Fraxinus")).delete(b("elm")).bytes());
    assertArrayEquals(page.get(6), Wire.call(9, 5000, Wire.WRITE, change.toByteArray()));
    assertEquals("\1Fraxinus", s(Wire.read(in(page.get(3)))).substring(8));
    byte[] damaged = page.get(3).clone();
    damaged[12] ^= 1;
    assertThrows(IOException.class, () -> Wire.read(in(damaged)));
    assertThrows(IOException.class, () -> Wire.read(in(new byte[] {-1, -1, -1, -1, 0, 0, 0, 0})));
    for (byte[] bad : new byte[][] {{}, {-1}, {5, 1}, {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1}}) {
      assertThrows(RemoteException.class, () -> new Wire.In(bad).bytes());
    }
  }

  private static DataInputStream in(byte[] b) {
    return new DataInputStream(new ByteArrayInputStream(b));
  }

  /** What a node does with a call: a result, ENDED, or SILENT; null: it closes the connection. */
  private interface Answers {
    byte[] to(int op, int n) throws InterruptedException;
  }

  /** A node in this process. n counts its calls, but those for its status. */
  private static final class Node implements AutoCloseable {
    final ServerSocket listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
    final AtomicInteger calls = new AtomicInteger();
    /** Swallows the call, and all further ones of the connection. */
    static final byte[] SILENT = {};
    final Semaphore silenced = new Semaphore(0); // connections
    /** Ends the connection as a node does that reads a damaged frame. */
    static final byte[] ENDED = {};
    private final Answers answers;
    private final String status;

    Node(Answers answers) throws IOException {
      this(answers, "{\"leader_addr\": \"\", \"members\": []}");
    }

    Node(Answers answers, String status) throws IOException {
      this.answers = answers;
      this.status = status;
      Thread t = new Thread(() -> {
        try {
          while (true) {
            Socket socket = listener.accept();
            Thread one = new Thread(() -> serve(socket));
            one.setDaemon(true);
            one.start();
          }
        } catch (IOException e) {
          // it was closed
        }
      });
      t.setDaemon(true);
      t.start();
    }

    String addr() {
      return "127.0.0.1:" + listener.getLocalPort();
    }

    private void serve(Socket socket) {
      try (socket) {
        DataInputStream in = new DataInputStream(socket.getInputStream());
        Wire.read(in);
        say(socket, 0, 0, new byte[] {0, 0});
        while (true) {
          Wire.In call = new Wire.In(Wire.read(in));
          int number = call.fixed();
          call.fixed();
          int op = call.one();
          if (op == Wire.STATUS) {
            say(socket, number, 0, b(status));
            continue;
          }
          byte[] answer = answers.to(op, calls.incrementAndGet());
          if (answer == null) {
            return;
          }
          if (answer == SILENT) {
            silenced.release();
            in.transferTo(OutputStream.nullOutputStream());
            return;
          }
          if (answer == ENDED) {
            say(socket, 0, 1 << 31, b("malformed: wrong checksum of a frame"));
            return;
          }
          say(socket, number, 0, answer);
        }
      } catch (IOException | InterruptedException e) {
        // the client is gone
      }
    }

    private static synchronized void say(Socket socket, int number, int flags, byte[] rest)
        throws IOException {
      socket.getOutputStream().write(Wire.frame(
          new Wire.Out().fixed(number).fixed(flags).raw(rest).toByteArray()));
    }

    @Override
    public void close() throws IOException {
      listener.close();
    }
  }

  /** For tests that count calls: a slow machine is no reason for another one. */
  private static RemoteOptions patient() {
    return new RemoteOptions().timeout(Duration.ofMinutes(5)).tryTimeout(Duration.ofMinutes(5));
  }

  @Test
  void aChangeWithoutAnAnswerIsNotMadeAgain() throws IOException {
    try (Node node = new Node((op, n) -> null);
        Remote db = Remote.connect("loam://" + node.addr(), patient())) {
      RemoteException e = assertThrows(RemoteException.class, () -> db.put(b("a"), b("1")));
      assertTrue(e.isUnknown() && !e.isNotApplied(), e.toString());
      assertEquals(1, node.calls.get());
    }
  }

  @Test
  void oneWithAKeyIsMadeAgain() throws IOException {
    try (Node node = new Node((op, n) -> n % 3 != 0 ? null
        : op == Wire.WRITE ? new byte[] {1} : new byte[] {1, 65});
        Remote db = Remote.connect("loam://" + node.addr(), patient())) {
      db.write(new RemoteBatch().put(b("a"), b("1")), "order 17");
      assertEquals(3, node.calls.get());
      assertEquals("A", s(db.get(b("a"))));
      assertEquals(6, node.calls.get());
    }
  }

  @Test
  void theNextNodeIsAsked() throws IOException {
    Node gone = new Node((op, n) -> null);
    gone.close();
    try (Node node = new Node((op, n) -> new byte[] {1})) {
      for (int i = 0; i < 4; i++) { // a client begins with one of both
        try (Remote db = Remote.connect("loam://" + gone.addr() + "," + node.addr(),
            patient())) {
          db.put(b("a"), b("1"));
        }
      }
      assertEquals(4, node.calls.get());
    }
    try (Remote db = Remote.connect("loam://" + gone.addr(),
        new RemoteOptions().timeout(Duration.ofMillis(50)))) {
      assertTrue(assertThrows(RemoteException.class, () -> db.get(b("a"))).isUnavailable());
      RemoteException e = assertThrows(RemoteException.class, () -> db.put(b("a"), b("1")));
      assertTrue(e.isNotApplied() && !e.isUnknown(), e.toString());
    }
  }

  @Test
  void arguments() {
    for (String url : List.of("a:7070", "http://a:1", "loam://", "loam:///")) {
      assertThrows(IllegalArgumentException.class, () -> Remote.connect(url), url);
    }
    for (String addr : List.of("a", "a:", ":1", "[]:1", "a:x", "a:-1", "a:+1", "a:0", "a:65536",
        "a:000001", "::1:7070", "[::1]", "[::1:7070", "[::1]x:1", "a b:1", "a:1:1")) {
      IllegalArgumentException e = assertThrows(IllegalArgumentException.class,
          () -> Remote.connect("loam://b:1," + addr), addr);
      assertTrue(e.getMessage().startsWith("'" + addr + "' in "), e.toString());
    }
    Remote.connect("loam://a:1, [::1]:65535,127.0.0.1:7070,[fe80::1%eth0]:1/").close();
    try (Remote db = Remote.connect("loam://127.0.0.1:1")) {
      RemoteException e = assertThrows(RemoteException.class,
          () -> db.put(b("a"), new byte[8 << 20]));
      assertTrue(e.isTooLarge() && e.isNotApplied());
      assertThrows(NullPointerException.class, () -> db.put(b("a"), null));
      RemoteBatch batch = new RemoteBatch();
      assertThrows(NullPointerException.class, () -> batch.put(b("a"), null));
      assertThrows(NullPointerException.class, () -> batch.put(null, b("1")));
      assertThrows(NullPointerException.class, () -> batch.delete(null));
      assertArrayEquals(new RemoteBatch().bytes(), batch.bytes());
      assertThrows(IllegalArgumentException.class, () -> db.write(batch, "half \ud800"));
    }
  }

  @Test
  void aMoveThatFailsIsMadeAgain() throws IOException {
    List<Wire.Out> answers = List.of(new Wire.Out().one(1), // a snapshot
        new Wire.Out().one(1).number(0).bytes(b("a")).bytes(b("1")),
        new Wire.Out().one(1).number(0), // malformed: more, and nothing
        new Wire.Out().one(0).number(0).bytes(b("b")).bytes(b("2")));
    try (Node node = new Node((op, n) ->
            op == Wire.RELEASE ? null : answers.get(n - 1).toByteArray());
        Remote db = Remote.connect("loam://" + node.addr(), patient());
        RemoteIterator it = db.iterator(null, null)) {
      assertTrue(it.first());
      it.key()[0]++; // the caller's: from the key it goes on
      it.value()[0]++;
      assertThrows(RemoteException.class, it::next);
      assertEquals("a1", s(it.key()) + s(it.value()));
      assertTrue(it.next());
      assertEquals("b", s(it.key()));
    }
  }

  @Test
  void aLostConnectionIsMadeAgain() throws IOException {
    List<Integer> drop = List.of(2, 4);
    try (Node node = new Node((op, n) -> drop.contains(n) ? null
        : op == Wire.SNAPSHOT ? new byte[] {1, 1}
        : op == Wire.WRITE ? new byte[] {1} : new byte[] {1, 65});
        Remote db = Remote.connect("loam://" + node.addr(), patient());
        RemoteSnapshot snapshot = db.snapshot()) {
      assertEquals("A", s(db.get(b("a")))); // call 2 is lost, and 3 answers
      assertTrue(assertThrows(RemoteException.class, () -> snapshot.get(b("a"))).isSnapshotGone());
      RemoteException e = assertThrows(RemoteException.class, () -> db.put(b("a"), b("1")));
      assertTrue(e.isUnknown(), e.toString()); // call 4
      db.put(b("a"), b("1"));
      assertEquals(5, node.calls.get());
    }
  }

  @Test
  void aNodeThatNamesNoAddressIsNotAsked() throws IOException {
    String bad = "{\"leader_addr\": \"a\", \"members\": [{\"addr\": \"b:99999\"}]}";
    try (Node node = new Node((op, n) -> n % 2 == 1 ? null : new byte[] {1}, bad);
        Remote db = Remote.connect("loam://" + node.addr(), patient())) {
      for (int i = 0; i < 4; i++) { // whenever the status comes
        db.write(new RemoteBatch().put(b("a"), b("1")), "order " + i); // the second try
      }
    }
  }

  @Test
  @Timeout(value = 600, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
  void aNodeThatDoesNotGreet() throws IOException {
    try (ServerSocket silent = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        Remote db = Remote.connect("loam://127.0.0.1:" + silent.getLocalPort(),
            new RemoteOptions().timeout(Duration.ofMillis(50)).tryTimeout(Duration.ofDays(1)))) {
      assertTrue(assertThrows(RemoteException.class, () -> db.get(b("a"))).isUnavailable());
      RemoteException e = assertThrows(RemoteException.class, () -> db.put(b("a"), b("1")));
      assertTrue(e.isNotApplied(), e.toString());
    }
  }

  @Test
  void timeOutsWithoutEnd() throws IOException {
    for (Duration end : List.of(ChronoUnit.FOREVER.getDuration(), Duration.ofNanos(Long.MAX_VALUE),
        Duration.ofDays(365))) {
      List<Integer> drop = List.of(1, 4);
      try (Node node = new Node((op, n) -> drop.contains(n) ? null
              : op == Wire.WRITE || op == Wire.SNAPSHOT ? new byte[] {1} : new byte[] {1, 65});
          Remote db = Remote.connect("loam://" + node.addr(),
              new RemoteOptions().timeout(end).tryTimeout(end))) {
        assertEquals("A", s(db.get(b("a")))); // the second try
        db.put(b("a"), b("1"));
        db.write(new RemoteBatch().put(b("a"), b("1")), "order 17"); // the second try
        try (RemoteSnapshot snapshot = db.snapshot()) {
          assertEquals("A", s(snapshot.get(b("a"))));
        }
      }
    }
    assertThrows(IllegalArgumentException.class, () -> new RemoteOptions().timeout(Duration.ZERO));
  }

  @Test
  void aMalformedAnswerIsAnError() throws IOException {
    for (byte[] bad : new byte[][] {{}, {2}, {0, 0}, {2, 65}}) {
      try (Node node = new Node((op, n) -> op == Wire.SNAPSHOT ? new byte[] {1, 1}
              : op == Wire.SCAN ? new byte[] {1, 0} : bad); // more, and nothing
          Remote db = Remote.connect("loam://" + node.addr(), patient());
          RemoteSnapshot snapshot = db.snapshot();
          RemoteIterator it = snapshot.iterator(null, null)) {
        for (Executable read : List.<Executable>of(() -> db.get(b("a")), () -> db.has(b("a")),
            () -> db.getAll(List.of(b("a"))), () -> snapshot.get(b("a")),
            () -> snapshot.has(b("a")), it::first)) {
          RemoteException e = assertThrows(RemoteException.class, read);
          assertTrue(e.isUnavailable() && !e.isSnapshotGone()
              && e.getMessage().equals("a malformed answer"), e.toString());
        }
        RemoteException e = assertThrows(RemoteException.class, () -> db.put(b("a"), b("1")));
        assertTrue(e.isUnknown() && !e.isNotApplied(), e.toString());
      }
    }
  }

  @Test
  void silence() throws IOException {
    long second = 1_000_000_000L;
    Silence s = new Silence(4 * second);
    InputStream bytes = s.of(new ByteArrayInputStream(new byte[2 * Silence.LONG_PART]));
    long first = s.sent(0);
    assertFalse(s.ask(first, 2 * second - 1));
    assertFalse(s.isLost(first, 9 * second), "nobody asked");
    assertTrue(s.ask(first, 2 * second));
    assertFalse(s.ask(first, 3 * second), "twice");
    assertFalse(s.isLost(first, 4 * second - 1));
    assertTrue(s.isLost(first, 4 * second));
    s.end(); // by the answer to the question
    assertFalse(s.isLost(first, 9 * second));
    long second10 = s.sent(10 * second); // short calls count together
    long second11 = s.sent(11 * second);
    assertTrue(s.ask(second10, 12 * second));
    assertTrue(s.isLost(second11, 14 * second));
    bytes.readNBytes(Silence.LONG_PART - 1); // maybe answers that a damaged length swallows
    assertTrue(s.isLost(second11, 14 * second));
    bytes.read();
    long second20 = s.sent(20 * second);
    assertFalse(s.ask(second11, 29 * second), "an older call");
    assertTrue(s.ask(second20, 30 * second));
    assertFalse(s.isLost(second20, 31 * second - 1), "just asked");
    assertTrue(s.isLost(second20, 31 * second));
    assertTrue(s.isLost(s.sent(32 * second), 32 * second), "a call of the same silence");
  }

  /** A connection that has no end, and no answers either. */
  @Test
  @Timeout(value = 600, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
  void aSilentConnectionIsLost() throws Exception {
    RemoteOptions soon = new RemoteOptions().tryTimeout(Duration.ofMillis(100))
        .timeout(Duration.ofMinutes(5));
    try (Node node = new Node((op, n) -> op == Wire.WRITE ? Node.SILENT
            : op == Wire.SNAPSHOT ? new byte[] {1} : new byte[] {1, 65});
        Remote db = Remote.connect("loam://" + node.addr(), soon);
        RemoteSnapshot snapshot = db.snapshot()) {
      AtomicReference<RemoteException> change = new AtomicReference<>();
      Thread put = new Thread(() -> change.set(assertThrows(RemoteException.class,
          () -> db.put(b("a"), b("1")))));
      put.start();
      node.silenced.acquire(); // the change is in flight, and has minutes
      assertEquals("A", s(db.get(b("a")))); // the first try ends the connection
      put.join();
      // A process that stands still within a write takes the node for one that takes nothing.
      assertTrue(change.get().isUnknown() && !change.get().isNotApplied()
          && change.get().getMessage().matches(".*: (the node says nothing|no answer in time)"),
          change.get().toString());
      assertTrue(assertThrows(RemoteException.class, () -> snapshot.get(b("a"))).isSnapshotGone());
    }
  }

  @Test
  void anInterruptedReadLeavesTheSnapshot() throws IOException {
    try (Node node = new Node((op, n) ->
            op == Wire.SNAPSHOT ? new byte[] {1, 1} : new byte[] {1, 65});
        Remote db = Remote.connect("loam://" + node.addr(), patient());
        RemoteSnapshot snapshot = db.snapshot()) {
      Thread.currentThread().interrupt();
      RemoteException e = assertThrows(RemoteException.class, () -> snapshot.get(b("a")));
      assertTrue(Thread.interrupted() && !e.isSnapshotGone(), e.toString());
      assertEquals("A", s(snapshot.get(b("a"))));
    }
  }

  @Test
  @Timeout(value = 600, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
  void anInterruptedThreadLeavesNoSnapshot() throws Exception {
    Semaphore asked = new Semaphore(0);
    CountDownLatch made = new CountDownLatch(1);
    Semaphore released = new Semaphore(0);
    try (Node node = new Node((op, n) -> {
      if (op == Wire.RELEASE) {
        released.release();
      } else if (n == 1) {
        asked.release();
        made.await();
      }
      return new byte[] {(byte) n, 1};
    }); Remote db = Remote.connect("loam://" + node.addr(), patient())) {
      Thread t = new Thread(() -> assertThrows(RemoteException.class, db::snapshot));
      t.start();
      asked.acquire();
      t.interrupt();
      t.join();
      made.countDown();
      released.acquire(); // what came for nobody
      RemoteSnapshot snapshot = db.snapshot();
      Thread.currentThread().interrupt();
      snapshot.close();
      assertTrue(Thread.interrupted());
      released.acquire();
    }
  }

  @Test
  void aDamagedFrameIsALostConnection() throws IOException {
    List<Integer> end = List.of(2, 4, 6);
    try (Node node = new Node((op, n) -> end.contains(n) ? Node.ENDED
        : op == Wire.SNAPSHOT ? new byte[] {1, 1} : new byte[] {1, 65});
        Remote db = Remote.connect("loam://" + node.addr(), patient());
        RemoteSnapshot snapshot = db.snapshot()) {
      assertEquals("A", s(db.get(b("a")))); // call 2 is lost, and 3 answers
      String lost = ": " + node.addr()
          + ": connection lost: the node ended it: malformed: wrong checksum of a frame";
      RemoteException e = assertThrows(RemoteException.class, () -> snapshot.get(b("a")));
      assertTrue(e.isSnapshotGone() && e.getMessage().endsWith(lost), e.toString());
      e = assertThrows(RemoteException.class, () -> db.put(b("a"), b("1"))); // call 4
      assertTrue(e.isUnknown() && e.getMessage().endsWith(lost), e.toString());
      try (RemoteSnapshot other = db.snapshot()) { // call 5
        e = assertThrows(RemoteException.class, () -> other.get(b("a")));
        assertTrue(e.isSnapshotGone() && e.getMessage().endsWith(lost), e.toString());
      }
    }
  }

  @Test
  @Timeout(value = 600, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
  void aNodeThatReadsNothing() throws Exception {
    try (Node node = new Node((op, n) -> new byte[] {1, 65})) {
      readsNothing(null, (addr, options) -> {
        try (Remote db = Remote.connect("loam://" + addr + "," + node.addr(),
            options.timeout(Duration.ofMinutes(5)).tryTimeout(Duration.ofSeconds(1)))) {
          assertEquals("A", s(db.get(b("a"))));
        }
      });
    }
  }

  /** A socket of TLS waits for a write before it is closed. */
  @Test
  @Timeout(value = 600, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
  void aNodeThatReadsNothingOverTls() throws Exception {
    Path keys = directory.resolve("keys");
    assertEquals(0, new ProcessBuilder(Path.of(System.getProperty("java.home"), "bin", "keytool")
        .toString(), "-genkeypair", "-alias", "node", "-keyalg", "EC", "-dname", "CN=node", "-ext",
        "san=ip:127.0.0.1", "-keystore", keys.toString(), "-storepass", "secret")
        .redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.DISCARD).start()
        .waitFor());
    KeyStore store = KeyStore.getInstance(keys.toFile(), "secret".toCharArray());
    KeyManagerFactory own = KeyManagerFactory.getInstance(
        KeyManagerFactory.getDefaultAlgorithm());
    own.init(store, "secret".toCharArray());
    SSLContext context = SSLContext.getInstance("TLS");
    context.init(own.getKeyManagers(), trusting(store), null);
    readsNothing(context, (addr, options) -> { });
  }

  /** Calls on a node that greets and reads nothing after that end with their time. */
  private static void readsNothing(SSLContext tls, BiConsumer<String, RemoteOptions> further)
      throws Exception {
    CountDownLatch over = new CountDownLatch(1);
    try (ServerSocket stalled = new ServerSocket(0, 50, InetAddress.getLoopbackAddress())) {
      Thread t = new Thread(() -> {
        List<Socket> taken = new ArrayList<>();
        while (true) {
          try {
            Socket socket = stalled.accept();
            if (tls != null) {
              socket = tls.getSocketFactory().createSocket(socket, null, true);
              ((SSLSocket) socket).setUseClientMode(false);
            }
            taken.add(socket);
            Node.say(socket, 0, 0, new byte[] {0, 0}); // and nothing after that
          } catch (IOException e) {
            if (stalled.isClosed()) {
              over.countDown();
              return;
            }
          }
        }
      });
      t.setDaemon(true);
      t.start();
      String addr = "127.0.0.1:" + stalled.getLocalPort();
      RemoteOptions options = new RemoteOptions().tls(tls);
      try (Remote db = Remote.connect("loam://" + addr,
          options.timeout(Duration.ofMillis(500)))) {
        for (int i = 0; i < 2; i++) {
          RemoteException e = assertThrows(RemoteException.class,
              () -> db.put(b("a"), new byte[7 << 20])); // more than the network takes
          assertTrue(e.isUnknown() || e.isNotApplied(), e.toString());
        }
      }
      further.accept(addr, options);
    }
    over.await();
  }

  /** The program that LOAM_LOAMD names, or one that is built here where Go is there. */
  private Path loamd() throws Exception {
    String built = System.getenv("LOAM_LOAMD");
    if (built != null) {
      return Path.of(built);
    }
    Path loamd = directory.resolve("loamd");
    ProcessBuilder build = new ProcessBuilder("go", "build", "-o", loamd.toString(), "./cmd/loamd")
        .directory(repository().resolve("replica").toFile()).inheritIO();
    build.environment().put("CGO_ENABLED", "0");
    Process go = null;
    try {
      go = build.start();
    } catch (IOException e) {
      Assumptions.abort("there is no go: loamd was not run");
    }
    assertEquals(0, go.waitFor());
    return loamd;
  }

  @Test
  void realNode() throws Exception {
    Path loamd = loamd();
    node(loamd, "a", List.of(), addr -> {
      try (Remote db = Remote.connect("loam://" + addr,
          new RemoteOptions().timeout(Duration.ofMinutes(1)))) {
        use(db);
      }
    });
    Path tls = directory.resolve("tls");
    assertEquals(0, new ProcessBuilder(loamd.toString(), "certs", tls.toString(), "127.0.0.1")
        .redirectOutput(ProcessBuilder.Redirect.DISCARD).start().waitFor());
    SSLContext known = context(tls.resolve("ca.pem"));
    node(loamd, "t", List.of("--tls", tls.toString()), addr -> {
      Duration minute = Duration.ofMinutes(1);
      RemoteOptions right = new RemoteOptions().tls(known).token("open sesame").timeout(minute);
      try (Remote db = Remote.connect("loams://" + addr, right)) {
        db.put(b("a"), b("1"));
        RemoteBatch batch = new RemoteBatch();
        IntStream.range(0, 64).forEach(i -> batch.put(b("k" + i), new byte[64 << 10]));
        db.write(batch);
        try (RemoteIterator it = db.iterator(null, null)) {
          assertTrue(it.first()); // nobody reads on: other calls do not wait for that
          assertEquals("1", s(db.get(b("a"))));
        }
      }
      refused("loams://" + addr, new RemoteOptions().tls(known).token("sesame").timeout(minute),
          true);
      refused("loams://" + addr, new RemoteOptions().tls(known).timeout(minute), true);
      Duration soon = Duration.ofMillis(300);
      refused("loams://" + addr, new RemoteOptions().token("open sesame").timeout(soon), false);
      refused("loam://" + addr, new RemoteOptions().token("open sesame").timeout(soon), false);
    });
  }

  /** A change by these options fails: it is refused, or no node can be reached. */
  private static void refused(String url, RemoteOptions options, boolean refused) {
    try (Remote db = Remote.connect(url, options)) {
      RemoteException e = assertThrows(RemoteException.class, () -> db.put(b("a"), b("1")));
      assertTrue(e.isNotApplied() && refused == e.isRefused() && refused != e.isUnavailable(),
          e.toString());
    }
  }

  /** Trusts one authority. */
  private static SSLContext context(Path pem) throws Exception {
    KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
    store.load(null, null);
    try (InputStream in = Files.newInputStream(pem)) {
      store.setCertificateEntry("ca", CertificateFactory.getInstance("X.509")
          .generateCertificate(in));
    }
    SSLContext context = SSLContext.getInstance("TLS");
    context.init(null, trusting(store), null);
    return context;
  }

  private static TrustManager[] trusting(KeyStore store) throws Exception {
    TrustManagerFactory trust = TrustManagerFactory.getInstance(
        TrustManagerFactory.getDefaultAlgorithm());
    trust.init(store);
    return trust.getTrustManagers();
  }

  /** Runs a node while f runs, which gets its address. Its token is that of this test. */
  private void node(Path loamd, String id, List<String> options, Consumer<String> f)
      throws Exception {
    int port;
    try (ServerSocket free = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      port = free.getLocalPort();
    }
    String addr = "127.0.0.1:" + port;
    List<String> command = new ArrayList<>(List.of(loamd.toString(), "run", "--id", id, "--data",
        directory.resolve(id).toString(), "--addr", addr, "--peers", id + "=" + addr));
    command.addAll(options);
    ProcessBuilder run = new ProcessBuilder(command)
        .redirectOutput(ProcessBuilder.Redirect.DISCARD)
        .redirectError(ProcessBuilder.Redirect.DISCARD);
    if (!options.isEmpty()) {
      run.environment().put("LOAM_TOKEN", "open sesame");
    }
    Process node = run.start();
    try {
      f.accept(addr);
    } finally {
      node.destroyForcibly().waitFor();
    }
  }

  /** A call that no node takes fails alone: the connection stays, and with it a snapshot. */
  private static void tooLarge(Remote db) {
    byte[] large = new byte[9 << 20];
    try (RemoteSnapshot s = db.snapshot(); RemoteIterator it = s.iterator(large, null)) {
      for (Executable call : List.<Executable>of(() -> db.get(large), () -> s.get(large),
          () -> db.getAll(List.of(large)), it::first)) {
        RemoteException e = assertThrows(RemoteException.class, call);
        assertTrue(e.isTooLarge() && !e.isSnapshotGone() && !e.isUnavailable(), e.toString());
        assertFalse(s.has(b("none")));
      }
    }
  }

  private static void use(Remote db) {
    tooLarge(db);
    db.put(b("a"), b("1"));
    assertEquals("1", s(db.get(b("a"))));
    assertNull(db.get(b("b")));
    assertTrue(db.has(b("a")));
    assertFalse(db.has(b("b")));
    assertTrue(db.compareAndSwap(b("a"), b("1"), b("2")));
    assertFalse(db.compareAndSwap(b("a"), b("1"), b("3")));
    assertFalse(db.putIfAbsent(b("a"), b("4")));
    List<byte[]> both = db.getAll(List.of(b("none"), b("a")));
    assertNull(both.get(0));
    assertEquals("2", s(both.get(1)));
    RemoteBatch batch = new RemoteBatch();
    List<String> keys = IntStream.range(0, 500).mapToObj(i -> String.format("k%03d", i)).toList();
    keys.forEach(k -> batch.put(b(k), b(k.repeat(50))));
    db.write(batch, "load");
    List<String> walked = new ArrayList<>();
    try (RemoteIterator it = db.iterator(b("k"), b("l"))) {
      for (boolean ok = it.first(); ok; ok = it.next()) {
        walked.add(s(it.key()));
        assertEquals(s(it.key()).repeat(50), s(it.value()));
      }
      assertEquals(keys, walked);
      walked.clear();
      for (boolean ok = it.last(); ok; ok = it.prev()) {
        walked.add(0, s(it.key()));
      }
      assertEquals(keys, walked);
      assertTrue(it.seek(b("k2505")) && s(it.key()).equals("k251") && it.prev());
      assertTrue(s(it.key()).equals("k250") && it.next() && s(it.key()).equals("k251"));
      assertTrue(it.seekBefore(b("zzz")) && s(it.key()).equals("k499"));
      assertFalse(it.seekBefore(b("a")));
    }
    try (RemoteSnapshot snapshot = db.snapshot()) {
      db.deleteRange(b("k"), b("l"));
      assertTrue(snapshot.has(b("k001")));
      assertFalse(db.has(b("k001")));
    }
    db.put(b("n"), b("0"));
    IntStream.range(0, 10).parallel().forEach(i -> db.update(tx -> {
      int n = Integer.parseInt(s(tx.get(b("n"))));
      tx.put(b("n"), b(Integer.toString(n + 1)));
      return n;
    }));
    assertEquals("10", s(db.get(b("n"))));
    db.delete(b("n"));
    assertNull(db.get(b("n")));
    assertTrue(db.status().contains("\"state\":\"Leader\""), db.status());
  }
}
