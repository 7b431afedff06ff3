"""How long an optimizer step takes on N nodes with K replicas in all, learned from measured step times.

The base is Sia's (section 3.3.2): compute per pass, all-reduce time within and across nodes, overlap exponent γ,
accumulation. Three terms are added because measured profiles ask for them:

    compute     C = (α_c^κ + (β_c·m)^κ)^(1/κ) · D^δ_c · (e^ragged_c if m % 4)
    all-reduce  R = α_r · (K/2)^ρ_r                       on one node
                R = α_n · (K/2)^ρ_n · D^δ_n · (N/2)^η_n · (e^ω_n if N = 2)    on several
    last pass   L = (C^γ + R^γ)^(1/γ)
    step        T = s·C + L

for m samples per replica and pass, s accumulation passes, K replicas on N nodes, D of them on the fullest node.

κ > 1 is a GPU that small batches cannot fill, and δ_c > 0 replicas that share a node's host. The power laws
saturate where Sia's straight line in K overshoots. Every part is log-convex in log m, so goodput has one
optimum in m (`goodput.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .blas import one_thread
from .profile import Profile

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ThroughputParams:
    """Parameters of the step time; seconds, and exponents without unit. α_r = α_n = 0: perfect scaling."""

    alpha_c: float  # s, compute of one pass that no batch is too small for
    beta_c: float  # s per sample
    kappa: float = 1.0  # how sharply compute turns from constant to linear; 1: their sum, as in Sia
    delta_c: float = 0.0  # slowdown of compute by replicas on the same node
    alpha_r: float = 0.0  # s, all-reduce of 2 replicas on one node
    rho_r: float = 0.5
    alpha_n: float = 0.0  # s, all-reduce of 2 replicas on 2 nodes
    rho_n: float = 0.3
    delta_n: float = 0.0  # replicas that share one node's link
    eta_n: float = 0.0
    omega_n: float = 0.0  # what is special about exactly two nodes (rings through one link)
    gamma: float = 1.0  # 1: no overlap of compute and all-reduce; large: full overlap
    ragged_c: float = 0.0  # log of the slowdown of compute where m is no multiple of `TILE`

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            if not math.isfinite(value):
                raise ValueError(f"{f.name}: {value} is not a finite number")
        for name in ("alpha_c", "beta_c"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name}: {getattr(self, name)} must be more than 0 seconds")
        for name in ("alpha_r", "alpha_n", "delta_c", "ragged_c"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}: {getattr(self, name)} must not be negative")
        for name in ("kappa", "gamma"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: {getattr(self, name)} must be at least 1")

    def to_json(self) -> dict[str, float]:
        return {field.name: float(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def from_json(cls, values: Mapping[str, float]) -> ThroughputParams:
        known = {f.name for f in fields(cls)}
        if unknown := sorted(set(values) - known):
            raise ValueError(f"throughput parameters: unknown {unknown}, accepted are {sorted(known)}")
        if missing := sorted({"alpha_c", "beta_c"} - set(values)):
            raise ValueError(f"throughput parameters: missing {missing}")
        return cls(**{name: float(value) for name, value in values.items()})

    def step_time_s(
        self, nodes: ArrayLike, replicas: ArrayLike, local_bsz: ArrayLike, accumulation: ArrayLike = 0
    ) -> Array:
        """Return seconds of one optimizer step with replicas spread evenly; arguments broadcast."""
        return step_time_s(self, nodes, replicas, local_bsz, accumulation)

    @cached_property
    def theta(self) -> Array:
        """The parameters as fitted: times as logarithms, 0 s as the logarithm of `NO_TIME_S`."""
        values = np.array([getattr(self, f.name) for f in fields(self)], float)
        values[_LOGARITHMIC] = np.log(np.maximum(values[_LOGARITHMIC], NO_TIME_S))
        return values


NAMES = tuple(f.name for f in fields(ThroughputParams))
_AT = {name: i for i, name in enumerate(NAMES)}
_LOGARITHMIC = [_AT[name] for name in ("alpha_c", "beta_c", "alpha_r", "alpha_n")]
NO_TIME_S = 1e-30
TILE = 4  # samples; GPU kernels work on whole tiles, and other batch sizes fall back to slower ones
_ACROSS = ("alpha_n", "rho_n", "delta_n", "eta_n", "omega_n")

# Bounds of θ, and the weak prior (target, weight) that decides what data leave open.
_LOW = np.array([-23.0, -23.0, 1.0, 0.0, -23.0, 0.0, -23.0, -0.5, -0.5, -0.5, -2.0, 1.0, 0.0])
_HIGH = np.array([9.0, 9.0, 8.0, 2.0, 9.0, 2.0, 9.0, 2.0, 2.0, 2.0, 2.0, 10.0, 2.0])
_TARGET = np.array([0.0, 0.0, 1.3, 0.0, 0.0, 0.5, 0.0, 0.3, 0.2, 0.0, 0.1, 1.2, 0.0])
_WEIGHT = np.array([0.0, 0.0, 0.02, 0.05, 0.0, 0.05, 0.0, 0.05, 0.05, 0.05, 0.05, 0.05, 0.03])
_COMPUTE_WEIGHT = 0.5  # of the compute-time residual beside the step-time residual
_ROBUST_AT = 0.05  # relative errors beyond this count linearly, so that one slow row cannot bend the model
_ACROSS_FACTOR = 1.1  # links between nodes are taken to be this much slower until they are measured


def step_time_s(
    params: ThroughputParams,
    nodes: ArrayLike,
    replicas: ArrayLike,
    local_bsz: ArrayLike,
    accumulation: ArrayLike = 0,
    densest: ArrayLike | None = None,
) -> Array:
    """Return seconds of one optimizer step; arguments broadcast.

    `densest` is the number of replicas on the fullest node; by default replicas are spread evenly.
    """
    n, k, m, s = (np.asarray(x, float) for x in (nodes, replicas, local_bsz, accumulation))
    d = np.ceil(k / n) if densest is None else np.asarray(densest, float)
    return np.asarray(np.exp(_log_times(params.theta, _Features.of(n, k, m, s, d))[1]), float)


def spread_of(params: ThroughputParams, profile: Profile) -> float:
    """Return the root mean square of log(measured / fitted step time), rows weighted by their steps."""
    columns = (profile.nodes, profile.replicas, profile.local_bsz, profile.accumulation, profile.densest)
    off = np.log(profile.step_time_s / step_time_s(params, *columns))
    return math.sqrt(float(np.average(off**2, weights=profile.count)))


def throughput(
    params: ThroughputParams,
    nodes: ArrayLike,
    replicas: ArrayLike,
    local_bsz: ArrayLike,
    accumulation: ArrayLike = 0,
) -> Array:
    """Return samples per second; arguments broadcast."""
    samples = np.asarray(replicas, float) * np.asarray(local_bsz, float) * (np.asarray(accumulation, float) + 1)
    return samples / step_time_s(params, nodes, replicas, local_bsz, accumulation)


@dataclass(frozen=True)
class _Features:
    """What the model needs of each row, as logarithms; all broadcast to one shape."""

    log_m: Array
    log_d: Array
    half_k: Array  # log(K/2)
    half_n: Array  # log(N/2)
    two: Array  # N == 2
    across: NDArray[np.bool_]  # N > 1
    alone: NDArray[np.bool_]  # K == 1
    log_s: Array  # -inf without accumulation
    ragged: Array  # m is no multiple of TILE

    @classmethod
    def of(cls, n: Array, k: Array, m: Array, s: Array, d: Array) -> _Features:
        n, k, m, s, d = np.broadcast_arrays(n, k, m, s, d)
        with np.errstate(divide="ignore"):
            log_s = np.log(s)
        return cls(
            np.log(m),
            np.log(d),
            np.log(k / 2),
            np.log(n / 2),
            (n == 2) * 1.0,
            n > 1,
            k <= 1,
            log_s,
            (m % TILE != 0) * 1.0,
        )


def _log_times(theta: Array, f: _Features) -> tuple[Array, Array]:
    """Return log compute time of one pass and log step time."""
    a, b, kappa, delta, ar, rr, an, rn, dn, en, om, gamma, ragged = theta
    compute = np.logaddexp(kappa * a, kappa * (b + f.log_m)) / kappa + delta * f.log_d + ragged * f.ragged
    across = an + rn * f.half_k + dn * f.log_d + en * f.half_n + om * f.two
    link = np.where(f.alone, -np.inf, np.where(f.across, across, ar + rr * f.half_k))
    last = np.logaddexp(gamma * compute, gamma * link) / gamma
    return compute, np.logaddexp(f.log_s + compute, last)


def _residuals(theta: Array, f: _Features, log_step: Array, log_compute: Array, weight: Array) -> Array:
    compute, step = _log_times(theta, f)
    return np.concatenate([weight * (step - log_step), _COMPUTE_WEIGHT * weight * (compute - log_compute)])


def _jacobian(theta: Array, f: _Features, weight: Array) -> Array:
    """Return d residuals / d θ, (2·rows, parameters)."""
    a, b, kappa, delta, ar, rr, an, rn, dn, en, om, gamma, ragged = theta
    rows = len(f.log_m)
    slope = b + f.log_m
    log_sum = np.logaddexp(kappa * a, kappa * slope)
    constant = np.exp(kappa * a - log_sum)
    d_compute = np.zeros((rows, len(NAMES)))
    d_compute[:, 0] = constant
    d_compute[:, 1] = 1 - constant
    d_compute[:, 2] = (constant * a + (1 - constant) * slope - log_sum / kappa) / kappa
    d_compute[:, 3] = f.log_d
    d_compute[:, 12] = f.ragged
    compute = log_sum / kappa + delta * f.log_d + ragged * f.ragged

    inside = ar + rr * f.half_k
    link = np.where(f.across, an + rn * f.half_k + dn * f.log_d + en * f.half_n + om * f.two, inside)
    link = np.where(f.alone, -1e3, link)
    log_sum = np.logaddexp(gamma * compute, gamma * link)
    waits = np.exp(gamma * link - log_sum)
    d_last = (1 - waits)[:, None] * d_compute
    single = np.where(f.across, 0.0, waits)
    several = np.where(f.across, waits, 0.0)
    d_last[:, 4] += single
    d_last[:, 5] += single * f.half_k
    d_last[:, 6] += several
    d_last[:, 7] += several * f.half_k
    d_last[:, 8] += several * f.log_d
    d_last[:, 9] += several * f.half_n
    d_last[:, 10] += several * f.two
    d_last[:, 11] += (waits * link + (1 - waits) * compute - log_sum / gamma) / gamma
    last = log_sum / gamma
    passes = np.exp(f.log_s + compute - np.logaddexp(f.log_s + compute, last))[:, None]
    d_step = passes * d_compute + (1 - passes) * d_last
    w = weight[:, None]
    return np.concatenate([w * d_step, _COMPUTE_WEIGHT * w * d_compute])


@dataclass(frozen=True)
class LinkPrior:
    """What other models showed about the links of one GPU type: exponents, and seconds per parameter.

    A cluster's links are the same for every job on that GPU type; only the gradient's size differs.
    """

    values: Mapping[str, float]  # exponents by name; log(alpha / parameters) for alpha_r, alpha_n
    weights: Mapping[str, float]

    @classmethod
    def of(cls, fits: Sequence[tuple[ThroughputParams, int]]) -> LinkPrior | None:
        """Make a prior of other models' (fit, number of parameters); None without multi-replica fits."""
        names = ("alpha_r", "rho_r", "alpha_n", "rho_n", "delta_n", "eta_n", "omega_n")
        values: dict[str, float] = {}
        weights: dict[str, float] = {}
        for name in names:
            needs = "alpha_r" if name in ("alpha_r", "rho_r") else "alpha_n"
            seen = [(p, size) for p, size in fits if getattr(p, needs) > 0 and size > 0]
            if not seen:
                continue
            column = [
                math.log(getattr(p, name) / size) if name.startswith("alpha") else getattr(p, name)
                for p, size in seen
            ]
            spread = float(np.std(column)) if len(column) > 1 else 1.0
            values[name] = float(np.median(column))
            weights[name] = min(0.05 / max(spread, 0.15), 0.15)
        return cls(values, weights) if values else None


def fit(
    profile: Profile,
    previous: ThroughputParams | None = None,
    prior: LinkPrior | None = None,
    parameters: int | None = None,
) -> ThroughputParams:
    """Fit by least squares on log step time and log compute time: bounded, robust, with analytic gradients.

    Only what the profile can identify is free. Without multi-replica rows scaling is perfect. Without multi-node
    rows links between nodes are those of one node, 10 % slower. One distinct local batch size is taken as half
    constant, half linear. `previous` starts the search (after a new row of a known job). With `prior` and the
    model's number of `parameters`, links that were never measured come from other models on the same GPU type.

    Raises ValueError for an empty profile.
    """
    if len(profile) == 0:
        raise ValueError("profile: 0 rows, at least one measured row is needed to fit a throughput model")
    columns = (profile.nodes, profile.replicas, profile.local_bsz, profile.accumulation, profile.densest)
    n, k, m, s, d = (column.astype(float) for column in columns)
    features = _Features.of(n, k, m, s, d)
    log_step = np.log(profile.step_time_s)
    busy = np.maximum(profile.step_time_s - profile.sync_time_s, 1e-3 * profile.step_time_s)
    log_compute = np.log(busy / (profile.accumulation + 1.0))
    weight = np.log1p(profile.count)
    weight = np.sqrt(weight / weight.mean())

    theta, free = _start(profile, log_compute, previous)
    target, strength = _TARGET.copy(), _WEIGHT.copy()
    if prior is not None:
        for name, value in prior.values.items():
            if name.startswith("alpha"):
                if parameters is None:
                    continue
                value += math.log(parameters)
            target[_AT[name]], strength[_AT[name]] = value, prior.weights[name]
            if not free[_AT[name]] or previous is None:
                theta[_AT[name]] = np.clip(value, _LOW[_AT[name]], _HIGH[_AT[name]])
    at = np.flatnonzero(free)
    pull = strength[at] * math.sqrt(len(profile))

    from scipy.optimize import least_squares  # only who fits loads it: it takes 30 MiB

    def full(x: Array) -> Array:
        values = theta.copy()
        values[at] = x
        return values

    def residuals(x: Array) -> Array:
        return np.concatenate(
            [_residuals(full(x), features, log_step, log_compute, weight), pull * (x - target[at])]
        )

    def jacobian(x: Array) -> Array:
        return np.concatenate([_jacobian(full(x), features, weight)[:, at], np.diag(pull)])

    start = np.clip(theta[at], _LOW[at] + 1e-6, _HIGH[at] - 1e-6)
    with one_thread():
        solution = least_squares(
            residuals, start, jacobian, bounds=(_LOW[at], _HIGH[at]), loss="soft_l1", f_scale=_ROBUST_AT,
            ftol=1e-5, xtol=1e-5, gtol=1e-5, max_nfev=60,
        )  # fmt: skip
    return _finish(full(solution.x), profile, prior, parameters)


def _start(
    profile: Profile, log_compute: Array, previous: ThroughputParams | None
) -> tuple[Array, NDArray[np.bool_]]:
    """Return where the search starts and which parameters it may move."""
    small, large = int(profile.local_bsz.min()), int(profile.local_bsz.max())
    base, most = (float(np.exp(log_compute[profile.local_bsz == m].mean())) for m in (small, large))
    per_sample = 0.5 * base / small
    if large > small:
        # From a line far from the rows the search can end at a constant that no slope leads away from.
        per_sample = min(max((most - base) / (large - small), 0.1 * most / large), 0.9 * base / small)
    theta = _TARGET.copy()
    theta[0] = math.log(base - per_sample * small)
    theta[1] = math.log(per_sample)
    theta[_AT["alpha_r"]] = math.log(base / 8)
    theta[_AT["alpha_n"]] = math.log(base / 3)
    free = np.ones(len(NAMES), bool)
    single = (profile.replicas > 1) & (profile.nodes == 1)
    across = profile.nodes > 1
    if len(np.unique(profile.local_bsz)) == 1:
        free[[0, 2]] = False
        theta[_AT["kappa"]] = 1.0
        free[1] = False
        half = math.log(0.5) + float(np.mean(log_compute))
        theta[:2] = half, half - math.log(profile.local_bsz.min())
    frozen: list[str] = []
    if not single.any():
        frozen += ["alpha_r", "rho_r"]
    if not across.any():
        frozen += list(_ACROSS)
    if not (single.any() or across.any()):
        frozen += ["gamma"]
    if len(np.unique(profile.local_bsz % TILE != 0)) < 2 or len(np.unique(profile.local_bsz)) < 4:
        frozen += ["ragged_c"]
        theta[_AT["ragged_c"]] = 0.0
    if len(np.unique(profile.densest)) == 1:
        frozen += ["delta_c", "delta_n"]
        theta[_AT["delta_c"]] = 0.0
    if len(np.unique(profile.replicas[single])) < 2:
        frozen += ["rho_r"]
    if len(np.unique(profile.replicas[across])) < 2:
        frozen += ["rho_n"]
    if len(np.unique(profile.nodes[across])) < 2:
        frozen += ["eta_n", "omega_n"]
        theta[[_AT["eta_n"], _AT["omega_n"]]] = 0.0
    free[[_AT[name] for name in frozen]] = False
    if previous is not None:
        # Compute is read off the rows anew: a bad end of an earlier search must not be where this one begins.
        known = free & (previous.theta > _LOW) & (previous.theta < _HIGH)
        known[[_AT["alpha_c"], _AT["beta_c"], _AT["kappa"]]] = False
        theta[known] = previous.theta[known]
    return theta, free


def _finish(theta: Array, profile: Profile, prior: LinkPrior | None, parameters: int | None) -> ThroughputParams:
    """Return θ as parameters, with unmeasured links filled in."""
    values = dict(zip(NAMES, theta.tolist(), strict=True))
    for name in ("alpha_c", "beta_c", "alpha_r", "alpha_n"):
        values[name] = math.exp(values[name])
    if values["ragged_c"] < 0.01:
        values["ragged_c"] = 0.0  # within the noise, and the batch search is faster without
    result = ThroughputParams(**values)
    single = bool(((profile.replicas > 1) & (profile.nodes == 1)).any())
    across = bool((profile.nodes > 1).any())
    from_prior = prior.values if prior is not None and parameters is not None else {}
    if not single and "alpha_r" not in from_prior:
        # Measured across nodes only: a node's inside is taken to be no slower than the links between nodes.
        result = replace(result, alpha_r=result.alpha_n if across else 0.0, rho_r=max(result.rho_n, 0.0))
    if not across and "alpha_n" not in from_prior:
        result = replace(
            result, alpha_n=_ACROSS_FACTOR * result.alpha_r, rho_n=result.rho_r,
            delta_n=0.0, eta_n=0.0, omega_n=0.0
        )  # fmt: skip
    return result


@dataclass(frozen=True)
class ThroughputModel:
    """A fitted model and what it was fitted to.

    `max_local_bsz`: largest samples per replica and pass that fit this GPU type's memory.
    `max_replicas_measured`: 1 until a multi-replica row exists; then links are known and nothing is bootstrapped.
    `spread`: of the measured steps around the fit (`spread_of`).
    """

    params: ThroughputParams
    max_local_bsz: int
    max_replicas_measured: int = 1
    spread: float = 0.0

    def __post_init__(self) -> None:
        for name in ("max_local_bsz", "max_replicas_measured"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: {getattr(self, name)} must be at least 1")

    @property
    def knows_links(self) -> bool:
        return self.max_replicas_measured > 1
