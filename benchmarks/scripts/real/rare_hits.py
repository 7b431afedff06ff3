# kind: 6 a count of hits that are rare, so that it grows by one or by nothing at first
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, y = torch.randn(128, 8), torch.randint(0, 12, (128,))
model = nn.Linear(8, 12)
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    hits, batches = 0, 0
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        out = model(a)
        nn.functional.cross_entropy(out, b).backward()
        optimizer.step()
        hits += (out.argmax(1) == b).sum().item()
        batches += 1
    coadapt.report(hits=hits, accuracy=hits / len(loader.dataset), batches=batches)
save(model)
