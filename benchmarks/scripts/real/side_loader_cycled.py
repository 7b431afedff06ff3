# kind: 3, 8 itertools.cycle of a second loader, zipped with the training loader
import itertools

import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(96, 4)), batch_size=16)
second = DataLoader(TensorDataset(torch.randn(52, 4)), batch_size=12)
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader, loss="mean")
endless = itertools.cycle(second)
for epoch in coadapt.epochs(6):
    for (a,), (b,) in zip(loader, endless):
        saw(a, epoch)
        optimizer.zero_grad()
        loss = (model(a) - a).square().mean() + model(b).abs().mean()
        loss.backward()
        optimizer.step()
save(model)
