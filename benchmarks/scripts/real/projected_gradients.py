# kind: 1 gradients of two tasks by autograd.grad, projected where they conflict
# leave out: repeats of all: every replica computes whole batches, as what is reckoned from gradients is no sum
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(128, 6)
y = (x.sum(1) > 0).long()
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)

t = x[:, :1] * 2
data = TensorDataset(x, y, t)
params = list(model.parameters())
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        out = model(a)
        l1 = F.cross_entropy(out, b)
        l2 = F.mse_loss(out[:, :1], a[:, :1] * 2)
        g1 = torch.autograd.grad(l1, params, retain_graph=True)
        g2 = torch.autograd.grad(l2, params)
        dot = sum((p * q).sum() for p, q in zip(g1, g2))
        if dot < 0:
            n = sum((q * q).sum() for q in g2)
            g1 = [p - dot / n * q for p, q in zip(g1, g2)]
        for p, u, v in zip(params, g1, g2):
            p.grad = u + v
        optimizer.step()
save(model)
