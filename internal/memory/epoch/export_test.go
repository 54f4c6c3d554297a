package epoch

// Drain returns when everything retired before the call has run.
func (d *Domain) Drain() { d.drain(func() bool { return false }) }
