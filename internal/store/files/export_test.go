package files

// SetMaxOpen bounds the descriptors that the tables of all databases in this
// process hold open. A bound below what is open is reached by closing idle ones
// as others are needed. The default leaves half of the process's limit, and a
// few more, to the host.
func SetMaxOpen(n int) {
	p := descriptors
	p.mu.Lock()
	p.max = max(n, 1)
	p.freed.Broadcast()
	p.mu.Unlock()
}

// MaxOpen returns the bound in force and how many are open.
func MaxOpen() (limit, open int) {
	descriptors.mu.Lock()
	defer descriptors.mu.Unlock()
	return descriptors.max, descriptors.open
}
