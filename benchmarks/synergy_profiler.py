"""How well a profile run foretells the speed of a job's input, with CPUs and memory it was not run with.

    python -m benchmarks.synergy_profiler

A job on an emulated node of 24 CPUs has the input of ResNet-18: its rates by CPUs are those that Synergy printed,
relative to 3 CPUs. A profile run measures it. Then the job trains with each of some numbers of CPUs and sizes of
memory, which are changed between epochs without a restart, and each rate is compared with the estimate.

`cpu_points`: numbers of CPUs that the profile run measured. `seconds_per_job`: from its first point to its last.
`median_rel_err`, `worst_rel_err`: of the estimate, over all CPUs and sizes. A rate is that of an epoch without its
    first and last batches, in which workers begin and end. All workers end as many batches in the rest.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from coadapt.core.reports import MeasuredInput
from coadapt.estimators.sensitivity.of_input import GIB, sensitivity_of
from coadapt.executor.protocol import messages
from coadapt.executor.protocol.messages import ProfiledInput, Provide

from .arguments import at_least
from .harness import finish, table
from .input_runs import InputRun

SAMPLES, BATCH = 2400, 5
NODE_GPUS, NODE_CPUS = 8, 24
SCALE = 8.0  # all is so much faster than in INPUT, so that the GPU never waits on itself at small batches
# Rates relative to 3 CPUs (Synergy, OSDI'22, section 2.2: 2.3 times from 3 to 9), of 300 samples/s there.
INPUT: dict[str, Any] = {
    "cpus": [1, 2, 3, 4, 5, 6, 9],
    "prepared": [rate / SCALE for rate in (110, 216, 300, 390, 460, 524, 690)],
    "dataset_gib": 100.0,
    "storage_gib_per_s": 1.0,  # 192 samples/s
}
PACE = {"profile": "cifar10", "time_scale": SCALE, "input": INPUT}
CPUS = (1, 2, 3, 6, 9, 16)
CACHED = (0.0, 0.3, 0.6, 0.9)  # parts of the data set, ascending: a larger cache is filled by an epoch


def main() -> None:
    """Measure, foretell, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=at_least(1000), default=SAMPLES)
    samples = parser.parse_args().samples
    with tempfile.TemporaryDirectory() as name:
        measured, seconds = profiled(Path(name), samples)
        rates = trained(Path(name), samples)
    found = sensitivity_of(measured, samples)
    assert found is not None
    assert found.knows_memory
    rows, errors = [], []
    for (cpus, part), rate in rates.items():
        told = float(found.rate(1, cpus, measured.process_gib + part * INPUT["dataset_gib"]))
        errors.append(abs(told / rate - 1))
        rows.append([cpus, part, rate, told, errors[-1]])
    points = ", ".join(f"{row.cpus}: {row.samples_per_s:.0f}" for row in measured.rows)
    print(f"measured samples/s by CPUs, in order: {points}; from the storage {measured.stored_per_s:.0f}")
    table("Samples/s", ["CPUs", "part in memory", "measured", "estimated", "error"], rows)
    finish(
        "synergy_profiler",
        {
            "cpu_points": len(measured.rows),
            "median_rel_err": round(statistics.median(errors), 4),
            "worst_rel_err": round(max(errors), 4),
            "seconds_per_job": round(seconds, 1),
        },
    )


def job(folder: Path, samples: int, epochs: int, **env: str) -> InputRun:
    given = {"samples": samples, "batch": BATCH, "epochs": epochs, "workers": 1, "sample_bytes": 100}
    paced = {messages.GPU_TYPE: "a100", messages.PACE_JSON: json.dumps(PACE)}
    return InputRun(folder, given, 0, env={**paced, **env})


def profiled(folder: Path, samples: int) -> tuple[MeasuredInput, float]:
    """Return what a profile run finds out, and how many seconds its input took."""
    about = {
        messages.MODE: "profile",
        messages.LOADER_WORKERS: str(NODE_CPUS),
        messages.PART_CPUS: str(NODE_CPUS // NODE_GPUS),
    }
    run = job(folder / "profiled", samples, 1000, **about)
    with run.alone() as member:
        first = told = member.wait(ProfiledInput)
        while not told.input.done:
            known = len(told.input.rows)
            told = member.wait(
                ProfiledInput, lambda event, known=known: event.input.done or len(event.input.rows) > known
            )
        return told.input, member.time_of(told) - member.time_of(first)


def trained(folder: Path, samples: int) -> dict[tuple[int, float], float]:
    """Return the measured rates, by CPUs and by the part of the data set that is in memory."""
    order = [(cpus, part) for part in CACHED for cpus in CPUS]
    run = job(folder / "trained", samples, 10_000)
    measured_in: dict[int, tuple[int, float]] = {}
    with run.running(stops=True):
        epoch, before = 0, -1.0
        for cpus, part in order:
            run.send(Provide(workers=cpus, cache_bytes=int(part * INPUT["dataset_gib"] * GIB)))
            epoch = run.epoch() + 1 + (part > before)  # a larger cache is filled first
            before = part
            measured_in[epoch] = cpus, part
            run.members[0].reached((epoch + 1) * samples // BATCH)
    moments: dict[int, list[float]] = defaultdict(list)
    for at, moment, *_ in run.steps():
        moments[at].append(moment)
    found = {}
    for epoch, (cpus, part) in measured_in.items():
        edge = 2 * cpus
        inner = moments[epoch][edge : len(moments[epoch]) - edge]
        turns = (len(inner) - 1) // cpus * cpus
        found[cpus, part] = BATCH * turns / (inner[turns] - inner[0])
    return found


if __name__ == "__main__":
    main()
