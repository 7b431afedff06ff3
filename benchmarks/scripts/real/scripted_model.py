# kind: 1 a model that TorchScript compiles before prepare, with a branch and a loop, saved by torch.jit.save
# reference: one: alone the order comes from torch's global random numbers, which replicas cannot share
import io

import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.layers = nn.ModuleList([nn.Linear(16, 16) for _ in range(2)])
        self.last = nn.Linear(16, 1)

    def forward(self, x):
        x = torch.tanh(self.first(x))
        for i, layer in enumerate(self.layers):
            if self.training:
                x = x + torch.tanh(layer(x)) / (i + 1)
            else:
                x = x + torch.tanh(layer(x))
        return self.last(x)


torch.manual_seed(0)
x = torch.randn(128, 8)
y = x @ torch.randn(8, 1)
model = torch.jit.script(Residual())
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    model.train()
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(a), b).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        print(epoch, nn.functional.mse_loss(model(x), y).item())
    file = io.BytesIO()
    torch.jit.save(model, file)
assert torch.jit.load(io.BytesIO(file.getvalue()))(x[:2]).shape == (2, 1)
save(model)
