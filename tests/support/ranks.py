"""Runs a function on each rank of a real gloo group, in forked processes."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import sys
import tempfile
import traceback
from collections.abc import Callable, Container
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeVar

import torch
import torch.distributed as dist
from coadapt.executor.protocol.messages import Join
from coadapt.executor.training.collective.group import Group

Result = TypeVar("Result")
WAIT_S = 60.0
TESTS = tuple(f"{Path(__file__).resolve().parents[2] / folder}{os.sep}" for folder in ("tests", "benchmarks"))


def on_ranks(count: int, act: Callable[[Group], Result], lost: Container[int] = ()) -> list[Result]:
    """Return what `act(group)` returns on each of `count` ranks but those of `lost`, which end in it.

    Processes are forked, so `act` may be a closure and starts from what the test has set up.

    Raises: AssertionError with the traceback of a rank that fails.
    """
    fork = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        pipes = [fork.Pipe(duplex=False) for _ in range(count)]
        processes = [
            fork.Process(target=_be, args=(rank, count, store, act, write))
            for rank, (_, write) in enumerate(pipes)
        ]
        for process in processes:
            process.start()
        try:
            answers = [_answer(rank, read) for rank, (read, _) in enumerate(pipes) if rank not in lost]
        finally:
            for process in processes:
                process.kill()
                process.join()
    failed = [told for told, _ in answers if told]
    assert not failed, failed[0]
    return [result for _, result in answers]


def _answer(rank: int, read: Connection) -> tuple[str, Result]:
    # Results come as bytes, as torch would share tensors with a process that has ended.
    return (
        pickle.loads(read.recv_bytes())
        if read.poll(WAIT_S)
        else (f"rank {rank} did not end within {WAIT_S} s", None)
    )


def _forget_other_tests(module: str) -> None:
    """Remove the modules of tests but one, whose variables a session would take for the script's."""
    for name, loaded in list(sys.modules.items()):
        if (getattr(loaded, "__file__", None) or "").startswith(TESTS) and name not in (module, __name__):
            del sys.modules[name]


def _be(rank: int, count: int, path: Path, act: Callable[[Group], Result], write: Connection) -> None:
    torch.set_num_threads(1)
    _forget_other_tests(act.__module__)
    try:
        store = dist.FileStore(str(path), count)
        group = Group.form(Join(1, rank, count, 1, rank, count, "", 0), torch.device("cpu"), store)
        told = "", act(group)
    except BaseException:
        told = traceback.format_exc(), None
    write.send_bytes(pickle.dumps(told))
