# kind: 9 graphs of a batch joined in one, with an index of who is whose, means over nodes and over graphs
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Graphs(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        n = 3 + i % 4
        return i, torch.randn(n, 8, generator=g), torch.randn(1, generator=g)


def join(rows):
    numbers = [i for i, _, _ in rows]
    of = torch.cat([torch.full((len(nodes),), k) for k, (_, nodes, _) in enumerate(rows)])
    return numbers, torch.cat([nodes for _, nodes, _ in rows]), of, torch.stack([t for _, _, t in rows])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(8, 16), nn.Linear(16, 1)

    def forward(self, nodes, of, count):
        h = torch.tanh(self.first(nodes))
        pooled = torch.zeros(count, 16).index_add(0, of, h)
        return self.last(pooled)


torch.manual_seed(0)
model = Net()
loader = DataLoader(Graphs(), batch_size=8, collate_fn=join)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    total = 0.0
    for numbers, nodes, of, target in loader:
        saw(numbers, epoch)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(nodes, of, len(target)), target)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(target)
    coadapt.report(loss=total / len(loader.dataset))
save(model)
