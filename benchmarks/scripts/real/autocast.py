# kind: 1 bfloat16 autocast with float32 weights
# tolerance: 2e-2: sums of bfloat16 numbers depend on how a batch is cut
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(128, 8)
y = x @ torch.randn(8, 1)
model = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 1))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = model(a)
        loss = nn.functional.mse_loss(out.float(), b)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
save(model)
