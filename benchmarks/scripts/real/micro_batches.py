# kind: 7 micro-batches of four samples, each weighed by its own number of them
# leave out: repeats of all: a batch is done again where its parts are of a new size, to see their pieces
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(120, 6)
y = x.sum(1, keepdim=True)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        for i in range(0, len(a), 4):
            c, d = a[i : i + 4], b[i : i + 4]
            loss = F.mse_loss(model(c), d) * len(c) / len(a)
            loss.backward()
        optimizer.step()
save(model)
