# kind: 11 averages of all weights in one vector that is replaced, and in a tuple
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.nn.utils import parameters_to_vector
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(128, 8)
y = x @ torch.randn(8, 1)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
vector = parameters_to_vector(model.parameters()).detach()
fixed = tuple(p.detach().clone() for p in model.parameters())
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        F.mse_loss(model(a), b).backward()
        optimizer.step()
        with torch.no_grad():
            vector = 0.9 * vector + 0.1 * parameters_to_vector(model.parameters())
            for average, p in zip(fixed, model.parameters()):
                average.lerp_(p, 0.05)
save({"model": model, "vector": {"all": vector}, "tuple": {str(i): t for i, t in enumerate(fixed)}})
