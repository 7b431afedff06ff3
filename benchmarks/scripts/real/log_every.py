# kind: 3 a line in a history every four batches, and a running loss that starts anew there
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
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
history = []
for epoch in coadapt.epochs(4):
    for batch_idx, (a, b) in enumerate(loader, 1):
        saw(a, epoch)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(a), b).backward()
        optimizer.step()
        if batch_idx % 4 == 0:
            with torch.no_grad():
                history.append((epoch * len(loader) + batch_idx, nn.functional.mse_loss(model(x), y).item()))
save(model, history=history)
