# kind: 7 a class-weighted mean plus a plain mean in one loss: two different weights of one part
# leave out: repeats of accumulate chain: the first batch is done again, since its two terms are counted together
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, y, z = torch.randn(124, 8), torch.randint(0, 4, (124,)).sort().values, torch.randn(124, 2)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 6))
weight = torch.tensor([0.2, 1.0, 3.0, 0.5])
loader = DataLoader(TensorDataset(x, y, z), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for a, b, c in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        out = model(a)
        ce = nn.functional.cross_entropy(out[:, :4], b, weight=weight)
        (ce + nn.functional.mse_loss(out[:, 4:], c)).backward()
        optimizer.step()
save(model)
