# kind: 1 PCGrad: a backward for each task, gradients kept and projected, then put back
# leave out: repeats of all: every replica computes whole batches, as what is reckoned from gradients is no sum
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def gradients_of(losses, optimizer, params):
    grads = []
    for loss in losses:
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        grads.append(
            torch.cat(
                [torch.zeros_like(p).flatten() if p.grad is None else p.grad.flatten().clone() for p in params]
            )
        )
    return grads


def project(grads):
    out = [g.clone() for g in grads]
    for i, g in enumerate(out):
        for j, other in enumerate(grads):
            if i != j and (dot := torch.dot(g, other)) < 0:
                g -= dot / other.norm() ** 2 * other
    return sum(out)


torch.manual_seed(0)
x = torch.randn(128, 6)
y, z = x.sum(1, keepdim=True), -2 * x[:, :1] - x[:, 1:2]
model = nn.ModuleDict(
    {"body": nn.Sequential(nn.Linear(6, 16), nn.Tanh()), "a": nn.Linear(16, 1), "b": nn.Linear(16, 1)}
)
params = list(model.parameters())
loader = DataLoader(TensorDataset(x, y, z), batch_size=16)
optimizer = torch.optim.SGD(params, lr=0.05)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for a, b, c in loader:
        saw(a, epoch)
        h = model["body"](a)
        losses = [F.mse_loss(model["a"](h), b), F.mse_loss(model["b"](h), c)]
        merged = project(gradients_of(losses, optimizer, params))
        at = 0
        for p in params:
            p.grad = merged[at : at + p.numel()].view_as(p).clone()
            at += p.numel()
        optimizer.step()
save(model)
