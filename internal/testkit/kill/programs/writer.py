"""Writes the batches that it reads, and acknowledges them: see ../program.go.

usage: writer.py DIRECTORY
"""

import os
import struct
import sys

import loamdb


def text(frame, at):
    (n,) = struct.unpack_from("<I", frame, at)
    return frame[at + 4 : at + 4 + n], at + 4 + n


def main(directory):
    db = loamdb.open(
        directory,
        format=os.environ.get("LOAM_FORMAT"),
        write_buffer_size=64 << 10,
        max_file_size=64 << 10,
        l0_compaction=2,
        cache_size=1 << 20,
    )
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer

    def say(number):
        stdout.write(struct.pack("<I", number))
        stdout.flush()

    say(int(db.get(b"!last", b"0")))
    while head := stdin.read(4):
        frame = stdin.read(struct.unpack("<I", head)[0])
        number, sync = struct.unpack_from("<IB", frame)
        at = 5
        with db.batch(sync=sync == 1) as batch:
            while at < len(frame):
                put = frame[at] == 1
                key, at = text(frame, at + 1)
                if put:
                    value, at = text(frame, at)
                    batch.put(key, value)
                else:
                    batch.delete(key)
        say(number)
    db.close()


main(sys.argv[1])
