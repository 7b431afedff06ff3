# kind: 11 stochastic weight averaging from epoch 2 on, with its scheduler
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.optim.swa_utils import SWALR, AveragedModel
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(128, 8)
y = x @ torch.randn(8, 1)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
swa_model = AveragedModel(model)
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=5)
swa_scheduler = SWALR(optimizer, anneal_epochs=2, swa_lr=0.05)
model, swa_model, optimizer, loader, scheduler, swa_scheduler = coadapt.prepare(
    model, swa_model, optimizer, loader, scheduler, swa_scheduler
)
for epoch in coadapt.epochs(5):
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(a), b).backward()
        optimizer.step()
    if epoch >= 2:
        swa_model.update_parameters(model)
        swa_scheduler.step()
    else:
        scheduler.step()
save({"model": model, "swa": swa_model}, lr=optimizer.param_groups[0]["lr"])
