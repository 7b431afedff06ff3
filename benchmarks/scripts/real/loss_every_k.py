# kind: 6 a mean of the losses of the last four batches, printed and reported
# leave out: metrics of accumulate grow chain: what is reported within a batch is of its last pass, and of parts
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
losses = []
for epoch in coadapt.epochs(4):
    for i, (a, b) in enumerate(loader):
        saw(a, epoch)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(a), b)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if i % 4 == 3:
            coadapt.report(recent=sum(losses[-4:]) / 4)
save(model)
