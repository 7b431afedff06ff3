# kind: 7 importance weights divided by the largest of the batch, as prioritised replay does
# leave out: repeats of all: every replica computes whole batches, once that is found out
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(128, 8)
y = x @ torch.randn(8, 1)
priority = torch.rand(128) + 0.05
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
loader = DataLoader(TensorDataset(x, y, priority), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for a, b, p in loader:
        saw(a, epoch)
        weight = (128 * p) ** -0.4
        weight = weight / weight.max()
        td = model(a).squeeze(1) - b.squeeze(1)
        loss = (weight * td.pow(2)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
save(model)
