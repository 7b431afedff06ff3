# kind: 8 a batch mixed with its reverse, as in mixup
# leave out: repeats of all: every replica computes whole batches
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
model, optimizer, loader = coadapt.prepare(model, optimizer, loader, loss="batch")
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        a, b = 0.7 * a + 0.3 * a.flip(0), 0.7 * b + 0.3 * b.flip(0)
        nn.functional.mse_loss(model(a), b).backward()
        optimizer.step()
save(model)
