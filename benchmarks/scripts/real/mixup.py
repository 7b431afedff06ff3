# kind: 7 mixup: each sample is blended with another of its batch, by a share drawn from numpy
import coadapt
import numpy as np
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
rng = np.random.default_rng(0)
x = torch.randn(128, 6)
y = (x.sum(1) > 0).long()
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(3):
    for a, b in loader:
        saw(a, epoch)
        share = float(rng.beta(0.4, 0.4))
        other = torch.arange(len(a) - 1, -1, -1)
        out = model(share * a + (1 - share) * a[other])
        loss = share * F.cross_entropy(out, b) + (1 - share) * F.cross_entropy(out, b[other])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
save(model)
