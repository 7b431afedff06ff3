# kind: 1 steps on each batch until its loss is small enough, at most five
# leave out: repeats of accumulate chain: a batch is done again, in one pass, since it has several steps
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
    for a, b in loader:
        saw(a, epoch)
        for _ in range(5):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(a), b)
            loss.backward()
            optimizer.step()
            if coadapt.combine(loss.item()) < 0.5:
                break
save(model)
