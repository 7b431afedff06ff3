# kind: 8 a function of the loss that is another one from the second epoch on
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def warm(out, b):
    return F.cross_entropy(out, b, label_smoothing=0.3)


def hard(out, b):
    return F.cross_entropy(3 * out, b)


torch.manual_seed(0)
x = torch.randn(128, 6)
y = (x.sum(1) > 0).long()
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
loss_fn = warm
for epoch in coadapt.epochs(5):
    if epoch == 1:
        loss_fn = hard
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        loss = loss_fn(model(a), b)
        loss.backward()
        optimizer.step()
save(model)
