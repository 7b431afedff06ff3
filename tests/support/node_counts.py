"""Series of node counts for tests: days with a shape, made with a seed."""

from __future__ import annotations

import numpy as np
from coadapt.estimators.node_series import SLOT_S, NodeSeries

MONDAY_S = 1_512_345_600.0  # 4 December 2017


def daily(days: int, *, seed: int = 0, total: int = 100, swing: float = 30.0, noise: float = 2.0) -> NodeSeries:
    """Return days from a Monday on, in which most nodes run in the afternoon and few at night."""
    rng = np.random.default_rng(seed)
    slots = np.arange(days * 144)
    shape = total / 2 - swing * np.cos(2 * np.pi * (slots - 12) / 144)
    drift = np.cumsum(rng.normal(0, noise / 6, len(slots))) * 0.2
    running = np.clip(np.rint(shape + drift + rng.normal(0, noise, len(slots))), 0, total).astype(np.int64)
    return NodeSeries(MONDAY_S, running, np.full(len(slots), total), np.ones(len(slots), bool))


def with_future(series: NodeSeries, first: int, running: int) -> NodeSeries:
    """Return the series with other counts from a slot on."""
    changed = series.running.copy()
    changed[first:] = running
    return NodeSeries(series.start_s, changed, series.total, series.known)


def at(slot: int) -> float:
    """Return when a slot of `daily` begins."""
    return MONDAY_S + SLOT_S * slot
