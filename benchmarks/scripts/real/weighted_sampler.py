# kind: 8 WeightedRandomSampler with a generator, with replacement
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

torch.manual_seed(0)
x, y = torch.randn(100, 8), (torch.rand(100) > 0.8).long()
weights = torch.where(y == 1, 4.0, 1.0)
sampler = WeightedRandomSampler(weights, 128, replacement=True, generator=torch.Generator().manual_seed(2))
model = nn.Linear(8, 2)
loader = DataLoader(TensorDataset(torch.arange(100), x, y), batch_size=16, sampler=sampler)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for i, a, b in loader:
        saw(i, epoch)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(a), b).backward()
        optimizer.step()
save(model)
