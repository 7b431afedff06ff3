# kind: 6 an error beside the loss, in percents, and hits, reported with the loss
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
for epoch in coadapt.epochs(4):
    loss_sum, error, hits, count = 0.0, 0.0, 0, 0
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        out = model(a)
        loss = nn.functional.mse_loss(out, b)
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            loss_sum += loss.item() * b.size(0)
            error += (out - b).abs().sum().item()
            hits += ((out - b).abs() < 0.5).sum().item()
            count += b.size(0)
    coadapt.report(loss=loss_sum / count, error=100.0 * error / count, hits=100.0 * hits / count)
save(model)
