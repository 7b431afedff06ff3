# kind: 4 indices from a sampler, put together by hand
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import RandomSampler

torch.manual_seed(0)
x = torch.randn(100, 8)
y = x @ torch.randn(8, 1)
sampler = RandomSampler(range(100), generator=torch.Generator().manual_seed(5))
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
indices = coadapt.batches(sampler, batch_size=10)
model, optimizer, indices = coadapt.prepare(model, optimizer, indices)
for epoch in coadapt.epochs(4):
    for chosen in indices:
        saw(chosen, epoch)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x[chosen]), y[chosen]).backward()
        optimizer.step()
save(model)
