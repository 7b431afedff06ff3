# kind: 7 online hard example mining: only the half of a batch with the largest losses counts
# leave out: repeats of all: every replica computes whole batches, as the worst half of a batch is that of no part
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(128, 6)
y = (x[:, 0] * x[:, 1] > 0).long()
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        losses = F.cross_entropy(model(a), b, reduction="none")
        loss = losses.topk(len(losses) // 2).values.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
save(model)
