# kind: 6 batches are objects of a class of the script's
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Batch:
    def __init__(self, items):
        self.x = torch.stack([i[0] for i in items])
        self.y = torch.stack([i[1] for i in items])

    def to(self, device):
        self.x, self.y = self.x.to(device), self.y.to(device)
        return self

    def __len__(self):
        return len(self.x)


torch.manual_seed(0)
x = torch.randn(128, 6)
y = (x.sum(1) > 0).long()
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
loader = DataLoader(TensorDataset(x, y), batch_size=16, collate_fn=Batch)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    right = seen = 0
    for batch in loader:
        batch = batch.to("cpu")
        saw(batch.x, epoch)
        optimizer.zero_grad()
        out = model(batch.x)
        F.cross_entropy(out, batch.y).backward()
        optimizer.step()
        right += (out.argmax(1) == batch.y).sum().item()
        seen += len(batch)
    coadapt.report(accuracy=right / seen)
save(model)
