# kind: 8 a layer is added to the model, and its parameters to the optimizer, at an epoch
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(128, 6)
y = x.sum(1, keepdim=True)
model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
loader = DataLoader(TensorDataset(x, y), batch_size=16)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(5):
    if epoch == 2:
        layer = nn.Linear(8, 8)
        nn.init.eye_(layer.weight)
        nn.init.zeros_(layer.bias)
        model.insert(2, layer)
        optimizer.add_param_group({"params": layer.parameters(), "lr": 0.02})
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        F.mse_loss(model(a), b).backward()
        optimizer.step()
save(model)
