"""Other ways to foretell running nodes, fitted to the same past and asked at the same moments.

Each returns (horizons, moments) forecasts, or None where its library does not import. Each goes by the counts up
to a moment alone.
"""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

import numpy as np
from coadapt.estimators.node_series import SLOT_S, Floats, NodeSeries
from numpy.lib.stride_tricks import sliding_window_view

Peer = Callable[[NodeSeries, int, Sequence[int]], Floats | None]


def persistence(series: NodeSeries, first: int, horizons: Sequence[int]) -> Floats:
    """Return the newest count at every horizon."""
    return np.tile(series.filled[first:], (len(horizons), 1))


def yesterday(series: NodeSeries, first: int, horizons: Sequence[int]) -> Floats:
    """Return what ran a day before each moment that is foretold."""
    return np.array([series.filled[first + ahead - 144 : len(series) + ahead - 144] for ahead in horizons])


def arima(
    series: NodeSeries, first: int, horizons: Sequence[int], p: int = 6, q: int = 2, long: int = 24
) -> Floats:
    """Return forecasts of ARIMA(p, 1, q), fitted to what was before `first`.

    The fit is the two regressions of Hannan and Rissanen.
    """
    change = np.diff(series.filled)
    past = change[: first - 1]
    lags = sliding_window_view(past, long)[:-1, ::-1]
    shock = np.zeros(len(past))
    shock[long:] = past[long:] - lags @ np.linalg.lstsq(lags, past[long:], rcond=None)[0]
    begin = long + max(p, q)
    rows = np.array([[*past[i - p : i][::-1], *shock[i - q : i][::-1]] for i in range(begin, len(past))])
    weights = np.linalg.lstsq(rows, past[begin:], rcond=None)[0]
    shocks = np.zeros(len(change))
    for i in range(max(p, q), len(change)):
        shocks[i] = change[i] - weights[:p] @ change[i - p : i][::-1] - weights[p:] @ shocks[i - q : i][::-1]
    at = np.arange(first, len(series))  # the newest change before moment i is change[i - 1]
    seen = np.array([change[at - 1 - lag] for lag in range(p)])
    errors = np.array([shocks[at - 1 - lag] for lag in range(q)])
    level, found = series.filled[first:].copy(), []
    for _ in range(max(horizons)):
        step = weights[:p] @ seen + weights[p:] @ errors
        level = level + step
        seen, errors = np.vstack([step, seen[:-1]]), np.vstack([0 * step, errors[:-1]])
        found.append(level)
    return np.array([found[ahead - 1] for ahead in horizons])


def lstm(series: NodeSeries, first: int, horizons: Sequence[int], seed: int = 0) -> Floats:
    """Return what a small LSTM foretells that reads six hours of counts and the time of day."""
    import torch

    torch.manual_seed(seed)
    total = float(np.nanmax(series.filled_total))
    hours = 2 * np.pi * (series.start_s + SLOT_S * np.arange(len(series))) / 86_400
    columns = np.stack([series.filled / total, np.sin(hours), np.cos(hours)], axis=-1).astype(np.float32)
    windows = torch.from_numpy(
        np.moveaxis(sliding_window_view(columns, 36, axis=0), -1, 1).copy()
    )  # ends at i + 35
    windows[:, :, 0] -= windows[:, -1:, 0].clone()
    taught = np.arange(0, first - 36 - max(horizons))
    ends = taught + 35
    target = np.array([series.filled[ends + ahead] - series.filled[ends] for ahead in horizons]).T / total
    targets = torch.from_numpy(target.astype(np.float32))

    class Small(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.reads = torch.nn.LSTM(3, 32, batch_first=True)
            self.says = torch.nn.Linear(32, len(horizons))

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            said: torch.Tensor = self.says(self.reads(rows)[0][:, -1])
            return said

    net = Small()
    steps = torch.optim.Adam(net.parameters(), lr=1e-3)
    for _ in range(8):
        for batch in torch.randperm(len(taught)).split(128):
            steps.zero_grad()
            torch.nn.functional.l1_loss(net(windows[batch]), targets[batch]).backward()
            steps.step()
    with torch.no_grad():
        said = net(windows[first - 35 : len(series) - 35]).numpy().T
    return np.asarray(series.filled[first:] + total * said, float)


def prophet(series: NodeSeries, first: int, horizons: Sequence[int]) -> Floats | None:
    """Return Prophet's curve of the days to come, which knows no newer counts; None where it is not installed."""
    if importlib.util.find_spec("prophet") is None:
        return None
    import pandas
    from prophet import Prophet  # type: ignore[import-not-found, unused-ignore]  # optional

    logging.getLogger("cmdstanpy").disabled = True
    at = [
        datetime.fromtimestamp(series.start_s + SLOT_S * i, UTC).replace(tzinfo=None)
        for i in range(len(series) + max(horizons))
    ]
    curve = Prophet(daily_seasonality=True, weekly_seasonality=True, yearly_seasonality=False)
    curve.fit(pandas.DataFrame({"ds": at[:first], "y": series.filled[:first]}))
    said = curve.predict(pandas.DataFrame({"ds": at[first:]}))["yhat"].to_numpy()
    return np.array([said[ahead : ahead + len(series) - first] for ahead in horizons])


PEERS: Mapping[str, Peer] = {
    "persistence": persistence, "yesterday": yesterday, "arima": arima, "lstm": lstm, "prophet": prophet,
}  # fmt: skip


def smape(said: Floats, was: Floats) -> float:
    """Return the symmetric mean absolute percentage error, as the paper's authors compute it."""
    both = np.abs(said) + np.abs(was)
    return float(100 * np.mean(np.where(both > 0, 2 * np.abs(said - was) / np.where(both > 0, both, 1), 0)))
