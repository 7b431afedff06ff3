# kind: 7 the root of a mean: no sum over samples at all
# leave out: repeats of all: batches are done again as a whole to find out what the loss is
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(128, 8)
y = x @ torch.randn(8, 1) + torch.linspace(0, 5, 128)[:, None]
model = nn.Linear(8, 1)
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        torch.sqrt(nn.functional.mse_loss(model(a), b) + 1e-8).backward()
        optimizer.step()
save(model)
