// Package seal encrypts files: AES-256-GCM under a data key that each file has for itself, wrapped
// by a key of a Provider. docs/format-encryption.md is the format.
//
// An FS stands above another file system. What is created through it is sealed in chunks, which are
// opened one by one; a sealed file has, for its reader and in Stat, the bytes and the size that
// were written. Logs and MANIFESTs are appended to and synced at any point: package record seals
// their chunks, with a Sealer and an Opener of this package, and the FS hands their bytes through.
package seal
