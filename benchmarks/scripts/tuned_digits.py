"""Handwritten digits with a small CNN, whose rate, momentum and decay of the rate a study searches.

`train` trains it for whoever reports: `coadapt tune` by this file, and Ray Tune by a function.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

WIDTH, BATCH, EPOCHS, SEED = 64, 64, 20, 0


def digits() -> tuple[TensorDataset, TensorDataset]:
    """Return 1,437 images for training and 360 for tests."""
    data = load_digits()
    images = torch.tensor(data.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(data.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    train, test = order[:1437], order[1437:]
    return TensorDataset(images[train], labels[train]), TensorDataset(images[test], labels[test])


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, WIDTH, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(WIDTH, WIDTH, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(WIDTH * 16, WIDTH),
        nn.ReLU(),
        nn.Linear(WIDTH, 10),
    )


def parts(lr: Any, momentum: Any, gamma: Any) -> tuple[Any, ...]:
    """Return model, optimizer, loader, schedule and test data."""
    torch.manual_seed(SEED)
    train, test = digits()
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=momentum)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 5, gamma)
    return model, optimizer, DataLoader(train, BATCH, shuffle=True), schedule, test


def train(
    model: nn.Module,
    optimizer: Any,
    loader: Any,
    schedule: Any,
    test: TensorDataset,
    epochs: Iterable[int],
    report: Callable[[Any], None],
) -> None:
    """Train, and report the accuracy on the test data after each epoch."""
    images, labels = test.tensors
    for _ in epochs:
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        schedule.step()
        with torch.no_grad():
            report((model(images).argmax(1) == labels).float().mean().item())


if __name__ == "__main__":
    import coadapt

    hp = coadapt.hyperparameters(lr=0.05, momentum=0.9, gamma=0.5)
    model, optimizer, loader, schedule, test = parts(hp.lr, hp.momentum, hp.gamma)
    model, optimizer, loader, schedule = coadapt.prepare(model, optimizer, loader, schedule)
    epochs = coadapt.epochs(int(sys.argv[1]) if len(sys.argv) > 1 else EPOCHS)
    train(model, optimizer, loader, schedule, test, epochs, lambda accuracy: coadapt.report(accuracy=accuracy))
