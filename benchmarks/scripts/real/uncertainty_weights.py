# kind: 11 two tasks whose weights are parameters of the script, in the optimizer and in no module
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(128, 6)
y, z = x.sum(1, keepdim=True), (x[:, 0] > 0).long()
body, one, two = nn.Sequential(nn.Linear(6, 16), nn.Tanh()), nn.Linear(16, 1), nn.Linear(16, 2)
log_vars = nn.Parameter(torch.zeros(2))
model = nn.ModuleList([body, one, two])
optimizer = torch.optim.SGD([*model.parameters(), log_vars], lr=0.05)
loader = DataLoader(TensorDataset(x, y, z), batch_size=16)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for a, b, c in loader:
        saw(a, epoch)
        h = model[0](a)
        losses = torch.stack([F.mse_loss(model[1](h), b), F.cross_entropy(model[2](h), c)])
        loss = (torch.exp(-log_vars) * losses + log_vars).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
save({"model": model, "weights": {"log_vars": log_vars}})
