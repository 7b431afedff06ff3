"""What a program says and is not taken is counted once, over all its starts."""

from __future__ import annotations

from coadapt.executor.commands.refusals import Refusals
from coadapt.executor.protocol.command_events import Refused
from coadapt.executor.protocol.job_events import StatusesRefused


def test_refused_statuses_of_all_starts_add_up_and_only_news_are_told() -> None:
    refusals = Refusals("x")
    assert refusals.take() is None
    assert refusals.hear("x-1", Refused("torn", 1))
    assert not refusals.hear("x-1", Refused("foreign", 8, logged=False))
    assert refusals.take() == StatusesRefused("x", 8, "foreign")
    refusals.hear("x-1", Refused("torn", 1))
    assert refusals.take() is None, "it came late, or twice"
    refusals.hear("x-2", Refused("no number", 1))
    assert refusals.take() == StatusesRefused("x", 9, "no number")
