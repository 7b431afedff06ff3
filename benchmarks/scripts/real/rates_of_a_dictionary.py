# kind: 4 rates and weights of losses are read from dictionaries by numbers of epochs and batches
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

rates = {0: 0.1, 1: 0.08, 2: 0.06, 3: 0.04, 4: 0.02}
weights = {i: 1.0 + 0.1 * i for i in range(8)}
for epoch in coadapt.epochs(5):
    for group in optimizer.param_groups:
        group["lr"] = rates[epoch]
    for i, (a, b) in enumerate(loader):
        saw(a, epoch)
        optimizer.zero_grad()
        (F.cross_entropy(model(a), b) * weights[i]).backward()
        optimizer.step()
save(model)
