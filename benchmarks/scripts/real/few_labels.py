# kind: 7 cross entropy over few labelled samples of each batch, all others ignored
# leave out: repeats of all: batches may be done again as a whole to find out what the loss is
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(128, 8)
y = x[:, :3].argmax(1)
y[(torch.arange(128) % 16 - torch.arange(128) // 16) % 16 != 3] = -1  # one label in each batch
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        out = model(a)
        loss = F.cross_entropy(out, b, ignore_index=-1) + 0.1 * out.pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
save(model)
