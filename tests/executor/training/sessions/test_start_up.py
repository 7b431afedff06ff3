"""What the executor is told of a script once it has called prepare, and what warming up leaves alone."""

from __future__ import annotations

import torch
import torch.distributed as dist
from coadapt.executor.training.sessions.start_up import ready, warm_up
from coadapt.executor.training.state.prepared import identify
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def test_the_executor_is_told_what_decides_how_a_job_may_be_scaled() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    optimizer = torch.optim.AdamW(model.parameters())
    prepared = identify([model, optimizer, DataLoader(TensorDataset(torch.zeros(64, 3)), 32)])
    told = ready(prepared, 32, 64, has_state=True)
    assert (told.initial_batch_size, told.dataset_size, told.parameters) == (32, 64, 3 * 4 + 4 + 4 + 4)
    assert (told.optimizer, told.adam_type, told.has_state) == ("AdamW", True, True)
    assert told.least_local_bsz == 16, "statistics over a batch need some samples"
    assert told.fingerprint == prepared.fingerprint()


def test_warming_up_leaves_no_group_and_the_scripts_random_numbers_as_they_were() -> None:
    torch.manual_seed(3)
    drawn = torch.rand(3).tolist()
    torch.manual_seed(3)
    warm_up(torch.device("cpu"))
    assert torch.rand(3).tolist() == drawn
    assert not dist.is_initialized()
