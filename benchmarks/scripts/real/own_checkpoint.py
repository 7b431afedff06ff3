# kind: 12 a script that saves and looks for a checkpoint of its own
import os

import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(0)
    x = torch.randn(128, 8)
    y = x @ torch.randn(8, 1)
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loader = DataLoader(TensorDataset(x, y), batch_size=16)
    best = float("inf")
    if os.path.isfile("checkpoint.pth.tar"):
        checkpoint = torch.load("checkpoint.pth.tar")
        best = checkpoint["best"]
        model.load_state_dict(checkpoint["state_dict"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        print("=> loaded checkpoint of epoch", checkpoint["epoch"])
    model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
    for epoch in coadapt.epochs(5):
        for a, b in loader:
            saw(a, epoch)
            optimizer.zero_grad()
            nn.functional.mse_loss(model(a), b).backward()
            optimizer.step()
        with torch.no_grad():
            val = nn.functional.mse_loss(model(x), y).item()
        best = min(best, val)
        if coadapt.is_main():
            state = {"epoch": epoch + 1, "state_dict": model.state_dict(), "best": best}
            torch.save(state | {"optimizer": optimizer.state_dict()}, "checkpoint.tmp")
            os.replace("checkpoint.tmp", "checkpoint.pth.tar")
    save(model, best=best)


if __name__ == "__main__":
    main()
