"""`python -m coadapt.executor.training.process script args…`: runs a training script and reports how it ends.

The script runs as `__main__` in the main thread, as if started by itself. Only its end is watched. The process
dies with the worker that started it.
A template (`template.py`) forks such a process without starting Python anew.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import re
import runpy
import signal
import sys
import threading
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import NoReturn

import torch

from ..protocol import messages
from ..protocol.messages import Crashed, Finished, Left, Profiled
from . import api
from .collective.group import Abandoned, leave_group
from .sessions.catching_up import Unfit
from .sessions.channel import Channel
from .sessions.group_session import GroupSession
from .sessions.managed_session import ManagedSession
from .sessions.membership import Leaving
from .sessions.profile_session import ProfileSession
from .sessions.provisions import use_first_cores
from .sessions.trials_session import TrialsSession
from .sharding.shards import comes_of_a_lost_peer
from .state.checkpoint_errors import StorageError
from .tracking.forwarding import END_S, LEAVE_S
from .variables.whole_values import watch_norms

_PACKAGE = str(Path(__file__).parents[2])
_PR_SET_PDEATHSIG = 1
TRACEBACK_CHARACTERS = 20_000
SUMMARY_CHARACTERS = 500
OF_JOBS = (ManagedSession, TrialsSession)


def main(arguments: Sequence[str]) -> int:
    """Run `script args…`; returns the exit status of the process."""
    if not arguments:
        print("usage: python -m coadapt.executor.training.process script args…", file=sys.stderr)
        return 2
    if messages.CHANNEL_FD not in os.environ:
        print(
            f"{messages.CHANNEL_FD} is not set; run the script by itself: python {arguments[0]}", file=sys.stderr
        )
        return 2
    die_with(os.getppid())
    return serve(arguments[0], arguments[1:], int(os.environ.pop(messages.CHANNEL_FD)))


def serve(script: str, arguments: Sequence[str], channel_fd: int) -> int:
    """Run the script for whoever holds the other end of the channel; returns the exit status of the process."""
    channel = Channel(channel_fd)
    api.use_channel(channel)
    if (
        os.environ.get("RANK") == "0"
    ):  # as far as is known yet; another process that becomes it finds the same runs
        api.trackers().begin()
    be_alone_until_joined()
    use_first_cores()
    watch_norms()
    event = run_script(script, arguments)
    leave_group()
    api.trackers().end(not isinstance(event, Crashed), LEAVE_S if isinstance(event, Left) else END_S)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    channel.send(event)
    return 1 if isinstance(event, Crashed) else 0


def run_script(script: str, arguments: Sequence[str]) -> Finished | Left | Crashed | Profiled:
    """Run the script to its end, however it ends, and return how that was."""
    sys.argv = [script, *arguments]
    # The script's folder takes the place of the current one, which `-m` put first: as with `python script`.
    sys.path[0] = str(Path(script).resolve().parent)
    try:
        try:
            runpy.run_path(script, run_name="__main__")
        except SystemExit as exit:
            if exit.code not in (None, 0):
                return left_unseen() or exited(script, exit.code)
        if isinstance(training := api.current(), GroupSession):
            training.raise_failure()
        return left_unseen() or ended(script)
    except Leaving as leaving:
        return left(leaving)
    except Abandoned:
        return left(Leaving())
    except BaseException as error:
        if messages.SHARDS in os.environ and comes_of_a_lost_peer(error):
            print(f"coadapt: another process of this replica is gone: {summary_of(error)}", file=sys.stderr)
            return Crashed("another process of this replica is gone", "", peer_lost=True)
        return left_unseen() or crashed(error)


def ended(script: str) -> Finished | Crashed | Profiled:
    """Return how the script ended that came to its end by itself: whether its training ended, too."""
    name = Path(script).name
    training = api.current()
    if training is None:
        return _unfinished(f"{name} never called coadapt.prepare")
    if isinstance(training, ProfileSession) and training.sizes.largest is not None:
        return Profiled(None, done=True)  # it ended by itself, with what was measured by then
    if not isinstance(training, OF_JOBS):
        return _unfinished(
            f"{name} ended before it was profiled; does it iterate the loader that prepare returned?"
        )
    position = training.position
    if not training.counts:
        return _unfinished(f"{name} never iterated coadapt.epochs or coadapt.steps")
    if training.disagreement:
        return _unfinished(training.disagreement)
    if position.steps == 0:
        return _unfinished(f"{name} took no training step")
    early = "" if training.done else training.where
    training.finish()
    if training.disagreement and training.rank != 0:  # rank 0, and no other, decides for all
        return _unfinished(training.disagreement)
    return Finished(position.steps, position.target_reached, dict(training.metrics.combined), early)


def left(leaving: Leaving) -> Left | Crashed | Profiled:
    training = api.current()
    if leaving.refused is not None:
        return crashed(leaving.refused)
    if isinstance(training, OF_JOBS):
        return Left(training.position.steps, leaving.saved)
    return Profiled(None, done=True)


def left_unseen() -> Left | Crashed | Profiled | None:
    """Return how this process leaves the job where the script has caught that, as by a bare `except`.

    None: it does not leave.
    """
    training = api.current()
    leaving = training.leaving if isinstance(training, OF_JOBS) else None
    return left(leaving) if leaving is not None else None


def exited(script: str, code: object) -> Crashed:
    """Return how the script ended that called `sys.exit` with another status than 0, or with a message."""
    name = Path(script).name
    said = f"{name} exited with status {code}" if isinstance(code, int) else str(code)
    return _unfinished(said)


def crashed(error: BaseException) -> Crashed:
    out_of_memory = is_out_of_memory(error)
    training = api.current()
    if out_of_memory and isinstance(training, ProfileSession) and training.trying is not None:
        # Profiling goes to find this: it is no mistake of the script, and its log shows none.
        sentence = f"a local batch of {training.trying} samples does not fit in memory"
        print(sentence, file=sys.stderr)
        return Crashed(sentence, "", out_of_memory)
    if isinstance(error, StorageError):
        print(f"coadapt: {error}", file=sys.stderr)
        return Crashed(str(error), "", storage=True)
    summary = summary_of(error)
    if isinstance(error, SyntaxError):
        summary = f"SyntaxError: {error.msg} ({Path(error.filename or '').name}, line {error.lineno})"
    # A script that does not even compile has no frames of its own.
    frames = None if isinstance(error, SyntaxError) else users_frames(error.__traceback__)
    text = "".join(traceback.format_exception(type(error), error, frames))
    sys.stderr.write(text)
    return Crashed(summary, text[-TRACEBACK_CHARACTERS:], out_of_memory, isinstance(error, Unfit))


def summary_of(error: BaseException) -> str:
    """Return the exception's type and the first line of what it says, as `RuntimeError: my bug`.

    An error of ours is a whole sentence without its type.
    """
    lines = [line.strip() for line in "".join(traceback.format_exception_only(error)).splitlines() if line.strip()]
    # A message may begin with an empty line: then the type stands alone.
    summary = f"{lines[0]} {lines[1]}" if len(lines) > 1 and re.fullmatch(r"[\w.]+:", lines[0]) else lines[0]
    summary = re.sub(r"^coadapt\.[\w.]+: ", "", summary)
    return summary if len(summary) <= SUMMARY_CHARACTERS else summary[: SUMMARY_CHARACTERS - 1] + "…"


def is_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    text = str(error).lower()
    signs = ("out of memory", "can't allocate memory", "status_alloc_failed")  # CUDA, the CPU, cuBLAS and cuDNN
    return isinstance(error, RuntimeError) and any(sign in text for sign in signs)


def users_frames(trace: TracebackType | None) -> TracebackType | None:
    """Return the traceback from the script on, without the frames that started it."""
    first = trace
    while first is not None:
        file = first.tb_frame.f_code.co_filename
        if not (file.startswith(_PACKAGE + os.sep + "executor") or "runpy" in file):
            return first
        first = first.tb_next
    return trace


def die_with(parent: int) -> None:
    """End this process when its parent ends, however that ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it was gone before we asked
        os._exit(1)


def be_alone_until_joined() -> None:
    """Let a script that sets up its own process group, as DDP scripts do, make one of this process only.

    `prepare` replaces it by the job's group, whose members are not known before. A process of a sharded replica
    makes a group with the others of its replica, as its worker says.
    """
    if messages.SHARDS in os.environ:
        return
    os.environ.update(RANK="0", WORLD_SIZE="1", LOCAL_WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    os.environ.setdefault("LOCAL_RANK", "0")
    os.environ.pop("TORCHELASTIC_USE_AGENT_STORE", None)


def leave(status: int) -> NoReturn:
    """End the process as at a script's end, but without tearing the interpreter down.

    Native threads of torch's groups may outlive Python's objects. Unloading under them may abort it.
    """
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status)


def _unfinished(sentence: str) -> Crashed:
    print(sentence, file=sys.stderr)
    return Crashed(sentence, sentence)


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
