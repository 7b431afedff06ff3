"""A worker samples the GPUs of its slot; where nobody can tell their use, it says nothing of it."""

from __future__ import annotations

import os
import queue
import threading

from coadapt.core.slot import Slot
from coadapt.executor.protocol.worker_events import Sampled
from coadapt.executor.slot_usage import SlotUsage

EMULATED = Slot("n1", "l", (0, 1), "a100", emulated=True)
ABSENT = Slot("n1", "l", (997,), "a100")
WAIT_S = 60.0


def test_a_paced_process_of_an_emulated_slot_is_sampled_until_its_end() -> None:
    told: queue.Queue[Sampled] = queue.Queue()
    usage = SlotUsage(EMULATED, told.put, paced=True)
    usage.begin(os.getpid())
    usage.paced(1.0, 0.5)
    first = told.get(timeout=WAIT_S)
    assert first.gpu_type == "a100"
    assert first.usage.emulated
    assert 0 < (first.usage.gpu_util or 0) <= 1
    usage.paced(1.5, 0.5)
    usage.end()
    assert told.get(timeout=WAIT_S).usage.gpu_util is not None
    usage.end()
    assert told.empty()


def test_nothing_is_said_of_emulated_gpus_without_a_pace_or_of_gpus_that_are_not_there() -> None:
    for slot, paced in ((EMULATED, False), (ABSENT, True), (ABSENT, False)):
        told: queue.Queue[Sampled] = queue.Queue()
        usage = SlotUsage(slot, told.put, paced=paced)
        usage.end()  # before it has begun
        usage.begin(os.getpid())
        usage.paced(1.0, 0.5)
        for thread in threading.enumerate():
            if thread.name == "coadapt-usage":  # it ends by itself where there is nothing to read
                thread.join(WAIT_S)
        usage.end()
        assert told.empty()
