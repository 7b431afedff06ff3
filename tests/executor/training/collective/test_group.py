"""A process group that broke lets go of everyone who waits in it."""

import threading
from datetime import timedelta

import pytest
import torch
from coadapt.executor.protocol.messages import Join
from coadapt.executor.training.collective.group import Group, GroupBroken


class Unanswered:
    """A collective that torch never completes, as gloo leaves one whose connection was lost a moment before."""

    def __init__(self) -> None:
        self.waited = threading.Event()

    def wait(self, timeout: timedelta) -> None:
        self.waited.set()
        raise RuntimeError("Operation timed out!")

    def is_completed(self) -> bool:
        return False


def test_waiting_for_a_collective_ends_when_the_group_breaks() -> None:
    group, work = Group(Join(1, 0, 2, 1, 0, 2, "", 0), torch.device("cpu"), {}), Unanswered()

    def break_it() -> None:
        work.waited.wait()
        group.fail()

    threading.Thread(target=break_it).start()
    with pytest.raises(GroupBroken), group.collective():
        group.wait(work, torch.zeros(1))
