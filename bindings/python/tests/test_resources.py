"""Resources that databases share, and options that change."""

import pytest

import loamdb


def test_databases_share(tmp_path):
    with loamdb.Resources(
        "64MiB", background_jobs=2, io_bytes_per_second="100MiB", open_files=50
    ) as resources:
        first, second = (loamdb.open(tmp_path / name, resources=resources) for name in "ab")
        before = resources.metrics()
        assert before["memory"] == 64 << 20
        for i in range(3000):
            first.put(b"%d" % i, bytes(1000))
            second.put(b"%d" % i, bytes(1000))
        assert resources.metrics()["memtable_bytes"] > 6_000_000
        resources.set("memory", "16MiB")
        resources.set("background_jobs", 1)
        assert resources.metrics()["memory"] == 16 << 20
        for name, value in (
            ("memory", "1GiB"),
            ("memory", 1),
            ("nothing", 1),
            ("open_files", "many"),
        ):
            with pytest.raises(ValueError):
                resources.set(name, value)
        first.close()
    with pytest.raises(loamdb.ClosedError):
        resources.metrics()
    with pytest.raises(loamdb.ClosedError):
        loamdb.open(tmp_path / "c", resources=resources)
    second.flush()
    assert second[b"7"] == bytes(1000)
    second.close()


def test_memory_of_the_container(tmp_path):
    with loamdb.Resources("auto") as resources:
        found = resources.metrics()["memory"]
        assert found >= 8 << 20
        resources.set("memory", "8MiB")
        assert resources.metrics()["memory"] == 8 << 20
        resources.set("memory", "auto")
        assert resources.metrics()["memory"] == found
    with pytest.raises(ValueError):
        loamdb.Resources(io_bytes_per_second="auto")


def test_arguments(tmp_path):
    for wrong in (-1, 1 << 60, 1 << 64, "much"):
        with pytest.raises(ValueError):
            loamdb.Resources(wrong)
    with pytest.raises(TypeError):
        loamdb.Resources(None)
    with loamdb.Resources() as resources, loamdb.Cache("1MiB") as cache:
        with pytest.raises(ValueError):
            loamdb.open(tmp_path / "db", resources=resources, cache=cache)
        with pytest.raises(TypeError):
            resources.set("open_files", None)


def test_options_change(tmp_path):
    with loamdb.open(tmp_path / "db", bloom_bits=5) as db:
        users = db.keyspace("users")
        db.set_option("compression", "zstd")
        assert db.option("compression") == users.option("compression") == "zstd"
        users.set_option("compression", "none")
        assert (db.option("compression"), users.option("compression")) == ("zstd", "none")
        db.set_option("write_buffer_size", "1MiB")
        assert users.option("write_buffer_size") == "1048576"
        db.set_option("default_ttl", 1.5)
        assert (db.option("default_ttl"), users.option("default_ttl"), db.option("bloom_bits")) == (
            "1.5",
            "0",
            "5",
        )
        for name, value in (
            ("comparator", "idb_cmp1"),
            ("block_size", 1),
            ("blocksize", 4096),
            ("l0_stop", "x"),
        ):
            with pytest.raises(ValueError):
                db.set_option(name, value)
        with pytest.raises(ValueError):
            users.set_option("cache_size", 1)
        with pytest.raises(ValueError):
            db.option("nothing")
    dynamic = {option["name"]: option["dynamic"] for option in loamdb.options()}
    assert (dynamic["compression"], dynamic["cache_size"], dynamic["comparator"]) == (
        "keyspace",
        "database",
        "",
    )
