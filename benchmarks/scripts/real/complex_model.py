# kind: 1 complex parameters and a parameter without dimensions
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Spectral(nn.Module):
    def __init__(self):
        super().__init__()
        self.filter = nn.Parameter(torch.randn(5, dtype=torch.cfloat))
        self.scale = nn.Parameter(torch.tensor(1.0))
        self.last = nn.Linear(8, 1)

    def forward(self, a):
        return self.last(torch.fft.irfft(torch.fft.rfft(a) * self.filter, n=8)) * self.scale


torch.manual_seed(0)
x = torch.randn(128, 8)
y = x @ torch.randn(8, 1)
model = Spectral()
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(a), b).backward()
        optimizer.step()
save(model)
