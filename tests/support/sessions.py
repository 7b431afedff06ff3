"""A small script and the session behind it, for processes of `on_ranks`: a session changes what Python has."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # the first optimizer of each forked process would import it
from coadapt.core.batch_plan import BatchPlan
from coadapt.core.training_config import TrainingConfig
from coadapt.executor.protocol.messages import CHECKPOINT_URL, Join
from coadapt.executor.training.collective.group import Group
from coadapt.executor.training.sessions.group_session import GroupSession
from coadapt.executor.training.sessions.managed_session import ManagedSession
from coadapt.executor.training.state.prepared import identify
from coadapt.executor.training.tracking.forwarding import Trackers
from torch import Tensor, nn
from torch.distributed import TCPStore
from torch.utils.data import DataLoader, TensorDataset

from tests.support.channels import Executor


class Script:
    """A linear model of one weight, whose samples are 0, 1, 2, … in order."""

    def __init__(self, samples: int = 12, batch: int = 4, **loader: Any) -> None:
        torch.manual_seed(0)
        self.model = nn.Linear(1, 1, bias=False)
        nn.init.ones_(self.model.weight)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.001)
        data = TensorDataset(torch.arange(float(samples)).view(-1, 1))
        self.loader = DataLoader(data, batch, **loader)
        self.prepared = identify([self.model, self.optimizer, self.loader])
        self.seen: list[list[int]] = []  # samples of each part that was given

    def take(self, batch: list[Tensor]) -> Tensor:
        """Note what was given; return the loss, a mean over samples."""
        self.seen.append(batch[0].flatten().int().tolist())
        return self.model(batch[0]).mean()

    def train(self, batch: list[Tensor]) -> None:
        self.optimizer.zero_grad()
        self.take(batch).backward()
        self.optimizer.step()

    def train_all(self, numbers: Iterable[int]) -> None:
        """Train one epoch after the other."""
        for _ in numbers:
            for batch in self.loader:
                self.train(batch)

    @property
    def weight(self) -> float:
        return float(self.model.weight.detach())


def weight_alone(script: Script, epochs: int) -> float:
    """Return the weight after a script has trained without a session."""
    script.train_all(range(epochs))
    return script.weight


def session_of(script: Script, plan: BatchPlan | None = None, group: Group | None = None) -> GroupSession:
    """Return a session without an executor, in a group if there is one."""
    session = GroupSession(script.prepared, TrainingConfig())
    session.peers.group = group
    if group is not None:
        session.gradients.attach(group)
    else:
        session.gradients.parameters_changed()
    if plan is not None:
        session.scale.plan = plan
    return session


class Managed(Executor):
    """A managed session and its executor's end of the channel."""

    def __init__(
        self, script: Script, checkpoints: Path | None = None, trackers: Trackers | None = None, **config: Any
    ) -> None:
        super().__init__()
        os.environ.pop(CHECKPOINT_URL, None)
        if checkpoints is not None:
            os.environ[CHECKPOINT_URL] = str(checkpoints)
        self.script = script
        self.session = ManagedSession(
            script.prepared, TrainingConfig.model_validate(config), self.channel, trackers=trackers
        )
        self.store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)

    def join(self, generation: int, batch: BatchPlan | None = None, alone: bool = True) -> Join:
        """Return the command to be a group by itself or, else, to wait for one more."""
        size = 1 if alone else 2
        return Join(generation, 0, size, 1, 0, size, "127.0.0.1", self.store.port, batch)

    def started(self, batch: BatchPlan | None = None) -> Managed:
        """Begin to train alone, in generation 1."""
        self.send(self.join(1, batch))
        self.session.start()
        return self
