# kind: 10 BatchNorm with drop_last: parts of 16, as under DDP
# leave out: repeats of grow: of three replicas with parts of 16 two compute the same one
# leave out: buffers of chain: the statistics of a replica that is killed are lost with it
# reference: ddp: statistics are over each replica's part of a batch
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, y = torch.randn(205, 1, 6, 6), torch.randint(0, 3, (205,))
model = nn.Sequential(
    nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)
)
loader = DataLoader(TensorDataset(x, y), batch_size=32, drop_last=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(6):
    model.train()
    for a, b in loader:
        saw(a.flatten(1), epoch)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(a), b).backward()
        optimizer.step()
save(model)
