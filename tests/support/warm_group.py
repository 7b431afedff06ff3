"""Training processes that have torch already: forks of one Python that imported it."""

from __future__ import annotations

import importlib
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from coadapt.executor.protocol import messages
from coadapt.executor.rehearsal.group import TrainingGroup

from tests.support.warm_python import Forked, become

# Plain scripts, with which jobs are compared, are forked where nothing of these is.
OURS = ("coadapt.executor.training.process", "coadapt.executor.rehearsal.rehearsed", __name__)


class WarmGroup(TrainingGroup):
    """Fork the processes of a job instead of starting Python anew for each.

    modules: those that they have imported already, beside torch.
    """

    def __init__(self, *args: Any, modules: tuple[str, ...] = OURS, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._modules = modules

    def _launch(self, environment: dict[str, str], channel: socket.socket, log: Path) -> Any:
        log.touch()  # it is read of a process that was killed at once, too
        with Connection(channel.detach()) as end:
            request = self._module, [str(self.script), *self.args], environment, self._cwd or Path.cwd(), log, end
            return Forked(_train, *request, modules=self._modules)


def _train(
    module: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    cwd: Path,
    log: Path,
    channel: Connection,
) -> None:
    """Do what `python -u -m module arguments…` does in a fresh process."""
    from coadapt.executor.training import process

    os.setsid()
    output = os.open(log, os.O_WRONLY | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(output, stream)
    for text in (sys.stdout, sys.stderr):
        text.reconfigure(write_through=True)
    become({**environment, messages.CHANNEL_FD: str(os.dup(channel.fileno()))}, cwd)
    channel.close()
    sys.path.insert(0, "")
    process.leave(importlib.import_module(module).main(arguments))
