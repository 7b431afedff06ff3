"""The scheduler is told which cores a job's processes keep to, where that is news."""

from __future__ import annotations

from coadapt.executor.bound_cores import BoundCores
from coadapt.executor.protocol.job_events import CoresHeld
from coadapt.executor.protocol.worker_events import Bound


def test_cores_of_workers_are_told_by_node_and_those_of_gone_workers_are_not() -> None:
    told: list[CoresHeld] = []
    bound = BoundCores(told.append)
    bound.hear("w0", "n1", Bound("0-1", "0-15"))
    bound.hear("w1", "n1", Bound("4", "0-15"))
    bound.hear("w2", "n2", Bound("0-2", "0-7"))
    assert told[-1] == CoresHeld({"n1": ("0-1,4", "0-15"), "n2": ("0-2", "0-7")})
    bound.hear("w2", "n2", Bound("", "0-7"))
    assert told[-1] == CoresHeld({"n1": ("0-1,4", "0-15")}), "it keeps to none"
    count = len(told)
    bound.hear("w1", "n1", Bound("4", "0-15"))
    bound.forget("w2")
    bound.forget("w3")
    assert len(told) == count, "nothing is new"
    bound.forget("w0")
    assert told[-1] == CoresHeld({"n1": ("4", "0-15")})
