package io.loamdb;

import static io.loamdb.LoamTest.b;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Runs {@link Programs} in JVMs of their own, whose JNI calls are checked. */
class ProcessTest {
  @TempDir Path directory;

  private String run(String program, String... options) throws IOException, InterruptedException {
    List<String> command = new ArrayList<>(List.of(
        Path.of(System.getProperty("java.home"), "bin", "java").toString(), "-Xcheck:jni",
        "-XX:+UseSerialGC", "-Xmx128m", "-Djava.io.tmpdir=" + directory));
    command.addAll(List.of(options));
    command.addAll(List.of("-cp", System.getProperty("java.class.path"),
        "io.loamdb.Programs", program, directory.resolve("db").toString()));
    Path out = directory.resolve("out");
    Process process = new ProcessBuilder(command).directory(directory.toFile())
        .redirectErrorStream(true).redirectOutput(out.toFile()).start();
    int status = process.waitFor();
    String printed = Files.readString(out);
    assertEquals(0, status, printed);
    assertFalse(printed.contains("FATAL ERROR in native method"), printed);
    assertFalse(printed.contains("WARNING in native method"), printed);
    assertFalse(printed.contains("WARNING: JNI"), printed);
    return printed;
  }

  @Test
  void exitWithWorkPending() throws Exception {
    String printed = run("exit");
    long written = Long.parseLong(printed.replaceFirst("(?s).*written (\\d+).*", "$1"));
    assertTrue(written > 0);
    Options options = new Options().comparator(Programs.ORDER);
    try (Loam db = Loam.open(directory.resolve("db"), options)) {
      for (long i = 0; i < written; i++) {
        assertTrue(db.has(b(String.format("a%09d", i))), "" + i);
      }
      db.verify();
    }
  }

  @Test
  void garbage() throws Exception {
    assertTrue(run("garbage").contains("opened again"));
    try (var left = Files.list(directory)) {
      assertEquals(0, left.filter(p -> p.getFileName().toString().startsWith("loamdb")).count());
    }
  }

  @Test
  void signalsOfTheJvm() throws Exception {
    String printed = run("signals", "-Xss512k");
    assertTrue(printed.contains("survived, blocked 2"), printed);
  }

  @Test
  void classLoadersAreCollectedAndShareTheEngine() throws Exception {
    assertTrue(run("loaders").contains("engines 1"));
    String engine = System.getProperty("loam.root") + "/build/lib/libloam.so.0";
    assertTrue(run("loaders", "-Dloamdb.library=" + engine).contains("engines 1"));
  }

  @Test
  void whatHadNoMemoryIsFetchedAgain() throws Exception {
    String printed = run("memory");
    assertTrue(printed.contains("refused, then 1 before 2 and 2"), printed);
    assertTrue(printed.contains("again truetruefalse"), printed);
  }

  @Test
  void anotherLibrary() throws Exception {
    String engine = System.getProperty("loam.root") + "/build/lib/libloam.so.0";
    assertTrue(run("version", "-Dloamdb.library=" + engine).contains(Loam.version()));
  }
}
