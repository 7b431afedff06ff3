# kind: 3 two losses by turns of a counter
# leave out: repeats of all: the first batches are given twice, to find out what their losses are
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

step = 0
for epoch in coadapt.epochs(5):
    for a, b in loader:
        saw(a, epoch)
        out = model(a)
        if step % 3 == 0:
            loss = out.abs().mean()
        else:
            loss = F.cross_entropy(out, b)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
save(model, step=step)
