# kind: 11 averaged weights in a plain dictionary that prepare is not given
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
    loader = DataLoader(TensorDataset(x, y), batch_size=16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
    average = {name: p.detach().clone() for name, p in model.named_parameters()}
    for epoch in coadapt.epochs(4):
        for a, b in loader:
            saw(a, epoch)
            optimizer.zero_grad()
            nn.functional.mse_loss(model(a), b).backward()
            optimizer.step()
            with torch.no_grad():
                for name, p in model.named_parameters():
                    average[name].lerp_(p, 0.1)
    save({"model": model, "ema": average})


main()
