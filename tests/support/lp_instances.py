"""Linear programs to measure solvers on: generated families, Netlib's, and GPU allocation that changes by round.

    python -m tests.support.lp_instances --fetch      # Netlib's programs, into the cache folder
    python -m tests.support.lp_instances              # what there is

Netlib's programs, with their infeasible ones, are part of scipy's source package (its own linprog benchmark), as
NumPy files. `--fetch` has pip download that package and copies them to $COADAPT_NETLIB (by default
~/.cache/coadapt/netlib); they are in no repository of ours. Everything else is generated, by seed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from coadapt.optimizer.copter.engine import ContinualProgram, Row
from coadapt.optimizer.linear_program import LinearProgram, Status
from scipy import sparse

NETLIB = Path(os.environ.get("COADAPT_NETLIB", Path.home() / ".cache" / "coadapt" / "netlib"))
SOURCE = "scipy==1.16.0"
INF = np.inf


@dataclass(frozen=True)
class Instance:
    """status: what the program is by construction, None where only a solver can say."""

    name: str
    family: str
    program: LinearProgram
    status: Status | None = None


def _lp(
    cost: np.ndarray,
    matrix: Any,
    row_lower: np.ndarray | float,
    row_upper: np.ndarray | float,
    lower: np.ndarray | float = 0.0,
    upper: np.ndarray | float = INF,
) -> LinearProgram:
    matrix = sparse.csr_array(matrix, dtype=float)
    rows, columns = matrix.shape
    low, high = np.broadcast_to(row_lower, (rows,)), np.broadcast_to(row_upper, (rows,))
    return LinearProgram(
        np.asarray(cost, dtype=float),
        matrix,
        low.astype(float),
        high.astype(float),
        np.broadcast_to(lower, (columns,)).astype(float),
        np.broadcast_to(upper, (columns,)).astype(float),
    )


# Families: (random generator, size 0 to 3) -> program


def transport(rng: np.random.Generator, size: int) -> LinearProgram:
    """Supplies to demands at least cost of the way."""
    sources, sinks = 6 * 2**size, 9 * 2**size
    demand = rng.integers(5, 40, sinks).astype(float)
    supply = rng.dirichlet(np.ones(sources)) * demand.sum() * 1.1
    places = rng.random((sources + sinks, 2))
    cost = np.linalg.norm(places[:sources, None] - places[None, sources:], axis=2).ravel()
    out = sparse.kron(sparse.eye_array(sources), np.ones((1, sinks)))
    into = sparse.kron(np.ones((1, sources)), sparse.eye_array(sinks))
    low = np.concatenate([np.full(sources, -INF), demand])
    return _lp(cost, sparse.vstack([out, into]), low, np.concatenate([supply, np.full(sinks, INF)]))


def assignment(rng: np.random.Generator, size: int) -> LinearProgram:
    """Draw an assignment of as many people as tasks; every vertex is degenerate."""
    count = 8 * 2**size
    rows = sparse.kron(sparse.eye_array(count), np.ones((1, count)))
    columns = sparse.kron(np.ones((1, count)), sparse.eye_array(count))
    return _lp(rng.integers(1, 100, count * count), sparse.vstack([rows, columns]), 1.0, 1.0)


def multicommodity(rng: np.random.Generator, size: int) -> LinearProgram:
    """Draw flows of several goods over shared arcs; what cannot be carried is paid for."""
    nodes, goods = 6 + 5 * size, 3 + 2 * size
    arcs = [(i, (i + 1) % nodes) for i in range(nodes)]
    arcs += [tuple(rng.choice(nodes, 2, replace=False)) for _ in range(3 * nodes)]
    incidence = np.zeros((nodes, len(arcs)))
    for a, (i, j) in enumerate(arcs):
        incidence[i, a], incidence[j, a] = -1.0, 1.0
    need, missing = np.zeros(nodes * goods), np.zeros((nodes * goods, goods))
    for k in range(goods):
        i, j = rng.choice(nodes, 2, replace=False)
        amount = float(rng.integers(5, 20))
        need[k * nodes + i], need[k * nodes + j] = -amount, amount
        missing[k * nodes + i, k], missing[k * nodes + j, k] = -1.0, 1.0
    flow = sparse.kron(sparse.eye_array(goods), incidence)
    shared = sparse.kron(np.ones((1, goods)), sparse.eye_array(len(arcs)))
    matrix = sparse.block_array([[flow, sparse.csr_array(missing)], [shared, None]])
    cost = np.concatenate([np.tile(rng.integers(1, 10, len(arcs)), goods), np.full(goods, 200.0)])
    low = np.concatenate([need, np.full(len(arcs), -INF)])
    return _lp(cost, matrix, low, np.concatenate([need, rng.integers(4, 15, len(arcs)).astype(float)]))


def diet(rng: np.random.Generator, size: int) -> LinearProgram:
    """Draw a diet: nutrients between limits, at least cost, of foods that hold very different amounts."""
    foods, nutrients = 20 * 2**size, 8 + 6 * size
    holds = rng.lognormal(0, 1.0, (nutrients, foods)) * (rng.random((nutrients, foods)) < 0.4)
    holds *= 10.0 ** rng.integers(-2, 4, (nutrients, 1))
    low = holds @ rng.uniform(0, 1.0, foods) * 0.5
    return _lp(rng.uniform(0.2, 5.0, foods), holds, low, low * 3.0, 0.0, 4.0)


def blending(rng: np.random.Generator, size: int) -> LinearProgram:
    """Draw crudes blended into fuels whose quality, a ratio, is limited: equations with right side zero."""
    crudes, fuels = 4 * 2**size, 3 * 2**size
    quality, price = rng.uniform(80, 110, crudes), rng.uniform(20, 60, crudes)
    wanted, worth = rng.uniform(88, 100, fuels), rng.uniform(50, 80, fuels)
    use = sparse.kron(sparse.eye_array(crudes), np.ones((1, fuels)))
    grade = (quality[:, None] - wanted[None, :]).ravel()
    of_fuel = sparse.kron(np.ones((1, crudes)), sparse.eye_array(fuels))
    matrix = sparse.vstack([use, sparse.csr_array(of_fuel * grade[None, :]), of_fuel])
    low = np.concatenate([np.full(crudes, -INF), np.zeros(fuels), np.full(fuels, -INF)])
    high = np.concatenate([rng.uniform(50, 200, crudes), np.full(fuels, INF), rng.uniform(40, 150, fuels)])
    return _lp((price[:, None] - worth[None, :]).ravel(), matrix, low, high)


def production(rng: np.random.Generator, size: int) -> LinearProgram:
    """Draw a staircase: make, store and sell several goods over periods."""
    periods, goods = 6 * 2**size, 4
    count = periods * goods
    demand = rng.integers(5, 30, count) * (1 + 0.5 * np.sin(np.arange(count)))
    eye = sparse.eye_array(count)
    before = sparse.eye_array(count, k=-goods)
    balance = sparse.hstack([eye, before - eye])  # make + store before - store = demand
    hours = sparse.kron(sparse.eye_array(periods), rng.uniform(0.5, 2.0, (1, goods)))
    matrix = sparse.vstack([balance, sparse.hstack([hours, sparse.csr_array((periods, count))])])
    cost = np.concatenate([rng.uniform(1, 5, count), rng.uniform(0.05, 0.5, count)])
    capacity = np.full(periods, float((hours @ demand).max()) * 1.05)
    low = np.concatenate([demand, np.full(periods, -INF)])
    return _lp(cost, matrix, low, np.concatenate([demand, capacity]))


def planted(rng: np.random.Generator, size: int) -> LinearProgram:
    """Draw a sparse random program around a known optimal pair: x, y, and reduced costs of the right sign."""
    rows, columns = 30 * 2**size, 50 * 2**size
    matrix = rng.normal(size=(rows, columns)) * (rng.random((rows, columns)) < 5.0 / rows)
    x = rng.uniform(0, 3, columns) * (rng.random(columns) < 0.5)
    y = rng.normal(size=rows) * (rng.random(rows) < 0.7)
    at = matrix @ x
    low = np.where(y > 0, at, np.where(y < 0, -INF, at - rng.uniform(0, 2, rows)))
    high = np.where(y < 0, at, np.where(y > 0, INF, at + rng.uniform(0, 2, rows)))
    return _lp(matrix.T @ y + np.where(x > 0, 0.0, rng.uniform(0, 2, columns)), matrix, low, high)


def set_cover(rng: np.random.Generator, size: int) -> LinearProgram:
    """Draw the relaxation of choosing the cheapest sets that hold everything."""
    items, sets = 25 * 2**size, 50 * 2**size
    holds = rng.random((items, sets)) < 4.0 / items**0.5 / 5.0
    holds[np.arange(items), rng.integers(0, sets, items)] = True
    return _lp(rng.integers(1, 20, sets), holds, 1.0, INF, 0.0, 1.0)


def degenerate(rng: np.random.Generator, size: int) -> LinearProgram:
    """Draw many more rows through the optimum than it needs, some of them twice."""
    columns = 15 * 2**size
    rows = 3 * columns
    matrix = rng.integers(-3, 4, (rows, columns)) * (rng.random((rows, columns)) < min(1.0, 6.0 / columns))
    matrix[rows // 2 :] = matrix[: rows - rows // 2]
    x = rng.integers(0, 2, columns).astype(float)
    cost = matrix.T @ (rng.uniform(0, 1, rows) * (rng.random(rows) < 0.3))
    return _lp(cost, matrix, matrix @ x, INF, 0.0, 10.0)


def free_variables(rng: np.random.Generator, size: int) -> LinearProgram:
    """Draw a line through points in the least sum of distances: coefficients of any sign, two rows per point."""
    points, features = 30 * 2**size, 3 + 2 * size
    data = np.hstack([rng.normal(size=(points, features)), np.ones((points, 1))])
    seen = data @ rng.normal(size=features + 1) + rng.laplace(size=points)
    eye = np.eye(points)
    matrix = np.block([[data, eye], [data, -eye]])
    cost = np.concatenate([np.zeros(features + 1), np.ones(points)])
    low = np.concatenate([seen, np.full(points, -INF)])
    lower = np.concatenate([np.full(features + 1, -INF), np.zeros(points)])
    return _lp(cost, matrix, low, np.concatenate([np.full(points, INF), seen]), lower)


def equations(rng: np.random.Generator, size: int) -> LinearProgram:
    """Draw almost only equations, a few of them sums of others."""
    rows, columns = 20 * 2**size, 45 * 2**size
    matrix = rng.integers(-2, 3, (rows, columns)) * (rng.random((rows, columns)) < min(1.0, 5.0 / rows))
    extra = np.array([matrix[rng.choice(rows, 3, replace=False)].sum(axis=0) for _ in range(rows // 10)])
    matrix = np.vstack([matrix, extra])
    sides = matrix @ rng.integers(0, 4, columns).astype(float)
    return _lp(rng.uniform(0, 3, columns), matrix, sides, sides, 0.0, 8.0)


def badly_scaled(rng: np.random.Generator, size: int) -> LinearProgram:
    """Draw a planted program whose rows and columns are in units that are up to ten thousand apart."""
    program = planted(rng, size)
    rows, columns = program.matrix.shape
    by_row, by_column = 10.0 ** rng.uniform(-2, 2, rows), 10.0 ** rng.uniform(-2, 2, columns)
    matrix = sparse.diags_array(by_row) @ program.matrix @ sparse.diags_array(by_column)
    return _lp(program.cost * by_column, matrix, program.row_lower * by_row, program.row_upper * by_row)


def infeasible(rng: np.random.Generator, size: int) -> LinearProgram:
    """Draw a planted program with a sum of its rows asked to be more than the rows allow."""
    program = planted(rng, size)
    rows = program.matrix.shape[0]
    weight = rng.uniform(0.5, 2.0, rows) * np.where(np.isfinite(program.row_upper), 1.0, -1.0)
    side = np.where(weight > 0, program.row_upper, program.row_lower)
    most = float(weight @ side)
    matrix = sparse.vstack([program.matrix, sparse.csr_array(weight[None, :] @ program.matrix)])
    low = np.append(program.row_lower, most + 1.0 + 0.1 * abs(most))
    return _lp(program.cost, matrix, low, np.append(program.row_upper, INF))


def unbounded(rng: np.random.Generator, size: int) -> LinearProgram:
    """Draw a planted program with one more way to earn that uses nothing up for ever."""
    program = planted(rng, size)
    columns = program.matrix.shape[1]
    ray = np.where(rng.random(columns) < 0.2, rng.uniform(0, 1, columns), 0.0)
    new = -(program.matrix @ ray)  # raised along with the ray, the new column leaves every row where it is
    matrix = sparse.hstack([program.matrix, sparse.csr_array(new[:, None])])
    cost = np.append(program.cost, -1.0 - float(program.cost @ ray))
    return _lp(cost, matrix, program.row_lower, program.row_upper)


FAMILIES: dict[str, Callable[[np.random.Generator, int], LinearProgram]] = {
    family.__name__: family
    for family in (
        transport,
        assignment,
        multicommodity,
        diet,
        blending,
        production,
        planted,
        set_cover,
        degenerate,
        free_variables,
        equations,
        badly_scaled,
        infeasible,
        unbounded,
    )
}
NETLIB_FAMILIES = ("netlib", "netlib-infeasible")
BY_CONSTRUCTION = {"infeasible": Status.INFEASIBLE, "unbounded": Status.UNBOUNDED}


def generated(sizes: int = 4, draws: int = 3) -> Iterator[Instance]:
    """Yield `draws` programs of every size of every family."""
    for number, (family, make) in enumerate(FAMILIES.items()):
        status = BY_CONSTRUCTION.get(family, Status.OPTIMAL)
        for size in range(sizes):
            for draw in range(draws):
                program = make(np.random.default_rng((number, size, draw)), size)
                yield Instance(f"{family}-{size}{'abcdefgh'[draw]}", family, program, status)


def netlib() -> Iterator[Instance]:
    """Yield what `fetch` has put into the cache folder; nothing where it was not called."""
    for path in sorted(NETLIB.glob("**/*.npz")):
        is_infeasible = path.parent.name == "infeasible"
        program = _netlib_program(path)
        if program is not None:
            yield Instance(
                path.stem,
                NETLIB_FAMILIES[is_infeasible],
                program,
                Status.INFEASIBLE if is_infeasible else Status.OPTIMAL,
            )


def fetch() -> int:
    """Bring Netlib's programs into the cache folder; how many there are.

    pip can only prepare a source package for building, which ends for want of compilers; --no-clean leaves what it
    had unpacked by then, which is all that is needed.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", SOURCE, "--no-deps", "--no-binary", "scipy"]
        options = ["--no-build-isolation", "--no-clean", "--quiet", "--dest", folder]
        subprocess.run(
            [*command, *options], env={**os.environ, "TMPDIR": folder}, capture_output=True, check=False
        )
        for path in Path(folder).glob("**/linprog_benchmark_files/**/*.npz"):
            target = NETLIB / ("infeasible" if path.parent.name == "infeasible" else "") / path.name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    return len(list(NETLIB.glob("**/*.npz")))


def _netlib_program(path: Path) -> LinearProgram | None:
    """Read a program; None for a file that holds something else."""
    with np.load(path, allow_pickle=True) as data:
        if "c" not in data.files:
            return None
        cost = data["c"].ravel().astype(float)
        parts, low, high = [], [], []
        for matrix, side, is_equation in (("A_ub", "b_ub", False), ("A_eq", "b_eq", True)):
            entries = data[matrix].item() if data[matrix].dtype == object else data[matrix]
            if entries is None or not np.prod(entries.shape):
                continue
            sides = np.asarray(data[side], dtype=float).ravel()
            parts.append(sparse.csr_array(entries))
            low.append(sides if is_equation else np.full(len(sides), -INF))
            high.append(sides)
        bounds = data["bounds"]
        bounds = bounds[0] if bounds.ndim == 3 else bounds
        if not bounds.size:
            bounds = np.array([(0.0, None)] * len(cost), dtype=object)
        elif bounds.shape == (2,):
            bounds = np.array([tuple(bounds)] * len(cost), dtype=object)
        sides = [np.array([_bound(pair[i], open_) for pair in bounds]) for i, open_ in ((0, -INF), (1, INF))]
        return _lp(cost, sparse.vstack(parts), np.concatenate(low), np.concatenate(high), *sides)


def _bound(given: Any, open_: float) -> float:
    """Return one side of a bound: a number, an array of one, None or nan."""
    number = None if given is None else np.asarray(given).ravel()[0]
    return open_ if number is None or number != number else float(number)


@dataclass(frozen=True)
class Round:
    """What a round changed: places of the jobs that left, among those before; ids that came, and of new values."""

    left: np.ndarray
    came: list[int]
    changed: list[int]


class GpuAllocation:
    """Jobs that want GPUs of seven types: one configuration (GPUs of one type) each, within what there is.

    value = weight * speed[type] * GPUs ** exponent, with diminishing returns; GPUs are 1, 2, 4, then multiples of
    8 up to `most_gpus`. `step` is one round: 1 % of the jobs leave, as many arrive, 5 % change their values.
    """

    TYPES = 7
    SPEED = np.array([1.0, 1.4, 2.0, 2.8, 4.0, 5.5, 8.0])
    LEAVE, CHANGE = 0.01, 0.05

    def __init__(self, jobs: int, most_gpus: int, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.jobs, self.made = jobs, 0
        self.counts = np.array([1, 2, 4, *range(8, most_gpus + 1, 8)], dtype=float)
        self.gpus = np.tile(self.counts, self.TYPES)
        self.gpu_type = np.repeat(np.arange(self.TYPES), len(self.counts))
        self.uses = {f"type-{t}": (np.flatnonzero(self.gpu_type == t), self.counts) for t in range(self.TYPES)}
        self.parameters: dict[int, tuple[np.ndarray, float, float]] = {}
        self.program = ContinualProgram(maximise=True)
        for t in range(self.TYPES):
            self.program.set_capacity(f"type-{t}", float(np.round(jobs * 2.0 * self.rng.uniform(0.5, 1.5))))
        for _ in range(jobs):
            self._add()

    def step(self) -> Round:
        leaving = max(1, round(self.jobs * self.LEAVE))
        ids = np.array(list(self.parameters))
        left = np.sort(self.rng.choice(len(ids), leaving, replace=False))
        for id in ids[left]:
            self.program.remove_request(int(id))
            del self.parameters[int(id)]
        came = [self._add() for _ in range(leaving)]
        changing = max(1, round(self.jobs * self.CHANGE))
        changed = [int(id) for id in self.rng.choice(list(self.parameters), changing, replace=False)]
        for id in changed:
            speed, exponent, weight = self.parameters[id]
            speed = speed * self.rng.lognormal(0, 0.05, self.TYPES)
            self.parameters[id] = speed, min(0.97, exponent * self.rng.lognormal(0, 0.02)), weight
        self.program.change_costs(changed, [self.values(id) for id in changed])
        return Round(left, came, changed)

    def _add(self) -> int:
        id, self.made = self.made, self.made + 1
        speed = self.rng.uniform(0.5, 1.5) * self.SPEED * self.rng.lognormal(0, 0.3, self.TYPES)
        self.parameters[id] = speed, float(self.rng.uniform(0.3, 0.95)), float(self.rng.lognormal(0, 0.5))
        self.program.add_request(id, self.values(id), self.uses, [Row(1.0, upper=1.0)])
        return id

    def values(self, id: int) -> np.ndarray:
        """Return (configurations,) of the job."""
        speed, exponent, weight = self.parameters[id]
        return weight * speed[self.gpu_type] * self.gpus**exponent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fetch", action="store_true", help="bring Netlib's programs into the cache folder")
    if parser.parse_args().fetch:
        print(f"{fetch()} files of Netlib in {NETLIB}")
    for family, count in Counter(i.family for source in (generated, netlib) for i in source()).items():
        print(f"{family}: {count}")


if __name__ == "__main__":
    main()
