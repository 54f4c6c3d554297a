package io.loamdb;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;

/**
 * Finds and loads the native libraries: the engine, on Linux {@code libloam.so.0}, and the JNI
 * half, {@code libloamdbjni.so}, which needs it.
 *
 * <p>Both lie in the jar, under {@code io/loamdb/native/PLATFORM/}. They are copied into a new
 * directory that only the user can read, in {@code java.io.tmpdir}, and removed as soon as they are
 * loaded. The system property {@code loamdb.library}, or the environment variable {@code
 * LOAM_LIBRARY}, is the path of another engine to use. On Linux all class loaders of a process use
 * the engine that the first of them loaded.
 */
final class Library {
  private static final String SYSTEM = system(System.getProperty("os.name"));
  private static final String ENGINE = switch (SYSTEM) {
    case "darwin" -> "libloam.dylib";
    case "windows" -> "loam.dll";
    default -> "libloam.so.0";
  };
  private static final String SHIM = switch (SYSTEM) {
    case "darwin" -> "libloamdbjni.dylib";
    case "windows" -> "loamdbjni.dll";
    default -> "libloamdbjni.so";
  };

  private Library() {}

  /** Such as {@code linux-x86-64}. */
  static String platform() {
    String machine = System.getProperty("os.arch");
    boolean x86 = machine.equals("amd64") || machine.equals("x86_64");
    return SYSTEM + "-" + (x86 ? "x86-64" : machine);
  }

  private static String system(String name) {
    String lower = name.toLowerCase(Locale.ROOT);
    if (lower.startsWith("mac")) {
      return "darwin";
    }
    return lower.startsWith("windows") ? "windows" : lower;
  }

  static void load() {
    if (isMapped("/ld-musl-")) {
      throw new UnsatisfiedLinkError(
          "loamdb needs glibc: the Go runtime inside it cannot be loaded into a process that uses "
              + "musl (Alpine Linux)");
    }
    try {
      loadCopies();
    } catch (IOException e) {
      throw new UncheckedIOException("loamdb cannot copy its libraries to java.io.tmpdir", e);
    }
  }

  private static void loadCopies() throws IOException {
    Path directory = Files.createTempDirectory("loamdb");
    try {
      loadEngine(directory);
      System.load(copy(SHIM, directory).toString());
    } finally {
      for (String name : List.of(SHIM, ENGINE, "")) {
        remove(directory.resolve(name));
      }
    }
  }

  /** Windows removes no library that is loaded: there it goes, if at all, when the JVM ends. */
  private static void remove(Path path) throws IOException {
    if (SYSTEM.equals("windows")) {
      path.toFile().deleteOnExit();
    } else {
      Files.deleteIfExists(path);
    }
  }

  /**
   * The dynamic linker knows the engine from then on, by its name, and does not look for it. A
   * second copy would be a further Go runtime, with its threads, that nobody calls.
   */
  private static void loadEngine(Path directory) throws IOException {
    if (isMapped("/" + ENGINE)) {
      return;
    }
    String chosen = System.getProperty("loamdb.library", System.getenv("LOAM_LIBRARY"));
    Path engine = chosen == null || chosen.isEmpty()
        ? copy(ENGINE, directory)
        : Path.of(chosen).toAbsolutePath();
    System.load(engine.toString());
  }

  private static Path copy(String name, Path directory) throws IOException {
    Path to = directory.resolve(name).toAbsolutePath();
    try (InputStream in = Library.class.getResourceAsStream(
        "/io/loamdb/native/" + platform() + "/" + name)) {
      if (in == null) {
        throw new UnsatisfiedLinkError("loamdb has no library for " + platform() + " in its jar");
      }
      Files.copy(in, to);
    }
    return to;
  }

  /** Whether a library is in the process, on Linux. */
  private static boolean isMapped(String name) {
    try (var lines = Files.lines(Path.of("/proc/self/maps"))) {
      return lines.anyMatch(line -> line.contains(name));
    } catch (IOException | UncheckedIOException e) {
      return false;
    }
  }
}
