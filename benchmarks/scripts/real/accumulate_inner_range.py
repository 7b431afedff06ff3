# kind: 3, 4 accumulation by an inner range that takes batches by next()
# leave out: repeats of all: who comes in later runs the loop on one batch, for nothing, to where the others are
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(160, 8)
y = x @ torch.randn(8, 1)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
loader = DataLoader(TensorDataset(x, y), batch_size=8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    batches = iter(loader)
    for step in range(len(loader) // 2):
        optimizer.zero_grad()
        for micro in range(2):
            a, b = next(batches)
            saw(a, epoch)
            loss = nn.functional.mse_loss(model(a), b)
            (loss / 2).backward()
        optimizer.step()
save(model)
