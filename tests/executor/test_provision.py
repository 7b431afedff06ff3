"""What workers are told of the CPUs and the memory of their slots."""

from __future__ import annotations

import math

from coadapt.core.slot import Slot
from coadapt.estimators.sensitivity.measured import MeasuredSensitivity
from coadapt.executor.provision import GIB, PROCESS_GIB, Provision, input_rate, provision_of


def slot(device: int, cpus: float, memory_gib: float = 0.0, node: str = "n") -> Slot:
    return Slot(node, "lease", (device,), "a100", cpus=cpus, memory_gib=memory_gib)


def test_all_workers_of_a_job_have_as_many_loader_workers_as_the_one_with_the_fewest_cpus() -> None:
    slots = [slot(0, 4.0), slot(1, 2.5), slot(0, 9.0, node="m")]
    assert [provision_of(one, slots).cpus for one in slots] == [4, 2, 9]
    assert {provision_of(one, slots).workers for one in slots} == {2}


def test_a_profile_run_is_told_its_gpus_part_of_the_node() -> None:
    measured = Slot("n", "lease", (0,), "a100", cpus=18.0, part_cpus=3.0)
    assert provision_of(measured, [measured]) == Provision(18, 18, None, 3)


def test_a_slot_with_a_part_of_a_cpu_is_kept_to_none_and_its_loader_is_the_scripts() -> None:
    assert provision_of(slot(0, 0.25), [slot(0, 0.25)]) == Provision(0, 0, None)


def test_parts_that_add_up_to_a_cpu_are_one() -> None:
    tenths = slot(0, sum([0.1] * 10))
    assert tenths.cpus < 1
    assert provision_of(tenths, [tenths]).cpus == 1


def test_the_cache_of_a_node_has_what_processes_leave_of_the_jobs_memory_there() -> None:
    slots = [slot(0, 1.0, 60.0), slot(1, 1.0, 60.0), slot(0, 1.0, 10.0, node="m")]
    assert provision_of(slots[0], slots, process_gib=20.0).cache_bytes == 80 * GIB
    assert provision_of(slots[0], slots).cache_bytes == int((120.0 - 2 * PROCESS_GIB) * GIB)
    assert provision_of(slots[2], slots, process_gib=20.0).cache_bytes == 0
    assert provision_of(slot(0, 1.0), [slot(0, 1.0)]).cache_bytes is None


def test_the_input_of_a_group_is_that_of_its_loader_workers() -> None:
    known = MeasuredSensitivity((1.0, 4.0), (10.0, 40.0))
    two = [slot(0, 3.5), slot(1, 3.5)]
    assert input_rate(two, known) == 60.0, "3 workers for each of 2 GPUs"
    assert input_rate(two, None) == math.inf
    assert input_rate([slot(0, 0.5)], known) == math.inf
