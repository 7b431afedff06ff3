"""Random small choice programs for tests of exactness: those of schedulers, and odd ones.

A family is a way to draw programs. The same family and seed give the same instance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from coadapt.optimizer.allocation import ChoiceProblem, ChoiceProgram


@dataclass(frozen=True, eq=False)
class Instance:
    """A program as `ChoiceProgram` is given it: rows, and how each is weighed.

    value, allowed: (rows, columns).
    usage: (limits, columns).
    capacity: (limits,).
    group, size: (columns,).
    required, offset, scale, stay_gain: (rows,).
    stay_column: (rows,), -1 for none.
    """

    value: np.ndarray
    allowed: np.ndarray
    usage: np.ndarray
    capacity: np.ndarray
    group: np.ndarray
    size: np.ndarray
    required: np.ndarray
    offset: np.ndarray
    scale: np.ndarray
    stay_column: np.ndarray
    stay_gain: np.ndarray

    @property
    def ids(self) -> list[str]:
        return [f"row {i}" for i in range(len(self.value))]

    def program(self) -> ChoiceProgram:
        program = ChoiceProgram(self.usage, self.capacity, self.group, self.size)
        self.put(program, np.arange(len(self.value)))
        return program

    def put(self, program: ChoiceProgram, which: np.ndarray) -> None:
        """Put, weigh and keep the rows of these indices."""
        ids = [f"row {i}" for i in which]
        program.upsert(ids, self.value[which], self.allowed[which], self.required[which])
        program.set_weights(ids, self.offset[which], self.scale[which])
        program.set_incumbents(ids, self.stay_column[which], self.stay_gain[which])

    def problem(self) -> ChoiceProblem:
        """Return the same program as plain gains."""
        gain = self.offset[:, None] + self.scale[:, None] * self.value
        allowed = self.allowed.copy()
        row = np.flatnonzero(self.stay_column >= 0)
        column = self.stay_column[row]
        gain[row, column] = np.where(
            allowed[row, column], np.maximum(gain[row, column], self.stay_gain[row]), self.stay_gain[row]
        )
        allowed[row, column] = True
        return ChoiceProblem(np.where(allowed, gain, 0.0), allowed, self.usage, self.capacity, self.required)


def draw(family: str, seed: int) -> Instance:
    """Draw an instance. Raises KeyError for an unknown family."""
    every = {**FAMILIES, **LARGER}
    return every[family](np.random.default_rng([list(every).index(family), seed]))


def _instance(
    rng: np.random.Generator, gpus: np.ndarray, group: np.ndarray, value: np.ndarray, tight: float = 0.5
) -> Instance:
    """Make an instance with a limit per GPU type, of up to about `tight` of the GPUs that all rows may take."""
    types = int(group.max(initial=0)) + 1
    usage = np.where(group == np.arange(types)[:, None], gpus, 0).astype(float)
    rows = len(value)
    most = max(int(tight * rows * gpus.max(initial=1) / types), 1)
    return Instance(
        value=value,
        allowed=np.ones(value.shape, bool),
        usage=usage,
        capacity=rng.integers(0, 2 + most, types).astype(float),
        group=group,
        size=gpus.astype(float),
        required=np.zeros(rows, bool),
        offset=np.zeros(rows),
        scale=np.ones(rows),
        stay_column=np.full(rows, -1),
        stay_gain=np.zeros(rows),
    )


def _doublings(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw columns. Return their GPUs, which are powers of two, and their types."""
    types, each = int(rng.integers(1, 5)), int(rng.integers(1, 6))
    return np.tile(2 ** np.arange(each), types), np.repeat(np.arange(types), each)


def _speed(rng: np.random.Generator, rows: int, gpus: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Draw (rows, columns) goodput that grows less than in proportion to GPUs."""
    types = int(group.max(initial=0)) + 1
    return rng.uniform(0.5, 3, (rows, types))[:, group] * gpus ** rng.uniform(0.2, 1, (rows, 1))


def _goodput(rng: np.random.Generator) -> Instance:
    gpus, group = _doublings(rng)
    return _instance(rng, gpus, group, _speed(rng, int(rng.integers(1, 13)), gpus, group))


def _sia(rng: np.random.Generator) -> Instance:
    """Draw λ - G^p as in Sia with p = -1/2, factors for moving, and where jobs are now."""
    gpus, group = _doublings(rng)
    rows = int(rng.integers(2, 16))
    goodput = np.maximum(_speed(rng, rows, gpus, group), 0.5)
    base = _instance(rng, gpus, group, -(goodput**-0.5), 0.3)
    scale = rng.choice([1.0, 1.2, 2.0, 3.0], rows)
    now = np.where(rng.random(rows) < 0.6, rng.integers(0, len(gpus), rows), -1)
    offset = 1.1 * scale + 1e-6 * (1 - np.arange(rows) / rows)
    return replace(
        base, offset=offset, scale=scale, stay_column=now, stay_gain=offset + base.value[np.arange(rows), now]
    )


def _bounded(rng: np.random.Generator) -> Instance:
    """Draw rows with a least and a most of their own."""
    found = _sia(rng) if rng.random() < 0.5 else _goodput(rng)
    least = 2 ** rng.integers(0, 3, (len(found.value), 1))
    most = least * 2 ** rng.integers(0, 4, least.shape)
    return replace(found, allowed=(found.size >= least) & (found.size <= most))


def _rigid(rng: np.random.Generator) -> Instance:
    """Draw rows that take one number of GPUs, of some of the types."""
    gpus, group = _doublings(rng)
    value = _speed(rng, int(rng.integers(2, 16)), gpus, group)
    wants = rng.choice(gpus, (len(value), 1))
    types = rng.random((len(value), int(group.max()) + 1)) < 0.8
    return replace(_instance(rng, gpus, group, value), allowed=(gpus == wants) & types[:, group])


def _pipelines(rng: np.random.Generator) -> Instance:
    """Draw pipelines on 1 to 12 GPUs, whose values are stairs and not concave."""
    types = int(rng.integers(1, 3))
    gpus, group = np.tile(np.arange(1, 13), types), np.repeat(np.arange(types), 12)
    rows = int(rng.integers(2, 11))
    stages = rng.choice([1, 2, 3, 4], (rows, 1))
    replicas = gpus // stages
    value = _speed(rng, rows, np.maximum(replicas, 1), group) * (replicas > 0)
    return replace(_instance(rng, gpus, group, value), allowed=value > 0)


def _alike(rng: np.random.Generator) -> Instance:
    """Draw few kinds of rows, many of each, with whole numbers, so that everything ties."""
    gpus, group = _doublings(rng)
    kinds = np.round(2 * _speed(rng, int(rng.integers(1, 3)), gpus, group))
    return _instance(rng, gpus, group, kinds[rng.integers(0, len(kinds), int(rng.integers(2, 25)))], 0.3)


def _blocks(rng: np.random.Generator) -> Instance:
    """Draw more limits than one per GPU type: on large blocks, on whole nodes, and on what all types share."""
    found = _bounded(rng) if rng.random() < 0.5 else _goodput(rng)
    rows, limits, capacity = len(found.value), [found.usage], [found.capacity]
    for limit, most in zip(found.usage, found.capacity, strict=True):
        least = 2 ** int(rng.integers(1, 4))
        limits.append(np.where(limit >= least, limit, 0)[None])
        capacity.append(np.array([np.floor(most * rng.uniform(0.3, 1))]))
    limits.append(((found.size >= 4) * np.maximum(found.size // 4, 1))[None])
    capacity.append(rng.integers(0, 1 + rows, 1))
    if rng.random() < 0.5:
        limits.append(rng.integers(0, 4, (1, len(found.size))))
        capacity.append(rng.integers(0, 3 * rows, 1))
    return replace(
        found, usage=np.concatenate(limits).astype(float), capacity=np.concatenate(capacity).astype(float)
    )


def _reserved(rng: np.random.Generator) -> Instance:
    """Draw rows that must be served even at a loss, some of them in one column only."""
    found = _blocks(rng) if rng.random() < 0.3 else _goodput(rng)
    rows, columns = found.value.shape
    required = rng.random(rows) < 0.4
    exact = required & (rng.random(rows) < 0.5)
    allowed = found.allowed.copy()
    allowed[exact] = np.eye(columns, dtype=bool)[rng.integers(0, columns, int(exact.sum()))]
    return replace(found, value=found.value - rng.uniform(0, 3), allowed=allowed, required=required)


def _scarce(rng: np.random.Generator) -> Instance:
    """Draw capacities of 0, columns larger than a capacity, columns that use nothing, and values below 0."""
    found = _goodput(rng)
    usage = found.usage.copy()
    usage[:, rng.random(usage.shape[1]) < 0.15] = 0.0
    capacity = np.floor(found.capacity * rng.choice([0, 0.2, 0.5, 1.0], len(found.capacity)))
    value = found.value - rng.choice([0.0, 2.0])
    return replace(found, usage=usage, capacity=capacity, value=value, size=usage.sum(axis=0))


def _twins(rng: np.random.Generator) -> Instance:
    """Draw several columns with the same usage but other values."""
    found = _goodput(rng)
    twice = np.repeat(np.arange(len(found.size)), rng.integers(1, 4, len(found.size)))
    return replace(
        found,
        value=found.value[:, twice] * rng.choice([0.9, 1.0, 1.1], (len(found.value), len(twice))),
        allowed=rng.random((len(found.value), len(twice))) < 0.9,
        usage=found.usage[:, twice],
        group=found.group[twice],
        size=found.size[twice],
    )


def _anything(rng: np.random.Generator) -> Instance:
    """Draw columns that use any amounts of any limits, and rows with any gains or losses."""
    rows, limits, columns = int(rng.integers(1, 11)), int(rng.integers(1, 5)), int(rng.integers(1, 11))
    usage = (rng.integers(0, 9, (limits, columns)) * (rng.random((limits, columns)) < 0.5)).astype(float)
    value = rng.normal(0.7, 1, (rows, columns))
    return Instance(
        value=np.round(value, 1) if rng.random() < 0.3 else value,
        allowed=rng.random(value.shape) < rng.choice([0.5, 0.9, 1.0]),
        usage=usage,
        capacity=rng.integers(0, 3 + 3 * rows, limits).astype(float),
        group=rng.integers(0, 3, columns),
        size=rng.choice([usage.sum(axis=0), rng.uniform(0, 5, columns)]),
        required=rng.random(rows) < rng.choice([0.0, 0.0, 0.3]),
        offset=rng.normal(0, 0.3, rows),
        scale=rng.uniform(0.5, 2, rows),
        stay_column=np.where(rng.random(rows) < 0.3, rng.integers(0, columns, rows), -1),
        stay_gain=rng.normal(0.7, 1, rows),
    )


def _many(rng: np.random.Generator) -> Instance:
    """Draw many rows, many of them alike, under several limits."""
    gpus, group = _doublings(rng)
    rows = int(rng.integers(45, 90))
    kinds = int(rng.choice([1, 2, 3, rows]))
    value = _speed(rng, kinds, gpus, group)[rng.integers(0, kinds, rows)]
    if rng.random() < 0.5:
        value = 1.1 - value**-0.5
    if rng.random() < 0.3:
        value = np.round(value, 1)
    found = _instance(rng, gpus, group, value, 0.2)
    found = replace(found, allowed=rng.random(value.shape) < rng.choice([0.8, 1.0]))
    if rng.random() < 0.7:
        return found
    large = np.where(gpus >= 2, gpus, 0) + rng.integers(0, 3, len(gpus))
    usage, capacity = np.vstack([found.usage, large]), np.append(found.capacity, float(rng.integers(3, rows)))
    return replace(found, usage=usage, capacity=capacity)


FAMILIES: dict[str, Callable[[np.random.Generator], Instance]] = {
    "goodput of powers of two": _goodput,
    "sia's, with moves": _sia,
    "least, most, doubling": _bounded,
    "rigid": _rigid,
    "pipelines": _pipelines,
    "rows alike": _alike,
    "blocks and whole nodes": _blocks,
    "reservations": _reserved,
    "scarce": _scarce,
    "columns alike": _twins,
    "anything": _anything,
}

# HiGHS takes a hundred times as long for these.
LARGER: dict[str, Callable[[np.random.Generator], Instance]] = {"many rows": _many}
