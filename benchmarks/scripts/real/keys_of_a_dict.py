# kind: 8 a data set whose samples have names, and a sampler that yields them
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler


class Named(Dataset):
    def __init__(self):
        g = torch.Generator().manual_seed(0)
        self.rows = {f"img_{i:03d}": torch.randn(8, generator=g) for i in range(120)}

    def __getitem__(self, name):
        return name, self.rows[name], self.rows[name].sum(0, keepdim=True)

    def __len__(self):
        return len(self.rows)


class ByName(Sampler):
    def __init__(self, data, seed):
        self.names, self.seed, self.epoch = sorted(data.rows), seed, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        g = torch.Generator().manual_seed(self.seed + self.epoch)
        return iter([self.names[i] for i in torch.randperm(len(self.names), generator=g).tolist()])

    def __len__(self):
        return len(self.names)


data = Named()
torch.manual_seed(0)
model = nn.Linear(8, 1)
sampler = ByName(data, seed=4)
loader = DataLoader(data, batch_size=16, sampler=sampler)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    sampler.set_epoch(epoch)
    for names, a, b in loader:
        saw(names, epoch)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(a), b).backward()
        optimizer.step()
save(model)
