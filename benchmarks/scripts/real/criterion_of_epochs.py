# kind: 8 the loss function of each epoch is looked up by its number
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
stages = [
    (0, F.cross_entropy),
    (1, F.multi_margin_loss),
    (3, lambda out, b: F.cross_entropy(out, b, label_smoothing=0.2)),
]
for epoch in coadapt.epochs(5):
    criterion = [loss for first, loss in stages if epoch >= first][-1]
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        criterion(model(a), b).backward()
        optimizer.step()
save(model)
