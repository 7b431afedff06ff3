# kind: 9 batches cut into pieces by a loop of its own, a step for each of them
# leave out: repeats of all: every replica computes whole batches, as steps are of pieces
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
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        for part, target in zip(a.split(4), b.split(4), strict=True):
            optimizer.zero_grad()
            nn.functional.mse_loss(model(part), target).backward()
            optimizer.step()
save(model)
