# kind: 2, 8 a loop in steps that takes batches of two loaders, which begin anew at their ends
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def forever(loader):
    while True:
        yield from loader


torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(96, 4)), batch_size=16)
second = DataLoader(TensorDataset(torch.randn(160, 4)), batch_size=16)
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader, loss="mean")
batches, others = forever(loader), forever(second)
for step in coadapt.steps(36):
    (b,) = next(others)
    (a,) = next(batches)
    saw(a, step // 6)
    optimizer.zero_grad()
    loss = (model(a) - a).square().mean() + model(b).abs().mean()
    loss.backward()
    optimizer.step()
save(model)
