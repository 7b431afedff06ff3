"""Tells in sentences what was measured of a job's input, and what CPUs and memory do for it. Pure."""

from __future__ import annotations

from ...core.reports import MeasuredInput
from ...estimators.measurements import Measurements


def input_habits_of(measured: Measurements | None) -> list[str]:
    """Return sentences on a job's input; none before it was measured."""
    found = None if measured is None else measured.input
    if found is None or not found.rows:
        return []
    return [_prepares(found), _reads(found)]


def _prepares(found: MeasuredInput) -> str:
    rates = found.rates
    fewest, most = min(rates), max(rates)
    told = f"its loader workers prepare {rates[fewest]:.4g} samples/s for a GPU on {_cpus(fewest)}"
    if most > fewest:
        told += f", and {rates[most]:.4g} on {most}"
    return f"{told}; {_cpus(found.most)} {'was' if found.most == 1 else 'were'} free to measure it"


def _reads(found: MeasuredInput) -> str:
    if not found.sample_bytes:
        return "it reads nothing by coadapt.cached, so it counts as insensitive to memory"
    if not found.stored_per_s:
        return "its storage gives samples as fast as all CPUs prepare them, so more memory makes it no faster"
    return f"its storage gives {found.stored_per_s:.4g} samples/s; those in the cache come faster"


def _cpus(count: int) -> str:
    return "1 CPU" if count == 1 else f"{count} CPUs"
