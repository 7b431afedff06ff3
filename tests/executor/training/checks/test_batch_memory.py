"""A buffer that holds something of each batch is told from statistics, caches and what weights alone decide."""

import pytest
import torch
from coadapt.executor.training.checks.batch_memory import BatchMemory
from torch import nn
from torch.nn.utils import parametrizations


class Queue(nn.Module):
    def __init__(self, persistent: bool = True) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(4, 2), persistent=persistent)


def test_what_is_written_to_is_named() -> None:
    model = nn.Sequential(nn.Linear(2, 2), Queue())
    memory = BatchMemory([model])
    mark = memory.mark()
    assert memory.changed(mark) == ""
    model[1].keys[0] = 1.0
    assert memory.changed(mark) == "Queue.keys"


def test_what_is_replaced_is_named_and_put_back() -> None:
    model = Queue()
    memory, first = BatchMemory([model]), model.keys
    mark = memory.mark()
    model.keys = torch.ones(4, 2)
    assert memory.changed(mark) == "Queue.keys"
    memory.put_back(mark)
    assert model.keys is first


@pytest.mark.parametrize(
    "model",
    [
        nn.BatchNorm1d(3),
        nn.InstanceNorm1d(3, track_running_stats=True),
        Queue(persistent=False),
        parametrizations.spectral_norm(nn.Linear(3, 3)),
        torch.nn.utils.spectral_norm(nn.Linear(3, 3)),
        nn.Linear(3, 3),
    ],
)
def test_all_other_buffers_are_left_alone(model: nn.Module) -> None:
    assert not BatchMemory([model])
