//go:build cgo && linux && (amd64 || arm64)

/*
 * The addresses that Go's runtime reserves.
 *
 * When it starts, Go reserves more than 1 GiB of addresses for tables of which
 * it maps a few pages: memory they are not, but they count against RLIMIT_AS, and
 * a program that is bounded so could not load the library. Here these tables
 * stand in addresses that are kept for them by convention instead: nothing is
 * mapped there but the pages in use. As with package offheap's extents, what
 * somebody else has mapped in between is never overwritten: Go then finds no
 * memory.
 *
 * Slots lie above the addresses that V8 and other allocators ask for at random
 * (46 bits), and below those of programs and libraries. Each copy of this library
 * in a process takes one, and marks it by a page at its beginning.
 */
#define _GNU_SOURCE
#include "shim.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef __SANITIZE_ADDRESS__ /* which wants to see every mapping */

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

#define SLOT ((uintptr_t)1 << 32)
#define FIRST (0x4000 * SLOT)
#define SLOTS 0x1400
#define GAP ((uintptr_t)2 << 20) /* in front of each table */

/* Of a table. The heap, too, is reserved in large pieces, but at an address of
 * Go's choice and after the tables. */
#define LEAST ((size_t)32 << 20)
#define TABLES 3

#define NOWHERE ((uintptr_t)1)

/* The tables are in [low, high). Written while Go starts, by one thread. */
static _Atomic uintptr_t low, high;
static unsigned tables;

static void *map(void *addr, size_t n, int prot, int flags, int fd, off_t offset) {
  return (void *)syscall(SYS_mmap, addr, n, prot, flags, fd, offset);
}

/* Takes a slot; NOWHERE where the kernel knows no such addresses, or cannot say
 * whether they are taken (before 4.17). */
static uintptr_t take_slot(void) {
  /* As random as the address of this library. */
  uintptr_t random = ((uintptr_t)&low >> 12) * 0x9e3779b97f4a7c15u >> 32;
  for (uintptr_t i = 0; i < 8; i++) {
    void *at = (void *)(FIRST + (random + i) % SLOTS * SLOT);
    void *p = map(at, 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (p == at) return (uintptr_t)at;
    if (p != MAP_FAILED) munmap(p, 1);
    else if (errno == EEXIST) continue;
    break;
  }
  return NOWHERE;
}

/* Addresses for a table; NULL: none. */
static void *keep(size_t n) {
  if (low == 0) {
    high = low = take_slot();
    high += low == NOWHERE ? 0 : GAP;
  }
  if (low == NOWHERE || tables == TABLES || n > low + SLOT - high - 2 * GAP) return NULL;
  uintptr_t at = high + GAP;
  tables++;
  high = at + (n + GAP - 1) / GAP * GAP;
  return (void *)at;
}

static bool overlaps(const void *addr, size_t n) {
  return (uintptr_t)addr < high && (uintptr_t)addr + n > low;
}

/* Stands in front of the C library's for the code of this library: Go's runtime
 * maps its memory through it. */
__attribute__((visibility("hidden"))) void *mmap(void *addr, size_t n, int prot, int flags, int fd,
  off_t offset) {
  if (addr == NULL && n >= LEAST && prot == PROT_NONE && flags == (MAP_PRIVATE | MAP_ANONYMOUS)) {
    void *p = keep(n);
    if (p != NULL) return p;
  }
  if (addr != NULL && flags & MAP_FIXED && overlaps(addr, n)) {
    /* Pages of a table, of which each is mapped once. */
    void *p = map(addr, n, prot, (flags & ~MAP_FIXED) | MAP_FIXED_NOREPLACE, fd, offset);
    if (p == addr || p == MAP_FAILED) return p;
    munmap(p, n);
    errno = EEXIST;
    return MAP_FAILED;
  }
  void *p = map(addr, n, prot, flags, fd, offset);
  if (p == MAP_FAILED || !overlaps(p, n)) return p;
  munmap(p, n);
  errno = ENOMEM;
  return MAP_FAILED;
}

#endif
