"""Goodput of every (job, configuration) pair, each at its best batch size and accumulation.

Goodput = samples/s · (φ + B0)/(φ + B), with B = K·m·(s + 1). For a number of passes, its inverse is a sum of products of
powers of m with positive coefficients (compute, link time, noise), so its logarithm is convex in log m: a geometric
program in one variable. One bracketed Newton search per pair finds the optimum; no grid of candidates is needed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .bootstrap import with_bootstrap
from .throughput import ThroughputModel

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class BatchLimits:
    """What a job allows; batch sizes are samples per optimizer step over all replicas.

    `accumulation`: more passes than one, used only where memory asks for it (and on one replica, where the noise scale
    needs two). `fixed`: the batch size stays `initial_batch_size` (strong-scaling and rigid jobs).
    """

    initial_batch_size: int
    max_batch_size: int
    min_local_bsz: int = 1
    accumulation: bool = True
    fixed: bool = False

    def __post_init__(self) -> None:
        for name in ("initial_batch_size", "max_batch_size", "min_local_bsz"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: {getattr(self, name)} must be at least 1")
        if self.max_batch_size < self.initial_batch_size:
            raise ValueError(
                f"max_batch_size: {self.max_batch_size} is less than initial_batch_size {self.initial_batch_size}"
            )

    @property
    def adapts(self) -> bool:
        return not self.fixed and self.max_batch_size > self.initial_batch_size


@dataclass(frozen=True, eq=False)
class ConfigurationArrays:
    """Configurations `(n, r, t)` as columns.

    `gpus_per_node`: per type, GPUs of its nodes. `type_index`, `nodes`, `gpus`: per configuration, 1-D.
    """

    gpu_types: tuple[str, ...]
    gpus_per_node: Ints
    type_index: Ints
    nodes: Ints
    gpus: Ints

    def __post_init__(self) -> None:
        for name in ("gpus_per_node", "type_index", "nodes", "gpus"):
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), np.int64))
        if len(self.gpus_per_node) != len(self.gpu_types):
            raise ValueError(
                f"gpus_per_node: {len(self.gpus_per_node)} values for {len(self.gpu_types)} GPU types"
            )
        if not self.type_index.shape == self.nodes.shape == self.gpus.shape or self.nodes.ndim != 1:
            raise ValueError("configurations: type_index, nodes and gpus must be 1-D and of one length")
        if len(self) and not (0 <= self.type_index.min() and self.type_index.max() < len(self.gpu_types)):
            raise ValueError(f"type_index: must be within 0..{len(self.gpu_types) - 1}")
        if len(self) and (self.nodes.min() < 1 or np.any(self.gpus < self.nodes)):
            raise ValueError("configurations: nodes must be at least 1 and gpus at least nodes")

    def __len__(self) -> int:
        return len(self.nodes)


@dataclass(frozen=True, eq=False)
class JobModel:
    """All that is known of a job's goodput. A GPU type in neither mapping cannot be used.

    `noise_scale`: φ in samples; None: unknown, the batch then stays at its initial size.
    """

    throughput: Mapping[str, ThroughputModel]
    noise_scale: float | None
    limits: BatchLimits
    gpus_per_replica: Mapping[str, int]
    _packed: dict[tuple[str, ...], Array] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.noise_scale is not None and not (math.isfinite(self.noise_scale) and self.noise_scale >= 0):
            raise ValueError(f"noise_scale: {self.noise_scale} must be a finite number of samples, 0 or more")
        for gpu_type, gpus in self.gpus_per_replica.items():
            if gpus < 1:
                raise ValueError(f"gpus_per_replica[{gpu_type}]: {gpus} must be at least 1")

    def packed(self, gpu_types: tuple[str, ...]) -> Array:
        """(types, columns) numbers of this job for the kernel, bootstrapped types included; worked out once."""
        rows = self._packed.get(gpu_types)
        if rows is None:
            rows = self._packed[gpu_types] = self._pack(gpu_types)
        return rows

    def _pack(self, gpu_types: tuple[str, ...]) -> Array:
        usable = {t: m for t, m in self.throughput.items() if t in self.gpus_per_replica}
        models = with_bootstrap(usable)
        rows = np.zeros((len(gpu_types), _COLUMNS))
        limits = self.limits
        for row, gpu_type in zip(rows, gpu_types, strict=True):
            model = models.get(gpu_type)
            if model is None:
                continue
            row[:_PARAMS] = model.params.theta
            row[_PARAMS:] = (
                self.gpus_per_replica[gpu_type],
                model.max_local_bsz,
                0.0 if self.noise_scale is None else self.noise_scale,
                limits.initial_batch_size,
                limits.max_batch_size,
                limits.min_local_bsz,
                limits.accumulation,
                limits.adapts,
            )
        rows.flags.writeable = False
        return rows


_PARAMS = 12
_COLUMNS = _PARAMS + 8  # gpus per replica (0: type cannot be used), then as packed above


@dataclass(frozen=True)
class BatchChoice:
    """The best batch of one configuration.

    Each replica takes up to `local_bsz` samples in each of `accumulation + 1` passes, `batch_size` in all; where that is
    less than their product, samples are split as evenly as possible. `goodput` is in initial-batch-size samples/s.
    """

    local_bsz: int
    accumulation: int
    batch_size: int
    goodput: float
    throughput: float
    efficiency: float


def goodput_matrix(models: Sequence[JobModel | None], configurations: ConfigurationArrays) -> Array:
    """(jobs, configurations) goodput at the best batch, in initial-batch-size samples/s.

    0 where a job cannot run: a GPU type it may not use or knows nothing of, GPUs that are not whole replicas, a
    batch that does not fit memory or the limits; a row of zeros for None.
    """
    result = np.zeros((len(models), len(configurations)))
    known = [i for i, model in enumerate(models) if model is not None]
    if not known or not len(configurations):
        return result
    types = configurations.gpu_types
    packed = np.concatenate([model.packed(types) for model in models if model is not None])
    packed = packed.reshape(len(known), len(types), _COLUMNS)
    columns = (configurations.type_index, configurations.nodes, configurations.gpus)
    _fill(packed, *columns, np.array(known), result)
    return result


def best_batch(model: JobModel, gpu_type: str, nodes: int, replicas: int) -> BatchChoice | None:
    """The batch that `goodput_matrix` values the same configuration with; None where it values it with 0.

    `replicas` counts data-parallel copies (GPUs / gpus per replica).
    """
    if nodes < 1 or replicas < 1:
        raise ValueError(f"nodes, replicas: {nodes}, {replicas} must be at least 1")
    row = model.packed((gpu_type,))[0].copy()
    if row[_PARAMS] == 0:
        return None
    value, local_bsz, accumulation, batch_size, step_s = _best(row, nodes, replicas)
    if value <= 0:
        return None
    phi, first = row[_PARAMS + 2], row[_PARAMS + 3]
    return BatchChoice(
        int(local_bsz), int(accumulation), int(batch_size), float(value),
        float(batch_size / step_s), float((phi + first) / (phi + batch_size)),
    )  # fmt: skip


@njit(cache=True, nogil=True)
def _fill(
    packed: Array, type_index: Ints, nodes: Ints, gpus: Ints, rows: Ints, result: Array
) -> None:  # pragma: no cover
    for job in range(packed.shape[0]):
        for c in range(len(nodes)):
            row = packed[job, type_index[c]]
            per_replica = int(row[12])
            if per_replica == 0 or gpus[c] % per_replica != 0:
                continue
            result[rows[job], c] = _best(row, nodes[c], gpus[c] // per_replica)[0]


@njit(cache=True, nogil=True, error_model="numpy")
def _step_s(floor: float, log_slope: float, kappa: float, gamma: float, link: float, m: float, s: float):  # type: ignore[no-untyped-def]
    """Step time; `floor` = α_c^κ·D^(κδ), `log_slope` = log(β_c·D^δ), `link` = R^γ (the powers once per pair)."""
    powered = floor + math.exp(kappa * (log_slope + math.log(m)))
    if link == 0.0:
        return (s + 1.0) * powered ** (1.0 / kappa)
    last = (powered ** (gamma / kappa) + link) ** (1.0 / gamma)
    return last if s == 0.0 else s * powered ** (1.0 / kappa) + last


@njit(cache=True, nogil=True, error_model="numpy")
def _uphill(
    floor: float, log_slope: float, kappa: float, gamma: float, link: float, noise: float, u: float, s: float
):  # type: ignore[no-untyped-def]
    """d log(1/goodput) / d log m at log m = u, increasing in u, and a lower bound of its own slope.

    The step's elasticity in m, minus φ/(φ + B); `noise` = φ/(K·(s + 1)).
    """
    linear = math.exp(kappa * (log_slope + u))
    powered = floor + linear
    share = linear / powered
    m = math.exp(u)
    rest = noise / (noise + m)
    elastic = share
    bend = kappa * share * (1.0 - share)
    if link > 0.0:
        busy = powered ** (gamma / kappa)
        if s == 0.0:
            part = busy / (busy + link)
            bend = part * bend + gamma * part * (1.0 - part) * share * share
            elastic = part * share
        else:
            total = busy + link
            last = total ** (1.0 / gamma)
            passes = s * busy ** (1.0 / gamma)
            part = (passes + last * busy / total) / (passes + last)
            bend = part * bend
            elastic = part * share
    return elastic - rest, bend + rest * (1.0 - rest)


@njit(cache=True, nogil=True, error_model="numpy")
def _best_local(
    floor: float, log_slope: float, kappa: float, gamma: float, link: float,
    noise: float, low: float, high: float, s: float,
):  # type: ignore[no-untyped-def]  # fmt: skip
    """Whole local batch size in [low, high] with the least T(m)·(noise + m)/m, and that minimum."""
    best_m = low
    slope_low, _ = _uphill(floor, log_slope, kappa, gamma, link, noise, math.log(low), s)
    if slope_low >= 0.0 or low == high:
        return low, _step_s(floor, log_slope, kappa, gamma, link, low, s) * (noise + low) / low
    a, b = math.log(low), math.log(high)
    slope, bend = _uphill(floor, log_slope, kappa, gamma, link, noise, b, s)
    if slope <= 0.0:
        return high, _step_s(floor, log_slope, kappa, gamma, link, high, s) * (noise + high) / high
    u = b - (b - a) * slope / (slope - slope_low)
    for _ in range(60):
        slope, bend = _uphill(floor, log_slope, kappa, gamma, link, noise, u, s)
        if slope > 0.0:
            b = u
        else:
            a = u
        if math.floor(math.exp(a) * (1.0 + 1e-12)) >= math.floor(math.exp(b) * (1.0 - 1e-12)):
            break
        step = -slope / bend if bend > 0.0 else 0.0
        nearly = abs(step) * math.exp(u)
        u += step
        if nearly < 0.02:
            # Close enough to tell the two whole neighbours, unless a whole number lies this near.
            distance = math.exp(u) - round(math.exp(u))
            if abs(distance) > 2.0 * nearly + 1e-9:
                break
        if not a < u < b:
            u = 0.5 * (a + b)
    least = math.inf
    centre = float(math.floor(math.exp(u)))
    for m in (centre, centre + 1.0):
        if low <= m <= high:
            cost = _step_s(floor, log_slope, kappa, gamma, link, m, s) * (noise + m) / m
            if cost < least:
                least = cost
                best_m = m
    return best_m, least


@njit(cache=True, nogil=True, error_model="numpy")
def _best(row: Array, nodes: int, replicas: int):  # type: ignore[no-untyped-def]
    """(goodput, local_bsz, accumulation, batch_size, step time) of one pair; goodput 0 where infeasible."""
    k = float(replicas)
    most, phi, first, last, least_local = row[13], row[14], row[15], row[16], row[17]
    accumulate, adapts = row[18] > 0.0, row[19] > 0.0
    nothing = (0.0, 0.0, 0.0, 0.0, 0.0)
    if nodes > replicas:
        nodes = replicas
    if least_local > most or k * least_local > last:
        return nothing

    kappa, gamma = row[2], row[11]
    log_dense = math.log(math.ceil(k / nodes))
    floor = math.exp(kappa * (row[0] + row[3] * log_dense))
    log_slope = row[1] + row[3] * log_dense
    link = 0.0
    if replicas > 1:
        if nodes > 1:
            log_link = row[6] + row[7] * math.log(0.5 * k) + row[8] * log_dense + row[9] * math.log(0.5 * nodes)
            if nodes == 2:
                log_link += row[10]
        else:
            log_link = row[4] + row[5] * math.log(0.5 * k)
        if log_link > -60.0:
            link = math.exp(gamma * log_link)

    best, best_m, best_s, best_batch, best_step = nothing
    # The initial batch, split evenly: what a fixed job runs, and where no equal split lies within the limits.
    if k * least_local <= first:
        s = math.ceil(first / (k * most)) - 1.0
        if s == 0.0 or accumulate:
            m = math.ceil(first / (k * (s + 1.0)))
            step = _step_s(floor, log_slope, kappa, gamma, link, m, s)
            best, best_m, best_s, best_batch, best_step = first / step, m, s, first, step
    if not adapts:
        return best, best_m, best_s, best_batch, best_step

    s = max(math.ceil(first / (k * most)) - 1.0, 0.0)
    full = 1.0
    excess = 0.0
    compute = 0.0
    while s == 0.0 or accumulate:
        passes = k * (s + 1.0)
        low = max(least_local, math.ceil(first / passes))
        high = min(most, math.floor(last / passes))
        if replicas == 1 and s == 0.0:
            high = min(high, first)  # beyond the initial batch one replica needs two passes
        elif s > 0.0 and not (replicas == 1 and s == 1.0):
            low = max(low, math.floor(most * s / (s + 1.0)) + 1.0)  # fewer passes would hold a smaller batch
        if passes * least_local > last:
            break
        if s > 1.0:
            # No later number of passes can do better than this bound.
            if compute == 0.0:
                compute = _step_s(floor, log_slope, kappa, gamma, 0.0, most, 0.0)
                excess = _step_s(floor, log_slope, kappa, gamma, link, most, 0.0) - compute
            full = compute * (phi / most + k * s) + excess * k
            if best > 0.0 and full * best >= phi + first:
                break
        if low <= high:
            m, cost = _best_local(floor, log_slope, kappa, gamma, link, phi / passes, low, high, s)
            value = (phi + first) / cost
            if value > best:
                step = _step_s(floor, log_slope, kappa, gamma, link, m, s)
                best, best_m, best_s, best_batch, best_step = value, m, s, passes * m, step
        s += 1.0
    return best, best_m, best_s, best_batch, best_step
