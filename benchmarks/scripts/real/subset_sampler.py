# kind: 8 SubsetRandomSampler over a part of the data, as for cross-validation
import coadapt
import numpy as np
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, SubsetRandomSampler, TensorDataset

torch.manual_seed(0)
np.random.seed(0)
x = torch.randn(160, 8)
y = x @ torch.randn(8, 1)
indices = np.random.permutation(160)
train, val = indices[32:], indices[:32]
data = TensorDataset(torch.arange(160), x, y)
sampler = SubsetRandomSampler(train.tolist(), generator=torch.Generator().manual_seed(1))
loader = DataLoader(data, batch_size=16, sampler=sampler)
val_loader = DataLoader(data, batch_size=32, sampler=val.tolist())
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for i, a, b in loader:
        saw(i, epoch)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(a), b).backward()
        optimizer.step()
    with torch.no_grad():
        coadapt.report(val=sum(nn.functional.mse_loss(model(a), b).item() for _, a, b in val_loader))
save(model)
