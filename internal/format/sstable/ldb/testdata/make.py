"""Makes the golden tables beside it with a real LevelDB: plyvel 1.5.1, LevelDB 1.22.

Each table comes with a .txt file: its entries as a reader at the end sees them
(hex key, hex value), to which older versions and deletions that a snapshot kept
alive are extra.
"""
import glob, os, random, shutil, tempfile
import plyvel

here = os.path.dirname(os.path.abspath(__file__))


def make(name, n, versions, reverse=False, **options):
    rng = random.Random(name)
    d = tempfile.mkdtemp()
    if reverse:
        options.update(comparator=lambda a, b: (a < b) - (a > b), comparator_name=b"rocksdb.ReverseBytewiseComparator")
    db = plyvel.DB(d, create_if_missing=True, **options)
    snapshots = []
    for v in range(versions):
        for i in range(n):
            if v and rng.random() < 0.5:
                continue
            key = b"user/%06d/%s" % (i * 7, b"x" * rng.randrange(5))
            if v == 0:
                key = b"user/%06d/" % (i * 7)
            if rng.random() < 0.1:
                db.delete(key)
            else:
                half = bytes(rng.randrange(32, 127) for _ in range(rng.randrange(30)))
                db.put(key, half + half)
        for i in range(40 if v else 0):  # one key whose versions fill blocks
            db.put(b"user/000700/", b"version %d of %d" % (v, i))
            snapshots.append(db.snapshot())
        snapshots.append(db.snapshot())
    db.compact_range()
    content = list(db.snapshot())
    del snapshots
    db.close()
    tables = [f for f in glob.glob(d + "/*.ldb")]
    assert len(tables) == 1, tables
    shutil.copy(tables[0], os.path.join(here, name + ".ldb"))
    with open(os.path.join(here, name + ".txt"), "w") as f:
        for k, v in content:
            f.write("%s %s\n" % (k.hex(), v.hex()))
    shutil.rmtree(d)


make("snappy-filter", 250, 3, block_size=1024, bloom_filter_bits=10)
make("raw-filter", 150, 2, block_size=1024, block_restart_interval=3, bloom_filter_bits=7, compression=None)
make("raw-plain", 100, 1, block_size=1024, compression=None)
make("reverse", 120, 2, reverse=True, block_size=1024, compression=None)
