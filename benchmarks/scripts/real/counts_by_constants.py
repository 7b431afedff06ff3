# kind: 3, 6 counts by the batch size that the script set, beside counts of what it was given
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
seen = elements = most = rows = 0
fraction = 0.0
for epoch in coadapt.epochs(5):
    for i, (a, b) in enumerate(loader):
        saw(a, epoch)
        optimizer.zero_grad()
        F.cross_entropy(model(a), b).backward()
        optimizer.step()
        seen += 16
        fraction += 1 / len(loader)
        elements += a.numel()
        most += 16 * 6
        rows += len(a)
    coadapt.report(rows=rows, elements=elements)
save(model, seen=seen, most=most, fraction=round(fraction, 6))
