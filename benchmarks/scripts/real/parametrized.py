# kind: 1 weight norm and an own parametrization
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.nn.utils import parametrizations, parametrize
from torch.utils.data import DataLoader, TensorDataset


class Symmetric(nn.Module):
    def forward(self, w):
        return w.triu() + w.triu(1).transpose(-1, -2)


torch.manual_seed(0)
x = torch.randn(128, 8)
y = x @ torch.randn(8, 1)
middle = nn.Linear(16, 16)
parametrize.register_parametrization(middle, "weight", Symmetric())
model = nn.Sequential(
    parametrizations.weight_norm(nn.Linear(8, 16)), nn.Tanh(), middle, nn.Tanh(), nn.Linear(16, 1)
)
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(a), b).backward()
        optimizer.step()
save(model)
