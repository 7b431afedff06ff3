"""What `coadapt.cached` promises: fixed hits, nothing shared between jobs, no other result, hardly any cost.

    python -m benchmarks.sample_cache

`hits_per_epoch_off`: the most by which an epoch's hits differ from what the budget has room for. Jobs of two
    replicas with two loader workers each are measured from their third epoch on, as answers are compared before.
`changed_off`: the same in epochs after the cache was shrunk and grown while the job trained.
`shared_between_jobs`: samples of another job that one of two jobs with the same keys was given.
`loss_diff`: the largest difference of a loss with the cache and without.
`slowdown_over_memory`: seconds for a sample that is kept, over one in a list in memory, less one. Preparing a
    sample of 110 kB takes 5 ms, as a picture of ImageNet on one core. Medians of turns that alternate.
`hit_us`: microseconds of a hit alone.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from coadapt.executor.processes.left_overs import remove_left_overs
from coadapt.executor.protocol.messages import Provide
from coadapt.executor.training.caching.cached_read import CachedRead
from coadapt.executor.training.caching.node_cache import NodeCache
from coadapt.executor.training.caching.shared_cache import DIGEST_BYTES

from .harness import finish, table
from .input_runs import USUAL, InputRun

TAKES = USUAL["sample_bytes"] + DIGEST_BYTES + 1
SAMPLES = USUAL["samples"]
PICTURE, PREPARE_S = 110_000, 0.005


def main() -> None:
    """Run all parts and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=15, help="turns of each kind for the slowdown")
    turns = parser.parse_args().turns
    rows: list[list[Any]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        off = max(hits_off(folder, part, rows) for part in (0.0, 0.25, 0.6, 1.0))
        changed = changed_off(folder, rows)
        table("Hits in an epoch of 400 samples", ["budget of samples", "epoch", "hits", "expected"], rows)
        shared = shared_between(folder)
        loss = loss_diff(folder)
    slowdown, hit_us = slowdown_over_memory(turns)
    remove_left_overs()
    finish(
        "sample_cache",
        {
            "hits_per_epoch_off": off,
            "changed_off": changed,
            "shared_between_jobs": shared,
            "loss_diff": loss,
            "slowdown_over_memory": round(slowdown, 4),
            "hit_us": round(hit_us, 1),
        },
    )


def hits_off(folder: Path, part: float, rows: list[list[Any]]) -> int:
    """Return the largest difference from the expected hits, with room for a part of the samples."""
    room = int(part * SAMPLES)
    run = InputRun(folder / f"part-{part}", {"epochs": 5}, room * TAKES, ranks=2)
    with run.running():
        pass
    hits = [SAMPLES - len(run.read_in(epoch)) for epoch in range(2, 5)]
    rows += [[room, epoch, one, room] for epoch, one in enumerate(hits, 2)]
    return max(abs(one - room) for one in hits)


def changed_off(folder: Path, rows: list[list[Any]]) -> int:
    """Shrink and grow the cache while training; return the largest difference in epochs that saw no change."""
    budgets = {3: 0.2, 6: 0.8, 10: 0.1}  # from some epoch on
    run = InputRun(folder / "changed", {"epochs": 13, "step_s": 0.02}, int(0.5 * SAMPLES) * TAKES, ranks=2)
    steps = SAMPLES // USUAL["batch"]
    with run.running():
        for epoch, part in budgets.items():
            run.members[0].reached(epoch * steps)
            run.send(Provide(cache_bytes=int(part * SAMPLES) * TAKES))
    off = 0
    for epoch, part in {2: 0.5, 5: 0.2, 9: 0.8, 12: 0.1}.items():
        hits, room = SAMPLES - len(run.read_in(epoch)), int(part * SAMPLES)
        rows.append([f"{room}, changed", epoch, hits, room])
        off = max(off, abs(hits - room))
    return off


def shared_between(folder: Path) -> int:
    """Return how many samples two jobs at once were given of each other."""
    runs = [InputRun(folder / f"job-{label}", {"label": label}, SAMPLES * TAKES) for label in (1, 2)]
    with runs[0].running(), runs[1].running():
        pass
    return sum(label != run.given["label"] for run in runs for *_, labels in run.steps() for label in labels)


def loss_diff(folder: Path) -> float:
    """Return the largest difference of a loss with the cache and without."""
    runs = [InputRun(folder / f"cached-{on}", {"cached": on}, SAMPLES * TAKES // 2) for on in (True, False)]
    for run in runs:
        with run.running():
            pass
    losses = [[loss for _, _, loss, _, _ in run.steps()] for run in runs]
    assert len(losses[0]) == len(losses[1]) > 0
    return max(abs(a - b) for a, b in zip(*losses, strict=True))


def slowdown_over_memory(turns: int) -> tuple[float, float]:
    """Return how much slower kept samples are than those in a list, and microseconds of a hit."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        pictures = [np.random.default_rng(i).bytes(PICTURE) for i in range(40)]
        kept = CachedRead(pictures.__getitem__, NodeCache(Path(name) / "home" / "job", 1 << 30), "pictures")
        for _ in range(2):
            _read(kept, prepare=False)
        times: dict[str, list[float]] = {"list": [], "kept": []}
        for _ in range(turns):
            times["list"].append(_read(pictures.__getitem__))
            times["kept"].append(_read(kept))
        hits = [_read(kept, prepare=False) for _ in range(turns)]
    table(
        "Seconds for a picture of 110 kB, read and prepared",
        ["from", "median", "least"],
        [[name, statistics.median(one), min(one)] for name, one in times.items()],
    )
    return statistics.median(times["kept"]) / statistics.median(times["list"]) - 1, 1e6 * statistics.median(hits)


def _read(read: Callable[[int], bytes], prepare: bool = True) -> float:
    """Return seconds per sample."""
    began = time.perf_counter()
    for index in range(40):
        sample = read(index)
        if prepare:
            _prepare(sample)
    return (time.perf_counter() - began) / 40


def _prepare(sample: bytes) -> None:
    """Work on a sample for about as long as decoding a picture takes."""
    until = time.thread_time() + PREPARE_S
    values = np.frombuffer(sample, np.uint8)
    while time.thread_time() < until:
        values.astype(np.float32).sum()


if __name__ == "__main__":
    main()
