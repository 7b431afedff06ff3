# kind: 6 sums of squares and products over an epoch, and what is reckoned from them
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
    sums = torch.zeros(5)
    count = 0
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        out = model(a)
        nn.functional.mse_loss(out, b).backward()
        optimizer.step()
        o = out.detach()
        sums += torch.stack([o.sum(), b.sum(), (o * o).sum(), (b * b).sum(), (o * b).sum()])
        count += len(b)
    total = [coadapt.combine(v, "sum") for v in sums.tolist()]
    n = coadapt.combine(count, "sum")
    top = n * total[4] - total[0] * total[1]
    coadapt.report(r=top / ((n * total[2] - total[0] ** 2) * (n * total[3] - total[1] ** 2)) ** 0.5)
save(model)
