"""A cache of pages on disk: an entry expires by itself, and all entries with a tag are dropped at
once. It outlives the process, and threads of a server share it.

    python cache.py DIRECTORY
"""

import sys
import threading
import time

import loamdb


class Cache:
    """Values under names, with tags. The keyspace "tags" is an index: tag, zero byte, name. Both
    sides of an entry have the same time to live, so that the index shrinks with the entries."""

    def __init__(self, path):
        self._db = loamdb.open(path)
        self._tags = self._db.keyspace("tags")

    def close(self):
        self._db.close()

    def put(self, name, value, *, ttl, tags=()):
        """Stores a value for ttl seconds: the value and its tags together or not at all. Tags that
        an earlier value had lead to the new one until they expire."""
        with self._db.batch() as batch:
            batch.put_ttl(name, value, ttl)
            batch.use(self._tags)
            for tag in tags:
                batch.put_ttl(tag + b"\0" + name, b"", ttl)

    def get(self, name, make, *, ttl, tags=()):
        """The value under a name, or what make() returns, which is stored."""
        value = self._db.get(name)
        if value is None:
            value = make()
            self.put(name, value, ttl=ttl, tags=tags)
        return value

    def tagged(self, tag):
        """The names of the entries with a tag."""
        return [key[len(tag) + 1 :] for key in self._tags.keys(prefix=tag + b"\0")]

    def drop(self, tag):
        """Removes all entries with a tag, and returns how many there were. An entry that is stored
        meanwhile makes it begin again."""

        def work(tx):
            tags = tx.in_(self._tags)
            keys = list(tags.keys(prefix=tag + b"\0"))
            for key in keys:
                del tx[key[len(tag) + 1 :]]
                del tags[key]
            return len(keys)

        return self._db.update(work)

    def left(self, name):
        """Seconds that an entry has left; None: there is none."""
        return self._db.ttl(name)

    def __len__(self):
        return len(self._db)


def main(path):
    cache = Cache(path)
    made = []

    def page(number):
        def make():
            made.append(number)
            return b"<h1>Article %d</h1>" % number

        tags = [b"author:%d" % (number % 10), b"articles"]
        return cache.get(b"/article/%d" % number, make, ttl=3600, tags=tags)

    # Four threads ask for the same 1,000 pages.
    def visit():
        for number in range(1000):
            assert page(number).startswith(b"<h1>")

    threads = [threading.Thread(target=visit) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(len(cache), "pages,", len(set(made)), "made")

    # An author renames herself: her pages are made anew, the others stay.
    print(cache.drop(b"author:7"), "dropped,", len(cache), "stay")
    made.clear()
    visit()
    print("made again:", len(made), "of author", {number % 10 for number in made})
    print(len(cache.tagged(b"author:7")), "of author 7,", len(cache.tagged(b"articles")), "in all")

    # A value expires. The index forgets it, too.
    cache.put(b"/now", b"12:00", ttl=3600, tags=[b"clock"])
    print("now:", cache.tagged(b"clock"))
    cache.put(b"/now", b"12:01", ttl=1, tags=[b"clock"])
    while cache.left(b"/now") is not None:
        time.sleep(0.1)
    print("later:", cache.tagged(b"clock"))

    # Another process goes on with it.
    cache.close()
    cache = Cache(path)
    print("after a restart:", len(cache), "pages, an hour to live:", cache.left(b"/article/1") > 60)
    cache.close()


if __name__ == "__main__":
    main(sys.argv[1])

# Prints:
# 1000 pages, 1000 made
# 100 dropped, 900 stay
# made again: 100 of author {7}
# 100 of author 7, 1000 in all
# now: [b'/now']
# later: []
# after a restart: 1000 pages, an hour to live: True
