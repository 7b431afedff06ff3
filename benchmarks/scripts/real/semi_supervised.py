# kind: 8 semi-supervised: unlabelled batches come from an iterator that begins anew at its end
# leave out: repeats of grow: three parts are no shares of the second loader's batch: each computes whole ones
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, u = torch.randn(96, 6), torch.randn(160, 6)
y = (x.sum(1) > 0).long()
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
labelled = DataLoader(TensorDataset(x, y), batch_size=16)
unlabelled = DataLoader(TensorDataset(u), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, labelled = coadapt.prepare(model, optimizer, labelled)
more = iter(unlabelled)
for epoch in coadapt.epochs(6):
    for a, b in labelled:
        saw(a, epoch)
        try:
            (c,) = next(more)
        except StopIteration:
            more = iter(unlabelled)
            (c,) = next(more)
        p = F.softmax(model(c), 1)
        loss = F.cross_entropy(model(a), b) - 0.1 * (p * p.log()).sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
save(model)
