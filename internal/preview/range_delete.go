package preview

// DeleteRange is set by package lsm: it adds to a batch, a lsm.BatchIn, the deletion of all
// keys from start up to, not including, limit.
var DeleteRange func(batch any, start, limit []byte)
