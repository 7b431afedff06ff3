"""However many metrics a script reports, a bounded number is kept, and the target is among them."""

from __future__ import annotations

from coadapt.core.reports import MeasuredAt
from coadapt.executor.protocol.metric_limits import MOST, MOST_NAME, TOO_LONG, TOO_MANY, bounded, places


def test_metrics_are_bounded_and_the_last_named_and_the_target_stay() -> None:
    many = {f"m{i}": float(i) for i in range(100_000)}
    kept, said = bounded({"accuracy": 0.5}, many, "accuracy")
    assert (len(kept), said) == (MOST, TOO_MANY)
    assert kept["accuracy"] == 0.5
    assert "m99999" in kept
    kept, said = bounded({}, {"x" * 300: 1.0})
    assert (list(kept), said) == (["x" * (MOST_NAME - 1) + "…"], TOO_LONG)
    assert bounded({"a": 1.0}, {"b": 2.0}) == ({"a": 1.0, "b": 2.0}, "")
    per_epoch: dict[str, float] = {}
    for epoch in range(250):
        per_epoch, _ = bounded(per_epoch, {"loss": float(epoch), f"loss_{epoch}": 1.0})
    assert (per_epoch["loss"], "loss_249" in per_epoch, "loss_0" in per_epoch) == (249.0, True, False)


def test_where_a_metric_was_measured_is_kept_as_long_as_the_metric_is() -> None:
    known, new = {"a": MeasuredAt(1, 10), "gone": MeasuredAt(1, 10)}, {"x" * 300: MeasuredAt(2, 20)}
    metrics, _ = bounded({"a": 1.0}, {"x" * 300: 2.0})
    assert places(metrics, known, new) == {"a": MeasuredAt(1, 10), "x" * (MOST_NAME - 1) + "…": MeasuredAt(2, 20)}
    assert places(metrics, known, None) == {"a": MeasuredAt(1, 10)}
