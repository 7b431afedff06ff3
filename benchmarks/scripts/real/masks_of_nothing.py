# kind: 7 means over what masks leave, of which parts of a batch hold nothing
# leave out: repeats of all: batches are done again as a whole to find out what the loss is
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(96, 6)
y = x.sum(1, keepdim=True).sin()
marked = (torch.arange(96) % 16 < 3).float().unsqueeze(1)  # the first samples of each batch
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
loader = DataLoader(TensorDataset(x, y, marked), batch_size=16)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)

for epoch in coadapt.epochs(6):
    for a, b, m in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        error = (model(a) - b).square()
        loss = (error * m).sum() / m.sum().clamp(min=1)
        loss.backward()
        optimizer.step()
save(model)
