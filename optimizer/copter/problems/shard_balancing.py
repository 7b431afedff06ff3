"""Decides which servers hold replicas of which shards, and how queries are routed (COpter, section 5.1.1).

    minimise    sum over servers i, shards j of (1 - held[i, j]) * size[j] * X[i, j]
    subject to  sum over i of R[i, j] = 1                                        every shard j is served
                (1 - epsilon) L <= sum over j of R[i, j] * load[j] <= (1 + epsilon) L    L: mean load of a server
                sum over j of X[i, j] * size[j] <= memory[i],   R <= X,   X binary,  R >= 0

The printed program has X[i, j] * load[j] in its load constraint, and s_i, a server's index, as the size of a
shard. A replica would then burden its server with the whole load of the shard, even if little is routed there.
Splitting a hot shard could never help. POP's published program, from which this one is taken, limits the routed
load R[i, j] * load[j], with epsilon as a fraction of L. So does this one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import sparse

from ...linear_program import LinearProgram
from ..baselines.hot_highs import LpSolver

# A smaller share of a shard's load is no replica. The simplex method leaves such dust at a vertex.
DUST = 1e-7
# Sums of sizes may exceed a server's memory by this fraction of it, or of 1 GiB if that is more, for rounding.
ROOM = 1e-9


@dataclass(frozen=True, eq=False)
class ShardProblem:
    """The servers and shards of a round.

    load, size_gib: (shards,).
    memory_gib: (servers,).
    held: (servers, shards) bool, the replicas there are; a new shard has none.
    epsilon: the fraction of the mean load by which a server's load may differ from it.

    Raises:
        ValueError: for shapes that do not agree, a `held` that is not of bool, and values that are negative or not
            finite. Also for an epsilon outside [0, 1), and held replicas that do not fit the memory.
    """

    load: np.ndarray
    size_gib: np.ndarray
    memory_gib: np.ndarray
    held: np.ndarray
    epsilon: float = 0.05

    def __post_init__(self) -> None:
        for name, axis in (("load", "shards"), ("memory_gib", "servers")):
            found = getattr(self, name).shape
            if len(found) != 1:
                raise ValueError(f"{name}: has shape {found}; ({axis},) is accepted")
        servers, shards = len(self.memory_gib), len(self.load)
        for name, shape in (("size_gib", (shards,)), ("held", (servers, shards))):
            found = getattr(self, name).shape
            if found != shape:
                raise ValueError(f"{name}: has shape {found}, not {shape} as load and memory_gib say")
        if self.held.dtype != bool:
            raise ValueError(f"held: is of {self.held.dtype}, not of bool")
        for name in ("load", "size_gib", "memory_gib"):
            array = getattr(self, name)
            if not np.isfinite(array).all() or (array < 0).any():
                raise ValueError(f"{name}: has entries that are negative or not finite; 0 or more is accepted")
        if not self.load.sum() > 0:
            raise ValueError("load: is 0 for every shard; some must be above 0")
        if not 0 <= self.epsilon < 1:
            raise ValueError(f"epsilon: is {self.epsilon}, not in [0, 1)")
        used = self.held @ self.size_gib
        over = used > self.limit_gib
        if over.any():
            i = int(over.argmax())
            raise ValueError(f"held[{i}]: takes {used[i]:g} GiB of the {self.memory_gib[i]:g} that server has")

    @property
    def mean_load(self) -> float:
        return float(self.load.sum() / len(self.memory_gib))

    @property
    def limit_gib(self) -> np.ndarray:
        """(servers,) what replicas may take: the memory with room for rounding."""
        return self.memory_gib + ROOM * np.maximum(self.memory_gib, 1.0)


@dataclass(frozen=True, eq=False)
class Assignment:
    """Where shards are.

    routed: (servers, shards) the fraction of each shard's load.
    replicas: (servers, shards) whether there is a replica.
    """

    routed: np.ndarray
    replicas: np.ndarray

    def movements(self, problem: ShardProblem) -> int:
        """Count the replicas that have to be started."""
        return int((self.replicas & ~problem.held).sum())

    def imbalance(self, problem: ShardProblem) -> float:
        """Return (largest - smallest load of a server) / mean load. The constraints allow 2 epsilon."""
        loads = self.routed @ problem.load
        return float((loads.max() - loads.min()) / problem.mean_load)

    def fits(self, problem: ShardProblem) -> bool:
        """Return whether every shard is served, and no server holds more than its memory."""
        served = np.abs(self.routed.sum(axis=0) - 1) < 1e-6
        memory = self.replicas @ problem.size_gib <= problem.limit_gib
        return bool(served.all() and memory.all() and self.replicas[self.routed > 0].all())


def shard_program(problem: ShardProblem) -> LinearProgram:
    """Return the program as stated. Loads are in units of the mean, so that all rows have the same scale.

    Columns are R by server and shard, then X likewise. Rows are shards, loads, memory, then R <= X.
    """
    servers, shards = problem.held.shape
    pairs = servers * shards
    eye_servers, eye_shards = sparse.eye_array(servers), sparse.eye_array(shards)
    served = sparse.kron(np.ones((1, servers)), eye_shards)
    loads = sparse.kron(eye_servers, (problem.load / problem.mean_load)[None, :])
    memory = sparse.kron(eye_servers, problem.size_gib[None, :])
    eye = sparse.eye_array(pairs)
    matrix = sparse.block_array([[served, None], [loads, None], [None, memory], [eye, -eye]], format="csr")
    infinite = np.full(pairs, np.inf)
    return LinearProgram(
        np.concatenate([np.zeros(pairs), (~problem.held * problem.size_gib).ravel()]),
        sparse.csr_array(matrix),
        np.concatenate(
            [np.ones(shards), np.full(servers, 1 - problem.epsilon), np.full(servers, -np.inf), -infinite]
        ),
        np.concatenate(
            [np.ones(shards), np.full(servers, 1 + problem.epsilon), problem.memory_gib, np.zeros(pairs)]
        ),
        np.zeros(2 * pairs),
        np.ones(2 * pairs),
        np.concatenate([np.zeros(pairs, dtype=bool), np.ones(pairs, dtype=bool)]),
    )


def relaxed_program(problem: ShardProblem) -> LinearProgram:
    """Return the relaxation with columns R alone: as no cost is below 0, X = R is a best choice.

    It has the same minimum as `shard_program` without its integers, with a hundredth of the rows.
    """
    whole = shard_program(problem)
    servers, shards = problem.held.shape
    pairs, rows = servers * shards, shards + 2 * servers
    matrix = whole.matrix[:rows]
    return LinearProgram(
        whole.cost[pairs:],
        sparse.csr_array(matrix[:, :pairs] + matrix[:, pairs:]),
        whole.row_lower[:rows],
        whole.row_upper[:rows],
        whole.lower[:pairs],
        whole.upper[:pairs],
    )


def routed_of(x: np.ndarray, problem: ShardProblem) -> np.ndarray:
    """Return R from a solution of `shard_program` or `relaxed_program`."""
    return x[: problem.held.size].reshape(problem.held.shape)


def place(problem: ShardProblem, routed: np.ndarray) -> Assignment:
    """Make whole replicas within every server's memory from fractions (servers, shards) that may exceed it.

    This is the shim. It works as in section 5.1.1. Replicas are removed from a server whose memory is exceeded,
    those with the least load first, if the shard has others. These then share its load in proportion. If only last
    replicas are left, they are moved to the server with the most free memory. If one fits nowhere, everything
    stays. The load constraint is soft and may be missed.

    Raises:
        ValueError: for fractions that are not finite, a shard routed nowhere, and one held nowhere that fits
            nowhere.
    """
    if not np.isfinite(routed).all():
        raise ValueError("routed: has entries that are not finite; fractions of each shard are accepted")
    routed = np.where(routed > DUST, routed, 0.0)
    totals = routed.sum(axis=0)
    if (totals <= 0).any():
        raise ValueError(f"routed[:, {int((totals <= 0).argmax())}]: is 0; every shard must be routed somewhere")
    routed /= totals
    replicas = routed > 0
    copies = replicas.sum(axis=0)
    used, limit = replicas @ problem.size_gib, problem.limit_gib
    over = np.flatnonzero(used > limit)
    for i in over[np.argsort(-used[over], kind="stable")]:
        there = np.flatnonzero(replicas[i])
        # Among equal loads a replica that still has to be started goes first, which saves a movement.
        order = np.lexsort((problem.held[i, there], routed[i, there] * problem.load[there]))
        for j in there[order]:
            if used[i] <= limit[i]:
                break
            if copies[j] == 1:
                continue
            rest = 1.0 - routed[i, j]
            routed[i, j], replicas[i, j] = 0.0, False
            if rest > DUST:
                routed[:, j] /= rest
            else:
                routed[:, j] = replicas[:, j] / replicas[:, j].sum()
            copies[j] -= 1
            used[i] -= problem.size_gib[j]
    for i in np.flatnonzero(used > limit):
        there = np.flatnonzero(replicas[i])
        for j in there[np.argsort(routed[i, there] * problem.load[there], kind="stable")]:
            if used[i] <= limit[i]:
                break
            free = problem.memory_gib - used
            free[i] = -np.inf
            to = int(free.argmax())
            if used[to] + problem.size_gib[j] > limit[to]:
                return stay(problem)
            routed[to, j], replicas[to, j] = routed[i, j], True
            routed[i, j], replicas[i, j] = 0.0, False
            used[i] -= problem.size_gib[j]
            used[to] += problem.size_gib[j]
    return Assignment(routed, replicas)


def keep_idle(problem: ShardProblem, replicas: np.ndarray) -> np.ndarray:
    """Return these replicas with the held ones that fit beside them, those of the hottest shards first.

    To keep a replica costs nothing and may save its start later. The program as stated removes it.
    """
    replicas = replicas.copy()
    free = problem.limit_gib - replicas @ problem.size_gib
    for i in range(len(free)):
        idle = np.flatnonzero(problem.held[i] & ~replicas[i])
        for j in idle[np.argsort(-problem.load[idle], kind="stable")]:
            if problem.size_gib[j] <= free[i]:
                replicas[i, j] = True
                free[i] -= problem.size_gib[j]
    return replicas


def stay(problem: ShardProblem) -> Assignment:
    """Move nothing, and route every shard evenly to its replicas.

    Raises:
        ValueError: for a shard that no server holds.
    """
    _all_held(problem)
    return Assignment(problem.held / problem.held.sum(axis=0), problem.held.copy())


def _all_held(problem: ShardProblem) -> None:
    nowhere = ~problem.held.any(axis=0)
    if nowhere.any():
        raise ValueError(f"held[:, {int(nowhere.argmax())}]: no server holds this shard; at least one must")


def greedy(problem: ShardProblem) -> Assignment:
    """Move the hottest shards of overloaded servers to the least loaded (E-Store, Taft et al., VLDB 2014).

    Every shard has one replica, on the first server that holds it, until it is moved. A shard that would overload
    the least loaded server, or does not fit its memory, stays.

    Raises:
        ValueError: for a shard that no server holds.
    """
    _all_held(problem)
    servers, shards = problem.held.shape
    home = problem.held.argmax(axis=0)
    loads = np.bincount(home, weights=problem.load, minlength=servers)
    used = np.bincount(home, weights=problem.size_gib, minlength=servers)
    limit = (1 + problem.epsilon) * problem.mean_load
    for i in np.argsort(-loads, kind="stable"):
        there = np.flatnonzero(home == i)
        for j in there[np.argsort(-problem.load[there], kind="stable")]:
            if loads[i] <= limit:
                break
            room = used + problem.size_gib[j] <= problem.limit_gib
            to = int(np.where(room, loads, np.inf).argmin())
            if not room[to] or loads[to] + problem.load[j] > limit:
                continue
            home[j] = to
            loads[[i, to]] += (-problem.load[j], problem.load[j])
            used[[i, to]] += (-problem.size_gib[j], problem.size_gib[j])
    replicas = np.zeros((servers, shards), dtype=bool)
    replicas[home, np.arange(shards)] = True
    return Assignment(replicas.astype(float), replicas)


@dataclass(frozen=True, eq=False)
class ShardPart:
    """Some servers and shards of a problem. `share`: (shards,) the fraction of each load that this part has."""

    servers: np.ndarray
    shards: np.ndarray
    share: np.ndarray


@dataclass(frozen=True)
class ShardPartition:
    """POP for this problem: servers in k groups of equal size, each with the shards that they hold.

    Without `equalise` groups keep what they hold, as in COpter's section 5.2.1. A shard held in several groups is
    split evenly between them. New shards go one after another to the group that carries least.

    solver: a mixed-integer solver for the parts.
    equalise: whether to move load between groups until all carry the same, as POP's published code does. Whole
        shards are moved, or parts of one (client splitting).

    Raises:
        ValueError: from `split`, for a k that is below 1 or does not divide the servers.
    """

    problem: ShardProblem
    solver: LpSolver
    equalise: bool = True

    def split(self, k: int, rng: np.random.Generator) -> list[ShardPart]:
        problem = self.problem
        servers = len(problem.memory_gib)
        if k < 1 or servers % k:
            raise ValueError(f"k: is {k}; a divisor of the {servers} servers, 1 or more, is accepted")
        groups = np.sort(rng.permutation(servers).reshape(k, -1), axis=1)
        holds = np.array([problem.held[group].any(axis=0) for group in groups])
        held = holds.any(axis=0)
        loads = holds[:, held] / holds[:, held].sum(axis=0) @ problem.load[held]
        for j in np.flatnonzero(~held):
            group = int(loads.argmin())
            holds[group, j] = True
            loads[group] += problem.load[j]
        share = holds / holds.sum(axis=0)
        if self.equalise:
            share = _equal_loads(share, problem.load)
        return [
            ShardPart(group, np.flatnonzero(part > DUST), part[part > DUST])
            for group, part in zip(groups, share, strict=True)
        ]

    def part_problem(self, part: ShardPart) -> ShardProblem:
        problem = self.problem
        return ShardProblem(
            problem.load[part.shards] * part.share,
            problem.size_gib[part.shards],
            problem.memory_gib[part.servers],
            problem.held[np.ix_(part.servers, part.shards)],
            problem.epsilon,
        )

    def solve(self, part: ShardPart) -> np.ndarray | None:
        """Return R (servers, shards) of a part; None if it has no load or the solver found nothing in time."""
        if not (self.problem.load[part.shards] * part.share).any():
            return None
        problem = self.part_problem(part)
        found = self.solver.solve(shard_program(problem))
        return None if found.x is None else routed_of(found.x, problem)

    def merge(self, parts: Sequence[ShardPart], answers: Sequence[np.ndarray | None]) -> Assignment:
        """Join the answers. The load of parts without one stays where it is held.

        That of their new shards goes to the server with most memory left.
        """
        problem = self.problem
        routed = np.zeros(problem.held.shape)
        for part, answer in zip(parts, answers, strict=True):
            if answer is not None:
                routed[np.ix_(part.servers, part.shards)] += answer * part.share
        missing, held = 1 - routed.sum(axis=0), problem.held.copy()
        emptiest = (problem.memory_gib - held @ problem.size_gib).argmax()
        held[emptiest, ~held.any(axis=0)] = True
        routed += np.maximum(missing, 0) * held / held.sum(axis=0)
        return place(problem, routed)


def _equal_loads(share: np.ndarray, load: np.ndarray) -> np.ndarray:
    """Return (groups, shards) shares after moves from groups above the mean load to those below.

    The hottest shards are moved first.
    """
    share = share.copy()
    loads = share @ load
    mean = loads.mean()
    receiver = iter(np.argsort(loads, kind="stable"))
    to = next(receiver)
    for giver in np.argsort(-loads, kind="stable"):
        for j in np.argsort(-share[giver] * load, kind="stable"):
            while loads[giver] > mean * (1 + 1e-9) and share[giver, j] > 0 and load[j] > 0:
                while loads[to] >= mean * (1 - 1e-9):
                    to = next(receiver, giver)
                    if to == giver:
                        return share
                moved = min(share[giver, j], (loads[giver] - mean) / load[j], (mean - loads[to]) / load[j])
                share[[giver, to], j] += (-moved, moved)
                loads[[giver, to]] += (-moved * load[j], moved * load[j])
            if loads[giver] <= mean * (1 + 1e-9):
                break
    return share


def first_problem(
    shards: int, servers: int, *, memory_gib: float = 16.0, epsilon: float = 0.05, load: np.ndarray | None = None
) -> ShardProblem:
    """Return the published setting: shards of 1 GiB that are dealt out to servers in turn."""
    held = np.zeros((servers, shards), dtype=bool)
    held[np.arange(shards) % servers, np.arange(shards)] = True
    load = np.ones(shards) if load is None else load
    return ShardProblem(load, np.ones(shards), np.full(servers, memory_gib), held, epsilon)


def zipf_loads(
    shards: int,
    kind: Literal["stateless", "stateful"],
    seed: int,
    *,
    z_min: float = 0.25,
    z_max: float = 0.75,
    step: float = 0.1,
) -> Iterator[np.ndarray]:
    """Yield the loads (shards,) of each round. That of shard j is proportional to (j + 1)^-z (section 5.2.1).

    If stateless, z is uniform in [z_min, z_max] in each round. If stateful, z goes up or down by the fraction
    `step` of itself, with equal chance. The range is that of POP's published benchmark.
    """
    if kind not in ("stateless", "stateful"):
        raise ValueError(f"kind: is {kind!r}; stateless and stateful are accepted")
    rng = np.random.default_rng(seed)
    rank = np.arange(1, shards + 1, dtype=float)
    z = rng.uniform(z_min, z_max)
    while True:
        yield 1e5 * rank**-z
        z = rng.uniform(z_min, z_max) if kind == "stateless" else z * (1 + step * rng.choice([-1, 1]))
