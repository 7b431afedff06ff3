# kind: 1 inner steps by autograd.grad and functional_call, as in MAML
# leave out: repeats of all: every replica computes whole batches, as a sum over tasks shows in no graph
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.func import functional_call
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
tasks = torch.randn(64, 1) * 2
model = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
loader = DataLoader(TensorDataset(tasks), batch_size=8)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
grid = torch.linspace(-2, 2, 10)[:, None]
for epoch in coadapt.epochs(4):
    for (batch,) in loader:
        saw(batch, epoch)
        optimizer.zero_grad()
        meta = 0.0
        for task in batch:
            target = torch.sin(grid + task)
            params = dict(model.named_parameters())
            inner = F.mse_loss(functional_call(model, params, grid), target)
            grads = torch.autograd.grad(inner, params.values(), create_graph=True)
            fast = {n: p - 0.1 * g for (n, p), g in zip(params.items(), grads)}
            meta = meta + F.mse_loss(functional_call(model, fast, grid), target)
        (meta / len(batch)).backward()
        optimizer.step()
save(model)
