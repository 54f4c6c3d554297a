"""Makes loamdb._loam: all of loam.h, through cffi.

The declarations come from loam.h itself, and the generated C is compiled against
it. The module is not linked with libloam: each function is called through a
pointer that loamdb_bind() fills from the library that loamdb_open_library() opened.
"""

import os
import re
import sys

from cffi import FFI

HERE = os.path.dirname(os.path.abspath(__file__))

LOADER = """
void *loamdb_open_library(const char *path, const char **why);
int loamdb_library_abi(void *library);
int loamdb_library_revision(void *library);
const char *loamdb_bind(void *library);
void loamdb_release_signals(void *library);
"""

SOURCE = """
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdbool.h>
#include "_dynamic.h"
#include "loam.h"

#define LOAM_FUNCTIONS(X) %(functions)s

#define X(name) static __typeof__(name) *loamdb_p_##name;
LOAM_FUNCTIONS(X)
#undef X

#ifdef _WIN32
static void loamdb_release_signals(void *library) { (void)library; } /* no fork, no copies */

/* path is in UTF-8. The library stays for the life of the process: Go cannot be unloaded. */
static void *loamdb_open_library(const char *path, const char **why) {
  static char message[300];
  wchar_t wide[4096];
  void *library = NULL;
  *why = NULL;
  if (MultiByteToWideChar(CP_UTF8, 0, path, -1, wide, 4096) > 0)
    library = (void *)LoadLibraryExW(wide, NULL, LOAD_WITH_ALTERED_SEARCH_PATH);
  if (library != NULL) return library;
  DWORD code = GetLastError();
  DWORD n = FormatMessageA(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS, NULL, code,
    0, message, sizeof message, NULL);
  while (n > 0 && message[n - 1] <= ' ') message[--n] = 0;
  if (n == 0) snprintf(message, sizeof message, "error %%lu of LoadLibrary", (unsigned long)code);
  *why = message;
  return NULL;
}
#else
#include <signal.h>

/* What was done on each signal before the first copy of the library was loaded. */
static struct {
  bool known;
  struct sigaction action;
} loamdb_before[NSIG];

static void loamdb_note_signals(void) {
  static bool noted;
  if (noted) return;
  noted = true;
  for (int i = 1; i < NSIG; i++)
    loamdb_before[i].known = sigaction(i, NULL, &loamdb_before[i].action) == 0;
}

/* Takes the handlers that a copy of the library has set out again, so that the next
 * copy does not hand signals on to it. */
static void loamdb_release_signals(void *library) {
  Dl_info code, handler;
  struct sigaction now;
  void *function = dlsym(library, "loam_abi_version");
  if (function == NULL || !dladdr(function, &code)) return;
  for (int i = 1; i < NSIG; i++) {
    if (!loamdb_before[i].known || sigaction(i, NULL, &now)) continue;
    if (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN) continue;
    if (dladdr(*(void **)&now.sa_handler, &handler) && handler.dli_fbase == code.dli_fbase)
      sigaction(i, &loamdb_before[i].action, NULL);
  }
}

/* The library stays for the life of the process: Go cannot be unloaded. */
static void *loamdb_open_library(const char *path, const char **why) {
  loamdb_note_signals();
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  *why = library ? NULL : dlerror();
  return library;
}
#endif

/* The library's ABI version; -1 when it does not have any. */
static int loamdb_library_abi(void *library) {
  __typeof__(loam_abi_version) *version;
  *(void **)&version = library_function(library, "loam_abi_version");
  return version ? version() : -1;
}

/* The revision of that; -1 when it does not have any. */
static int loamdb_library_revision(void *library) {
  __typeof__(loam_abi_revision) *revision;
  *(void **)&revision = library_function(library, "loam_abi_revision");
  return revision ? revision() : -1;
}

/* Takes all functions from the library. Returns NULL or the name of one that it
 * does not have. */
static const char *loamdb_bind(void *library) {
#define X(name) \\
  *(void **)&loamdb_p_##name = library_function(library, #name); \\
  if (loamdb_p_##name == NULL) return #name;
  LOAM_FUNCTIONS(X)
#undef X
  return NULL;
}

%(redirects)s
"""


def header() -> str:
    """loam.h: of the checkout, or the copy in a source distribution."""
    for path in ("../../cabi/loam.h", "libloam/cabi/loam.h"):
        path = os.path.join(HERE, path)
        if os.path.exists(path):
            return path
    sys.exit(
        "loamdb: cabi/loam.h is missing; build from a checkout of Loam or from its source "
        "distribution"
    )


def old_glibc() -> dict:
    """Arguments of the compiler for extensions that load on old systems, too: see glibc.h."""
    if sys.platform != "linux":
        return {}
    header_file = os.path.join(os.path.dirname(header()), "glibc.h")
    return {
        "extra_compile_args": ["-include", header_file],
        "extra_link_args": ["-Wl,--no-as-needed", "-l:libpthread.so.0", "-l:libdl.so.2"],
    }


def declarations(text: str) -> str:
    """The C declarations of the header, without what only a preprocessor reads."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    text = re.sub(r"#ifdef __cplusplus.*?#endif", "", text, flags=re.S)
    text = re.sub(r"^[ \t]*#.*$", "", text, flags=re.M)
    return text.replace("LOAM_API ", "")


def make() -> FFI:
    path = header()
    with open(path, encoding="utf-8") as f:
        declared = declarations(f.read())
    functions = re.findall(r"\b(loam_\w+)\s*\([^;{]*\)\s*;", declared)
    ffi, arguments = FFI(), old_glibc()
    ffi.cdef(declared + "#define LOAM_ABI_VERSION ...\n#define LOAM_ABI_REVISION ...\n" + LOADER)
    ffi.set_source(
        "loamdb._loam",
        SOURCE
        % {
            "functions": " ".join(f"X({name})" for name in functions),
            "redirects": "\n".join(f"#define {name} (*loamdb_p_{name})" for name in functions),
        },
        include_dirs=[os.path.dirname(path), HERE],
        extra_compile_args=["-g0", *arguments.pop("extra_compile_args", [])],
        **arguments,
    )
    return ffi


ffi = make()

if __name__ == "__main__":
    ffi.emit_c_code("_loam.c")
