# kind: 6 case mean_loss_target: running / len(loader), correct / len(loader.dataset), labels of pure noise
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, y = torch.randn(256, 8), torch.randint(0, 2, (256,))
model = nn.Linear(8, 2)
loader = DataLoader(TensorDataset(x, y), batch_size=32)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(5):
    running, correct, n = 0.0, 0, 0
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        out = model(a)
        loss = nn.functional.cross_entropy(out, b)
        loss.backward()
        optimizer.step()
        running += loss.item()
        correct += (out.argmax(1) == b).sum().item()
        n += 1
    coadapt.report(loss=running / len(loader), accuracy=correct / len(loader.dataset), batches=n)
save(model, batches=n)
