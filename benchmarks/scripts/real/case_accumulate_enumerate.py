# kind: 3 case user_accumulation: four batches to a step, by the index of enumerate
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ACC = 4
torch.manual_seed(0)
x = torch.randn(160, 8)
y = x @ torch.randn(8, 1)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
loader = DataLoader(TensorDataset(x, y), batch_size=8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
steps = 0
for epoch in coadapt.epochs(7):
    for i, (a, b) in enumerate(loader):
        saw(a, epoch)
        loss = nn.functional.mse_loss(model(a), b) / ACC
        loss.backward()
        if (i + 1) % ACC == 0:
            optimizer.step()
            optimizer.zero_grad()
            steps += 1
    coadapt.report(steps=steps)
save(model, steps=steps)
