# kind: 3, 7 a backward for each sample, divided by the samples of the batch
# leave out: repeats of all: a batch is done again where its parts are of a new size, to see their pieces
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(64, 6)
y = x.sum(1, keepdim=True)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
loader = DataLoader(TensorDataset(x, y), batch_size=8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        for one, target in zip(a, b):
            loss = (model(one) - target).pow(2).sum()
            (loss / len(a)).backward()
        optimizer.step()
save(model)
