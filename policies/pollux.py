"""Pollux: goodput-optimal placements by genetic search, blind to GPU types (Qiao et al., OSDI'21, section 4.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from ..core.cluster import Cluster
from ..core.decisions import Refused, Waiting, WaitReason
from ..core.placement import NodeShare, Placement
from ..core.resources import idle_gpus
from ..core.wording import n_gpus
from ..estimators.goodput import ConfigurationArrays, GoodputModel, JobModel, goodput_matrix
from ..optimizer.genetic import Counts, Found, Problem, search
from .choosing.decided import cannot_run, decisions_of, never_runs
from .contract.explanation import Explanation, explained, job_of
from .contract.round import JobView, Note, Plan, Round
from .contract.traits import PolicyTraits
from .placing.demand import WISH, Demand
from .placing.ledger import Ledger, OverCommitted, is_pinned
from .placing.speeds import types_with_room
from .registry import register

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
VIRTUAL_GPUS = 4  # GPUs of a virtual node; larger nodes count as several (Sia, section 3.4.3)
MOST_NODES = 16  # most virtual nodes of one job, unless it asks for more GPUs than these have


class PolluxOptions(BaseModel):
    """What an operator may set; defaults as published."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    p: float = Field(default=-1.0, ge=-10, lt=0)  # fairness power of the mean speedup
    population: int = Field(default=100, ge=4)
    generations: int = Field(default=100, ge=1)
    seed: int = Field(default=0, ge=0)


class Search:
    """Runs a genetic search per round. Each search goes on from the population of the one before.

    Rows of a population follow their jobs, and columns their nodes by name. A new job holds nothing at first, and
    nobody holds GPUs of a new node.
    """

    def __init__(self, options: PolluxOptions) -> None:
        self.options = options
        self._random = np.random.default_rng(options.seed)
        self._jobs: dict[object, int] = {}
        self._nodes: dict[object, int] = {}
        self._front = np.zeros((0, 0, 0), np.int16)

    def run(self, jobs: Sequence[str], nodes: Sequence[object], problem: Problem, *more: Counts) -> Found:
        """Return what a search finds. It begins with the current matrix, `more` and the last population."""
        starts = problem.current, *more
        first = np.zeros((len(starts) + len(self._front), len(jobs), len(nodes)), np.int16)
        first[: len(starts)] = starts
        to_job, from_job = _shared(jobs, self._jobs)
        to_node, from_node = _shared(nodes, self._nodes)
        first[len(starts) :, to_job[:, None], to_node] = self._front[:, from_job[:, None], from_node]
        seed = int(self._random.integers(2**63))
        found = search(problem, first, self.options.population, self.options.generations, seed)
        self._jobs = {id: i for i, id in enumerate(jobs)}
        self._nodes = {node: i for i, node in enumerate(nodes)}
        self._front = found.front
        return found


def _shared(now: Sequence[object], before: Mapping[object, int]) -> tuple[Ints, Ints]:
    """Return the positions now and before of the names that are in both."""
    pairs = [(i, before[name]) for i, name in enumerate(now) if name in before]
    to, origin = np.array(pairs, np.int64).reshape(-1, 2).T
    return to, origin


class VirtualNodes:
    """The virtual nodes of a cluster: every node is cut into parts of at most `VIRTUAL_GPUS` GPUs."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.types = cluster.gpu_types
        self.names: list[tuple[str, int]] = []  # node id, part
        rows: list[tuple[int, int, int]] = []
        for host, node in enumerate(node for node in cluster.nodes if node.gpus > 0):
            for part, taken in enumerate(range(0, node.gpus, VIRTUAL_GPUS)):
                self.names.append((node.id, part))
                rows.append((min(node.gpus - taken, VIRTUAL_GPUS), self.types.index(node.gpu_type), host))
        self.room, self.type_of, self.host = np.array(rows, np.int64).reshape(-1, 3).T.copy()

    def __len__(self) -> int:
        return len(self.names)

    def placement(self, row: Counts, demand: Demand = WISH) -> Placement:
        """Return the placement of a row, which has GPUs of one type only, with CPUs and memory."""
        held = np.flatnonzero(row).tolist()
        shares: dict[str, int] = {}
        for n in held:
            shares[self.names[n][0]] = shares.get(self.names[n][0], 0) + int(row[n])
        nodes = self.cluster.by_id
        return Placement(
            self.types[self.type_of[held[0]]],
            tuple(NodeShare(id, gpus, *demand.on(nodes[id], gpus)) for id, gpus in shares.items()),
        )

    def rows(self, placements: Sequence[Placement | None], known: Sequence[Counts | None]) -> Counts:
        """Return (placements, virtual nodes) GPUs held.

        A `known` row is kept if it fits. Any other placement goes to whichever parts of its nodes have room. GPUs
        of nodes that are gone or too small are left out.
        """
        rows = np.zeros((len(placements), len(self)), np.int16)
        free = self.room.copy()
        for row, before in zip(rows, known, strict=True):
            if before is not None and (before <= free).all():
                row[:] = before
                free -= before
        parts: dict[str, list[int]] = {}
        for n, (id, _) in enumerate(self.names):
            parts.setdefault(id, []).append(n)
        for row, placement in zip(rows, placements, strict=True):
            if placement is None or row.any():
                continue
            for share in placement.shares:
                left = share.gpus
                at = parts.get(share.node_id, [])
                # The fullest part with room for all of them comes first, and else the emptiest parts.
                for n in sorted(at, key=lambda n: (free[n] < left, free[n] if free[n] >= left else -free[n])):
                    take = min(left, int(free[n]))
                    row[n] += take
                    free[n] -= take
                    left -= take
        return rows


@register("pollux")
class PolluxPolicy:
    """The published search, with every job's row on one GPU type.

    A job's speedup is its goodput over that on a fair share of the cluster. The model of the GPU type that it
    knows best counts for all types. A job grows to at most twice the most it ever held. Jobs that got least are
    served first. A job of a fixed size gets that or nothing, and a job that may not be stopped keeps its GPUs.
    """

    Options = PolluxOptions
    traits = PolicyTraits(fixed_sizes=False, uses_models=True, preempts=True)

    def __init__(self, options: PolluxOptions | None = None) -> None:
        self.options = options or PolluxOptions()
        self._search = Search(self.options)
        self._held: dict[str, tuple[Placement, Counts]] = {}  # what was planned, also as rows of virtual nodes
        self._names: list[tuple[str, int]] = []

    def plan(self, round: Round) -> Plan:
        nodes = VirtualNodes(round.cluster)
        pinned = {job.id: is_pinned(job, round.cluster) for job in round.jobs}
        jobs = sorted(
            round.jobs,
            key=lambda job: (
                not pinned[job.id],
                job.spec.reservation is None,
                job.attained_gpu_s,
                job.submitted_s,
            ),
        )
        if not jobs or not len(nodes):
            nothing = decisions_of(round, {}, lambda i: _why(round.jobs[i], nodes, {}))
            return Plan({}, decisions=nothing)
        problem = self._problem(jobs, nodes, np.array([pinned[job.id] for job in jobs]))
        found = self._search.run([job.id for job in jobs], nodes.names, problem, _served(problem))
        self._names, self._held = nodes.names, {}
        ledger = Ledger(round.cluster)
        short = list[Note]()
        for job, row in zip(jobs, found.rows, strict=True):
            row = _of_its_sizes(job, row, nodes)
            if not row.any():
                continue
            placement = nodes.placement(row, Demand.of(job.spec))
            if job.placement is not None and _as_before(job.placement, placement):
                placement = job.placement
            try:
                ledger.take(job.id, placement)
            except OverCommitted as error:
                short.append(Note(str(error), job.id))
                continue
            self._held[job.id] = placement, row
        notes = [
            Note(
                f"job {job.id}: reservation of {reserved.gpus} {reserved.gpu_type} cannot be met; it waits", job.id
            )
            for job in jobs
            if (reserved := job.spec.reservation) is not None and job.id not in ledger.held
        ]
        placements = dict(ledger.held)
        free = cache(lambda: idle_gpus(round.cluster, placements.values()))
        decisions = decisions_of(round, placements, lambda i: _why(round.jobs[i], nodes, free()))
        return Plan(placements, objective=found.fitness, notes=[*notes, *short], decisions=decisions)

    def explain(self, job: str, round: Round, plan: Plan) -> Explanation:
        """Explain a job by its limits on each GPU type and by what a move costs it."""
        view = round.jobs[job_of(job, round)]
        nodes = VirtualNodes(round.cluster)
        least, most, _ = _limits(view, nodes)
        limits = {t: (low, high) for t, low, high in zip(nodes.types, least, most, strict=True) if high}
        standing = [f"On {t} it may have {low} to {high} GPUs this round." for t, (low, high) in limits.items()]
        if view.model is None:
            standing.append("Nothing is known of its speed yet, so it is taken to scale perfectly.")
        facts: dict[str, object] = {"limits": {t: list(pair) for t, pair in limits.items()}}
        if view.placement is not None:
            facts["move_factor"] = _move_factor(view)
            standing.append(f"A move pauses it, so other GPUs count {_move_factor(view):.2f} of their speedup.")
        return explained(job, round, plan, standing, facts)

    def _problem(self, jobs: Sequence[JobView], nodes: VirtualNodes, pinned: NDArray[np.bool_]) -> Problem:
        held = [self._held.get(job.id) if self._names == nodes.names else None for job in jobs]
        known = [
            before[1] if before is not None and _as_before(job.placement, before[0]) else None
            for job, before in zip(jobs, held, strict=True)
        ]
        current = nodes.rows([job.placement for job in jobs], known)
        least, most, unit = (
            np.array(limits, np.int64) for limits in zip(*(_limits(job, nodes) for job in jobs), strict=True)
        )
        stay = np.ones(len(jobs))
        for i, job in enumerate(jobs):
            stay[i] = _move_factor(job)
        total = int(nodes.room.sum())
        largest = max(int(min(most.max(initial=1), total)), int(current.sum(axis=1).max(initial=1)))
        speedup = _speedups(jobs, min(len(nodes), MOST_NODES), largest, -(-total // len(jobs)), nodes.types)
        required = np.array([job.spec.reservation is not None for job in jobs])
        return Problem(
            speedup / VIRTUAL_GPUS, current, stay, nodes.room, least, most, unit, nodes.type_of, nodes.host,
            pinned, required, MOST_NODES, self.options.p,
        )  # fmt: skip


def _of_its_sizes(job: JobView, row: Counts, nodes: VirtualNodes) -> Counts:
    """Return a row with the most GPUs that are a size of the job; its last nodes give up what is more."""
    if job.spec.sizes is None or not row.any():
        return row
    gpu_type = nodes.types[nodes.type_of[np.flatnonzero(row)[0]]]
    most = int(row.sum())
    kept = max((gpus for gpus in job.spec.sizes_on(gpu_type) or () if gpus <= most), default=0)
    before = np.cumsum(row) - row  # GPUs on earlier nodes
    return np.clip(kept - before, 0, row).astype(row.dtype)


def _move_factor(job: JobView) -> float:
    """Return the factor of a job's speedup if it moves: (age - restarts x cost) / (age + cost), at least 0."""
    cost = job.restart_cost_s
    whole = job.age_s + cost
    return max(job.age_s - job.restarts * cost, 0.0) / whole if whole > 0 else 1.0


def _served(problem: Problem) -> Counts:
    """Return the current matrix with the least GPUs added for every waiting job, as long as there are any."""
    rows = problem.current.copy()
    free = problem.room - rows.sum(axis=0)
    for j in np.flatnonzero(~rows.any(axis=1)).tolist():
        spare = np.bincount(problem.type_of, free, problem.unit.shape[1])
        fits = (problem.unit[j] > 0) & (spare >= problem.least[j])
        if not fits.any():
            continue
        emptiest = np.argsort(np.where(fits[problem.type_of], -free, 1), kind="stable")
        t = problem.type_of[emptiest[0]]
        left = int(problem.least[j, t])
        for n in emptiest[problem.type_of[emptiest] == t].tolist():
            take = min(left, int(free[n]))
            rows[j, n] += take
            free[n] -= take
            left -= take
    return rows


def _as_before(now: Placement | None, before: Placement) -> bool:
    """Return whether a job holds as many GPUs of each node as it was given, whatever their names."""
    return now is not None and now.gpu_type == before.gpu_type and now.by_node == before.by_node


def _limits(job: JobView, nodes: VirtualNodes) -> tuple[list[int], list[int], list[int]]:
    """Return least GPUs, most GPUs and GPUs of a replica, each per GPU type; 0 where the job cannot run."""
    resources, reserved = job.spec.resources, job.spec.reservation
    per_replica = [job.spec.gpus_per_replica(t) or 0 for t in nodes.types]
    ever = max(
        (job.largest_gpus.get(t, 0) // p for t, p in zip(nodes.types, per_replica, strict=True) if p), default=0
    )
    limits = []
    for t, p in zip(nodes.types, per_replica, strict=True):
        low, high = resources.gpus or resources.min_gpus, resources.gpus or resources.max_gpus
        if reserved is not None:
            low, high, p = (reserved.gpus, reserved.gpus, p or 1) if t == reserved.gpu_type else (0, 0, 0)
        if not p or -(-low // p) * p > high:
            limits.append((0, 0, 0))
            continue
        low = -(-low // p) * p
        if not (demand := Demand.of(job.spec)).is_wish and t not in types_with_room(nodes.cluster, low, demand):
            limits.append((0, 0, 0))
            continue
        limits.append((low, min(max(2 * ever * p, low), high // p * p), p))
    least, most, unit = (list(column) for column in zip(*limits, strict=True))
    return least, most, unit


def _why(job: JobView, nodes: VirtualNodes, free: Mapping[str, int]) -> Waiting | Refused:
    """Say why a job gets nothing, from its limits and what the plan leaves free."""
    refused = never_runs(job.spec)
    if refused is not None:
        return refused
    least = {t: n for t, n in zip(nodes.types, _limits(job, nodes)[0], strict=True) if n}
    reserved = job.spec.reservation
    asked = job.spec.asked_gpus
    if not least and reserved is None and (never := cannot_run(job, asked, nodes.cluster)) is not None:
        return never
    if not least:
        have = ", ".join(nodes.types) or "no GPUs"
        detail = f"No GPU type of {nodes.cluster.called} can run it; there is {have}."
        return Waiting(WaitReason.NO_GPU_TYPE, detail)
    capacity = nodes.cluster.capacity()
    fewest = min(least, key=lambda t: (least[t], t))
    if all(n > capacity[t] for t, n in least.items()):
        most = max(capacity[t] for t in least)
        detail = f"It needs {n_gpus(least[fewest])} of one type; {nodes.cluster.called} has at most {most}."
        return Waiting(WaitReason.TOO_LARGE, detail)
    if all(n > free[t] for t, n in least.items()):
        what = (
            f"It reserved {reserved.gpus} {reserved.gpu_type}" if reserved else f"It needs {n_gpus(least[fewest])}"
        )
        most = max(free[t] for t in least)
        return Waiting(WaitReason.NO_ROOM, f"{what}; at most {most} of a type it can use are free.")
    return Waiting(WaitReason.OUTBID, "The search found no better plan in which it has GPUs.")


def _speedups(jobs: Sequence[JobView], nodes: int, gpus: int, fair: int, types: Sequence[str]) -> Floats:
    """Return (jobs, nodes + 1, GPUs + 1) goodput relative to that on a fair share, on as few nodes as hold it.

    If a job cannot run on exactly the fair share, the largest count below it counts, and else the smallest above.
    A job without a model scales perfectly.
    """
    span = np.arange(1, nodes + 1)[:, None]
    count = np.arange(1, max(gpus, fair) + 1)
    dense = -(-count // VIRTUAL_GPUS)
    at = np.concatenate([
        np.argwhere((span <= count) & (count <= gpus) & (count <= span * VIRTUAL_GPUS)) + 1,
        np.stack([dense, count], axis=1),
    ])  # fmt: skip
    columns = ConfigurationArrays(("any",), np.array([VIRTUAL_GPUS]), np.zeros(len(at), np.int64), *at.T)
    goodput = goodput_matrix([_blind(job.model, types) for job in jobs], columns)
    goodput, alone = goodput[:, : -len(count)], goodput[:, -len(count) :]
    rank = np.where(alone > 0, np.where(count <= fair, count, -count), -np.inf)
    chosen = np.where((rank > 0).any(axis=1), rank.argmax(axis=1), (alone > 0).argmax(axis=1))
    base = alone[np.arange(len(jobs)), chosen]
    table = np.zeros((len(jobs), nodes + 1, gpus + 1))
    at = at[: -len(count)]
    table[:, at[:, 0], at[:, 1]] = goodput / np.where(base > 0, base, 1.0)[:, None]
    # A job that asks for more GPUs than `nodes` virtual nodes have lies on more of them.
    wide = count[(count <= gpus) & (dense > nodes)]
    if len(wide):
        table[:, nodes, wide] = alone[:, wide - 1] / np.where(base > 0, base, 1.0)[:, None]
    unknown = np.array([job.model is None for job in jobs], bool)
    table[unknown, 1:] = np.arange(gpus + 1) / fair
    return table


def _blind(model: GoodputModel | None, types: Sequence[str]) -> JobModel | None:
    """Return the job's model as if all GPUs were of the type it knows best. Raises ValueError for tables."""
    if model is None:
        return None
    if not isinstance(model, JobModel):
        raise ValueError(
            f"pollux needs fitted throughput models, not a {type(model).__name__}; use sia or coadapt"
        )
    known = [t for t in types if t in model.throughput]
    if not known:
        return None
    best = min(known, key=lambda t: (-model.throughput[t].max_replicas_measured, t))
    per_replica = model.gpus_per_replica.get(best, 1)
    return JobModel({"any": model.throughput[best]}, model.noise_scale, model.limits, {"any": per_replica})
