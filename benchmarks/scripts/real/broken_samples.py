# kind: 9 broken samples are None, left out by the collate function; a batch of none but such ones is None
# leave out: repeats of all: every replica computes whole batches, as counts differ from part to part
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, Dataset, default_collate


class Files(Dataset):
    def __init__(self):
        generator = torch.Generator().manual_seed(0)
        self.x = torch.randn(120, 6, generator=generator)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        if i % 7 == 3 or 32 <= i < 48:
            return None
        return self.x[i], self.x[i].sum(0, keepdim=True)


def collate(samples):
    samples = [sample for sample in samples if sample is not None]
    return default_collate(samples) if samples else None


torch.manual_seed(0)
loader = DataLoader(Files(), batch_size=16, collate_fn=collate)
model = nn.Linear(6, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    total, count = 0.0, 0
    for batch in loader:
        if batch is None:
            continue
        a, b = batch
        saw(a, epoch)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(a), b)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(a)
        count += len(a)
    coadapt.report(loss=total / count, count=count)
save(model)
