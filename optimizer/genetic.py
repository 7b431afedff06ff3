"""Searches placements of jobs by the genetic algorithm of Pollux (Qiao et al., OSDI'21, section 4.2).

It is NSGA-II (Deb et al., 2002) over matrices of jobs by nodes, as the authors of Pollux and Sia run it. Fitness
is the power mean of the jobs' speedups, and those of moved jobs are discounted. Utilisation is a second objective
that keeps the population diverse. The fittest matrix is the result.

Children are bred by single-point crossover over jobs and three mutations. A job goes back to where it is, leaves
nodes, or takes more of a node with spare GPUs. Children are repaired to be feasible, and none is bred twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

Counts = NDArray[np.int16]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Words = NDArray[np.uint64]

NO_SPEEDUP = 1e-3  # added to every speedup, so that a job without GPUs has a finite loss
# Chances: that a job goes back to where it is; that it leaves nodes; and that it then leaves a given node.
RESET, LEAVES, EMPTIES = 0.1, 0.1, 0.1
CROSSES = 0.9  # chance that two parents are crossed over
MOST = np.iinfo(np.int16).max  # most GPUs of a node
TRIES = 100  # most matrices bred per child until one is new


class Problem(NamedTuple):
    """Jobs and nodes. Earlier jobs come first if GPUs run short.

    `speedup[j, n, r]` is that of job j with r GPUs of n nodes; 0 if it cannot run. A job holds no GPUs, or GPUs of
    one type `t`: a multiple of `unit[j, t]` between `least[j, t]` and `most[j, t]`. Unit 0 means that it cannot
    run on this type. Nodes with the same `host` are parts of one machine, next to each other. A replica is not
    spread over machines if one could hold it.

    At most one job that spans nodes lies on a node. A job that can use any number of GPUs spans at most
    `most_nodes`. Pinned jobs need not obey any of this.
    """

    speedup: Floats  # (jobs, nodes + 1, GPUs + 1); larger counts of nodes and GPUs count as the last
    current: Counts  # (jobs, nodes) GPUs held
    stay: Floats  # (jobs,) factor of a job's speedup if its row is not the current one
    room: Ints  # (nodes,) GPUs
    least: Ints  # (jobs, types)
    most: Ints  # (jobs, types)
    unit: Ints  # (jobs, types)
    type_of: Ints  # (nodes,)
    host: Ints  # (nodes,) ascending from 0
    pinned: Flags  # (jobs,) keeps its current row; such jobs come first
    required: Flags  # (jobs,) gets its least wherever that is free
    most_nodes: int = 16
    p: float = -1.0


@dataclass(frozen=True, eq=False)
class Found:
    """What a search found.

    rows: (jobs, nodes) the fittest matrix.
    front: (matrices, jobs, nodes) the matrices that no other one dominates.
    """

    rows: Counts
    fitness: float
    front: Counts


def search(problem: Problem, first: Counts, size: int, generations: int, seed: int) -> Found:
    """Improve the population `first`, (matrices, jobs, nodes) of any counts, for some generations.

    Raises:
        ValueError: for no jobs, nodes or matrices, and shapes that do not agree. For entries that are negative,
        not
            finite or beyond `MOST`, and types and hosts that are not as `Problem` says. For pinned jobs that are
            not first or hold more than there is room for. For a size or `most_nodes` below 1, generations below 0,
            a `p` of 0 or not finite, and a seed beyond 64 bits.
    """
    _check_shapes(problem, first)
    _check_entries(problem, first)
    numbers = ("size", size, 1), ("generations", generations, 0), ("most_nodes", problem.most_nodes, 1)
    for name, number, least in numbers:
        if not number >= least:
            raise ValueError(f"{name}: is {number}; {least} or more is accepted")
    if problem.p == 0 or not np.isfinite(problem.p):
        raise ValueError(f"p: is {problem.p}; a finite number other than 0 is accepted")
    if not 0 <= seed < 2**64:
        raise ValueError(f"seed: is {seed}; 0 to 2**64 - 1 is accepted")
    stays = problem.speedup + NO_SPEEDUP
    moved = problem.speedup * problem.stay[:, None, None] + NO_SPEEDUP
    losses = np.stack([stays, moved]) ** problem.p
    state = np.array([seed], np.uint64)
    population, fitness, front = _evolve(problem, losses, first, size, generations, state)
    best = int(np.argmax(fitness))
    return Found(population[best], float(fitness[best]), population[front == 0])


def _check_shapes(problem: Problem, first: Counts) -> None:
    """Refuse shapes with which compiled code, which checks no bounds, would read beyond an array."""
    if problem.current.ndim != 2 or not problem.current.size:
        raise ValueError(
            f"current: has shape {problem.current.shape}; (jobs, nodes) of at least one each is accepted"
        )
    if problem.unit.ndim != 2:
        raise ValueError(f"unit: has shape {problem.unit.shape}, not (jobs, types)")
    (jobs, nodes), types = problem.current.shape, problem.unit.shape[1]
    shapes = {
        "stay": (jobs,), "room": (nodes,), "least": (jobs, types), "most": (jobs, types), "unit": (jobs, types),
        "type_of": (nodes,), "host": (nodes,), "pinned": (jobs,), "required": (jobs,),
    }  # fmt: skip
    for name, shape in shapes.items():
        found = getattr(problem, name).shape
        if found != shape:
            raise ValueError(f"{name}: has shape {found}, not {shape} as current and unit say")
    if problem.speedup.ndim != 3 or len(problem.speedup) != jobs or not problem.speedup.size:
        raise ValueError(f"speedup: has shape {problem.speedup.shape}, not ({jobs}, nodes + 1, GPUs + 1)")
    if first.ndim != 3 or not len(first) or first.shape[1:] != (jobs, nodes):
        raise ValueError(f"first: has shape {first.shape}; at least one matrix of ({jobs}, {nodes}) is accepted")


def _check_entries(problem: Problem, first: Counts) -> None:
    nodes, types, pinned = len(problem.room), problem.unit.shape[1], problem.pinned
    most = {"type_of": types - 1, "host": nodes - 1, "current": MOST, "room": MOST, "first": MOST}
    for name in ("current", "room", "least", "most", "unit", "type_of", "host", "first"):
        array = first if name == "first" else getattr(problem, name)
        if array.dtype.kind != "i":
            raise ValueError(f"{name}: is of {array.dtype}; whole numbers are accepted")
        low, high, top = array.min(initial=0), array.max(initial=0), most.get(name)
        if low < 0 or (top is not None and high > top):
            accepted = "0 or more" if top is None else f"0 to {top}"
            raise ValueError(f"{name}: has an entry of {low if low < 0 else high}; {accepted} is accepted")
    for name in ("speedup", "stay"):
        array = getattr(problem, name)
        if not (array.min() >= 0 and array.max() < np.inf):
            raise ValueError(f"{name}: has entries that are negative or not finite; 0 or more is accepted")
    for name in ("pinned", "required"):
        if getattr(problem, name).dtype != bool:
            raise ValueError(f"{name}: is of {getattr(problem, name).dtype}, not of bool")
    if problem.host[0] != 0 or (np.diff(problem.host) < 0).any():
        raise ValueError(f"host: is {problem.host.tolist()}; numbers that ascend from 0 are accepted")
    if (pinned[1:] > pinned[:-1]).any():
        raise ValueError("pinned: has a job that comes after one that is not; pinned jobs first is accepted")
    held = problem.current[pinned].sum(axis=0)
    if (held > problem.room).any():
        n = int((held > problem.room).argmax())
        raise ValueError(
            f"current: pinned jobs hold {held[n]} GPUs of node {n}; up to {problem.room[n]} is accepted"
        )


@njit(cache=True)
def _word(state: Words) -> np.uint64:
    """Draw 64 random bits (SplitMix64)."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(cache=True)
def _chance(state: Words) -> float:
    """Draw a number that is uniform in [0, 1)."""
    return float(_word(state) >> np.uint64(11)) * 2.0**-53


@njit(cache=True)
def _below(state: Words, count: int) -> int:
    return int(_chance(state) * count)


@njit(cache=True)
def _mutate(x: Counts, problem: Problem, state: Words) -> None:
    jobs, nodes = x.shape
    room, pinned = problem.room, problem.pinned
    spare, holders = room.copy(), np.zeros(nodes, np.int64)
    for j in range(jobs):
        if _chance(state) < RESET:
            x[j] = problem.current[j]
        if _chance(state) < LEAVES:
            for n in range(nodes):
                if _chance(state) < EMPTIES:
                    x[j, n] = 0
        for n in range(nodes):
            spare[n] -= x[j, n]
            holders[n] += x[j, n] > 0
    # On each node with spare GPUs about one of all jobs takes more, and about one of those that are there.
    for j in range(jobs):
        if pinned[j]:
            continue
        for n in range(nodes):
            if x[j, n] > 0 and spare[n] > 0 and _chance(state) * holders[n] < 1.0:
                x[j, n] += _below(state, room[n] + 1 - x[j, n])
    scale = 1.0 / np.log1p(-1.0 / jobs) if jobs > 1 else 0.0
    for n in range(nodes):
        if spare[n] <= 0:
            continue
        # Steps from one job that takes more to the next are geometric, which saves a draw for each job.
        j = int(np.log(1.0 - _chance(state)) * scale)
        while j < jobs:
            if not pinned[j] and problem.unit[j, problem.type_of[n]] > 0:
                x[j, n] += _below(state, room[n] + 1 - x[j, n])
            j += 1 + int(np.log(1.0 - _chance(state)) * scale)


@njit(cache=True)
def _type(row: Counts, unit: Ints, type_of: Ints, required: bool) -> int:
    """Return the GPU type of which a job has most GPUs, or -1, and give up those of other types."""
    held = np.zeros(len(unit), np.int64)
    for n in range(len(row)):
        if row[n] > 0:
            held[type_of[n]] += row[n]
    best = -1
    for t in range(len(unit)):
        if unit[t] > 0 and (held[t] > 0 or required) and (best < 0 or held[t] > held[best]):
            best = t
    for n in range(len(row)):
        if type_of[n] != best:
            row[n] = 0
    return best


@njit(cache=True)
def _limit(row: Counts, most: int, most_nodes: int, state: Words) -> None:
    """Cut a row to so many GPUs and nodes; random nodes are kept."""
    total, count = 0, 0
    held = np.empty(len(row), np.int64)
    for n in range(len(row)):
        if row[n] > 0:
            held[count] = n
            count += 1
            total += row[n]
    if total <= most and count <= most_nodes:
        return
    left = most
    for i in range(count):
        k = i + _below(state, count - i)
        n = held[k]
        held[k] = held[i]
        take = min(left, row[n]) if i < most_nodes else 0
        row[n] = take
        left -= take


@njit(cache=True)
def _gather(row: Counts, j: int, t: int, problem: Problem, free: Ints, taken: Flags) -> None:
    """Give a job that cannot use any number of GPUs whole replicas, at least its least, near its present GPUs.

    They lie on one node if one can hold them, and else on the machines where it has most. Of equal machines one
    that holds all of them is taken.
    """
    nodes = len(row)
    least, most, unit = problem.least[j, t], problem.most[j, t], problem.unit[j, t]
    type_of, host = problem.type_of, problem.host
    wish = 0
    for n in range(nodes):
        wish += row[n]
    want = max(min(wish, most) // unit * unit, least)
    best = -1
    for n in range(nodes):
        if type_of[n] != t or free[n] < want:
            continue
        if best < 0 or row[n] > row[best] or (row[n] == row[best] and free[n] < free[best]):
            best = n
    if best >= 0:
        row[:] = 0
        row[best] = want
        free[best] -= want
        return
    hosts = host[nodes - 1] + 1
    size, there, has = np.zeros(hosts, np.int64), np.zeros(hosts, np.int64), np.zeros(hosts, np.int64)
    widest = 0
    for n in range(nodes):
        if type_of[n] == t:
            h = host[n]
            size[h] += problem.room[n]
            has[h] += row[n]
            widest = max(widest, size[h])
            if not taken[n]:
                there[h] += free[n]
    if unit <= widest:
        for h in range(hosts):
            there[h] = there[h] // unit * unit
    row[:] = 0
    left = want
    while left > 0:
        pick = -1
        for h in range(hosts):
            if there[h] <= 0:
                continue
            if pick < 0 or has[h] > has[pick]:
                pick = h
            elif has[h] == has[pick]:
                if there[pick] >= left:
                    if left <= there[h] < there[pick]:
                        pick = h
                elif there[h] > there[pick]:
                    pick = h
        if pick < 0:
            break
        take = min(there[pick], left)
        there[pick] = 0
        left -= take
        for n in range(nodes):
            if host[n] == pick and not taken[n] and take > 0:
                part = min(take, free[n])
                row[n] += part
                take -= part
    surplus = (want - left) % unit
    if want - left - surplus < least:
        row[:] = 0
        return
    for n in range(nodes):
        part = min(surplus, row[n])
        row[n] -= part
        surplus -= part
    spans = np.count_nonzero(row) > 1
    for n in range(nodes):
        if row[n] > 0:
            free[n] -= row[n]
            if spans:
                taken[n] = True


@njit(cache=True)
def _repair(x: Counts, problem: Problem, state: Words) -> None:
    jobs, nodes = x.shape
    free, taken = problem.room.copy(), np.zeros(nodes, np.bool_)
    for j in range(jobs):
        row = x[j]
        if problem.pinned[j]:
            row[:] = problem.current[j]
            free -= row
            if np.count_nonzero(row) > 1:
                taken |= row > 0
            continue
        t = _type(row, problem.unit[j], problem.type_of, problem.required[j])
        if t < 0:
            continue
        if problem.unit[j, t] > 1 or problem.least[j, t] > 1:
            _gather(row, j, t, problem, free, taken)
            continue
        count = 0
        for n in range(nodes):
            count += row[n] > 0
        if count > 1:
            for n in range(nodes):
                if row[n] > 0:
                    if taken[n]:
                        row[n] = 0
                    taken[n] = True
        _limit(row, problem.most[j, t], problem.most_nodes, state)
        for n in range(nodes):
            if row[n] > 0:
                row[n] = min(row[n], free[n])
                free[n] -= row[n]


@njit(cache=True)
def _evaluate(x: Counts, problem: Problem, losses: Floats, keys: Words) -> tuple[float, float, np.uint64]:
    """Return the fitness, utilisation and hash of a matrix."""
    current, speedup = problem.current, problem.speedup
    jobs, nodes = x.shape
    widest, largest = speedup.shape[1] - 1, speedup.shape[2] - 1
    active = np.zeros(nodes, np.bool_)
    loss, gain = 0.0, 0.0
    word = np.uint64(0)
    for j in range(jobs):
        gpus, count, moved = 0, 0, 0
        for n in range(nodes):
            held = x[j, n]
            if held != current[j, n]:
                moved = 1
            if held > 0:
                gpus += held
                count += 1
                active[n] = True
                word += np.uint64(held) * keys[j * nodes + n]
        count, gpus = min(count, widest), min(gpus, largest)
        loss += losses[moved, j, count, gpus]
        gain += speedup[j, count, gpus]
    total = 0
    for n in range(nodes):
        if active[n]:
            total += problem.room[n]
    return (loss / jobs) ** (1.0 / problem.p), gain / max(total, 1), word


@njit(cache=True)
def _fronts(a: Floats, b: Floats) -> tuple[Ints, Floats]:
    """Return (points,) front and crowding distance. More of `a` and `b` is better. Nothing dominates front 0."""
    count = len(a)
    front, crowding = np.zeros(count, np.int64), np.zeros(count)
    by_b = np.argsort(-b, kind="mergesort")
    order = by_b[np.argsort(-a[by_b], kind="mergesort")]
    last = np.empty(count, np.int64)  # the last point of each front, which has most of `b`
    before = np.full(count, -1)
    lowest, highest = np.empty(count), np.empty(count)
    fronts = 0
    for i in order:
        r = 0
        while r < fronts and (b[last[r]] > b[i] or (b[last[r]] == b[i] and a[last[r]] > a[i])):
            r += 1
        front[i] = r
        if r == fronts:
            fronts += 1
            crowding[i] = np.inf
            lowest[r], highest[r] = a[i], b[i]  # the first point has most of `a` and least of `b`
        else:
            before[i] = last[r]
        last[r] = i
    after = np.full(count, -1)
    for i in range(count):
        if before[i] >= 0:
            after[before[i]] = i
    for i in range(count):
        r = front[i]
        if before[i] < 0 or after[i] < 0:
            crowding[i] = np.inf
        else:
            low, high = before[i], after[i]
            range_a, range_b = lowest[r] - a[last[r]], b[last[r]] - highest[r]
            crowding[i] = (a[low] - a[high]) / range_a if range_a > 0 else 0.0
            crowding[i] += (b[high] - b[low]) / range_b if range_b > 0 else 0.0
    return front, crowding


@njit(cache=True)
def _parent(front: Ints, crowding: Floats, state: Words) -> int:
    """Draw two and return the better one."""
    i, k = _below(state, len(front)), _below(state, len(front))
    if front[i] != front[k]:
        return i if front[i] < front[k] else k
    return i if crowding[i] >= crowding[k] else k


@njit(cache=True)
def _evolve(
    problem: Problem, losses: Floats, first: Counts, size: int, generations: int, state: Words
) -> tuple[Counts, Floats, Ints]:
    """Return (population, fitness, front) after the last generation."""
    jobs, nodes = problem.current.shape
    # Survivors and children have fixed places. What does not survive makes room for the next children.
    x = np.empty((2 * size, jobs, nodes), np.int16)
    fitness, utilisation, words = np.empty(2 * size), np.empty(2 * size), np.zeros(2 * size, np.uint64)
    keys = np.empty(jobs * nodes, np.uint64)
    for i in range(len(keys)):
        keys[i] = _word(state)
    places = np.arange(2 * size)  # survivors first, then places to be filled
    seen = {np.uint64(0)}
    seen.clear()
    alive = 0
    for i in range(len(first)):
        if alive == size:
            break
        at = places[alive]
        x[at] = first[i]
        _repair(x[at], problem, state)
        fitness[at], utilisation[at], words[at] = _evaluate(x[at], problem, losses, keys)
        if words[at] not in seen:
            seen.add(words[at])
            alive += 1
    front, crowding = _fronts(fitness[places[:alive]], utilisation[places[:alive]])
    for _ in range(generations):
        count, tries = alive, 0
        while count < alive + size and tries < TRIES * size:
            mother, father = places[_parent(front, crowding, state)], places[_parent(front, crowding, state)]
            cut = _below(state, jobs) if _chance(state) < CROSSES else 0
            for child in range(2):
                if count == alive + size:
                    break
                tries += 1
                at = places[count]
                x[at, :cut] = x[father, :cut] if child == 0 else x[mother, :cut]
                x[at, cut:] = x[mother, cut:] if child == 0 else x[father, cut:]
                _mutate(x[at], problem, state)
                _repair(x[at], problem, state)
                fitness[at], utilisation[at], words[at] = _evaluate(x[at], problem, losses, keys)
                if words[at] not in seen:
                    seen.add(words[at])
                    count += 1
        if count == alive:
            break  # no new matrix was found, which ends the search as published
        front, crowding = _fronts(fitness[places[:count]], utilisation[places[:count]])
        order = np.argsort(-crowding, kind="mergesort")
        order = order[np.argsort(front[order], kind="mergesort")]
        alive = min(count, size)
        for i in order[alive:]:
            seen.discard(words[places[i]])
        places[:count] = places[:count][order]
        front, crowding = front[order[:alive]], crowding[order[:alive]]
    return x[places[:alive]], fitness[places[:alive]], front
