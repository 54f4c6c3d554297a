package io.loamdb;

import static io.loamdb.LoamTest.b;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.ref.WeakReference;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;

/** What {@link ProcessTest} runs in processes of its own. */
public final class Programs {
  /** Bytewise, but in Java: so the library's threads call the JVM. */
  static final KeyComparator ORDER = new KeyComparator() {
    @Override
    public String name() {
      return "java-bytewise";
    }

    @Override
    public int compare(byte[] x, byte[] y) {
      return Arrays.compareUnsigned(x, y);
    }
  };

  private static int depth;
  /** The least that a library's thread blocks; 3: none called. */
  private static volatile int blocked = 3;
  private static String nothing;

  private Programs() {}

  /** The arguments: the program and the directory of a database. */
  public static void main(String[] args) throws Exception {
    Path path = Path.of(args[1]);
    switch (args[0]) {
      case "exit" -> exit(path);
      case "garbage" -> garbage(path);
      case "signals" -> signals(path);
      case "loaders" -> loaders(path);
      case "memory" -> memory(path);
      case "version" -> System.out.println(Loam.version());
      default -> throw new IllegalArgumentException(args[0]);
    }
  }

  /** Exits while threads write, read and compact by callbacks of Java. */
  private static void exit(Path path) throws InterruptedException {
    Loam db = Loam.open(path,
        new Options().comparator(ORDER).set("write_buffer_size", "64KiB"));
    AtomicLong written = new AtomicLong();
    CountDownLatch enough = new CountDownLatch(3000);
    start(() -> {
      for (long i = 0; ; i++) {
        db.put(b(String.format("a%09d", i)), new byte[100]);
        written.set(i + 1);
        enough.countDown();
      }
    });
    start(() -> {
      for (long i = 0; ; i++) {
        db.put(b("b" + i * 7919 % 100_000), new byte[100]);
      }
    });
    start(() -> {
      for (;;) {
        db.compactRange();
      }
    });
    start(() -> {
      for (;;) {
        try (var entries = db.stream(new ReadOptions())) {
          entries.forEach(entry -> { });
        }
      }
    });
    enough.await();
    System.out.println("written " + written.get());
    System.exit(0);
  }

  private static void start(Runnable work) {
    new Thread(work).start();
  }

  /** Nothing is closed; the collector closes the database, whose lock is free then. */
  private static void garbage(Path path) {
    leave(path);
    for (;;) {
      System.gc();
      try (Loam db = Loam.open(path)) {
        System.out.println(db.get(b("a")).length == 1 ? "opened again" : "lost");
        return;
      } catch (LoamException.Locked e) {
        byte[][] more = new byte[100][];
        Arrays.setAll(more, i -> new byte[1000]);
      }
    }
  }

  private static void leave(Path path) {
    Loam db = Loam.open(path);
    db.put(b("a"), b("1"));
    LoamIterator it = db.iterator();
    it.seekToFirst();
    db.snapshot();
    db.begin().put(b("t"), b("1"));
    db.keyspace("space").put(b("a"), b("2"));
  }

  /** Fetches changes and entries while there is too little memory for them, and then again. */
  private static void memory(Path path) throws InterruptedException {
    try (Loam db = Loam.open(path); Changes changes = db.changes(0, false)) {
      db.put(b("a"), new byte[16 << 20]);
      db.put(b("b"), b("2"));
      List<byte[]> ballast = fill();
      int refused = 0;
      Change change = null;
      while (change == null) {
        try {
          change = Objects.requireNonNull(changes.next(Duration.ZERO), "it is lost");
        } catch (OutOfMemoryError e) {
          refused++;
          ballast.remove(ballast.size() - 1);
        }
      }
      System.out.println((refused > 0 ? "refused, then " : "") + change.sequence() + " before "
          + changes.position() + " and " + changes.next(Duration.ZERO).sequence());
      change = null;
      try (LoamIterator entries = db.iterator()) {
        ballast.addAll(fill());
        try {
          entries.next();
        } catch (OutOfMemoryError e) {
          ballast.clear();
        }
        try {
          System.out.println("skipped to " + entries.next());
        } catch (LoamException.InvalidArgument e) {
          System.out.println("again " + entries.seekToFirst() + entries.next() + entries.next());
        }
      }
    }
  }

  /** As much as the heap takes. */
  private static List<byte[]> fill() {
    List<byte[]> ballast = new ArrayList<>(1 << 10);
    try {
      for (;;) {
        ballast.add(new byte[1 << 19]);
      }
    } catch (OutOfMemoryError e) {
      return ballast;
    }
  }

  /** Uses the library in class loaders one after the other, as servers that load a program anew. */
  private static void loaders(Path path) throws Exception {
    for (int n = 0; n < 5; n++) {
      WeakReference<ClassLoader> loader = useInLoader(path);
      while (loader.get() != null) {
        System.gc();
        byte[][] more = new byte[100][];
        Arrays.setAll(more, i -> new byte[1000]);
      }
    }
    try (var lines = Files.lines(Path.of("/proc/self/maps"))) {
      System.out.println("engines " + lines.filter(line -> line.contains("/libloam.so"))
          .map(line -> line.split(" +")[4]).distinct().count());
    }
  }

  private static WeakReference<ClassLoader> useInLoader(Path path) throws Exception {
    List<URL> urls = new ArrayList<>();
    for (String entry : System.getProperty("java.class.path").split(File.pathSeparator)) {
      urls.add(Path.of(entry).toUri().toURL());
    }
    try (URLClassLoader loader = new URLClassLoader(urls.toArray(new URL[0]),
        ClassLoader.getPlatformClassLoader())) {
      loader.loadClass("io.loamdb.Programs").getMethod("use", Path.class).invoke(null, path);
      return new WeakReference<>(loader);
    }
  }

  /** Has the library's threads call the JVM. */
  public static void use(Path path) {
    Options options = new Options().comparator(ORDER).set("write_buffer_size", "64KiB");
    try (Loam db = Loam.open(path, options)) {
      for (int i = 0; i < 2000; i++) {
        db.put(b("key" + i * 7919 % 2000), new byte[100]);
      }
      db.compactRange();
    }
  }

  /** The JVM's own signals: overflows of stacks, null checks by faults, safepoints. */
  private static void signals(Path path) throws InterruptedException {
    KeyComparator faulting = new KeyComparator() {
      @Override
      public String name() {
        return "faulting";
      }

      @Override
      public int compare(byte[] x, byte[] y) {
        if (Thread.currentThread().getName().equals("loam")) {
          blocked = Math.min(blocked, blockedSignals());
        }
        try {
          return nothing.length();
        } catch (NullPointerException e) {
          return Arrays.compareUnsigned(x, y);
        }
      }
    };
    Options options = new Options().comparator(faulting).set("write_buffer_size", "64KiB");
    try (Loam db = Loam.open(path, options)) {
      for (int n = 0; n < 3; n++) {
        for (int i = 0; i < 2000; i++) {
          db.put(b("key" + i * 7919 % 2000), new byte[100]);
          if (i % 500 == 0) {
            overflow();
            System.gc();
          }
        }
        db.compactRange();
      }
      Thread other = new Thread(() -> {
        db.get(b("key1"));
        overflow();
        db.get(b("key1"));
      });
      other.start();
      other.join();
    }
    System.out.println("survived, blocked " + blocked);
  }

  /** How many of SIGTERM and SIGUSR2, which the JVM opens, the present thread blocks. */
  private static int blockedSignals() {
    try {
      for (String line : Files.readAllLines(Path.of("/proc/thread-self/status"))) {
        if (line.startsWith("SigBlk:")) {
          long mask = Long.parseUnsignedLong(line.substring(7).strip(), 16);
          return (int) (mask >>> 14 & 1) + (int) (mask >>> 11 & 1);
        }
      }
      return 0;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static void overflow() {
    try {
      recurse();
    } catch (StackOverflowError e) {
      depth = 0;
    }
  }

  private static int recurse() {
    depth++;
    return recurse() + 1;
  }
}
