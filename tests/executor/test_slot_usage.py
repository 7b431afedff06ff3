"""A worker samples the GPUs of its slot; where nobody can tell their use, it says nothing of it."""

from __future__ import annotations

import os
import queue
import threading

import pytest
from coadapt.core.slot import Slot
from coadapt.executor.emulated_gpu import TenantProfile
from coadapt.executor.protocol.worker_events import Sampled
from coadapt.executor.slot_usage import SlotUsage

EMULATED = Slot("n1", "l", (0, 1), "a100", emulated=True)
ABSENT = Slot("n1", "l", (997,), "a100")
WAIT_S = 60.0


def test_a_paced_process_of_an_emulated_slot_is_sampled_until_its_end() -> None:
    told: queue.Queue[Sampled] = queue.Queue()
    usage = SlotUsage(EMULATED, told.put, TenantProfile(gpu_util=0.5, memory_gib=3.0), lambda: 1.0, paced=True)
    usage.begin(os.getpid())
    usage.paced(1.0, 0.5)
    first = told.get(timeout=WAIT_S)
    assert first.gpu_type == "a100"
    assert first.usage.emulated
    assert 0 < (first.usage.gpu_util or 0) <= 1
    assert first.usage.memory_gib == 3.0
    usage.paced(1.5, 0.5)
    usage.end()
    assert told.get(timeout=WAIT_S).usage.gpu_util is not None
    usage.end()
    assert told.empty()


def test_nothing_is_said_of_emulated_gpus_without_a_pace_or_of_gpus_that_are_not_there() -> None:
    for slot, paced in ((EMULATED, False), (ABSENT, True), (ABSENT, False)):
        told: queue.Queue[Sampled] = queue.Queue()
        usage = SlotUsage(slot, told.put, TenantProfile(), lambda: 1.0, paced=paced)
        usage.end()  # before it has begun
        usage.begin(os.getpid())
        usage.paced(1.0, 0.5)
        for thread in threading.enumerate():
            if thread.name == "coadapt-usage":  # it ends by itself where there is nothing to read
                thread.join(WAIT_S)
        usage.end()
        assert told.empty()


def test_a_program_that_says_nothing_uses_what_its_file_says_less_where_a_partner_slows_it() -> None:
    told: queue.Queue[Sampled] = queue.Queue()
    profile = TenantProfile(gpu_util=0.6, memory_util=0.2, memory_gib=5.0)
    usage = SlotUsage(EMULATED, told.put, profile, lambda: 0.5)
    usage.begin(os.getpid())
    usage.share(0.5)
    first = told.get(timeout=WAIT_S).usage
    assert (first.gpu_util, first.memory_util, first.memory_gib) == pytest.approx((0.3, 0.1, 5.0))
    assert first.emulated
    usage.end()
