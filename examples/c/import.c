/* Loads a CSV file into a database and looks lines up in it:
 *
 *   cc import.c $(pkg-config --cflags --libs loam) -o import
 *   ./import load people.csv db     the first column is the key
 *   ./import get db < keys          a key on each line
 *
 * A load takes lines in any order, sorts them, with the help of files beyond some memory, and puts
 * all of them into the database in one step, or none. */
#include <loam.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 1 << 16 };

/* Says why a call failed. Returns the status of the program. */
static int failed(const char *what, loam_status status, char *err) {
  fprintf(stderr, "%s: %s\n", what, err ? err : loam_status_string(status));
  loam_free(err);
  return 1;
}

/* Reads a line without its end into line, which has LONGEST bytes. Returns its length; -1: there
 * is none, -2: it is too long. */
static long read_line(FILE *from, char *line) {
  size_t len;
  if (fgets(line, LONGEST, from) == NULL) return -1;
  len = strlen(line);
  if (len > 0 && line[len - 1] == '\n') line[--len] = 0;
  else if (!feof(from)) return -2;
  if (len > 0 && line[len - 1] == '\r') line[--len] = 0;
  return (long)len;
}

/* Puts the lines of a file into the database. */
static int load(loam_db *db, FILE *file, char *line) {
  loam_bulk_load *lines;
  loam_status s;
  char *err = NULL;
  long len, n = 0;
  int bad = 0;
  if ((s = loam_bulk_load_begin(db, NULL, &lines, &err)) != LOAM_OK) return failed("load", s, err);
  while (!bad && (len = read_line(file, line)) != -1) {
    char *comma = len > 0 ? memchr(line, ',', (size_t)len) : NULL;
    if (comma == NULL) {
      fprintf(stderr, "line %ld: too long, or without a comma\n", n + 1);
      bad = 1;
    } else if ((s = loam_bulk_load_put(lines, line, (size_t)(comma - line), comma + 1,
                  (size_t)(line + len - comma - 1), &err)) != LOAM_OK) {
      bad = failed("put", s, err);
    } else {
      n++;
    }
  }
  if (!bad && (s = loam_bulk_load_finish(lines, &err)) != LOAM_OK) bad = failed("finish", s, err);
  loam_bulk_load_close(lines); /* an unfinished load leaves nothing */
  if (!bad) printf("%ld lines\n", n);
  return bad;
}

/* Prints the lines whose keys stand on the lines of the standard input. */
static int get(loam_db *db, char *line) {
  long len;
  while ((len = read_line(stdin, line)) >= 0) {
    char *value, *err = NULL;
    size_t size;
    loam_status s = loam_get_alloc(db, NULL, line, (size_t)len, (void **)&value, &size, &err);
    if (s == LOAM_NOT_FOUND) {
      printf("%s: none\n", line);
    } else if (s != LOAM_OK) {
      return failed(line, s, err);
    } else {
      printf("%s,%.*s\n", line, (int)size, value);
      loam_free(value);
    }
  }
  return len == -1 ? 0 : 1;
}

int main(int argc, char **argv) {
  static char line[LONGEST];
  FILE *file = NULL;
  loam_db *db;
  loam_status s;
  char *err = NULL;
  int loads = argc == 4 && strcmp(argv[1], "load") == 0, status;
  if (!loads && !(argc == 3 && strcmp(argv[1], "get") == 0)) {
    fprintf(stderr, "usage: import load FILE DIR | import get DIR\n");
    return 2;
  }
  if (loads && (file = fopen(argv[2], "r")) == NULL) {
    perror(argv[2]);
    return 1;
  }
  s = loam_open(argv[argc - 1], NULL, &db, &err);
  status = s != LOAM_OK ? failed("open", s, err) : loads ? load(db, file, line) : get(db, line);
  if (file != NULL) fclose(file);
  if (s == LOAM_OK && (s = loam_close(db, &err)) != LOAM_OK) status = failed("close", s, err);
  return status;
}
