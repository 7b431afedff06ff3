# kind: 7 a loss whose weights are a softmax over the batch
# leave out: repeats of all: every replica computes whole batches, as weights add up to 1 in each
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(128, 8)
y = x @ torch.randn(8, 1)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        each = (model(a) - b).square().squeeze(1)
        loss = (torch.softmax(each.detach(), 0) * each).sum()
        loss.backward()
        optimizer.step()
save(model)
