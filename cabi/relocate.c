//go:build cgo && linux

/*
 * The relocations of the library itself.
 *
 * Go's types and functions are full of addresses, to each of which a loader adds where the library
 * lies. The usual table of these has 24 bytes an address; the packed one (RELR) has a bit or two,
 * but loaders before glibc 2.36 do not read it. So the linker packs the table, internal/selfreloc
 * gives its entries in the dynamic section tags that no loader reads, and this function, which
 * is DT_INIT and runs before all constructors, adds the addresses. A library without these tags
 * was relocated by the loader.
 *
 * Until it has run, nothing here may use the address of a variable or a function that is not
 * relative to the instruction: no static pointer, no switch by a table.
 */
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { TAG_TABLE = 0x60004c52, TAG_SIZE = 0x60004c53 }; /* as in internal/selfreloc */

extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));
extern ElfW(Dyn) _DYNAMIC[] __attribute__((visibility("hidden")));

/* Adds base to what the table names: an even word is the address of one, an odd word has
 * a bit for each of the 63 words behind the last. */
static void add_base(uintptr_t base, const uintptr_t *table, size_t size) {
  uintptr_t *where = NULL;
  for (const uintptr_t *end = table + size / sizeof *table; table < end; table++) {
    if (!(*table & 1)) {
      where = (uintptr_t *)(base + *table);
      *where++ += base;
      continue;
    }
    uintptr_t *at = where;
    for (uintptr_t bits = *table >> 1; bits != 0; bits >>= 1, at++)
      if (bits & 1) *at += base;
    where += 8 * sizeof *where - 1;
  }
}

__attribute__((visibility("hidden"))) void loam_relocate(void) {
  uintptr_t base = (uintptr_t)&__ehdr_start, first = 0, last = 0;
  const uintptr_t *table = NULL;
  size_t size = 0;
  for (const ElfW(Dyn) *d = _DYNAMIC; d->d_tag != DT_NULL; d++) {
    if (d->d_tag == TAG_TABLE) table = (const uintptr_t *)(base + d->d_un.d_ptr);
    if (d->d_tag == TAG_SIZE) size = d->d_un.d_val;
  }
  if (table == NULL) return;
  const ElfW(Phdr) *p = (const ElfW(Phdr) *)(base + __ehdr_start.e_phoff);
  for (int i = 0; i < __ehdr_start.e_phnum; i++) {
    if (p[i].p_type != PT_GNU_RELRO) continue;
    /* The loader has made these pages read-only, and only whole ones. */
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    first = (base + p[i].p_vaddr) & -page;
    last = (base + p[i].p_vaddr + p[i].p_memsz) & -page;
  }
  if (first < last && mprotect((void *)first, last - first, PROT_READ | PROT_WRITE)) abort();
  add_base(base, table, size);
  if (first < last && mprotect((void *)first, last - first, PROT_READ)) abort();
}
