"""Goodput of all (job, configuration) pairs, best batch included, on one core.

The peer is the published method: 50 candidate batch sizes per pair, evaluated with numpy, with the same throughput
parameters. Usage: python -m benchmarks.goodput_matrix
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from coadapt.estimators.bootstrap import with_bootstrap
from coadapt.estimators.goodput import BatchLimits, ConfigurationArrays, JobModel, goodput_matrix
from coadapt.estimators.throughput import ThroughputModel, fit, step_time_s

from .harness import finish, table
from .measured_profiles import (
    GPU_TYPES,
    PARAMETERS,
    initial_batch_size,
    max_batch_size,
    measured,
    noise_scale,
)

TYPES = ("a100", "rtx", "t4")
PER_NODE = {"a100": 8, "rtx": 8, "t4": 4}
CANDIDATES = 50


def configurations(count: int) -> ConfigurationArrays:
    """Return powers of two within a node, then whole nodes, `count` in all over three GPU types."""
    rows: list[tuple[int, int, int]] = []
    for index, gpu_type in enumerate(TYPES):
        share = count // len(TYPES) + (index < count % len(TYPES))
        per_node = PER_NODE[gpu_type]
        inside = [(index, 1, 2**i) for i in range(per_node.bit_length())]
        beyond = [(index, n, n * per_node) for n in range(2, share + 2 - len(inside))]
        rows += (inside + beyond)[:share]
    columns = np.array(rows)
    return ConfigurationArrays(
        TYPES, np.array([PER_NODE[t] for t in TYPES]), columns[:, 0], columns[:, 1], columns[:, 2]
    )


def jobs(count: int, seed: int = 0) -> list[JobModel]:
    """Return jobs of the five measured models; a third of their GPU types is bootstrapped."""
    rng = np.random.default_rng(seed)
    fitted = {
        (model, gpu_type): ThroughputModel(
            fit(measured(model, gpu_type).profile), measured(model, gpu_type).max_local_bsz, 16
        )
        for model in PARAMETERS
        for gpu_type in GPU_TYPES
    }
    alone = {
        key: ThroughputModel(
            fit(measured(*key).profile.select(measured(*key).profile.replicas == 1)), value.max_local_bsz
        )
        for key, value in fitted.items()
    }
    names = list(PARAMETERS)
    phis = {name: noise_scale(name) for name in names}
    limits = {name: BatchLimits(initial_batch_size(name), max_batch_size(name)) for name in names}
    models = []
    for _ in range(count):
        name = names[int(rng.integers(len(names)))]
        unknown = TYPES[int(rng.integers(len(TYPES)))]
        throughput = {t: (alone if t == unknown else fitted)[name, t] for t in TYPES}
        phi = phis[name] * float(np.exp(rng.normal()))
        models.append(JobModel(throughput, phi, limits[name], dict.fromkeys(TYPES, 1)))
    return models


def grid_search(models: list[JobModel], arrays: ConfigurationArrays) -> np.ndarray:
    """Return the published search: 50 geometric candidates, all configurations of a job and GPU type at once."""
    result = np.zeros((len(models), len(arrays)))
    for i, job in enumerate(models):
        throughput = with_bootstrap(job.throughput)
        first, last = job.limits.initial_batch_size, job.limits.max_batch_size
        for index, gpu_type in enumerate(arrays.gpu_types):
            at = np.flatnonzero(arrays.type_index == index)
            model = throughput[gpu_type]
            nodes, k = arrays.nodes[at].astype(float), arrays.gpus[at].astype(float)
            low = np.maximum(first, job.limits.min_local_bsz * k)
            batch = np.geomspace(np.minimum(low, last), last, CANDIDATES)
            local = batch / k
            s = np.maximum(np.ceil(local / model.max_local_bsz - 1e-8) - 1, 0)
            s = np.where((k == 1) & (batch > first) & (s == 0), 1, s)
            m = np.maximum(np.ceil(local / (s + 1) - 1e-8), 1)
            batch = k * m * (s + 1)
            step = step_time_s(model.params, nodes, k, m, s)
            phi = job.noise_scale or 0.0
            goodput = batch / step * (phi + first) / (phi + batch)
            valid = (batch <= last) & (batch >= first) & (m <= model.max_local_bsz) & (low <= last)
            result[i, at] = np.where(valid, goodput, 0.0).max(axis=0)
    return result


def best_time_s(call: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    rows: list[list[object]] = []
    figures: dict[str, float] = {}
    for job_count, columns, repeats in ((1500, 60, 10), (100_000, 100, 2)):
        arrays, models = configurations(columns), jobs(job_count)
        pairs = job_count * columns
        goodput_matrix(models[:1], arrays)  # compile
        start = time.perf_counter()
        result = goodput_matrix(models, arrays)
        first_s = time.perf_counter() - start
        again_s = best_time_s(lambda m=models, a=arrays: goodput_matrix(m, a), repeats)  # type: ignore[misc]
        sample = models[: min(job_count, 150)]
        grid = grid_search(sample, arrays)
        grid_s = best_time_s(lambda m=sample, a=arrays: grid_search(m, a), 2)  # type: ignore[misc]
        ours = result[: len(sample)]
        found = grid > 0
        ratio = ours[found] / grid[found]
        rows.append([
            f"{job_count} x {columns}", pairs / again_s / 1e6, pairs / first_s / 1e6,
            len(sample) * columns / grid_s / 1e6,
            float(ratio.min()), float(np.mean(ratio) - 1), float(ratio.max() - 1),
        ])  # fmt: skip
        if job_count == 1500:
            figures["pairs_per_s"] = pairs / again_s
            figures["pairs_per_s_first_call"] = pairs / first_s
            figures["grid_pairs_per_s"] = len(sample) * columns / grid_s
            figures["least_ratio_to_grid"] = float(ratio.min())
        else:
            figures["pairs_per_s_100k_jobs"] = pairs / again_s
    table(
        "goodput matrix, one core (first call: jobs packed anew)",
        [
            "jobs x configurations",
            "M pairs/s",
            "first call",
            "grid M pairs/s",
            "min ours/grid",
            "mean gain",
            "max gain",
        ],
        rows,
    )
    finish("goodput_matrix", figures)


if __name__ == "__main__":
    main()
