package io.loamdb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The programs of examples/java, and those of the README, print what they say. */
class ExamplesTest {
  private static final Path ROOT = Path.of(System.getProperty("loam.root"));

  @TempDir Path directory;

  private void compile(List<Path> sources) {
    List<String> arguments = new ArrayList<>(List.of("-Xlint:all", "-Werror", "-d",
        directory.toString(), "-cp", System.getProperty("java.class.path")));
    sources.forEach(source -> arguments.add(source.toString()));
    ByteArrayOutputStream messages = new ByteArrayOutputStream();
    int status = ToolProvider.getSystemJavaCompiler()
        .run(null, messages, messages, arguments.toArray(new String[0]));
    assertEquals(0, status, messages.toString(StandardCharsets.UTF_8));
  }

  private String run(String program) throws Exception {
    ByteArrayOutputStream printed = new ByteArrayOutputStream();
    PrintStream out = System.out;
    URL[] places = {directory.toUri().toURL()};
    try (URLClassLoader loader = new URLClassLoader(places, getClass().getClassLoader())) {
      System.setOut(new PrintStream(printed, true, StandardCharsets.UTF_8));
      String[] arguments = {directory.resolve("db-" + program).toString()};
      loader.loadClass(program).getMethod("main", String[].class)
          .invoke(null, (Object) arguments);
    } finally {
      System.setOut(out);
    }
    return printed.toString(StandardCharsets.UTF_8);
  }

  @Test
  void examples() throws Exception {
    List<Path> sources;
    try (var files = Files.list(ROOT.resolve("examples/java"))) {
      sources = files.filter(f -> f.toString().endsWith(".java")).sorted()
          .collect(Collectors.toList());
    }
    assertTrue(sources.size() >= 9);
    compile(sources);
    for (Path source : sources) {
      String text = Files.readString(source);
      String expected = Arrays.stream(text.split("// Prints:\n")[1].split("\n"))
          .map(line -> line.substring(3) + "\n").collect(Collectors.joining());
      String name = source.getFileName().toString().replace(".java", "");
      assertEquals(expected, run(name), name);
    }
  }

  /** Each Java block of the README that is no whole program is a body of a method. */
  @Test
  void readme() throws IOException {
    String page = Files.readString(ROOT.resolve("bindings/java/README.md"));
    StringBuilder source = new StringBuilder("""
        import io.loamdb.*;
        import java.io.*;
        import java.nio.file.*;
        import java.time.Duration;
        import java.util.*;
        import org.iq80.leveldb.DB;
        import static io.loamdb.iq80.LoamDBFactory.*;
        class Readme {
        """);
    int n = 0;
    for (String part : page.split("```java\n")) {
      if (n++ > 0) {
        source.append("static void block").append(n)
            .append("(Loam db, byte[] key, byte[] value) throws Exception {\n")
            .append(part.split("```")[0]).append("}\n");
      }
    }
    assertTrue(n > 4);
    Path file = directory.resolve("Readme.java");
    Files.writeString(file, source + "}\n");
    compile(List.of(file));
  }
}
