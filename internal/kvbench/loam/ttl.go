package loam

import "time"

// PutTTL is that of the database.
func (d *native) PutTTL(key, value []byte, ttl time.Duration, sync bool) error {
	return d.db.PutTTL(key, value, ttl, mode(sync))
}
