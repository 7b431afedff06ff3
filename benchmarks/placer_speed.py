"""How long a round's placing takes, on clusters of 64 to 250,000 GPUs of seven types.

    python -m benchmarks.placer_speed [--repeats 3] [--most-gpus 250000] [--seed 0]

Every case is a full cluster whose jobs run where an earlier round put them. In the next round some of them change
configuration, within the limits of `ConfigurationSet`. In the case "scattered" every node has a quarter of its
GPUs in small jobs that stay. The largest configurations that fit are to take the rest, so that nothing fits
without moves. The peer is the same placer that is not told where jobs run, which shows what a round would move
without care.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from coadapt.core.cluster import Cluster, Node
from coadapt.core.placement import Placement
from coadapt.policies.contract.configuration import Configuration, ConfigurationSet
from coadapt.policies.placing.placer import PlacementResult, Placer
from scipy.optimize import brentq

from .harness import finish, table

# Seven types: GPUs of a node, and the part of the cluster's GPUs. One type has nodes of both sizes.
TYPES = {
    "a100": ((8,), 0.2),
    "h100": ((8,), 0.2),
    "l4": ((4,), 0.1),
    "rtx": ((8,), 0.1),
    "t4": ((4,), 0.2),
    "v100": ((4, 8), 0.1),
    "x": ((8,), 0.1),
}
CLUSTERS = {64: 24, 2_000: 600, 25_000: 5_000, 250_000: 100_000}  # GPUs -> jobs
CHANGED = (0.01, 0.05, 0.3, 1.0)
MOST_GPUS = 512  # of one job

Wanted = dict[str, Configuration]


def cluster(gpus: int) -> Cluster:
    nodes: list[Node] = []
    for gpu_type, (sizes, part) in TYPES.items():
        for size in sizes:
            count = max(round(gpus * part / size / len(sizes)), 1)
            nodes += [Node(f"{gpu_type}-{size}-{i:05d}", gpu_type, size, 4.0 * size) for i in range(count)]
    return Cluster(tuple(nodes))


class Drawer:
    """Draws configurations that fit beside those drawn before, as a policy's integer program would choose them."""

    def __init__(self, configurations: ConfigurationSet, jobs: int, rng: np.random.Generator) -> None:
        self.found, self.rng = configurations, rng
        limits = configurations.limits()
        self.room: list[float] = limits.capacity.tolist()
        self.usage = [[(int(row), float(u[row])) for row in np.flatnonzero(u)] for u in limits.usage.T]
        self.column = {c: i for i, c in enumerate(configurations.items)}
        # Sizes fall off with a power that makes so many jobs fill the cluster; types are asked for by their GPUs.
        gpus, kind = configurations.arrays.gpus, configurations.arrays.type_index
        total = np.array([configurations.cluster.capacity()[t] for t in configurations.arrays.gpu_types])

        def chance(power: float) -> np.ndarray:
            weight = gpus.astype(float) ** -power
            weight *= (total / np.bincount(kind, weight * gpus))[kind]
            return weight / weight.sum()

        each = total.sum() / jobs
        self.chance = np.cumsum(chance(brentq(lambda power: float(chance(power) @ gpus) - 1.02 * each, 0.0, 6.0)))

    def fitting(self, tries: int = 12) -> Configuration | None:
        for column in np.searchsorted(self.chance, self.rng.random(tries) * self.chance[-1]).tolist():
            if self.takes(column):
                return self.found[column]
        return None

    def takes(self, column: int) -> bool:
        """Return whether the configuration fits beside the others; it is one of them from then on."""
        if any(self.room[row] < gpus for row, gpus in self.usage[column]):
            return False
        self._change(column, -1)
        return True

    def give_back(self, configuration: Configuration) -> None:
        self._change(self.column[configuration], 1)

    def _change(self, column: int, sign: int) -> None:
        for row, gpus in self.usage[column]:
            self.room[row] += sign * gpus


@dataclass(frozen=True)
class Case:
    name: str
    cluster: Cluster
    current: Mapping[str, Placement]
    before: Wanted
    wanted: Wanted


def changing(where: Cluster, jobs: int, part: float, seed: int) -> Case:
    """Make a full cluster in its second round, of whose jobs a part changes configuration or ends."""
    rng = np.random.default_rng(seed)
    drawer = Drawer(ConfigurationSet(where, most_gpus=MOST_GPUS), jobs, rng)
    drawn = ((f"job-{i:06d}", drawer.fitting()) for i in range(jobs))
    before: Wanted = {job: configuration for job, configuration in drawn if configuration is not None}
    current = Placer().place(before, {}, where).placements
    wanted = dict(before)
    going = [job for job in before if rng.random() < part]
    for job in going:
        drawer.give_back(wanted.pop(job))
    for job in going:
        if (configuration := drawer.fitting()) is not None:
            wanted[job] = configuration
    return Case(f"{part:.0%} change", where, current, before, wanted)


def scattered(where: Cluster, seed: int) -> Case:
    """Make a cluster of which one or two jobs of every node stay; the rest gets configurations as large as fit."""
    rng = np.random.default_rng(seed)
    small = {
        f"s-{t}-{i:06d}": Configuration(1, 1 + i % 2, t)
        for t in where.gpu_types
        for i in range(2 * sum(node.gpus for node in where.of_type(t)) // 3)
    }
    full = Placer().place(small, {}, where).placements
    left = dict.fromkeys(where.by_id, 0)
    current: dict[str, Placement] = {}
    for job in rng.permutation(sorted(full)).tolist():
        node = full[job].shares[0].node_id
        if left[node] < where.by_id[node].gpus // 4:
            left[node] += full[job].gpus
            current[job] = full[job]
    before = {job: small[job] for job in current}
    found = ConfigurationSet(where, most_gpus=MOST_GPUS)
    drawer = Drawer(found, len(before), rng)
    for c in before.values():
        drawer.takes(drawer.column[c])
    wanted = dict(before)
    for column in sorted(range(len(found)), key=lambda i: (-found[i].gpus, i)):
        while found[column].gpus in (4, 8, 16, 64) and drawer.takes(column):
            wanted[f"l-{len(wanted):06d}"] = found[column]
    return Case("scattered", where, current, before, wanted)


def measured(case: Case, repeats: int) -> tuple[np.ndarray, PlacementResult]:
    """Return (repeats, 2) seconds: by the clock, and of the CPU."""
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter(), time.process_time()
        result = Placer().place(case.wanted, case.current, case.cluster)
        seconds.append((time.perf_counter() - began[0], time.process_time() - began[1]))
    if result.unplaced:
        raise RuntimeError(f"{case.name}: {len(result.unplaced)} jobs within the limits were not placed")
    return np.array(seconds), result


def full(case: Case) -> str:
    """Return what part of the cluster's GPUs the round hands out."""
    return f"{sum(c.gpus for c in case.wanted.values()) / sum(case.cluster.capacity().values()):.1%}"


def moved_anew(case: Case) -> tuple[float, int]:
    """Return (seconds, jobs that move for nothing) of placing without memory."""
    began = time.perf_counter()
    anew = Placer().place(case.wanted, {}, case.cluster).placements
    took = time.perf_counter() - began
    same = [job for job, c in case.wanted.items() if case.before.get(job) == c]
    return took, sum(anew[job].by_node != case.current[job].by_node for job in same)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--most-gpus", type=int, default=max(CLUSTERS))
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rows: list[list[object]] = []
    figures: dict[str, float | int | str | None] = {}
    for gpus, jobs in CLUSTERS.items():
        if gpus > args.most_gpus:
            continue
        where = cluster(gpus)
        cases = [changing(where, jobs, part, args.seed) for part in CHANGED]
        for case in [*cases, scattered(where, args.seed)]:
            seconds, result = measured(case, args.repeats)
            anew_s, anew = moved_anew(case)
            same = sum(case.before.get(job) == c for job, c in case.wanted.items())
            median_s, cpu_s = np.median(seconds, axis=0).tolist()
            sizes = [f"{gpus:,} GPUs", case.name, full(case), len(case.wanted), len(case.wanted) - same]
            rows.append([*sizes, median_s, float(seconds[:, 0].max()), cpu_s, len(result.evicted), anew_s, anew])
            name = case.name.replace(" ", "_").replace("%", "pc")
            figures[f"{name}_s_{gpus}_gpus"] = round(median_s, 4)
            figures[f"{name}_cpu_s_{gpus}_gpus"] = round(cpu_s, 4)
            figures[f"{name}_evicted_{gpus}_gpus"] = len(result.evicted)
    columns = ["cluster", "round", "full", "jobs", "to place", "median s", "most s", "CPU s", "evicted"]
    table("Placing a round", [*columns, "anew s", "anew moves"], rows)
    peak_gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    finish("placer_speed", figures | {"peak_gib": round(peak_gib, 2)})


if __name__ == "__main__":
    main()
