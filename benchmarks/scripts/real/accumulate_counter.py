# kind: 3 accumulation by a counter of one's own
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(0)
    x = torch.randn(128, 8)
    y = x @ torch.randn(8, 1)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    loader = DataLoader(TensorDataset(x, y), batch_size=8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
    accumulated, global_step = 0, 0
    optimizer.zero_grad()
    for epoch in coadapt.epochs(6):
        for a, b in loader:
            saw(a, epoch)
            (nn.functional.mse_loss(model(a), b) / 3).backward()
            accumulated += 1
            if accumulated == 3:  # 16 batches an epoch: it goes on over the end of one
                optimizer.step()
                optimizer.zero_grad()
                accumulated = 0
                global_step += 1
    save(model, steps=global_step, left=accumulated)


main()
