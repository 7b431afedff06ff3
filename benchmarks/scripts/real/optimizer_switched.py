# kind: 8 Adam for two epochs, then SGD: the variable of the optimizer is another one from then on
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
adam = torch.optim.Adam(model.parameters(), lr=0.01, eps=1e-3)
sgd = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
model, adam, sgd, loader = coadapt.prepare(model, adam, sgd, loader)
optimizer = adam
for epoch in coadapt.epochs(5):
    if epoch == 1:
        print("switching to SGD")
        optimizer = sgd
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        F.cross_entropy(model(a), b).backward()
        optimizer.step()
save(model, which=type(optimizer).__name__)
