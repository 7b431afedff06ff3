# kind: 1 optimizer.step(closure)
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
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    total, n = 0.0, 0
    for a, b in loader:
        saw(a, epoch)

        def closure():
            optimizer.zero_grad()
            loss = nn.functional.smooth_l1_loss(model(a), b)
            loss.backward()
            return loss

        loss = optimizer.step(closure)
        total += float(loss) * len(a)
        n += len(a)
    coadapt.report(loss=total / n)
save(model)
