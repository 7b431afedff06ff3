# kind: 9 case infinite_sampler: a sampler without an end, iterations counted by the loop
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, Sampler, TensorDataset


class TrainingSampler(Sampler):
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        generator = torch.Generator().manual_seed(0)
        while True:
            yield from torch.randperm(self.n, generator=generator).tolist()


torch.manual_seed(0)
x = torch.randn(128, 8)
y = x @ torch.randn(8, 1)
model = nn.Linear(8, 1)
loader = DataLoader(TensorDataset(torch.arange(128), x, y), batch_size=16, sampler=TrainingSampler(128))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(1):
    for i, (n, a, b) in enumerate(loader):
        saw(n, epoch)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(a), b)
        loss.backward()
        optimizer.step()
        if i == 40:
            break
save(model, last=i)
