# kind: 11 case ema_given: torch's own average, given to prepare
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(128, 8)
y = x @ torch.randn(8, 1)
model = nn.Linear(8, 1)
ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader, ema = coadapt.prepare(model, optimizer, loader, ema)
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(a), b)
        loss.backward()
        optimizer.step()
        ema.update_parameters(model)
save({"model": model, "ema": ema})
