package io.loamdb.remote;

import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.ReentrantLock;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;

/** One connection to a node, which many calls share. A thread of its own reads the answers. */
final class Link {
  /** Why a call failed. Where sent is false the node saw nothing of it. */
  static final class Failure extends Exception {
    private static final long serialVersionUID = 1;
    final transient RemoteException error;
    final boolean sent;

    Failure(RemoteException error, boolean sent) {
      super(error);
      this.error = error;
      this.sent = sent;
    }
  }

  private static final ScheduledThreadPoolExecutor CLOCK = clock();

  /** The number of calls whose answers are of no interest. */
  private static final int UNTOLD = -1;

  final String addr;
  private final RemoteOptions options;
  private final Socket network; // below TLS, where that is used
  private final OutputStream out;
  private final Map<Integer, CompletableFuture<byte[]>> pending = new ConcurrentHashMap<>();
  private final AtomicInteger number = new AtomicInteger();
  private final Silence silence;
  private final ReentrantLock writing = new ReentrantLock(); // before writes to out
  private volatile RemoteException lost;

  private static ScheduledThreadPoolExecutor clock() {
    ScheduledThreadPoolExecutor clock = new ScheduledThreadPoolExecutor(1, task -> {
      Thread t = new Thread(task, "loam clock");
      t.setDaemon(true);
      return t;
    });
    clock.setRemoveOnCancelPolicy(true);
    return clock;
  }

  /** Connects. The node has that long for each step. */
  Link(String addr, RemoteOptions options, long limit) throws Failure {
    this.addr = addr;
    this.options = options;
    Duration least = options.tryTimeout.compareTo(options.timeout) < 0 ? options.tryTimeout
        : options.timeout;
    silence = new Silence(least.toNanos() / 2);
    network = new Socket();
    try {
      Socket made = network;
      int at = addr.lastIndexOf(':');
      String host = addr.substring(0, at).replaceAll("^\\[(.*)\\]$", "$1");
      int port = Integer.parseInt(addr.substring(at + 1));
      int millis = (int) Math.max(1, Math.min(limit, Integer.MAX_VALUE)); // 0 has no end
      made.connect(new InetSocketAddress(host, port), millis);
      made.setTcpNoDelay(true);
      made.setSoTimeout(millis);
      if (options.tls != null) {
        SSLSocket secure = (SSLSocket) options.tls.getSocketFactory().createSocket(made, host, port,
            true);
        made = secure;
        SSLParameters p = secure.getSSLParameters();
        p.setEndpointIdentificationAlgorithm("HTTPS"); // the name is checked
        secure.setSSLParameters(p);
        secure.startHandshake();
      }
      DataInputStream in = new DataInputStream(new BufferedInputStream(
          silence.of(made.getInputStream()), 64 << 10));
      made.getOutputStream().write(Wire.greeting(options.cluster, options.token));
      answer(Wire.read(in), true);
      made.setSoTimeout(0);
      out = made.getOutputStream();
      Thread reader = new Thread(() -> read(in), "loam " + addr);
      reader.setDaemon(true);
      reader.start();
    } catch (IOException e) {
      close();
      throw new Failure(broken(e), false);
    } catch (RemoteException e) {
      close();
      throw new Failure(e, false);
    } catch (RuntimeException | Error e) {
      close();
      throw e;
    }
  }

  private RemoteException broken(Throwable e) {
    String why = e.getMessage() == null ? "" : ": " + e.getMessage(); // null: its end
    return RemoteException.local(addr + ": connection lost" + why, RemoteException.UNAVAILABLE, e);
  }

  boolean isLost() {
    return lost != null;
  }

  private void read(DataInputStream in) {
    try {
      while (true) {
        byte[] body = Wire.read(in);
        silence.end();
        answer(body, false);
      }
    } catch (RemoteException e) {
      lose(e);
    } catch (IOException | RuntimeException | Error e) { // without memory, too, nobody reads on
      lose(broken(e));
    }
  }

  private void answer(byte[] body, boolean greeting) throws IOException {
    if (body.length < 8) {
      throw new IOException("an answer of few bytes");
    }
    Wire.In in = new Wire.In(body);
    int of = in.fixed();
    int flags = in.fixed();
    byte[] rest = in.rest();
    String text = flags == 0 ? null : new String(rest, StandardCharsets.UTF_8);
    if (of == 0 && flags != 0 && !greeting) {
      // Of the connection, as after a frame that arrived damaged. No call has this error: each one
      // fails as after the loss of the connection.
      throw new IOException("the node ended it: " + text);
    }
    RemoteException error = flags == 0 ? null
        : new RemoteException(addr + ": " + text, flags, true, null);
    if (of == 0 && error != null) {
      throw error;
    }
    CompletableFuture<byte[]> call = greeting ? null : pending.remove(of);
    if (call == null) {
      return;
    }
    if (error != null) {
      call.completeExceptionally(error);
    } else {
      call.complete(rest);
    }
  }

  /** Fails the calls that wait, and the connection for good. */
  void lose(RemoteException why) {
    synchronized (pending) {
      if (lost == null) {
        lost = why;
      }
    }
    close();
    for (Integer n : pending.keySet()) {
      CompletableFuture<byte[]> call = pending.remove(n);
      if (call != null) {
        call.completeExceptionally(new LostException());
      }
    }
  }

  private static final class LostException extends Exception {
    private static final long serialVersionUID = 1;
  }

  /**
   * Closes the socket below TLS: that of TLS waits for a write to end before it is closed, and a
   * node that reads nothing ends none.
   */
  private void close() {
    try {
      network.close();
    } catch (IOException e) {
      // it is of no use any more
    }
  }

  /**
   * Makes a call. One that is too large is not sent, as the node would end the connection, and with
   * it the calls of others.
   */
  byte[] call(int op, byte[] args, long millis) throws Failure {
    if (Wire.CALL_HEADER + args.length > Wire.MAX_BODY) {
      String why = "a call of " + (Wire.CALL_HEADER + args.length) + " bytes, and at most "
          + Wire.MAX_BODY + " go";
      throw new Failure(RemoteException.local(why, RemoteException.TOO_LARGE, null), false);
    }
    long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(millis);
    CompletableFuture<byte[]> answer = new CompletableFuture<>();
    int n;
    do {
      n = number.incrementAndGet();
    } while (n == 0 || n == UNTOLD || pending.putIfAbsent(n, answer) != null);
    long mark = silence.sent(System.nanoTime());
    boolean sent = false;
    boolean taken = false;
    try {
      if (lost != null) {
        throw new Failure(lost, false);
      }
      sent = write(Wire.call(n, millis, op, args), millis);
      byte[] result = await(answer, mark, end);
      taken = true;
      return result;
    } catch (TimeoutException e) {
      if (sent && silence.isLost(mark, System.nanoTime())) {
        lose(broken(new IOException("the node says nothing")));
        throw new Failure(lost, true);
      }
      throw new Failure(late(e), sent);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new Failure(RemoteException.local("interrupted", 0, e), sent);
    } catch (IOException e) {
      lose(broken(e));
      throw new Failure(lost, true);
    } catch (ExecutionException e) {
      if (e.getCause() instanceof RemoteException error) {
        throw new Failure(error, true);
      }
      throw new Failure(lost, true);
    } finally {
      if (op == Wire.SNAPSHOT && sent && !taken) { // it is released when it comes
        answer.thenAccept(this::release);
      } else {
        pending.remove(n);
      }
    }
  }

  /** Releases the snapshot of an answer, as a connection may have few. */
  private void release(byte[] snapshot) {
    byte[] id = new Wire.Out().number(new Wire.In(snapshot).number()).toByteArray();
    Thread t = new Thread(() -> tell(Wire.RELEASE, id), "loam release"); // it waits
    t.setDaemon(true);
    t.start();
  }

  /** Waits for an answer. After half of the time a node that is silent is asked for its status. */
  private byte[] await(CompletableFuture<byte[]> answer, long mark, long end)
      throws ExecutionException, InterruptedException, TimeoutException, IOException {
    try {
      return answer.get(Math.max((end - System.nanoTime()) / 2, 1), TimeUnit.NANOSECONDS);
    } catch (TimeoutException e) {
      if (silence.ask(mark, System.nanoTime())) {
        // Not what is left for this call: a process that stood still would end the calls of others.
        long millis = options.tryTimeout.toMillis();
        write(Wire.call(UNTOLD, millis, Wire.STATUS, new byte[0]), millis);
      }
      return answer.get(Math.max(end - System.nanoTime(), 1), TimeUnit.NANOSECONDS);
    }
  }

  private RemoteException late(Exception e) {
    return RemoteException.local(addr + ": no answer in time", RemoteException.UNAVAILABLE, e);
  }

  /** Writes a frame. A node that takes none in time loses the connection. */
  private boolean write(byte[] frame, long millis) throws IOException, InterruptedException,
      TimeoutException {
    if (!writing.tryLock(millis, TimeUnit.MILLISECONDS)) {
      lose(late(null));
      throw new TimeoutException();
    }
    // A socket has no time-out of its own for writes, but ends them when it is closed.
    Future<?> end = null;
    try {
      end = CLOCK.schedule(() -> lose(late(null)), millis, TimeUnit.MILLISECONDS);
      out.write(frame);
    } catch (RuntimeException | Error e) { // perhaps a part was written
      lose(broken(e));
      throw e;
    } finally {
      if (end != null) {
        end.cancel(false);
      }
      writing.unlock();
    }
    return true;
  }

  /** Makes a call whose answer is of no interest, also in a thread that was interrupted. */
  void tell(int op, byte[] args) {
    boolean interrupted = Thread.interrupted();
    try {
      if (lost == null) {
        write(Wire.call(UNTOLD, 1000, op, args), options.tryTimeout.toMillis());
      }
    } catch (IOException | TimeoutException e) {
      lose(broken(e));
    } catch (InterruptedException e) {
      interrupted = true;
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }
}
