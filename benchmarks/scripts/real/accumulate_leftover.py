# kind: 3 accumulation with a step at the end of the epoch for what is left over
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(147, 8)
y = x @ torch.randn(8, 1)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
loader = DataLoader(TensorDataset(x, y), batch_size=8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: 1 / (1 + 0.1 * n))
model, optimizer, loader, scheduler = coadapt.prepare(model, optimizer, loader, scheduler)
accum, updates = 4, 0
for epoch in coadapt.epochs(7):
    for i, (a, b) in enumerate(loader):
        saw(a, epoch)
        loss = nn.functional.mse_loss(model(a), b) / accum
        loss.backward()
        if (i + 1) % accum == 0 or (i + 1) == len(loader):
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            updates += 1
save(model, updates=updates, lr=scheduler.get_last_lr())
