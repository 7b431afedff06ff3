# kind: 8 noise and times from a generator of its own, a loss weighed by time
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
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
noise_of = torch.Generator().manual_seed(7)
betas = torch.linspace(1e-3, 0.2, 50)
alphas = torch.cumprod(1 - betas, 0)
for epoch in coadapt.epochs(4):
    for a, _ in loader:
        saw(a, epoch)
        k = (a[:, 0].abs() * 1000).long() % 50
        noise = torch.sin(a * 37.0 + k[:, None])
        noisy = alphas[k].sqrt()[:, None] * a + (1 - alphas[k]).sqrt()[:, None] * noise
        weight = 1.0 / (1.0 + k.float())
        loss = (weight * (model(noisy) - noise[:, :1]).square().mean(1)).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
save(model)
