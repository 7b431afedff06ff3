"""Sia as its published simulator runs it (siasosp23/artifacts @ aaf7a0d, policy (S) of spec: sections 2 to 5).

It differs from the paper and from `policies/sia.py` in three ways:

* A job knows nothing before its first round. Then it knows the seven-parameter throughput model and exact
  gradient noise.
* Rows are scaled, rounded and discounted otherwise.
* Jobs that restart are pinned.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numba import njit
from pydantic import BaseModel
from scipy.optimize import minimize

from ...core.cluster import Cluster
from ...core.placement import NodeShare, Placement
from ...estimators.blas import one_thread
from ...estimators.goodput import JobModel
from ...optimizer.allocation import ChoiceProblem
from ...optimizer.copter.baselines.milp import solve
from ...policies.contract.round import Plan, Round
from ...policies.placing.ledger import Ledger
from ..jobs.adaptive import Batch, Observation
from ..jobs.applications import SUFFIXES, Application
from ..jobs.step_times import Shape
from ..traces.tables import Floats

# How much slower a model trains than its measured steps say, to match the authors' physical cluster.
SLOWDOWN = {"cifar10": 1.8, "ncf": 1.5, "gpt_pmp": 1.0, "*": 1.2}
# The policy assumes these costs of a restart, s; the true costs differ.
RESTART_COST_S = {"cifar10": 30.0, "deepspeech2": 25.0, "bert": 120.0, "yolov3": 45.0, "imagenet": 250.0}
# The largest local batch size that the policy allows, if it is not the largest measured.
MOST_LOCAL = {("deepspeech2", "rtx"): 57}
P, LAMBDA = -0.5, 1.1
NOTHING = 1e-4  # goodput of a configuration that cannot be used
MOST_GPUS = 64
CANDIDATES = 50
TIE = 1e-5  # far less than a hundredth, to which gains are rounded


@njit(cache=True, error_model="numpy")
def _loss(x: Floats, rows: Floats, gradient: Floats) -> float:
    """Return the RMSE of log compute plus that of log step time, with a weak prior; write its gradient.

    `x`: (7,) parameters as in `fit_seven`.
    `rows`: (rows, 5) nodes, replicas, m, compute, step.
    `gradient`: (7,) output.
    """
    a_c, b_c, a_n, b_n, a_r, b_r, gamma = x
    count = len(rows)
    first, second = 0.0, 0.0
    by_first, by_second = np.zeros(7), np.zeros(7)
    for i in range(count):
        nodes, replicas, m = rows[i, 0], rows[i, 1], rows[i, 2]
        compute = a_c + b_c * m
        more = max(replicas - 2.0, 1e-8)
        link = 1e-8
        if replicas > 1:
            link = a_r + b_r * more if nodes == 1 else a_n + b_n * more
        log_c, log_l = math.log(compute), math.log(link)
        top = gamma * max(log_c, log_l)
        log_sum = top + math.log(math.exp(gamma * log_c - top) + math.exp(gamma * log_l - top))
        off_compute, off_step = log_c - math.log(rows[i, 3]), log_sum / gamma - math.log(rows[i, 4])
        first += off_compute**2
        second += off_step**2
        share_c, share_l = math.exp(gamma * log_c - log_sum), math.exp(gamma * log_l - log_sum)
        by_first[0] += off_compute / compute
        by_first[1] += off_compute * m / compute
        by_second[0] += off_step * share_c / compute
        by_second[1] += off_step * share_c * m / compute
        if replicas > 1:
            at = 4 if nodes == 1 else 2
            by_second[at] += off_step * share_l / link
            by_second[at + 1] += off_step * share_l * more / link
        by_second[6] += off_step * ((share_c * log_c + share_l * log_l) - log_sum / gamma) / gamma
    first, second = math.sqrt(first / count), math.sqrt(second / count)
    for j in range(7):
        gradient[j] = by_first[j] / count / first if first > 0.0 else 0.0
        gradient[j] += by_second[j] / count / second if second > 0.0 else 0.0
    gradient[6] += 2e-3 * (gamma - 1.0)
    gradient[3] += 2e-2 * b_n / a_n**2
    gradient[2] -= 2e-2 * b_n**2 / a_n**3
    gradient[5] += 2e-2 * b_r / a_r**2
    gradient[4] -= 2e-2 * b_r**2 / a_r**3
    return first + second + 1e-3 * (gamma - 1.0) ** 2 + 1e-2 * ((b_n / a_n) ** 2 + (b_r / a_r) ** 2)


def fit_seven(rows: Floats) -> Floats:
    """Return (7,) the parameters (α_c, β_c, α_n, β_n, α_r, β_r, γ) of the published model.

    `rows`: as in `_loss`. Parameters of what was never observed are pinned.
    """
    x = np.array([0.1, 0.01, 0.1, 0.01, 0.1, 0.01, 1.001])
    low, high = np.array([1e-8] * 6 + [1.0]), np.array([np.inf] * 6 + [10.0])

    def pin(values: dict[int, float]) -> None:
        for at, value in values.items():
            x[at] = low[at] = high[at] = value

    nodes, replicas = rows[:, 0], rows[:, 1]
    across, within = bool((nodes > 1).any()), bool(((nodes == 1) & (replicas > 1)).any())
    if len(np.unique(rows[:, 2])) == 1:
        pin({0: float(rows[:, 3].mean()) / 2})
    if not across:
        pin({2: 1e-8, 3: 1e-8})
    if not within:
        pin({4: 1e-8, 5: 1e-8})
    if not (replicas > 2).any():
        pin({3: 1e-8, 5: 1e-8})
    gradient = np.zeros(7)

    def loss(values: Floats) -> tuple[float, Floats]:
        return _loss(values, rows, gradient), gradient.copy()

    bounds = list(zip(low, high, strict=True))
    with one_thread():
        x = minimize(loss, x, jac=True, method="L-BFGS-B", bounds=bounds, tol=1e-5).x
    if not across:
        x[2], x[3] = max(x[2], 1.1 * x[4]), max(x[3], 1.1 * x[5])
    return x


@njit(cache=True, error_model="numpy")
def best_of_grid(
    x: Floats,
    nodes: int,
    replicas: int,
    first: float,
    last: float,
    least: float,
    most: float,
    sqr: float,
    var: float,
) -> tuple[float, int, int]:
    """Return (goodput, local batch size, accumulation) of the best of 50 geometric candidates.

    Goodput 0: none fits. `x`: (7,) parameters as in `fit_seven`. `first`, `last`: initial and largest batch
    size. `least`, `most`: local batch sizes.
    """
    a_c, b_c, a_n, b_n, a_r, b_r, gamma = x
    more = max(replicas - 2.0, 1e-8)
    link = 1e-8
    if replicas > 1:
        link = a_r + b_r * more if nodes == 1 else a_n + b_n * more
    log_l = gamma * math.log(link)
    start = max(first, least * replicas)
    best, best_m, best_s = 0.0, 0, 0
    for j in range(CANDIDATES):
        local = start * (last / start) ** (j / (CANDIDATES - 1.0)) / replicas
        s = max(math.ceil(local / most - 1e-8) - 1, 0)
        if replicas == 1 and local > first:
            s = max(s, 1)
        m = math.ceil(local / (s + 1) - 1e-8)
        if m < least or m > most:
            continue
        compute = a_c + b_c * m
        log_c = gamma * math.log(compute)
        top = max(log_c, log_l)
        step = math.exp((top + math.log(math.exp(log_c - top) + math.exp(log_l - top))) / gamma)
        batch = replicas * m * (s + 1)
        scale = batch / first
        goodput = batch / (s * compute + step) * ((var + sqr) / (var / scale + sqr)) / scale
        if goodput > best:
            best, best_m, best_s = goodput, m, s
    return best, best_m, best_s


_Key = tuple[int, int, int]  # nodes, replicas, local batch size


@dataclass(eq=False)
class _Known:
    """What one job has seen."""

    rows: dict[str, dict[_Key, tuple[float, float]]] = field(default_factory=dict)
    fits: dict[str, Floats] = field(default_factory=dict)
    gradients: tuple[float, float] | None = None
    largest: dict[str, int] = field(default_factory=dict)  # most replicas, per GPU type


class ArtifactKnowledge:
    """Exact step times and gradients of what has run. Jobs that have seen the same share their fits."""

    def __init__(self, applications: Sequence[Application], asked: Sequence[int]) -> None:
        """Begin with nothing known. `asked`: the batch size of each job's trace; 0: it gives none."""
        self.applications = applications
        # The policy assumes this largest batch; the job itself may use the largest of its application.
        self.largest = [batch or a.max_batch_size for batch, a in zip(asked, applications, strict=True)]
        self.of = [_Known() for _ in applications]
        self._fits: dict[tuple[str, frozenset[tuple[_Key, tuple[float, float]]]], Floats] = {}

    def profile(self, gpu_type: str) -> str:
        """Return the name of the profile that keeps what runs on a GPU type."""
        return gpu_type

    def observe(self, job: int, seen: Observation) -> None:
        """Keep the gradients and a new step time, and fit the profile again."""
        known, replicas, profile = self.of[job], sum(seen.shape), self.profile(seen.gpu_type)
        known.gradients = seen.grad_sqr, seen.grad_var
        known.largest[profile] = max(known.largest.get(profile, 0), replicas)
        rows = known.rows.setdefault(profile, {})
        key = len(seen.shape), replicas, seen.batch.local_bsz
        if key in rows:
            return
        rows[key] = seen.time.pass_s, seen.time.step_s
        name = self.applications[job].name, frozenset(rows.items())
        if name not in self._fits:
            table = np.array([[*k, *v] for k, v in sorted(rows.items())], float)
            self._fits[name] = fit_seven(table)
        known.fits[profile] = self._fits[name]

    def model(self, job: int) -> JobModel | None:
        return None  # the policy below asks for rows

    def choose(self, job: int, gpu_type: str, shape: Shape) -> Batch:
        """Return the batch of best goodput by the job's own fit, or the initial batch before it has one."""
        application, known, replicas = self.applications[job], self.of[job], sum(shape)
        first, last = application.initial_batch_size, application.max_batch_size
        low, high = application.step_times[gpu_type].sizes(shape)
        m, s = 0, 0
        fit = known.fits.get(self.profile(gpu_type))
        if known.gradients is not None and fit is not None:
            least = application.local_bsz[gpu_type][0]
            _, m, s = best_of_grid(fit, len(shape), replicas, first, last, least, high, *known.gradients)
        if m == 0:
            s = max(math.ceil(first / replicas / high - 1e-8) - 1, 0)
            m = math.ceil(first / replicas / (s + 1) - 1e-8)
        m = min(m, int(high), max(last // (replicas * (s + 1)), 1))
        return Batch(max(m, int(low)), s)


class ArtifactOptions(BaseModel):
    pass


@dataclass(frozen=True)
class _Column:
    nodes: int
    gpus: int
    gpu_type: str


class ArtifactSia:
    """The integer program over rows as the published simulator builds them, and its placement.

    Rounding makes many plans equal. No rule says which of them its solver finds, so `seed` draws one.
    """

    Options = ArtifactOptions

    def __init__(self, knowledge: ArtifactKnowledge, positions: Callable[[str], int], seed: int = 0) -> None:
        self._knowledge = knowledge
        self._position = positions  # of a job's id in the workload
        self._random = np.random.default_rng(seed)
        self._rows: dict[int, tuple[object, Floats]] = {}
        self._chosen: dict[str, tuple[_Column, float]] = {}  # what a job got last, and when its restart ends

    def plan(self, round: Round) -> Plan:
        """Solve the program of a round, and place what it chooses."""
        cluster = round.cluster
        columns = _columns(cluster)
        jobs = list(round.jobs)
        index = {column: i for i, column in enumerate(columns)}
        rows = np.full((len(jobs), len(columns)), NOTHING)
        current = np.full(len(jobs), -1)
        for i, job in enumerate(jobs):
            rows[i] = self._row(self._position(job.id), columns, cluster)
            if job.placement is not None and job.id in self._chosen:
                current[i] = index[self._chosen[job.id][0]]
                factor = _restart_factor(
                    self._knowledge.applications[self._position(job.id)], job.age_s, job.restarts
                )
                discounted = np.maximum(rows[i] * factor, NOTHING)
                discounted[current[i]] = rows[i, current[i]]
                rows[i] = discounted
        options = rows > NOTHING
        gains = np.where(options, LAMBDA - np.minimum(np.round(rows**P, 2), 3000.0), 0.0)
        # Among equal plans, one with fewer GPUs and without needless moves is better.
        gpus = np.array([column.gpus for column in columns], float)
        gains += np.where(options, TIE * (self._random.random(gains.shape) - gpus), 0.0)
        required = np.zeros(len(jobs), bool)
        for i in np.flatnonzero(current >= 0).tolist():
            gains[i, current[i]] += TIE
            if self._chosen[jobs[i].id][1] > round.now:  # a job that restarts is pinned
                options[i] = np.arange(len(columns)) == current[i]
                required[i] = True
        capacity = cluster.capacity()
        usage = np.array([[c.gpus if c.gpu_type == t else 0 for c in columns] for t in cluster.gpu_types], float)
        limits = np.array([capacity[t] for t in cluster.gpu_types], float)
        solution = solve(
            ChoiceProblem(gains, options, usage, limits, required=required), time_limit_s=10.0, gap=1e-4
        )
        wanted = {job.id: columns[c] for job, c in zip(jobs, solution.choice.tolist(), strict=True) if c >= 0}
        placements = _place(wanted, cluster, {job.id: job.placement for job in jobs})
        chosen = {}
        for job in jobs:
            column = wanted.get(job.id)
            if column is None:
                continue
            before = self._chosen.get(job.id)
            new = placements[job.id]
            stays = before is not None and job.placement is not None and _alike(job.placement, new)
            restart_s = self._knowledge.applications[self._position(job.id)].restart_s
            chosen[job.id] = column, before[1] if stays and before is not None else round.now + restart_s
        self._chosen = chosen
        return Plan(placements, solver_s=solution.solver_s)

    def _row(self, job: int, columns: Sequence[_Column], cluster: Cluster) -> Floats:
        """Return (columns,) goodputs over the smallest of them; `NOTHING`: the job cannot use it now."""
        known, application = self._knowledge.of[job], self._knowledge.applications[job]
        if not known.fits:
            return np.array([1.0 if column.gpus == 1 else NOTHING for column in columns])
        types = cluster.gpu_types
        most = max(
            min(
                max(2 * known.largest.get(t, 0), 1), MOST_GPUS,
                application.max_batch_size // application.local_bsz[t][0],
            )
            for t in types
        )  # fmt: skip
        key = tuple((t, id(known.fits.get(t))) for t in types), known.gradients, most
        kept = self._rows.get(job)
        if kept is not None and kept[0] == key:
            return kept[1].copy()
        donor = min(
            (t for t in types if t in known.fits), key=lambda t: SUFFIXES.get(t, t)
        )  # in the artifact's order
        per_node = {t: max(node.gpus for node in cluster.of_type(t)) for t in types}
        assert known.gradients is not None
        row = np.full(len(columns), NOTHING)
        for i, column in enumerate(columns):
            if column.gpus > most:
                continue
            own = column.gpu_type in known.fits
            source = column.gpu_type if own else donor
            nodes = column.nodes if own else math.ceil(column.gpus / per_node[donor])
            least_local, most_local = application.local_bsz[source]
            most_local = MOST_LOCAL.get((application.name, source), most_local)
            goodput, _, _ = best_of_grid(
                known.fits[source], nodes, column.gpus, application.initial_batch_size,
                self._knowledge.largest[job], least_local, most_local, *known.gradients,
            )  # fmt: skip
            ratio = 1.0 if own else _alone(application, column.gpu_type) / _alone(application, donor)
            if goodput > 0:
                row[i] = goodput * ratio
        usable = row > NOTHING
        if usable.any():
            row = np.where(usable, row / row[usable].min(), NOTHING)
        self._rows[job] = key, row
        return row.copy()


@lru_cache(maxsize=256)
def _alone(application: Application, gpu_type: str) -> float:
    """Return samples/s of one GPU as the artifact takes it: largest batch over longest step."""
    times = application.step_times[gpu_type]
    sizes = [size for shape, size in times.samples() if shape == (1,)]
    return max(sizes) / max(times.at((1,), size).step_s for size in sizes)


def _restart_factor(application: Application, age_s: float, restarts: int) -> float:
    cost = RESTART_COST_S.get(application.name, 30.0)
    return 1.0 if age_s < cost else max(age_s - restarts * cost, 0.0) / (age_s + cost)


def _columns(cluster: Cluster) -> list[_Column]:
    columns = []
    for t in cluster.gpu_types:
        nodes = cluster.of_type(t)
        size = max(node.gpus for node in nodes)
        columns += [_Column(1, 2**i, t) for i in range(size.bit_length())]
        columns += [_Column(n, n * size, t) for n in range(2, len(nodes) + 1)]
    return columns


def _alike(a: Placement, b: Placement) -> bool:
    return a.gpu_type == b.gpu_type and [s.gpus for s in a.shares] == [s.gpus for s in b.shares]


def _place(
    wanted: dict[str, _Column], cluster: Cluster, before: dict[str, Placement | None]
) -> dict[str, Placement]:
    """Place largest jobs first and on whole nodes first, and go through the nodes in rotation.

    Nodes of the last round do not matter. `Ledger.find` is best fit, which the published simulator is not.
    """
    order, ledger = list(before), Ledger(cluster)
    for t in cluster.gpu_types:
        nodes = cluster.of_type(t)
        at = 0
        mine = sorted(
            (id for id in order if id in wanted and wanted[id].gpu_type == t), key=lambda id: -wanted[id].gpus
        )
        for id in mine:
            column = wanted[id]
            if column.nodes > 1 or column.gpus == nodes[0].gpus:
                idle = [node for node in nodes if ledger.idle_on(node.id) == node.gpus]
                shares = [NodeShare(node.id, node.gpus) for node in idle[: column.nodes]]
            else:
                rotated = (i % len(nodes) for i in range(at, at + len(nodes)))
                at = next(i for i in rotated if ledger.idle_on(nodes[i].id) >= column.gpus)
                shares = [NodeShare(nodes[at].id, column.gpus)]
            ledger.take(id, Placement(t, tuple(shares)))
    return dict(ledger.held)
