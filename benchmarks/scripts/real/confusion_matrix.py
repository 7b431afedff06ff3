# kind: 6 a confusion matrix of each epoch
import coadapt
import numpy as np
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(128, 6)
y = (x.sum(1) > 0).long() + (x[:, 0] > 1).long()
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    matrix = np.zeros((3, 3), dtype=int)
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        out = model(a)
        F.cross_entropy(out, b).backward()
        optimizer.step()
        for t, p in zip(b.numpy(), out.argmax(1).numpy()):
            matrix[t, p] += 1
    coadapt.report(accuracy=np.trace(matrix) / matrix.sum())
save(model)
