"""What `energy_saving` promises: no peer looks ahead, and a rule is chosen within the limit of wake-ups."""

import numpy as np
import pytest
from coadapt.benchmarks.energy_saving import best
from coadapt.benchmarks.forecast_peers import PEERS, smape
from coadapt.estimators.node_series import NodeSeries
from coadapt.policies.sleeping.counts import CountRule, RecentRule
from coadapt.simulator.node_series.replay import Replayed

SLOTS, FIRST, AHEAD = 600, 500, (6, 18)


def walk(later: int | None = None) -> NodeSeries:
    rng = np.random.default_rng(0)
    running = np.clip(50 + np.cumsum(rng.integers(-1, 2, SLOTS)), 0, 100).astype(np.int64)
    if later is not None:
        running[later:] = 100 - running[later:]
    return NodeSeries(0.0, running, np.full(SLOTS, 100), np.ones(SLOTS, bool))


@pytest.mark.parametrize("peer", ["persistence", "yesterday", "arima", "lstm"])
def test_no_peer_knows_what_comes_later(peer: str) -> None:
    before, after = (PEERS[peer](series, FIRST, AHEAD) for series in (walk(), walk(later=FIRST + 40)))
    assert before is not None
    assert after is not None
    assert before[:, :40] == pytest.approx(after[:, :40], abs=1e-4)
    assert before.shape == (2, SLOTS - FIRST)


def test_the_error_is_relative_and_symmetric() -> None:
    assert smape(np.array([100.0]), np.array([110.0])) == pytest.approx(100 * 20 / 210)
    assert smape(np.array([0.0]), np.array([0.0])) == 0


def test_the_rule_with_most_nodes_off_within_the_limit_is_chosen() -> None:
    series = walk().of(0, 144)

    def ran(off: int, wakes: int) -> Replayed:
        return Replayed(series, series.total - off, (1,) * wakes)

    found: dict[CountRule, Replayed] = {
        RecentRule(1, 0): ran(50, 3),
        RecentRule(2, 0): ran(30, 1),
        RecentRule(3, 0): ran(20, 0),
    }
    assert best(found, 1.0) == RecentRule(2, 0)
    assert best(found, 5.0) == RecentRule(1, 0)
    assert best({RecentRule(1, 0): ran(50, 3)}, 1.0) == RecentRule(1, 0)
