/* How a library that is loaded at run time gives its functions. */
#ifndef LOAMDB_DYNAMIC_H
#define LOAMDB_DYNAMIC_H

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN /* without sockets, whose bind() is another one */
#include <windows.h>
#undef FASTCALL
#define library_function(library, name) ((void *)GetProcAddress((HMODULE)(library), name))
#else
#include <dlfcn.h>
#define library_function(library, name) dlsym(library, name)
#endif

#endif
