# kind: 11 center loss: an own optimizer for the centers of classes, which are no part of the model given
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, c = torch.randn(120, 8), torch.randint(0, 3, (120,))
body, head = nn.Sequential(nn.Linear(8, 4), nn.Tanh()), nn.Linear(4, 3)
model = nn.ModuleDict({"body": body, "head": head})
centers = nn.Parameter(torch.randn(3, 4))
loader = DataLoader(TensorDataset(x, c), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
center_optimizer = torch.optim.SGD([centers], lr=0.5)
model, optimizer, center_optimizer, loader = coadapt.prepare(model, optimizer, center_optimizer, loader)
for epoch in coadapt.epochs(4):
    for a, k in loader:
        saw(a, epoch)
        features = model["body"](a)
        loss = nn.functional.cross_entropy(model["head"](features), k)
        loss = loss + 0.1 * (features - centers[k]).pow(2).sum(1).mean()
        optimizer.zero_grad()
        center_optimizer.zero_grad()
        loss.backward()
        for p in [centers]:
            p.grad.data *= 1 / 0.1
        optimizer.step()
        center_optimizer.step()
save({"model": model, "centers": {"c": centers}})
