# kind: 7, 8 self-paced learning: samples whose loss is below a threshold, which grows with epochs, are learned
# leave out: repeats of all: the first batches may be given twice, to find out what the loss is of
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(128, 6)
y = (x.sum(1) + 0.7 * torch.randn(128) > 0).long()
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
lam = 0.65
chosen = 0
for epoch in coadapt.epochs(5):
    picked = 0
    for a, b in loader:
        saw(a, epoch)
        losses = F.cross_entropy(model(a), b, reduction="none")
        v = (losses.detach() < lam).float()
        loss = (v * losses).sum() / v.sum().clamp(min=1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        picked += int(v.sum())
    lam *= 1.3
    coadapt.report(picked=picked, lam=lam)
save(model, lam=lam)
