# kind: 1 an optimizer for each parameter, that steps in a hook after its gradient is there
# expect: refused all: gradients of all replicas are there only after backward
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
optimizers = {p: torch.optim.SGD([p], lr=0.05) for p in model.parameters()}
model, loader, *_ = coadapt.prepare(model, loader, *optimizers.values())


def step(p):
    optimizers[p].step()
    optimizers[p].zero_grad()


for p in model.parameters():
    p.register_post_accumulate_grad_hook(step)
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        nn.functional.mse_loss(model(a), b).backward()
save(model)
