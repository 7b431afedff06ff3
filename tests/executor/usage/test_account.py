"""An executor tells the scheduler sums of its workers, numbered, with its reports or else by themselves."""

from __future__ import annotations

from itertools import pairwise

from coadapt.core.usage import Mean, Usage
from coadapt.executor.protocol.job_events import Used
from coadapt.executor.protocol.worker_events import Sampled
from coadapt.executor.usage.account import MOST_S, UsageAccount


def usage(util: float) -> Usage:
    return Usage(10.0, gpu=Mean.of(util, 10.0))


def test_what_several_workers_tell_is_joined_by_gpu_type() -> None:
    account = UsageAccount("x", [].append, 0.0)
    assert account.take(1.0) is None
    account.hear(Sampled("a100", usage(0.5)), 1.0)
    account.hear(Sampled("a100", usage(1.0)), 1.0)
    account.hear(Sampled("t4", usage(0.25)), 1.0)
    assert account.take(2.0) == Used("x", 1, {"a100": usage(0.5) + usage(1.0), "t4": usage(0.25)})
    assert account.take(3.0) is None
    account.hear(Sampled("t4", usage(0.0)), 3.0)
    assert account.take(4.0) == Used("x", 2, {"t4": usage(0.0)})


def test_reports_take_it_along_and_without_them_it_goes_by_itself() -> None:
    by_itself: list[Used] = []
    account = UsageAccount("x", by_itself.append, 0.0)
    for second in (2, 6, 14, *range(30, 600, 30)):
        account.hear(Sampled("t4", usage(0.5)), second)
        account.take(second)  # by a report
    assert not by_itself
    at = []
    for second in range(600, 900, 30):
        account.hear(Sampled("t4", usage(0.0)), second)
        if len(by_itself) > len(at):
            at.append(second)
    assert len(at) > 3
    assert all(after - before >= MOST_S for before, after in pairwise(at))


def test_the_end_of_a_job_waits_for_no_interval() -> None:
    told: list[Used] = []
    account = UsageAccount("x", told.append, 0.0)
    account.tell(1.0)
    account.hear(Sampled("t4", usage(1.0)), 1.0)
    account.tell(1.0)
    assert told == [Used("x", 1, {"t4": usage(1.0)})]
