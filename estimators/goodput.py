"""Goodput of every (job, configuration) pair, each at its best batch size and accumulation.

Goodput = samples/s · (φ + B0)/(φ + B), with B = K·m·(s + 1) of K replicas, local batch m and s accumulation passes
(Sia, equations 1 and 2). `goodput_kernel` has the search.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from .bootstrap import with_bootstrap
from .goodput_kernel import COLUMNS, GPUS, PARAMS, PHI, Array, Ints, best_of, computes_of, fill, link_of
from .throughput import ThroughputModel


@dataclass(frozen=True)
class BatchLimits:
    """What a job allows; batch sizes are samples per optimizer step over all replicas.

    `min_local_bsz`: no replica's part of a pass is smaller. `accumulation`: passes beyond the script's own, used
    only where memory asks for it (and on one replica, where the noise scale needs two). `fixed`: the batch size
    stays `initial_batch_size` (strong-scaling and rigid jobs). `unit`: the script's loop is given its own batches
    of so many samples, each split over all replicas. Several initial batches then make a larger one. None: batches
    may be cut in any way. `undivided`: each of those batches is one pass, merged into steps or not.
    """

    initial_batch_size: int
    max_batch_size: int
    min_local_bsz: int = 1
    accumulation: bool = True
    fixed: bool = False
    unit: int | None = None
    undivided: bool = False

    def __post_init__(self) -> None:
        for name in ("initial_batch_size", "max_batch_size", "min_local_bsz"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: {getattr(self, name)} must be at least 1")
        if self.max_batch_size < self.initial_batch_size:
            raise ValueError(
                f"max_batch_size: {self.max_batch_size} is less than initial_batch_size {self.initial_batch_size}"
            )
        if self.unit is not None and (self.unit < 1 or self.initial_batch_size % self.unit):
            raise ValueError(f"unit: {self.unit} must divide initial_batch_size {self.initial_batch_size}")

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


class GoodputModel(Protocol):
    """What is known of a job's goodput: fitted (`JobModel`) or looked up (`TabulatedModel`). Immutable."""

    @staticmethod
    def fill(models: Sequence[Any], configurations: ConfigurationArrays, rows: Ints, result: Array) -> None:
        """Write the goodput of models, all of this kind, into their rows of `result`, (jobs, configurations)."""


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

    @staticmethod
    def fill(models: Sequence[JobModel], configurations: ConfigurationArrays, rows: Ints, result: Array) -> None:
        """Write the goodput of each model at its best batch into its row of `result`, (jobs, configurations)."""
        types = configurations.gpu_types
        packed = np.concatenate([model.packed(types) for model in models])
        packed = packed.reshape(len(models), len(types), COLUMNS)
        fill(packed, configurations.type_index, configurations.nodes, configurations.gpus, rows, result)

    def with_noise_scale(self, noise_scale: float) -> JobModel:
        """Return the same job at another noise scale, which is all that most of its reports change."""
        other = replace(self, noise_scale=noise_scale)
        for gpu_types, rows in self._packed.items():
            rows = rows.copy()
            rows[rows[:, GPUS] > 0, PHI] = noise_scale
            rows.flags.writeable = False
            other._packed[gpu_types] = rows
        return other

    def packed(self, gpu_types: tuple[str, ...]) -> Array:
        """Return (types, columns) numbers of this job for the kernel, with bootstrapped types; worked out once."""
        rows = self._packed.get(gpu_types)
        if rows is None:
            rows = self._packed[gpu_types] = self._pack(gpu_types)
        return rows

    def _pack(self, gpu_types: tuple[str, ...]) -> Array:
        usable = {t: m for t, m in self.throughput.items() if t in self.gpus_per_replica}
        models = with_bootstrap(usable)
        rows = np.zeros((len(gpu_types), COLUMNS))
        limits = self.limits
        for row, gpu_type in zip(rows, gpu_types, strict=True):
            model = models.get(gpu_type)
            if model is None:
                continue
            row[:PARAMS] = model.params.theta
            row[PARAMS:] = (
                self.gpus_per_replica[gpu_type],
                model.max_local_bsz,
                0.0 if self.noise_scale is None else self.noise_scale,
                limits.initial_batch_size,
                limits.max_batch_size,
                limits.min_local_bsz,
                limits.accumulation,
                limits.adapts,
                limits.unit or 0,
                limits.undivided,
            )
        rows.flags.writeable = False
        return rows


@dataclass(frozen=True)
class BatchChoice:
    """The best batch of one configuration.

    Each replica takes up to `local_bsz` samples in each of `accumulation + 1` passes, `batch_size` in
    all. Where that is less than their product, samples are split as evenly as possible. `goodput` is in
    samples/s at the initial batch size.
    """

    local_bsz: int
    accumulation: int
    batch_size: int
    goodput: float
    throughput: float
    efficiency: float


def goodput_matrix(models: Sequence[GoodputModel | None], configurations: ConfigurationArrays) -> Array:
    """Return (jobs, configurations) goodput at the best batch, in samples/s at the initial batch size.

    A table has a unit of its own. A model that is None has a row of zeros. Goodput is 0 where a job cannot run:

    * on a GPU type that it may not use or knows nothing of, or on GPUs that are not whole replicas,
    * where no batch fits memory and the limits, or where a table has no entry.
    """
    result = np.zeros((len(models), len(configurations)))
    if not len(configurations):
        return result
    kinds: dict[type[GoodputModel], list[int]] = {}
    for i, model in enumerate(models):
        if model is not None:
            kinds.setdefault(type(model), []).append(i)
    for kind, rows in kinds.items():
        kind.fill([models[i] for i in rows], configurations, np.array(rows), result)
    return result


def best_batch(model: JobModel, gpu_type: str, nodes: int, replicas: int) -> BatchChoice | None:
    """Return the batch that `goodput_matrix` values the same configuration with; None where it values it with 0.

    `replicas` counts data-parallel copies (GPUs / gpus per replica).
    """
    if nodes < 1 or replicas < 1:
        raise ValueError(f"nodes, replicas: {nodes}, {replicas} must be at least 1")
    row = model.packed((gpu_type,))[0].copy()
    if row[GPUS] == 0:
        return None
    nodes = min(nodes, replicas)
    log_dense = math.log(-(-replicas // nodes))
    link = link_of(row, nodes, replicas, log_dense, math.log(nodes), math.log(replicas))
    value, local_bsz, accumulation, batch_size = best_of(row, *computes_of(row, log_dense), link, replicas)
    if value <= 0:
        return None
    efficient = float((row[PHI] + model.limits.initial_batch_size) / (row[PHI] + batch_size))
    return BatchChoice(
        local_bsz=int(local_bsz),
        accumulation=int(accumulation),
        batch_size=int(batch_size),
        goodput=float(value),
        throughput=float(value) / efficient,
        efficiency=efficient,
    )


def goodput_on(model: GoodputModel, gpu_type: str, gpus: int, gpus_per_node: int) -> float:
    """Return goodput on so many GPUs and as few nodes as can be, in samples/s at the initial batch size.

    0: it cannot run there.
    """
    nodes = -(-gpus // gpus_per_node)
    if not isinstance(model, JobModel):
        columns = (np.array([value]) for value in (gpus_per_node, 0, nodes, gpus))
        return float(goodput_matrix([model], ConfigurationArrays((gpu_type,), *columns))[0, 0])
    per_replica = model.gpus_per_replica.get(gpu_type)
    if per_replica is None or gpus % per_replica:
        return 0.0
    best = best_batch(model, gpu_type, nodes, gpus // per_replica)
    return 0.0 if best is None else best.goodput
