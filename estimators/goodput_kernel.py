"""The compiled search for the best batch of a (job, configuration) pair.

For a number of passes, 1/goodput is made of products and power sums of the local batch size m. Their coefficients
(compute, link time, noise) are positive, so its logarithm is convex in log m: a geometric program in one variable.
One bracketed Newton search finds the optimum. No grid of candidates is needed.

What costs here are powers and logarithms. They are kept from pass to pass where a batch fills the memory, and from
column to column where only the link differs. The powers κ and γ share them through the logarithm of C^κ.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .compiling import kernel
from .throughput import TILE

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

# Columns of a packed row, one row per (job, GPU type): θ of the throughput model, then these. GPUS 0: unusable.
RAGGED, PARAMS = 12, 13
GPUS, MOST, PHI, FIRST, LAST, LEAST, ACCUMULATE, ADAPTS, UNIT, UNDIVIDED = range(PARAMS, PARAMS + 10)
COLUMNS = PARAMS + 10
_LOG_2 = math.log(2.0)


class Pass(NamedTuple):
    """Compute time C of one pass: C^κ, its logarithm, and C^γ (0 where no link is waited for)."""

    powered: float
    log_powered: float
    busy: float


class Compute(NamedTuple):
    """Compute of one (job, GPU type) with D replicas on a node: C(m)^κ = floor + (slope·m)^κ."""

    floor: float
    log_floor: float  # of its root, α_c·D^δ
    log_slope: float  # β_c·D^δ
    kappa: float
    per_kappa: float
    gamma: float
    per_gamma: float
    most: float  # largest local batch
    full: Pass  # with `most` samples
    full_s: float


class Link(NamedTuple):
    """All-reduce time R of one pair: R^γ (0: nothing is waited for) and log R."""

    powered: float
    log_s: float


@kernel
def fill(packed: Array, type_index: Ints, nodes: Ints, gpus: Ints, rows: Ints, result: Array) -> None:
    """Write the goodput of every pair of `packed` (jobs, types, COLUMNS) and column, into `result[rows]`."""
    # Logarithms and divisions once per column and not per pair, as long as a replica is one GPU.
    log_nodes, log_gpus, densities = np.empty(len(nodes)), np.empty(len(nodes)), np.empty(len(nodes), np.int64)
    for c in range(len(nodes)):
        log_nodes[c], log_gpus[c] = math.log(nodes[c]), math.log(gpus[c])
        densities[c] = -(-gpus[c] // nodes[c])
    for job in range(packed.shape[0]):
        gpu_type, dense, per_replica, log_dense = -1, -1, 0, 0.0
        row = packed[job, 0]
        compute = slower = _nothing()
        for c in range(len(nodes)):
            if type_index[c] != gpu_type:
                gpu_type, dense = type_index[c], -1
                row = packed[job, gpu_type]
                per_replica = int(row[GPUS])
            if per_replica == 0:
                continue
            replicas, n, density = gpus[c], nodes[c], densities[c]
            log_n, log_k = log_nodes[c], log_gpus[c]
            if per_replica > 1:
                if gpus[c] % per_replica != 0:
                    continue
                replicas = gpus[c] // per_replica
                n = min(n, replicas)
                density = -(-replicas // n)
                log_n, log_k = math.log(n), math.log(replicas)
            if density != dense:
                dense, log_dense = density, math.log(density)
                compute, slower = computes_of(row, log_dense)
            link = link_of(row, n, replicas, log_dense, log_n, log_k)
            result[rows[job], c] = best_of(row, compute, slower, link, replicas)[0]


@kernel
def _nothing() -> Compute:
    return Compute(0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 0.0, Pass(0.0, 0.0, 0.0), 0.0)


@kernel
def _compute_of(row: Array, log_slower: float) -> Compute:
    log_floor, log_slope, kappa, gamma, most = row[0] + log_slower, row[1] + log_slower, row[2], row[11], row[MOST]
    floor = math.exp(kappa * log_floor)
    powered = floor + math.exp(kappa * (log_slope + math.log(most)))
    log_powered = math.log(powered)
    full = Pass(powered, log_powered, math.exp(log_powered * (gamma / kappa)))
    full_s = math.exp(log_powered / kappa)
    return Compute(floor, log_floor, log_slope, kappa, 1.0 / kappa, gamma, 1.0 / gamma, most, full, full_s)


@kernel
def computes_of(row: Array, log_dense: float) -> tuple[Compute, Compute]:
    """Compute of a row with D replicas on a node: of whole tiles, and of ragged batches."""
    compute = _compute_of(row, row[3] * log_dense)
    return compute, _compute_of(row, row[3] * log_dense + row[RAGGED]) if row[RAGGED] > 0.0 else compute


@kernel
def link_of(row: Array, nodes: int, replicas: int, log_dense: float, log_nodes: float, log_k: float) -> Link:
    """Return the all-reduce of one pair; times below e^-40 s are none."""
    if replicas == 1:
        return Link(0.0, -math.inf)
    if nodes == 1:
        log_s = row[4] + row[5] * (log_k - _LOG_2)
    else:
        log_s = row[6] + row[7] * (log_k - _LOG_2) + row[8] * log_dense + row[9] * (log_nodes - _LOG_2)
        if nodes == 2:
            log_s += row[10]
    return Link(math.exp(row[11] * log_s) if log_s > -40.0 else 0.0, log_s)


@kernel
def _pass_of(compute: Compute, link: Link, m: float) -> Pass:
    if m == compute.most:
        return compute.full
    powered = compute.floor + math.exp(compute.kappa * (compute.log_slope + math.log(m)))
    log_powered = math.log(powered)
    busy = math.exp(log_powered * (compute.gamma * compute.per_kappa)) if link.powered > 0.0 else 0.0
    return Pass(powered, log_powered, busy)


@kernel
def _times_s(compute: Compute, link: Link, of: Pass, s: float) -> tuple[float, float]:
    """Return the times of the s accumulation passes together and of the last pass."""
    if link.powered > 0.0:
        last = (of.busy + link.powered) ** compute.per_gamma
        return s * math.exp(of.log_powered * compute.per_kappa) if s > 0.0 else 0.0, last
    one = math.exp(of.log_powered * compute.per_kappa)
    return s * one, one


@kernel
def _slope(
    compute: Compute, link: Link, of: Pass, noise: float, m: float, passes_s: float, last_s: float
) -> tuple[float, float]:
    """Return d log(1/goodput) / d log m, which rises with m, and about how fast it rises.

    The step time's elasticity in m, minus φ/(φ + B); `noise` = φ/(K·(s + 1)). Of the times only the ratio counts.
    """
    share = 1.0 - compute.floor / of.powered
    rest = noise / (noise + m)
    part = 1.0
    bend = compute.kappa * share * (1.0 - share)
    if link.powered > 0.0:
        part = of.busy / (of.busy + link.powered)
        if passes_s > 0.0:
            part = (passes_s + last_s * part) / (passes_s + last_s)
        bend = part * (bend + compute.gamma * (1.0 - part) * share * share)
    return part * share - rest, bend + rest * (1.0 - rest)


@kernel
def _slope_at(compute: Compute, link: Link, noise: float, m: float, s: float) -> tuple[float, float]:
    of = _pass_of(compute, link, m)
    passes_s, last_s = _times_s(compute, link, of, s) if s > 0.0 else (0.0, 1.0)
    return _slope(compute, link, of, noise, m, passes_s, last_s)


@kernel
def _cost_at(compute: Compute, link: Link, noise: float, m: float, s: float) -> float:
    """Return T(m)·(noise + m)/m, which is (φ + B0)/goodput."""
    passes_s, last_s = _times_s(compute, link, _pass_of(compute, link, m), s)
    return (passes_s + last_s) * (noise + m) / m


@kernel
def _best_local(
    compute: Compute, link: Link, full_last_s: float, noise: float, low: float, high: float, s: float, tile: float
) -> tuple[float, float, bool]:
    """Return the multiple of `tile` in [low, high] with the least cost, and that cost; (0, inf): none.

    `full_last_s`: time of a full last pass, 0 where it is not known yet. The last value says that the minimum over
    all real m is at `high` itself.
    """
    end = high
    low = math.ceil(low / tile) * tile
    high = math.floor(high / tile) * tile
    if low > high:
        return 0.0, math.inf, False
    a, b = low, high  # the optimum lies between
    of, passes_s, last_s = compute.full, s * compute.full_s, full_last_s
    if high != compute.most or full_last_s == 0.0:
        of = _pass_of(compute, link, high)
        passes_s, last_s = _times_s(compute, link, of, s)
    if _slope(compute, link, of, noise, high, passes_s, last_s)[0] <= 0.0:
        # As it is for most pairs: the largest batch that fits is the best.
        return high, (passes_s + last_s) * (noise + high) / high, high == end
    if low < high:
        sharp = max(compute.kappa, compute.gamma)
        # The optimum for κ = γ = 1 and s = 0 is √(guess·noise) with guess = (α_c·D^δ + R)/(β_c·D^δ).
        guess = math.exp(compute.log_floor - compute.log_slope)
        if link.powered > 0.0:
            guess += math.exp(link.log_s - compute.log_slope)
        m = min(max(math.sqrt(guess * noise), low), high)
        for _ in range(100):
            slope, bend = _slope_at(compute, link, noise, m, s)
            if slope > 0.0:
                b = m
            else:
                a = m
            if math.ceil(a / tile) >= math.floor(b / tile):
                break
            step = min(max(-slope / bend, -3.0), 3.0) if bend > 0.0 else 0.0
            wanted = m * math.exp(step)
            if wanted <= low and a == low:
                if _slope_at(compute, link, noise, low, s)[0] >= 0.0:
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
        cost = _cost_at(compute, link, noise, m, s)
        if cost < least:
            least, best = cost, m
        m += tile
    return best, least, False


@kernel
def _may_beat(
    compute: Compute, link: Link, noise: float, m: float, low: float, high: float, s: float, cost: float
) -> bool:
    """Return False where the tangent at `m`, below a convex curve, proves that no batch beats `cost`."""
    if m == 0.0:
        return True
    of = _pass_of(compute, link, m)
    passes_s, last_s = _times_s(compute, link, of, s)
    slope, _ = _slope(compute, link, of, noise, m, passes_s, last_s)
    end = low if slope > 0.0 else high
    return math.log((passes_s + last_s) * (noise + m) / (m * cost)) + slope * math.log(end / m) < 0.0


@kernel
def _best_whole(
    row: Array, compute: Compute, slower: Compute, link: Link, k: float, tile: float
) -> tuple[float, float, float, float]:
    """Do the same for a loop that is given its own batches.

    Each is split over k replicas, and u initial batches make a step.

    A step takes a·(u·q - 1) + L with q passes for an initial batch, so that the best u is √(φ·(L - a)/(a·q·B0)).
    """
    most, phi, first, last, least, unit = row[MOST], row[PHI], row[FIRST], row[LAST], row[LEAST], row[UNIT]
    accumulate, divides = row[ACCUMULATE] > 0.0, row[UNDIVIDED] == 0.0
    split = math.ceil(unit / (k * most))  # passes of one batch
    if k * split * least > unit or (split > 1.0 and not (accumulate and divides)):
        return 0.0, 0.0, 0.0, 0.0
    m = math.ceil(unit / (k * split))
    q = split * first / unit
    chosen = slower if m % tile != 0.0 else compute
    of = _pass_of(chosen, link, m)
    pass_s, last_s = _times_s(chosen, link, of, 1.0)
    extra_s = max(last_s - pass_s, 0.0)
    wanted = math.sqrt(extra_s * phi / (pass_s * q * first))
    limit = math.floor(last / first) if accumulate and row[ADAPTS] > 0.0 else 1.0
    u = min(max(math.floor(wanted), 1.0), limit)
    best = _whole_goodput(u, q, pass_s, last_s, phi, first)
    if u + 1.0 <= limit:
        more = _whole_goodput(u + 1.0, q, pass_s, last_s, phi, first)
        if more > best:
            best, u = more, u + 1.0
    return best, m, u * q - 1.0, u * first


@kernel
def _whole_goodput(u: float, q: float, pass_s: float, last_s: float, phi: float, first: float) -> float:
    return u * first / (pass_s * (u * q - 1.0) + last_s) * (phi + first) / (phi + u * first)


@kernel
def best_of(
    row: Array, compute: Compute, slower: Compute, link: Link, replicas: int
) -> tuple[float, float, float, float]:
    """Return (goodput, local_bsz, accumulation, batch_size) of one pair; goodput 0 where infeasible."""
    k = float(replicas)
    most, phi, first, last, least = row[MOST], row[PHI], row[FIRST], row[LAST], row[LEAST]
    accumulate, adapts = row[ACCUMULATE] > 0.0, row[ADAPTS] > 0.0
    fewest = max(math.ceil(first / (k * most)) - 1.0, 0.0)  # accumulation passes that the initial batch needs
    ragged = row[RAGGED] > 0.0
    tile = float(TILE) if ragged else 1.0
    if row[UNIT] > 0.0:
        return _best_whole(row, compute, slower, link, k, tile)
    if least > most or k * least > last or (fewest > 0.0 and not accumulate):
        return 0.0, 0.0, 0.0, 0.0

    best, best_m, best_s = 0.0, 0.0, 0.0
    full_last_s = _times_s(compute, link, compute.full, 0.0)[1] if k * most <= last else 0.0
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
            # For this and every later number of passes, `least_cost` is a lower bound.
            least_cost = compute.full_s * (phi / (k * most) + s - 1.0) + full_last_s
            if least_cost * best >= phi + first:
                break
        if low <= high:
            m, cost, at_end = _best_local(compute, link, full_last_s, phi / passes, low, high, s, tile)
            if ragged and not at_end and _may_beat(slower, link, phi / passes, m, low, high, s, cost):
                other, other_cost, _ = _best_local(slower, link, 0.0, phi / passes, low, high, s, 1.0)
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
    chosen = slower if best_m % tile != 0.0 else compute
    passes_s, last_s = _times_s(chosen, link, _pass_of(chosen, link, best_m), fewest)
    return first / (passes_s + last_s), best_m, fewest, first
