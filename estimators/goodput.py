"""Goodput of every (job, configuration) pair, each at its best batch size and accumulation.

Goodput = samples/s · (φ + B0)/(φ + B), with B = K·m·(s + 1). For a number of passes, its inverse is made of
products and power sums of m with positive coefficients (compute, link time, noise), so its logarithm is
convex in log m: a geometric program in one variable. One bracketed Newton search finds the optimum; no grid
of candidates is needed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .bootstrap import with_bootstrap
from .throughput import TILE, ThroughputModel

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class BatchLimits:
    """What a job allows; batch sizes are samples per optimizer step over all replicas.

    `accumulation`: more passes than one, used only where memory asks for it (and on one replica, where the noise
    scale needs two). `fixed`: the batch size stays `initial_batch_size` (strong-scaling and rigid jobs).
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
        if len(self) and not (self.type_index.min() >= 0 and self.type_index.max() < len(self.gpu_types)):
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


_PARAMS = 13
_GPUS, _MOST, _PHI, _FIRST, _LAST, _LEAST, _ACCUMULATE, _ADAPTS = range(_PARAMS, _PARAMS + 8)  # GPUs 0: unusable
_COLUMNS = _PARAMS + 8


@dataclass(frozen=True)
class BatchChoice:
    """The best batch of one configuration.

    Each replica takes up to `local_bsz` samples in each of `accumulation + 1` passes, `batch_size` in
    all; where that     is less than their product, samples are split as evenly as possible. `goodput` is
    in initial-batch-size samples/s.
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
    if row[_GPUS] == 0:
        return None
    value, local_bsz, accumulation, batch_size = _best(row, nodes, replicas)
    if value <= 0:
        return None
    efficient = float((row[_PHI] + row[_FIRST]) / (row[_PHI] + batch_size))
    return BatchChoice(
        local_bsz=int(local_bsz),
        accumulation=int(accumulation),
        batch_size=int(batch_size),
        goodput=float(value),
        throughput=float(value) / efficient,
        efficiency=efficient,
    )


@njit(cache=True, nogil=True)
def _fill(packed: Array, type_index: Ints, nodes: Ints, gpus: Ints, rows: Ints, result: Array) -> None:
    for job in range(packed.shape[0]):
        for c in range(len(nodes)):
            row = packed[job, type_index[c]]
            per_replica = int(row[_GPUS])
            if per_replica == 0 or gpus[c] % per_replica != 0:
                continue
            result[rows[job], c] = _best(row, nodes[c], gpus[c] // per_replica)[0]


# Inside the kernel a step is a tuple `terms` = (α_c^κ·D^(κδ), log(β_c·D^δ), κ, γ, R^γ): its powers are
# taken once per pair. R^γ = 0 means that nothing is waited for.
Terms = tuple[float, float, float, float, float]


@njit(cache=True, nogil=True, error_model="numpy")
def _step_s(terms: Terms, m: float, s: float) -> float:
    """Step time of s accumulation passes and the last one, m samples each."""
    floor, log_slope, kappa, gamma, link = terms
    powered = floor + math.exp(kappa * (log_slope + math.log(m)))
    if link == 0.0:
        return (s + 1.0) * powered ** (1.0 / kappa)
    last = (powered ** (gamma / kappa) + link) ** (1.0 / gamma)
    return last if s == 0.0 else s * powered ** (1.0 / kappa) + last


@njit(cache=True, nogil=True, error_model="numpy")
def _slope(terms: Terms, noise: float, m: float, s: float) -> tuple[float, float]:
    """d log(1/goodput) / d log m, which rises with m, and about how fast it rises.

    The step time's elasticity in m, minus φ/(φ + B); `noise` = φ/(K·(s + 1)).
    """
    floor, log_slope, kappa, gamma, link = terms
    linear = math.exp(kappa * (log_slope + math.log(m)))
    powered = floor + linear
    share = linear / powered
    rest = noise / (noise + m)
    part = 1.0
    bend = kappa * share * (1.0 - share)
    if link > 0.0:
        busy = powered ** (gamma / kappa)
        total = busy + link
        if s == 0.0:
            part = busy / total
        else:
            last = total ** (1.0 / gamma)
            passes = s * busy ** (1.0 / gamma)
            part = (passes + last * busy / total) / (passes + last)
        bend = part * (bend + gamma * (1.0 - part) * share * share)
    return part * share - rest, bend + rest * (1.0 - rest)


@njit(cache=True, nogil=True, error_model="numpy")
def _best_local(
    terms: Terms, guess: float, noise: float, low: float, high: float, s: float, tile: float
) -> tuple[float, float]:
    """The multiple of `tile` in [low, high] with the least T(m)·(noise + m)/m, and that minimum; (0, inf): none.

    `guess` = (α_c·D^δ + R)/(β_c·D^δ); the optimum is √(guess·noise) for κ = γ = 1 and s = 0.
    """
    low = math.ceil(low / tile) * tile
    high = math.floor(high / tile) * tile
    if low > high:
        return 0.0, math.inf
    a, b = low, high  # the optimum lies between
    if low < high:
        sharp = max(terms[2], terms[3])
        m = min(max(math.sqrt(guess * noise), low), high)
        for _ in range(100):
            slope, bend = _slope(terms, noise, m, s)
            if slope > 0.0:
                b = m
            else:
                a = m
            if math.ceil(a / tile) >= math.floor(b / tile):
                break
            step = min(max(-slope / bend, -3.0), 3.0) if bend > 0.0 else 0.0
            wanted = m * math.exp(step)
            if (wanted <= low and a == low) or (wanted >= high and b == high):
                end = low if wanted <= low else high
                slope, bend = _slope(terms, noise, end, s)
                if (end == low and slope >= 0.0) or (end == high and slope <= 0.0):
                    a, b = end, end
                    break
                wanted = math.sqrt(a * b)
            elif not a < wanted < b:
                wanted = math.sqrt(a * b)
            elif abs(step) < 0.05:
                # Newton's next error is within `margin`: the multiples of `tile` around are the candidates.
                margin = sharp * step * step * wanted + 1e-9 * wanted
                if margin < 0.3 * tile:
                    a, b = max(a, wanted - margin), min(b, wanted + margin)
                    break
            m = wanted
    least, best = math.inf, low
    m = max(math.floor(a / tile) * tile, low)
    final = min(math.ceil(b / tile) * tile, high)
    while m <= final:
        cost = _step_s(terms, m, s) * (noise + m) / m
        if cost < least:
            least, best = cost, m
        m += tile
    return best, least


@njit(cache=True, nogil=True, error_model="numpy")
def _may_beat(terms: Terms, noise: float, m: float, low: float, high: float, s: float, cost: float) -> bool:
    """False where the tangent at `m`, below a convex curve everywhere, proves that no batch beats `cost`."""
    if m == 0.0:
        return True
    slope, _ = _slope(terms, noise, m, s)
    end = low if slope > 0.0 else high
    least = math.log(_step_s(terms, m, s) * (noise + m) / m) + slope * math.log(end / m)
    return least < math.log(cost)


@njit(cache=True, nogil=True, error_model="numpy")
def _best(row: Array, nodes: int, replicas: int) -> tuple[float, float, float, float]:
    """(goodput, local_bsz, accumulation, batch_size) of one pair; goodput 0 where infeasible."""
    k = float(replicas)
    most, phi, first, last, least = row[_MOST], row[_PHI], row[_FIRST], row[_LAST], row[_LEAST]
    accumulate, adapts = row[_ACCUMULATE] > 0.0, row[_ADAPTS] > 0.0
    fewest = max(math.ceil(first / (k * most)) - 1.0, 0.0)  # accumulation passes that the initial batch needs
    if least > most or k * least > last or (fewest > 0.0 and not accumulate):
        return 0.0, 0.0, 0.0, 0.0
    nodes = min(nodes, replicas)

    kappa, gamma, ragged = row[2], row[11], row[12]
    log_dense = math.log(math.ceil(k / nodes))
    link = guess = 0.0
    if replicas > 1:
        if nodes > 1:
            log_link = row[6] + row[7] * math.log(0.5 * k) + row[8] * log_dense + row[9] * math.log(0.5 * nodes)
            if nodes == 2:
                log_link += row[10]
        else:
            log_link = row[4] + row[5] * math.log(0.5 * k)
        if log_link > -40.0:
            link = math.exp(gamma * log_link)
            guess = math.exp(log_link - row[1])
    slower = row[3] * log_dense
    terms = (math.exp(kappa * (row[0] + slower)), row[1] + slower, kappa, gamma, link)
    guess = guess * math.exp(-slower) + math.exp(row[0] - row[1])
    terms_ragged, tile = terms, 1.0
    if ragged > 0.0:
        terms_ragged = (terms[0] * math.exp(kappa * ragged), terms[1] + ragged, kappa, gamma, link)
        tile = float(TILE)

    best, best_m, best_s = 0.0, 0.0, 0.0
    compute = excess = -1.0
    s = fewest
    while adapts and k * (s + 1.0) * least <= last:
        if s > 0.0 and k * most * s >= last and not (replicas == 1 and s == 1.0):
            break  # fewer passes already hold the largest batch
        passes = k * (s + 1.0)
        low = max(least, math.ceil(first / passes))
        high = min(most, math.floor(last / passes))
        if replicas == 1 and s == 0.0:
            high = min(high, first)  # beyond the initial batch one replica needs two passes
        elif s > 0.0 and not (replicas == 1 and s == 1.0):
            low = max(low, math.floor(most * s / (s + 1.0)) + 1.0)  # fewer passes would hold a smaller batch
        if s > 1.0 and best > 0.0:
            # A lower bound of 1/goodput for this and every later number of passes.
            if compute < 0.0:
                compute = _step_s((terms[0], terms[1], kappa, gamma, 0.0), most, 0.0)
                excess = _step_s(terms, most, 0.0) - compute
            if (compute * (phi / (k * most) + s) + excess) * best >= phi + first:
                break
        if low <= high:
            m, cost = _best_local(terms, guess, phi / passes, low, high, s, tile)
            if ragged > 0.0 and _may_beat(terms_ragged, phi / passes, m, low, high, s, cost):
                other, other_cost = _best_local(terms_ragged, guess, phi / passes, low, high, s, 1.0)
                if other_cost < cost:
                    m, cost = other, other_cost
            if best * cost < phi + first:
                best, best_m, best_s = (phi + first) / cost, m, s
        if not accumulate:
            break
        s += 1.0

    if best > 0.0:
        return best, best_m, best_s, k * best_m * (best_s + 1.0)
    # A fixed batch, or limits within which no equal split lies: the initial batch, split as evenly as possible.
    if k * least > first:
        return 0.0, 0.0, 0.0, 0.0
    best_m = math.ceil(first / (k * (fewest + 1.0)))
    step = _step_s(terms_ragged if best_m % tile != 0.0 else terms, best_m, fewest)
    return first / step, best_m, fewest, first
