# kind: 6 a function for each epoch that returns its mean loss and its accuracy
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(128, 8)
y = x @ torch.randn(8, 1)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)


def train_one(model, loader, optimizer, epoch):
    model.train()
    running, correct, seen = 0.0, 0, 0
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        out = model(a)
        loss = nn.functional.mse_loss(out, b)
        loss.backward()
        optimizer.step()
        running += loss.item() * a.size(0)
        correct += ((out > 0) == (b > 0)).sum().item()
        seen += a.size(0)
    return running / seen, correct / seen


for epoch in coadapt.epochs(4):
    loss, accuracy = train_one(model, loader, optimizer, epoch)
    coadapt.report(loss=loss, accuracy=accuracy)
save(model)
