# kind: 7 a mean over what a mask leaves: (loss * mask).sum() / mask.sum()
# leave out: repeats of all: batches are done again as a whole to find out what the loss is
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(124, 6, 4)
y = x.sum(2) * 2
mask = torch.rand(124, 6).sort(0).values > 0.4
model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
loader = DataLoader(TensorDataset(torch.arange(124), x, y, mask), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for i, a, b, m in loader:
        saw(i, epoch)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(a).squeeze(-1), b, reduction="none")
        loss = (loss * m).sum() / m.sum().clamp(min=1)
        loss.backward()
        optimizer.step()
save(model)
