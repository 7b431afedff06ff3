# kind: 8 the learning rate is searched for on a copy before training, the best one is kept
import copy

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


def loss_with(lr):
    trial = copy.deepcopy(model)
    optimizer = torch.optim.SGD(trial.parameters(), lr=lr)
    for a, b in loader:
        optimizer.zero_grad()
        loss = F.mse_loss(trial(a), b)
        loss.backward()
        optimizer.step()
    return loss.item()


best = min([0.3, 0.1, 0.01], key=loss_with)
optimizer = torch.optim.SGD(model.parameters(), lr=best)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        F.mse_loss(model(a), b).backward()
        optimizer.step()
save(model, best=best)
