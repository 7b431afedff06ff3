# kind: 8 the data set is given another transform from the second epoch on
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, Dataset


def strong(a):
    return a * torch.tensor([1.0, 0.0, 1.0, 0.0, 1.0, 0.0])


def weak(a):
    return a * 0.9


class Samples(Dataset):
    def __init__(self, x, y, transform=None):
        self.x, self.y, self.transform = x, y, transform

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        a = self.x[i]
        return i, self.transform(a) if self.transform else a, self.y[i]


torch.manual_seed(0)
x = torch.randn(128, 6)
train_set = Samples(x, (x.sum(1) > 0).long(), transform=strong)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
loader = DataLoader(train_set, batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(5):
    if epoch == 1:
        train_set.transform = weak
    for i, a, b in loader:
        saw(i, epoch)
        optimizer.zero_grad()
        F.cross_entropy(model(a), b).backward()
        optimizer.step()
save(model)
