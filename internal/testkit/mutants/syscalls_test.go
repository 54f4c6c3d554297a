package mutants

// syscalls are mutants of the handling of errors of system calls.
var syscalls = []mutant{
	{"rename-interrupted", "a rename that a signal interrupts fails",
		target{"internal/testkit/syscalls", "TestInterruptedCalls"}, []edit{
			{"internal/os/vfs/dir_unix.go", `		err = filelock.Again(func() error {
			return unix.Renameat(from.fd, from.elem, to.fd, to.elem)
		})`, `		err = unix.Renameat(from.fd, from.elem, to.fd, to.elem)`}}},

	{"close-interrupted", "a close that a signal interrupts fails",
		target{"internal/os/vfs", "TestInterruptedClose"}, []edit{
			{"internal/os/vfs/os.go", "if errors.Is(err, syscall.EINTR) {",
				"if errors.Is(err, syscall.EINTR) && err == nil {"}}},

	{"log-pages-stay-ready", "after a pause appends are stored into pages that were protected",
		target{"internal/os/vfs", "TestLogWindowAfterPause"}, []edit{
			{"internal/os/vfs/window_linux.go", "if w.stale.Load() {", "if false {"}}},

	{"flock-needed", "a database does not open where there are no flock locks",
		target{"internal/testkit/syscalls", "TestDispensableCalls"}, []edit{
			{"internal/os/filelock/locks_linux.go", "case !unsupported(ferr):",
				"case ferr != nil:"}}},

	{"lock-lost-in-shortage", "a lack of memory in the kernel counts as the loss of the lock",
		target{"internal/os/filelock", "TestShortageOfLocks"}, []edit{
			{"internal/os/filelock/locks_linux.go",
				"if err == unix.ENOLCK || err == unix.ENOMEM {",
				"if false {"}}},

	{"stuck-pages-panic", "a mapping that cannot be cut in two makes a database read-only",
		target{"internal/memory/offheap", "TestStuckPages"}, []edit{
			{"internal/memory/offheap/map_unix.go", "if err != nil && err != unix.ENOMEM {",
				"if err != nil {"}}},

	{"reads-without-sentinel", "a read that fails for lack of memory is not ErrNoMemory",
		target{"internal/testkit/syscalls", "TestFailingCalls/pread64=ENOMEM,31"}, []edit{
			{"internal/os/vfs/os.go", "return typed(r.f.ReadAt(p, off))",
				"return r.f.ReadAt(p, off)"}}},
}
