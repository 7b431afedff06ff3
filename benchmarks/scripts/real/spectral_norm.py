# kind: 1, 10 spectral norm: buffers that move with every forward in training
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(128, 8)
y = x @ torch.randn(8, 1)
model = nn.Sequential(spectral_norm(nn.Linear(8, 16)), nn.LeakyReLU(0.2), spectral_norm(nn.Linear(16, 1)))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(a), b).backward()
        optimizer.step()
save(model)
