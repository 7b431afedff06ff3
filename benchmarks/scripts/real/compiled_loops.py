# kind: 1 compiled code that zips and enumerates its layers
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 6) for _ in range(3)])
        self.scales = [1.0, 0.5, 0.25]
        self.out = nn.Linear(6, 2)

    def forward(self, x):
        for i, (layer, scale) in enumerate(zip(self.layers, self.scales)):
            x = x + scale * torch.tanh(layer(x)) * (i + 1)
        return self.out(x)


torch.manual_seed(0)
x = torch.randn(128, 6)
y = (x.sum(1) > 0).long()
model = Net()
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
fast = torch.compile(model, backend="eager", fullgraph=True)
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        F.cross_entropy(fast(a), b).backward()
        optimizer.step()
save(model)
