"""The next worker on a GPU begins when the one before is gone, however that ended."""

import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HOLDER = """
import os, sys
from pathlib import Path
import threading
from coadapt.executor.gpu_locks import GpuLocks
print("begins", flush=True)
job, _, how = sys.argv[2].rpartition(":")
locks = GpuLocks(job or str(os.getpid()), how == "shared", Path(sys.argv[1]))
threading.Thread(target=lambda: [locks.share() for line in sys.stdin], daemon=True).start()
locks.hold(sys.argv[3:])
print("holds", flush=True)
threading.Event().wait()
"""


class Holders:
    def __init__(self, folder: Path) -> None:
        self.folder, self.started = folder, list[subprocess.Popen[bytes]]()

    def start(self, how: str, *gpus: str) -> subprocess.Popen[bytes]:
        """Start a process that is about to hold GPUs."""
        command = [sys.executable, "-c", HOLDER, str(self.folder), how, *gpus]
        # Without a buffer, so that `select` knows of every line that was not read.
        self.started.append(subprocess.Popen(command, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        assert self.started[-1].stdout is not None
        assert self.started[-1].stdout.readline() == b"begins\n"
        return self.started[-1]


def holds(process: subprocess.Popen[bytes], within_s: float) -> bool:
    assert process.stdout is not None
    return bool(select.select([process.stdout], [], [], within_s)[0]) and process.stdout.readline() == b"holds\n"


@pytest.fixture
def holders(tmp_path: Path) -> Iterator[Holders]:
    found = Holders(tmp_path / "gpus")
    yield found
    for process in found.started:
        process.kill()
        process.communicate()


def test_a_worker_waits_for_the_one_before_to_be_gone(holders: Holders) -> None:
    first = holders.start("alone", "GPU-a", "MIG-GPU-b/1/0")
    assert holds(first, 60)
    second = holders.start("alone", "MIG-GPU-b/1/0", "GPU-c")
    assert not holds(second, 0.3)
    first.send_signal(signal.SIGKILL)
    assert holds(second, 60)


def test_other_gpus_are_had_at_once(holders: Holders) -> None:
    assert holds(holders.start("alone", "0"), 60)
    assert holds(holders.start("alone", "1"), 60)


def test_those_that_hold_a_part_of_a_gpu_are_on_it_together_and_one_that_wants_all_of_it_waits(
    holders: Holders,
) -> None:
    assert holds(holders.start("shared", "0"), 60)
    second = holders.start("shared", "0")
    assert holds(second, 60)
    assert not holds(holders.start("alone", "0"), 0.3)
    third = holders.start("shared", "0")
    assert not holds(third, 0.3)
    second.kill()
    assert holds(third, 60)


def shares(process: subprocess.Popen[bytes]) -> None:
    """Tell a holder that others may be on its GPUs."""
    assert process.stdin is not None
    process.stdin.write(b"share\n")


def test_a_worker_that_is_told_of_a_partner_lets_it_on_its_gpu_also_while_it_waits_itself(
    holders: Holders,
) -> None:
    first = holders.start("alone", "0")
    assert holds(first, 60)
    second = holders.start("shared", "0")
    assert not holds(second, 0.3)
    waits = holders.start("alone", "0")
    shares(first)
    assert holds(second, 60)
    shares(waits)
    assert not holds(waits, 0.3)
    first.kill()
    assert holds(waits, 60)


def test_no_job_is_twice_on_a_gpu_that_it_shares(holders: Holders) -> None:
    before = holders.start("a:shared", "0")
    assert holds(before, 60)
    after = holders.start("a:shared", "0")
    assert not holds(after, 0.3)
    assert holds(holders.start("b:shared", "0"), 60)
    before.kill()
    assert holds(after, 60)
