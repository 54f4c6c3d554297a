"""Plays a script of operations on a LevelDB directory through plyvel.

usage: plyvel_peer.py DIR [--kill]

Reads lines "put KEY VALUE", "del KEY", "compact", "reopen", "dump" (keys and
values in hex, "-" for empty) from standard input. "dump" prints every pair in
order, then "end". With --kill the process ends without closing the database.
"""

import os
import sys

import plyvel

OPTIONS = dict(
    create_if_missing=True,
    paranoid_checks=True,
    write_buffer_size=64 << 10,
    max_file_size=64 << 10,
    bloom_filter_bits=10,
)


def unhex(s):
    return b"" if s == "-" else bytes.fromhex(s)


def main():
    path = sys.argv[1]
    db = plyvel.DB(path, **OPTIONS)
    for line in sys.stdin:
        words = line.split()
        if words[0] == "put":
            db.put(unhex(words[1]), unhex(words[2]))
        elif words[0] == "del":
            db.delete(unhex(words[1]))
        elif words[0] == "compact":
            db.compact_range()
        elif words[0] == "reopen":
            db.close()
            db = plyvel.DB(path, **OPTIONS)
        elif words[0] == "dump":
            for key, value in db.iterator(verify_checksums=True):
                print(key.hex() or "-", value.hex() or "-")
            print("end", flush=True)
        else:
            sys.exit("unknown operation " + words[0])
    if "--kill" in sys.argv:
        os._exit(0)
    db.close()


main()
