# kind: 8, 12 a decision by the training loss, shared by coadapt.combine
# leave out: model seen facts metrics of lose, crash, chain: the loss of a replica that is lost is lost with it
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
optimizer = torch.optim.SGD(model.parameters(), lr=0.03)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
history = []
for epoch in coadapt.epochs(100):
    total, n = 0.0, 0
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(a), b)
        loss.backward()
        optimizer.step()
        total, n = total + loss.item() * len(a), n + len(a)
    history.append(coadapt.combine(total / n))
    coadapt.report(loss=history[-1])
    if len(history) > 1 and history[-2] - history[-1] < 0.35 * history[-2] and epoch > 2:
        break
save(model, history=history)
