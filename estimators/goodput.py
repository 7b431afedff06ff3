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
    nodes = min(nodes, replicas)
    compute = _compute_terms(row, math.log(-(-replicas // nodes)))
    terms = _with_link(row, compute, nodes, replicas, math.log(nodes), math.log(replicas))
    value, local_bsz, accumulation, batch_size = _best(row, terms, replicas)
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


@njit(cache=True, nogil=True, error_model="numpy")
def _fill(packed: Array, type_index: Ints, nodes: Ints, gpus: Ints, rows: Ints, result: Array) -> None:
    # One logarithm per column and not per pair; taken here, so that `best_batch` meets the same last bit.
    log_nodes, log_gpus = np.empty(len(nodes)), np.empty(len(nodes))
    for c in range(len(nodes)):
        log_nodes[c], log_gpus[c] = math.log(nodes[c]), math.log(gpus[c])
    for job in range(packed.shape[0]):
        # What depends on the GPU type and on the replicas of a node only is kept from column to column.
        gpu_type, dense = -1, -1
        row = packed[job, 0]
        per_replica = 0
        compute = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
        for c in range(len(nodes)):
            if type_index[c] != gpu_type:
                gpu_type, dense = type_index[c], -1
                row = packed[job, gpu_type]
                per_replica = int(row[_GPUS])
            if per_replica == 0 or gpus[c] % per_replica != 0:
                continue
            replicas, n, log_n = gpus[c] // per_replica, nodes[c], log_nodes[c]
            if n > replicas:
                n, log_n = replicas, math.log(replicas)
            if -(-replicas // n) != dense:
                dense = -(-replicas // n)
                compute = _compute_terms(row, math.log(dense))
            log_k = log_gpus[c] if per_replica == 1 else math.log(replicas)
            terms = _with_link(row, compute, n, replicas, log_n, log_k)
            result[rows[job], c] = _best(row, terms, replicas)[0]


# Inside the kernel a step is a tuple: its powers are taken once per pair, or once per GPU type and density.
#   (α_c^κ·D^(κδ), log(β_c·D^δ), κ, γ, R^γ, log(α_c·D^δ), log R, most, C(most)^κ, C(most)^γ, C(most))
# with `most` the largest local batch. R^γ = 0 means that nothing is waited for.
Terms = tuple[float, float, float, float, float, float, float, float, float, float, float]
Compute = tuple[float, float, float, float, float, float]
_LOG_2 = math.log(2.0)


@njit(cache=True, nogil=True, error_model="numpy")
def _compute_terms(row: Array, log_dense: float) -> Compute:
    """What a row's compute is made of, with D replicas on a node."""
    slower = row[3] * log_dense
    floor = math.exp(row[2] * (row[0] + slower))
    powered = floor + math.exp(row[2] * (row[1] + slower + math.log(row[_MOST])))
    compute_s = powered ** (1.0 / row[2])
    return floor, row[1] + slower, log_dense, powered, compute_s ** row[11], compute_s


@njit(cache=True, nogil=True, error_model="numpy")
def _with_link(row: Array, compute: Compute, nodes: int, replicas: int, log_nodes: float, log_k: float) -> Terms:
    """All terms of one pair; all-reduce times below e^-40 s are none."""
    floor, log_slope, log_dense, powered, busy, compute_s = compute
    link, log_link = 0.0, -math.inf
    if replicas > 1:
        if nodes > 1:
            log_link = row[6] + row[7] * (log_k - _LOG_2) + row[8] * log_dense + row[9] * (log_nodes - _LOG_2)
            if nodes == 2:
                log_link += row[10]
        else:
            log_link = row[4] + row[5] * (log_k - _LOG_2)
        if log_link > -40.0:
            link = math.exp(row[11] * log_link)
    log_floor = row[0] + row[3] * log_dense
    return floor, log_slope, row[2], row[11], link, log_floor, log_link, row[_MOST], powered, busy, compute_s


@njit(cache=True, nogil=True, error_model="numpy")
def _powers(terms: Terms, m: float) -> tuple[float, float]:
    """C(m)^κ and C(m)^γ of the compute time of m samples."""
    if m == terms[7]:
        return terms[8], terms[9]
    powered = terms[0] + math.exp(terms[2] * (terms[1] + math.log(m)))
    return powered, powered ** (terms[3] / terms[2]) if terms[4] > 0.0 else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def _parts_s(terms: Terms, powers: tuple[float, float], s: float) -> tuple[float, float]:
    """Times of the s accumulation passes together and of the last pass."""
    powered, busy = powers
    if terms[4] > 0.0 and s == 0.0:
        return 0.0, (busy + terms[4]) ** (1.0 / terms[3])
    compute_s = terms[10] if powered == terms[8] else powered ** (1.0 / terms[2])
    return s * compute_s, compute_s if terms[4] == 0.0 else (busy + terms[4]) ** (1.0 / terms[3])


@njit(cache=True, nogil=True, error_model="numpy")
def _time_s(terms: Terms, powers: tuple[float, float], s: float) -> float:
    """Step time of s accumulation passes and the last one."""
    passes, last = _parts_s(terms, powers, s)
    return passes + last


@njit(cache=True, nogil=True, error_model="numpy")
def _step_s(terms: Terms, m: float, s: float) -> float:
    """Step time of s accumulation passes and the last one, m samples each."""
    return _time_s(terms, _powers(terms, m), s)


@njit(cache=True, nogil=True, error_model="numpy")
def _slope(
    terms: Terms, powers: tuple[float, float], noise: float, m: float, s: float
) -> tuple[float, float, float]:
    """d log(1/goodput) / d log m, which rises with m, about how fast it rises, and the step time where s > 0.

    The step time's elasticity in m, minus φ/(φ + B); `noise` = φ/(K·(s + 1)).
    """
    powered, busy = powers
    kappa, gamma, link = terms[2], terms[3], terms[4]
    share = 1.0 - terms[0] / powered
    rest = noise / (noise + m)
    part, time_s = 1.0, 0.0
    bend = kappa * share * (1.0 - share)
    if link > 0.0:
        part = busy / (busy + link)
        if s > 0.0:
            passes, last = _parts_s(terms, powers, s)
            time_s = passes + last
            part = (passes + last * part) / time_s
        bend = part * (bend + gamma * (1.0 - part) * share * share)
    return part * share - rest, bend + rest * (1.0 - rest), time_s


@njit(cache=True, nogil=True, error_model="numpy")
def _best_local(
    terms: Terms, noise: float, low: float, high: float, s: float, tile: float
) -> tuple[float, float, bool]:
    """The multiple of `tile` in [low, high] with the least T(m)·(noise + m)/m, and that minimum; (0, inf): none.

    The last value says that the minimum over all real m is at `high` itself.
    """
    end = high
    low = math.ceil(low / tile) * tile
    high = math.floor(high / tile) * tile
    if low > high:
        return 0.0, math.inf, False
    a, b = low, high  # the optimum lies between
    powers = _powers(terms, high)
    slope, _, time_s = _slope(terms, powers, noise, high, s)
    if slope <= 0.0:
        # As it is for most pairs: the largest batch that fits is the best.
        if time_s == 0.0:
            time_s = _time_s(terms, powers, s)
        return high, time_s * (noise + high) / high, high == end
    if low < high:
        sharp = max(terms[2], terms[3])
        # The optimum for κ = γ = 1 and s = 0 is √(guess·noise) with guess = (α_c·D^δ + R)/(β_c·D^δ).
        guess = math.exp(terms[5] - terms[1])
        if terms[4] > 0.0:
            guess += math.exp(terms[6] - terms[1])
        m = min(max(math.sqrt(guess * noise), low), high)
        for _ in range(100):
            slope, bend, _ = _slope(terms, _powers(terms, m), noise, m, s)
            if slope > 0.0:
                b = m
            else:
                a = m
            if math.ceil(a / tile) >= math.floor(b / tile):
                break
            step = min(max(-slope / bend, -3.0), 3.0) if bend > 0.0 else 0.0
            wanted = m * math.exp(step)
            if wanted <= low and a == low:
                if _slope(terms, _powers(terms, low), noise, low, s)[0] >= 0.0:
                    b = low
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
    return best, least, False


@njit(cache=True, nogil=True, error_model="numpy")
def _slowed(terms: Terms, by: float) -> Terms:
    """The terms of a compute time e^by times as long."""
    factor = math.exp(by)
    by_kappa, by_gamma = factor ** terms[2], factor ** terms[3]
    return (
        terms[0] * by_kappa, terms[1] + by, terms[2], terms[3], terms[4], terms[5] + by, terms[6],
        terms[7], terms[8] * by_kappa, terms[9] * by_gamma, terms[10] * factor,
    )  # fmt: skip


@njit(cache=True, nogil=True, error_model="numpy")
def _may_beat(terms: Terms, noise: float, m: float, low: float, high: float, s: float, cost: float) -> bool:
    """False where the tangent at `m`, below a convex curve everywhere, proves that no batch beats `cost`."""
    if m == 0.0:
        return True
    powers = _powers(terms, m)
    slope, _, _ = _slope(terms, powers, noise, m, s)
    end = low if slope > 0.0 else high
    least = math.log(_time_s(terms, powers, s) * (noise + m) / m) + slope * math.log(end / m)
    return least < math.log(cost)


@njit(cache=True, nogil=True, error_model="numpy")
def _best(row: Array, terms: Terms, replicas: int) -> tuple[float, float, float, float]:
    """(goodput, local_bsz, accumulation, batch_size) of one pair; goodput 0 where infeasible."""
    k = float(replicas)
    most, phi, first, last, least = row[_MOST], row[_PHI], row[_FIRST], row[_LAST], row[_LEAST]
    accumulate, adapts = row[_ACCUMULATE] > 0.0, row[_ADAPTS] > 0.0
    fewest = max(math.ceil(first / (k * most)) - 1.0, 0.0)  # accumulation passes that the initial batch needs
    if least > most or k * least > last or (fewest > 0.0 and not accumulate):
        return 0.0, 0.0, 0.0, 0.0
    ragged = row[12]
    tile = float(TILE) if ragged > 0.0 else 1.0

    best, best_m, best_s = 0.0, 0.0, 0.0
    excess = -1.0
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
        if best > 0.0 and s > 0.0 and not (replicas == 1 and s == 1.0):
            # A lower bound of 1/goodput for this and every later number of passes.
            if excess < 0.0:
                excess = _time_s(terms, (terms[8], terms[9]), 0.0) - terms[10]
            if (terms[10] * (phi / (k * most) + s) + excess) * best >= phi + first:
                break
        if low <= high:
            m, cost, at_end = _best_local(terms, phi / passes, low, high, s, tile)
            if ragged > 0.0 and not at_end:
                slower = _slowed(terms, ragged)
                if _may_beat(slower, phi / passes, m, low, high, s, cost):
                    other, other_cost, _ = _best_local(slower, phi / passes, low, high, s, 1.0)
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
    step = _step_s(_slowed(terms, ragged) if best_m % tile != 0.0 else terms, best_m, fewest)
    return first / step, best_m, fewest, first
