# kind: 7 a term of the labelled samples, where the batch has any
# leave out: repeats of all: batches may be done again as a whole to find out what the loss is
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(128, 8)
y, c = x.sum(1, keepdim=True), x[:, :3].argmax(1)
n = torch.arange(128)
kind = (n // 16) % 4
labelled = torch.where(kind < 2, (n % 8 < 4 - kind) | (n % 16 == 7), torch.where(kind == 2, n < 0, n % 2 == 0))
c[~labelled] = -1  # labels all over a batch, in none of it, or among its first samples
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
loader = DataLoader(TensorDataset(x, y, c), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for a, b, k in loader:
        saw(a, epoch)
        out = model(a)
        loss = F.mse_loss(out[:, :1], b)
        if (k >= 0).any():
            loss = loss + F.cross_entropy(out[:, 1:], k, ignore_index=-1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
save(model)
