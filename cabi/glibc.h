/* Included before every C source of the libraries and extensions (-include).
 *
 * glibc 2.32 and 2.34 moved these functions from libpthread and libdl into libc and
 * gave them new versions, which are the same code. A library linked on a newer
 * system asks for the new versions and then does not load on an older one; here it
 * asks for the first ones, which every glibc has. */
#ifndef LOAM_GLIBC_H
#define LOAM_GLIBC_H

/* No header is included here: sources choose features before they include any. */
#if defined(__ASSEMBLER__) || !defined(__linux__)
#elif defined(__x86_64__)
#define LOAM_FIRST_VERSION(function) __asm__(".symver " #function ", " #function "@GLIBC_2.2.5")
#elif defined(__aarch64__)
#define LOAM_FIRST_VERSION(function) __asm__(".symver " #function ", " #function "@GLIBC_2.17")
#endif

#ifdef LOAM_FIRST_VERSION
LOAM_FIRST_VERSION(dlclose);
LOAM_FIRST_VERSION(dlerror);
LOAM_FIRST_VERSION(dlopen);
LOAM_FIRST_VERSION(dlsym);
LOAM_FIRST_VERSION(pthread_attr_getstack);
LOAM_FIRST_VERSION(pthread_attr_getstacksize);
LOAM_FIRST_VERSION(pthread_attr_setstacksize);
LOAM_FIRST_VERSION(pthread_detach);
LOAM_FIRST_VERSION(pthread_key_create);
LOAM_FIRST_VERSION(pthread_once);
LOAM_FIRST_VERSION(pthread_setspecific);
LOAM_FIRST_VERSION(pthread_sigmask);
LOAM_FIRST_VERSION(pthread_getattr_np);
LOAM_FIRST_VERSION(pthread_kill);
LOAM_FIRST_VERSION(dladdr);
#endif

#endif
