// Package syscalls lets system calls of a process fail, where file systems that fail calls of the
// vfs interface do not reach: a seccomp filter makes calls wait for another process, which lets
// them go on or answers in the kernel's place. It works on Linux alone.
package syscalls
