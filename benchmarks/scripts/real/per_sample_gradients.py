# kind: 1 gradients of each sample by torch.func, clipped and added up, as in private training
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(128, 8)
y = x @ torch.randn(8, 1)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)


def loss_of(parameters, a, b):
    return nn.functional.mse_loss(functional_call(model, parameters, (a[None],)), b[None])


for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        parameters = {name: p.detach() for name, p in model.named_parameters()}
        slopes = vmap(grad(loss_of), in_dims=(None, 0, 0))(parameters, a, b)
        norms = torch.stack([s.flatten(1).norm(dim=1) for s in slopes.values()]).norm(dim=0)
        scale = (1.0 / norms).clamp(max=1.0)
        for name, p in model.named_parameters():
            p.grad = torch.einsum("n,n...->...", scale, slopes[name]) / len(a)
        optimizer.step()
save(model)
