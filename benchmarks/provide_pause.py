"""How long training pauses when CPUs, loader workers and cache are changed, and what that costs in samples.

    python -m benchmarks.provide_pause

A job of two replicas trains while it is given other cores, 1 to 6 loader workers and another cache, 100 times.
`pause_p95_s`, `pause_longest_s`: what the longest gap between two steps of a replica, from a change to the next
    one 1.5 s later, has beyond the median gap.
`restarts`: groups beyond the first. `samples_lost`, `samples_twice`: of all whole epochs, which are `epochs`.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from coadapt.executor.protocol.messages import Provide

from .arguments import at_least
from .harness import finish, table
from .input_runs import InputRun

STEP_S, PREPARE_S = 0.02, 0.001
SAMPLES, BATCH = 1600, 8
BETWEEN_S = 1.5  # changes
MOST_WORKERS = 6


def main() -> None:
    """Run the job and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--changes", type=at_least(1), default=100)
    changes = parser.parse_args().changes
    draw, sent = random.Random(0), list[tuple[float, Provide]]()
    about = {"samples": SAMPLES, "batch": BATCH, "step_s": STEP_S, "prepare_s": PREPARE_S, "epochs": 10_000}
    with tempfile.TemporaryDirectory() as name:
        run = InputRun(Path(name) / "provided", about, 100_000, ranks=2)
        with run.running(stops=True):
            run.members[0].reached(20)
            for _ in range(changes):
                change = drawn(draw)
                sent.append((time.monotonic(), change))
                run.send(change)
                time.sleep(BETWEEN_S)
        seen, restarts = run.seen(), run.restarts
        whole = range(max(epoch for epoch, _ in seen))  # epochs
        counts = Counter({one: count for one, count in seen.items() if one[0] in whole})
        pauses = [pause for file in Path(name).rglob("steps-*.txt") for pause in pauses_in(file, sent)]
    p95, longest = float(np.quantile(pauses, 0.95)), max(pauses)
    table(
        f"{changes} changes of cores, loader workers and cache, two replicas",
        ["pause", "s"],
        [["median", statistics.median(pauses)], ["95 %", p95], ["longest", longest]],
    )
    finish(
        "provide_pause",
        {
            "restarts": restarts,
            "epochs": len(whole),
            "samples_lost": SAMPLES * len(whole) - len(counts),
            "samples_twice": sum(count > 1 for count in counts.values()),
            "pause_median_s": round(statistics.median(pauses), 4),
            "pause_p95_s": round(p95, 4),
            "pause_longest_s": round(longest, 4),
        },
    )


def drawn(draw: random.Random) -> Provide:
    """Return other CPUs and memory."""
    cores = sorted(os.sched_getaffinity(0))
    return Provide(
        tuple(draw.sample(cores, draw.randint(1, len(cores)))),
        draw.randint(1, MOST_WORKERS),
        draw.choice([0, 100_000, 800_000, 2_000_000]),
    )


def pauses_in(file: Path, sent: list[tuple[float, Provide]]) -> list[float]:
    """Return the pause after each change, by the steps of one replica."""
    import json

    rows: list[Any] = [json.loads(line) for line in file.read_text().splitlines()]
    moments = np.array([moment for _, moment, *_ in rows])
    gaps = np.diff(moments)
    usual, pauses = float(np.median(gaps)), []
    for at, _ in sent:
        near = gaps[(moments[1:] >= at) & (moments[:-1] <= at + BETWEEN_S)]
        if len(near):
            pauses.append(max(float(near.max()) - usual, 0.0))
    return pauses


if __name__ == "__main__":
    main()
