# kind: 6 an exponential average of losses that decides on the learning rate
# leave out: model facts of accumulate chain: it decides by the last pass
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
smooth = None
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(a), b)
        loss.backward()
        value = coadapt.combine(loss.item())
        smooth = value if smooth is None else 0.9 * smooth + 0.1 * value
        for group in optimizer.param_groups:
            group["lr"] = 0.05 if smooth > 1.0 else 0.02
        optimizer.step()
save(model, smooth=smooth)
