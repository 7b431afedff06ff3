# kind: 3 a class around the loader that moves its batches, enumerated and accumulated by its length
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


class DeviceLoader:
    def __init__(self, loader, device):
        self.loader, self.device = loader, device

    def __len__(self):
        return len(self.loader)

    def __iter__(self):
        for a, b in self.loader:
            yield a.to(self.device), b.to(self.device)


batches = DeviceLoader(loader, "cpu")
for epoch in coadapt.epochs(12):
    for i, (a, b) in enumerate(batches):
        saw(a, epoch)
        F.cross_entropy(model(a), b).backward()
        if (i + 1) % 2 == 0 or i + 1 == len(batches):
            optimizer.step()
            optimizer.zero_grad()
save(model)
