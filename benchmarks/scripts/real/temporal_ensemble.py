# kind: 8 targets that are a moving average of the predictions for each sample
# leave out: repeats of all: every replica computes whole batches, since each sample has its row
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
loader = DataLoader(TensorDataset(torch.arange(132), x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
targets = torch.full((132, 2), 0.5)
for epoch in coadapt.epochs(4):
    for idx, a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        out = model(a)
        loss = F.cross_entropy(out, b) + F.mse_loss(out.softmax(1), targets[idx])
        targets[idx] = 0.6 * targets[idx] + 0.4 * out.softmax(1).detach()
        loss.backward()
        optimizer.step()
save(model)
