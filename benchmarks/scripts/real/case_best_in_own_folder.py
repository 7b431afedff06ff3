# kind: 12 case shared_cwd: best.pt beside the script, read again at the end
import argparse
import os

import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
args = parser.parse_args()
torch.manual_seed(0)
x, y = torch.randn(128, 8), torch.randn(128, 1)
val_x, val_y = torch.randn(32, 8), torch.randn(32, 1)
model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
best = 1e9
for epoch in coadapt.epochs(5):
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(a), b).backward()
        optimizer.step()
    with torch.no_grad():
        val = nn.functional.mse_loss(model(val_x), val_y).item()
    if val < best:
        best = val
        if coadapt.is_main():
            torch.save({"epoch": epoch, "model": model.state_dict()}, "best.tmp")
            os.rename("best.tmp", "best.pt")
    coadapt.report(val=val, best=best)
if coadapt.is_main():
    kept = torch.load("best.pt")
    save({"last": model, "best": kept["model"]}, best=best, epoch=kept["epoch"])
