# kind: 7 prototypical networks: each batch is an episode, samples by class, one support and three queries of each
# leave out: repeats of all: every replica computes whole batches, since an episode is one batch
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(8, 4, 4, 6) + torch.randn(8, 4, 1, 6)  # episodes, ways, samples
x = x.view(128, 6)
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 5))
loader = DataLoader(TensorDataset(x), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
ways = 4
for epoch in coadapt.epochs(4):
    for (a,) in loader:
        saw(a, epoch)
        z = model(a).view(ways, -1, 5)
        prototypes, queries = z[:, :1].mean(1), z[:, 1:].reshape(-1, 5)
        target = torch.arange(ways).repeat_interleave(z.size(1) - 1)
        loss = F.cross_entropy(-torch.cdist(queries, prototypes).pow(2), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
save(model)
