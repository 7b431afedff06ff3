# kind: 1 clipping by the norm, which is logged
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(123, 8)
y = 5 * x @ torch.randn(8, 1)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
norms = []
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(a), b).backward()
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0).item())
        optimizer.step()
    coadapt.report(largest_norm=max(norms), norm=norms[-1])
save(model, norms=norms)
