# kind: 9 an IterableDataset that splits by worker process
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Numbers(IterableDataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __iter__(self):
        info = get_worker_info()
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        for i in range(worker, self.n, workers):
            x = torch.arange(8).float().add(i).cos()
            yield i, x, x.sum(0, keepdim=True)


torch.manual_seed(0)
model = nn.Linear(8, 1)
loader = DataLoader(Numbers(128), batch_size=16, num_workers=2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    total = 0.0
    for i, a, b in loader:
        saw(i, epoch)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(a), b)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(i)
    coadapt.report(loss=total / len(loader.dataset))
save(model)
