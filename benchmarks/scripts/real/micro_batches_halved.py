# kind: 7 micro-batches of eight samples, half a batch each, and each loss divided by two
# leave out: repeats of all: a batch is done again to see its pieces, where a part is no larger than one of them
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(128, 6)
y = x.sum(1, keepdim=True)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
pieces = 2
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        for i in range(0, len(a), 8):
            loss = F.mse_loss(model(a[i : i + 8]), b[i : i + 8]) / pieces
            loss.backward()
        optimizer.step()
save(model)
