# kind: 10 batches of one sample: nothing can be divided
# leave out: repeats of all: two replicas compute the same sample
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(10, 8)
y = x @ torch.randn(8, 1)
model = nn.Linear(8, 1)
loader = DataLoader(TensorDataset(x, y), batch_size=1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    total = 0.0
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(a), b)
        loss.backward()
        optimizer.step()
        total += loss.item()
    coadapt.report(loss=total / len(loader))
save(model)
