"""A command has one worker per node, with all GPUs of the job there."""

from __future__ import annotations

from coadapt.core.doors import Processes
from coadapt.executor.commands.crews import crew_plans

from tests.support.simulated_workers import slot

A, B, C = slot("n1"), slot("n1", 1), slot("n2")


def test_slots_of_a_node_are_one_worker_and_nodes_are_in_order() -> None:
    for processes, counts in ((Processes.GPU, [2, 1]), (Processes.NODE, [1, 1])):
        plans = crew_plans([C, B, A], processes)
        assert [plan.slots for plan in plans] == [(A, B), (C,)]
        assert [plan.processes for plan in plans] == counts
        assert [plan.place.devices for plan in plans] == [(0, 1), (0,)]
