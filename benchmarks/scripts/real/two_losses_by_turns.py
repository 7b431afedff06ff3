# kind: 3 two losses by turns of batches
# leave out: repeats of grow: a batch is done again where a part shows another loss than was agreed
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(128, 6)
y = (x.sum(1) > 0).long()
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)

for epoch in coadapt.epochs(5):
    for i, (a, b) in enumerate(loader):
        saw(a, epoch)
        out = model(a)
        loss = F.cross_entropy(out, b) if i % 2 == 0 else 0.3 * out.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
save(model)
