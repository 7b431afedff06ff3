# kind: 6 the same mean and count in every spelling
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, y = torch.randn(128, 8), torch.randint(0, 3, (128,))
data = TensorDataset(x, y)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3))
loader = DataLoader(data, batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    running = total = 0.0
    correct, seen, worst = 0, 0, 0.0
    losses = []
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        out = model(a)
        loss = nn.functional.cross_entropy(out, b)
        loss.backward()
        optimizer.step()
        running += loss.item()
        total += loss.item() * b.size(0)
        correct += int((out.argmax(1) == b).sum())
        seen += len(b)
        losses.append(loss.item())
    coadapt.report(
        by_batches=running / len(loader),
        by_samples=total / len(loader.dataset),
        by_seen=total / seen,
        from_list=sum(losses) / len(losses),
        accuracy=correct / seen,
        per_cent=100.0 * correct / len(loader.dataset),
        correct=correct,
        seen=seen,
        error=1 - correct / len(loader.sampler),
    )
save(model)
