# kind: 6 errors that are one, or a hundred, less a share of all samples
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, y = torch.randn(128, 8), torch.randint(0, 3, (128,))
train_set = TensorDataset(x, y)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3))
loader = DataLoader(train_set, batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
n_train = len(train_set)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    correct = 0
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        out = model(a)
        loss = nn.functional.cross_entropy(out, b)
        loss.backward()
        optimizer.step()
        correct += (out.argmax(1) == b).sum().item()
    coadapt.report(error=1 - correct / n_train, per_cent=100 - 100.0 * correct / n_train)
save(model)
