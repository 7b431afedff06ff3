# kind: 8 a shuffled loader with workers, begun anew in each epoch, and one that a generator repeats without end
# leave out: repeats of grow: three parts are no shares of the second loader's batch: each computes whole ones
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def forever(loader):
    while True:
        yield from loader


torch.manual_seed(0)
x, u, v = torch.randn(96, 4), torch.randn(160, 4), torch.randn(64, 4)
model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 4))
loader = DataLoader(TensorDataset(x), batch_size=16)
first, second = torch.Generator().manual_seed(1), torch.Generator().manual_seed(2)
noisy = DataLoader(TensorDataset(u), 16, shuffle=True, num_workers=1, generator=first)
others = DataLoader(TensorDataset(v), 16, shuffle=True, num_workers=1, persistent_workers=True, generator=second)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
again = forever(others)
for epoch in coadapt.epochs(6):
    noise = iter(noisy)
    for (a,) in loader:
        saw(a, epoch)
        (b,), (c,) = next(noise), next(again)
        loss = (model(a) - a).square().mean() + 0.1 * model(b).square().mean() + 0.1 * (model(c) - c).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
save(model)
