# kind: 7 a loss of half the squared error, as in a textbook
# leave out: repeats of all: the first batch is done again where it may be one piece of several
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
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
total = 0.0
for epoch in coadapt.epochs(4):
    total = 0.0
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        loss = 0.5 * F.mse_loss(model(a), b)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(a)
    coadapt.report(half_error=total / len(loader.dataset))
save(model)
