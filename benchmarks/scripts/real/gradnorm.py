# kind: 11 GradNorm: weights of tasks that follow the norms of their gradients, with an optimizer of their own
# leave out: repeats of all: every replica computes whole batches, as what is reckoned from gradients is no sum
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(128, 6)
y = torch.stack([x.sum(1), 5 * x[:, 0]], 1)
body, heads = nn.Sequential(nn.Linear(6, 16), nn.Tanh()), nn.Linear(16, 2)
model = nn.Sequential(body, heads)
weights = nn.Parameter(torch.ones(2))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
weights_optimizer = torch.optim.SGD([weights], lr=0.02)
model, optimizer, weights_optimizer, loader = coadapt.prepare(model, optimizer, weights_optimizer, loader)
initial = None
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        task_losses = (model(a) - b).square().mean(0)
        if initial is None:
            initial = task_losses.detach()
        loss = (weights * task_losses).sum()
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        weights_optimizer.zero_grad()
        shared = body[0].weight
        norms = torch.stack(
            [
                torch.autograd.grad(w * t, shared, retain_graph=True, create_graph=True)[0].norm()
                for w, t in zip(weights, task_losses)
            ]
        )
        ratio = task_losses.detach() / initial
        target = norms.mean().detach() * (ratio / ratio.mean()) ** 1.5
        weights.grad = torch.autograd.grad((norms - target).abs().sum(), weights)[0]
        optimizer.step()
        weights_optimizer.step()
        with torch.no_grad():
            weights.mul_(2 / weights.sum())
save({"model": model, "weights": {"w": weights}})
