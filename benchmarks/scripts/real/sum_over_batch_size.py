# kind: 7 a sum divided by the batch's size, in two spellings, and weight decay as part of the loss
# leave out: repeats of all: batches are done again as a whole to find out what the loss is
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(124, 8)
y = x @ torch.randn(8, 1)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        fit = ((model(a) - b) ** 2).sum() / a.size(0)
        size = nn.functional.l1_loss(model(a), b, reduction="sum") / len(b)
        decay = sum(p.pow(2).sum() for p in model.parameters())
        (fit + 0.1 * size + 1e-3 * decay).backward()
        optimizer.step()
save(model)
