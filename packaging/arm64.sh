#!/bin/sh
# arm64.sh PACKAGE [ARGUMENT...]: the tests of a Go package, compiled for arm64 and run by qemu. The
# kernel learns what runs such programs, for tests that start themselves, in a user namespace of its
# own (Linux 6.7 or newer): the machine stays as it is.
set -eu

magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'

if [ -n "${ARM64_TEST:-}" ]; then
  mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
  printf '%s' ":arm64:M::$magic:$mask:$(command -v qemu-aarch64-static):F" \
    > /proc/sys/fs/binfmt_misc/register
  cd "$1" && shift
  exec "$ARM64_TEST" "$@"
fi
program="$PWD/build/arm64.$(basename "$1").test"
mkdir -p build
GOARCH=arm64 CGO_ENABLED=0 "${GO:-go}" test -c -o "$program" "$1"
ARM64_TEST="$program" exec unshare -Urm "$0" "$@"
