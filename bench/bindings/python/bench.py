"""loamdb beside plyvel. Every case runs on both in short rounds that alternate, so that
a busy machine slows both; the ratio of the medians counts.

    python bench.py [--rounds N] [--json FILE] [--html FILE] [--dir DIR] [CASE...]
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import loamdb
import loamdb.plyvel
import plyvel

KEYS = 20_000
SLICE = 2_000  # operations of a round
VALUE = random.Random(1).randbytes(50).ljust(100, b"v")  # half of it compressible
ORDERED = [b"%016d" % i for i in range(KEYS)]
SHUFFLED = random.Random(2).sample(ORDERED, KEYS)


def put(db: Any, keys: list[bytes]) -> None:
    write = db.put
    for key in keys:
        write(key, VALUE)


def get(db: Any, keys: list[bytes]) -> None:
    read = db.get
    for key in keys:
        read(key)


def missing(db: Any, keys: list[bytes]) -> None:
    read = db.get
    for key in keys:
        read(key + b"x")


def iterate(db: Any, keys: list[bytes]) -> None:
    for key, value in items(db):
        pass


def iterate_back(db: Any, keys: list[bytes]) -> None:
    for key, value in items(db, reverse=True):
        pass


def iterate_keys(db: Any, keys: list[bytes]) -> None:
    for key in db.keys() if isinstance(db, loamdb.DB) else db.iterator(include_value=False):
        pass


def short_ranges(db: Any, keys: list[bytes]) -> None:
    for key in keys[: SLICE // 20]:
        for _, _ in zip(range(20), items(db, start=key)):
            pass


def batch(db: Any, keys: list[bytes]) -> None:
    for start in range(0, len(keys), 1000):
        b = db.batch() if isinstance(db, loamdb.DB) else db.write_batch()
        add = b.put
        for key in keys[start : start + 1000]:
            add(key, VALUE)
        b.write()


def items(db: Any, **options: Any) -> Any:
    return db.items(**options) if isinstance(db, loamdb.DB) else db.iterator(**options)


@dataclass
class Case:
    name: str
    run: Callable[[Any, list[bytes]], None]
    operations: int = SLICE
    target: float | None = None  # greatest ratio of loamdb's time to plyvel's
    times: dict[str, list[float]] = field(default_factory=dict)  # ns per operation

    def medians(self) -> dict[str, float]:
        return {engine: statistics.median(times) for engine, times in self.times.items()}

    def quartiles(self) -> dict[str, list[float]]:
        """The first and the third."""
        q = lambda times: (
            statistics.quantiles(times, n=4, method="inclusive") if len(times) > 1 else times * 3
        )
        return {
            engine: [round(x, 1) for x in q(times)[::2]] for engine, times in self.times.items()
        }

    def ratio(self, engine: str = "loamdb") -> float:
        medians = self.medians()
        return medians[engine] / medians["plyvel"]


CASES = [
    Case("get", get, target=1.1),
    Case("get, missing", missing),
    Case("iterate", iterate, KEYS, target=0.6),
    Case("iterate back", iterate_back, KEYS),
    Case("iterate keys", iterate_keys, KEYS),
    Case("20 entries from a key", short_ranges),
    Case("batch entry", batch, target=0.6),
    Case("put", put, target=1.1),
]


def open_engines(directory: str) -> dict[str, Any]:
    """The engines with the same options, filled and settled: a LevelDB of 20k keys."""
    options = {
        "create_if_missing": True,
        "lru_cache_size": 64 << 20,
        "write_buffer_size": 4 << 20,
        "bloom_filter_bits": 10,
    }
    return {
        "plyvel": plyvel.DB(f"{directory}/plyvel", **options),
        "loamdb": loamdb.open(
            f"{directory}/loamdb", cache_size=64 << 20, write_buffer_size=4 << 20
        ),
        "loamdb.plyvel": loamdb.plyvel.DB(f"{directory}/face", **options),
    }


def settle(db: Any) -> None:
    """Merges everything into one sorted run, so that all read the same shape."""
    if isinstance(db, loamdb.DB):
        db.flush()
        db.compact()
    else:
        db.compact_range()


def measure(cases: list[Case], rounds: int, directory: str) -> None:
    engines = open_engines(directory)
    for db in engines.values():
        batch(db, SHUFFLED)
    for case in cases:
        for db in engines.values():
            settle(db)
        gc.collect()
        gc.disable()
        for round in range(rounds + 1):  # the first warms up
            at = round * SLICE % KEYS
            keys = SHUFFLED[at : at + SLICE]
            for name, db in engines.items():
                started = time.perf_counter_ns()
                case.run(db, keys)
                elapsed = time.perf_counter_ns() - started
                if round > 0:
                    case.times.setdefault(name, []).append(elapsed / case.operations)
        gc.enable()
        print_case(case)
    for db in engines.values():
        db.close()


def print_case(case: Case) -> None:
    medians = case.medians()
    row = f"{case.name:<22}" + "".join(
        f"{medians[e]:>15.0f}" for e in ("plyvel", "loamdb", "loamdb.plyvel")
    )
    verdict = ""
    if case.target is not None:
        verdict = f"   <= {case.target} {'reached' if case.ratio() <= case.target else 'MISSED'}"
    print(f"{row}{case.ratio():>9.2f}{case.ratio('loamdb.plyvel'):>9.2f}{verdict}", flush=True)


def report(cases: list[Case], rounds: int) -> dict[str, Any]:
    return {
        "schema": 1,
        "tool": "bench/bindings/python",
        "peer": "plyvel",
        "engines": ["loamdb", "loamdb.plyvel", "plyvel"],
        "environment": {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "os": sys.platform,
            "kernel": platform.release(),
            "arch": platform.machine(),
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "loamdb": loamdb.library_version(),
            "plyvel": plyvel.__version__,
            "leveldb": plyvel.__leveldb_version__,
            "load": os.getloadavg()[0],
        },
        "keys": KEYS,
        "rounds": rounds,
        "results": [
            {
                "case": c.name,
                "ns_per_op": {e: round(m, 1) for e, m in c.medians().items()},
                "quartiles": c.quartiles(),
                "ratio": round(c.ratio(), 3),
                "target": c.target,
                "reached": c.target is None or c.ratio() <= c.target,
            }
            for c in cases
        ],
    }


def page(report: dict[str, Any]) -> str:
    """A page that draws itself from the report in it."""
    with open(os.path.join(os.path.dirname(__file__), "../page.html"), encoding="utf-8") as f:
        before, after = f.read().split(">null<")
    data = json.dumps(report).replace("<", "\\u003c")
    return f"{before}>{data}<{after}"


def main() -> int:
    parser = argparse.ArgumentParser(description="loamdb beside plyvel")
    parser.add_argument("--rounds", type=int, default=61)
    parser.add_argument("--json")
    parser.add_argument("--html")
    parser.add_argument("--dir", help="where the databases lie; a directory that is not in memory")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(c.name for c in CASES))
    arguments = parser.parse_args()
    cases = [c for c in CASES if not arguments.cases or c.name in arguments.cases]
    if not cases:
        parser.error("no such case")
    directory = tempfile.mkdtemp(prefix="loam-bench-", dir=arguments.dir)
    print(
        f"{'ns per operation':<22}{'plyvel':>15}{'loamdb':>15}"
        f"{'loamdb.plyvel':>15}{'ratio':>9}{'face':>9}"
    )
    try:
        measure(cases, arguments.rounds, directory)
    finally:
        shutil.rmtree(directory)
    result = report(cases, arguments.rounds)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as f:
            json.dump(result, f, indent=2)
            f.write("\n")
    if arguments.html:
        with open(arguments.html, "w", encoding="utf-8") as f:
            f.write(page(result))
    return 0 if all(c.target is None or c.ratio() <= c.target for c in cases) else 1


if __name__ == "__main__":
    sys.exit(main())
