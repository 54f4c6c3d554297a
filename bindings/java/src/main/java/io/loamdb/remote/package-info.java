/**
 * A client of {@code loamd}, Loam's server, in plain Java: it needs no native library. {@link
 * io.loamdb.remote.Remote#connect} makes one.
 */
package io.loamdb.remote;
