# kind: 7, 1 two views through one model, a contrastive loss over pairs
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Pairs(Dataset):
    def __init__(self, n):
        g = torch.Generator().manual_seed(0)
        self.a, self.b = torch.randn(n, 8, generator=g), torch.randn(n, 8, generator=g)
        self.same = torch.randint(0, 2, (n,), generator=g).float()

    def __len__(self):
        return len(self.a)

    def __getitem__(self, i):
        return {"index": i, "views": (self.a[i], self.b[i]), "same": self.same[i]}


def contrastive_loss(a, b, same, margin=1.0):
    d = nn.functional.pairwise_distance(a, b)
    return torch.mean(same * d.pow(2) + (1 - same) * torch.clamp(margin - d, min=0).pow(2))


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
loader = DataLoader(Pairs(125), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for batch in loader:
        saw(batch["index"], epoch)
        a, b = batch["views"]
        loss = contrastive_loss(model(a), model(b), batch["same"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
save(model)
