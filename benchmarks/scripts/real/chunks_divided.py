# kind: 7 each batch is cut into four chunks, and each loss divided by four
# leave out: repeats of all: every replica computes whole batches, as parts are cut into fewer or uneven ones
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(128, 6)
y = (x.sum(1) > 0).long()
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        for c, d in zip(a.chunk(4), b.chunk(4)):
            (F.cross_entropy(model(c), d) / 4).backward()
        optimizer.step()
save(model)
