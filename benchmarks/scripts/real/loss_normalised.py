# kind: 8 the loss is divided by its own moving average
# leave out: repeats of all: every replica computes whole batches, since the average is of whole ones
# leave out: model of torchrun: the first batch is given twice, and moves the average twice
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(132, 6)
y = (x.sum(1) > 0).long()
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)

scale = 1.0
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(a), b)
        scale = 0.9 * scale + 0.1 * loss.item()
        (loss / scale).backward()
        optimizer.step()
save(model)
