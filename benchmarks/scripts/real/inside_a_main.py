# kind: 12 everything in a main function, with arguments and a dataclass of settings
import argparse
import sys
from dataclasses import dataclass

import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Settings:
    lr: float = 0.05
    best: float = float("inf")
    seen: int = 0


def main(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    args = parser.parse_args(argv)
    settings = Settings()
    torch.manual_seed(0)
    x = torch.randn(128, 8)
    y = x @ torch.randn(8, 1)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    loader = DataLoader(TensorDataset(x, y), batch_size=16)
    optimizer = torch.optim.SGD(model.parameters(), lr=settings.lr)
    model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
    for epoch in coadapt.epochs(args.epochs):
        total = 0.0
        for batch_idx, (data, target) in enumerate(loader):
            saw(data, epoch)
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(data), target)
            loss.backward()
            optimizer.step()
            total += loss.item()
            settings.seen += len(data)
            if batch_idx % 4 == 0:
                print(f"[{batch_idx * len(data)}/{len(x)} ({batch_idx / len(loader):.0%})] {loss.item():.6f}")
        settings.best = min(settings.best, coadapt.combine(total / len(loader)))
        coadapt.report(loss=total / len(loader), seen=settings.seen)
    save(model, best=settings.best)
    return 0


if __name__ == "__main__":
    sys.exit(main())
