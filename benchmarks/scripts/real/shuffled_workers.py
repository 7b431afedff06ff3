# kind: 8 shuffle=True with a generator, drop_last and two worker processes
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(133, 8)
y = x @ torch.randn(8, 1)
model = nn.Linear(8, 1)
loader = DataLoader(
    TensorDataset(torch.arange(133), x, y),
    batch_size=16,
    shuffle=True,
    drop_last=True,
    num_workers=2,
    persistent_workers=True,
    generator=torch.Generator().manual_seed(9),
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for i, a, b in loader:
        saw(i, epoch)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(a), b).backward()
        optimizer.step()
save(model)
