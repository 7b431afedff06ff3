# kind: 3 each batch is cut into chunks by the script itself, whose gradients it adds up
# leave out: repeats of all: a batch is done again where its parts are of a new size, to see their pieces
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(128, 6)
y = (x.sum(1) > 0).long()
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        for c, d in zip(a.chunk(4), b.chunk(4)):
            loss = F.cross_entropy(model(c), d) * len(c) / len(a)
            loss.backward()
        optimizer.step()
save(model)
