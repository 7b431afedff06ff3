# kind: 6 predictions of all batches are put together, and the accuracy is computed of them
import coadapt
import numpy as np
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(132, 6)
y = (x.sum(1) > 0).long()
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)

for epoch in coadapt.epochs(4):
    outs, targets, losses = [], [], []
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        out = model(a)
        loss = F.cross_entropy(out, b)
        loss.backward()
        optimizer.step()
        outs.append(out.argmax(1).numpy())
        targets.append(b.numpy())
        losses.extend([loss.item()] * len(a))
    coadapt.report(
        accuracy=float((np.concatenate(outs) == np.concatenate(targets)).mean()), loss=float(np.mean(losses))
    )
save(model)
