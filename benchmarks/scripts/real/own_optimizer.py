# kind: 11 an optimizer of the script's own: signs of a moving average, with steps counted in its state
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.99)):
        super().__init__(params, {"lr": lr, "betas": betas})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["m"] = torch.zeros_like(p)
                    state["steps"] = 0
                one, two = group["betas"]
                update = state["m"] * one + p.grad * (1 - one)
                p.add_(torch.tanh(50 * update), alpha=-group["lr"])
                state["m"].mul_(two).add_(p.grad, alpha=1 - two)
                state["steps"] += 1


torch.manual_seed(0)
x = torch.randn(132, 6)
y = (x.sum(1) > 0).long()
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
decay = [p for n, p in model.named_parameters() if p.ndim > 1]
plain = [p for n, p in model.named_parameters() if p.ndim <= 1]
optimizer = Lion([{"params": decay}, {"params": plain, "lr": 5e-3}], lr=1e-2)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        F.cross_entropy(model(a), b).backward()
        optimizer.step()
save(model, steps=[optimizer.state[p]["steps"] for p in model.parameters()])
