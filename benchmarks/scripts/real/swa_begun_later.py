# kind: 8 torch's average of weights, made when the second epoch is over
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.optim.swa_utils import AveragedModel
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(128, 6)
y = (x.sum(1) > 0).long()
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
swa_model = None
for epoch in coadapt.epochs(5):
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        F.cross_entropy(model(a), b).backward()
        optimizer.step()
    if epoch >= 1:
        if swa_model is None:
            swa_model = AveragedModel(model)
        swa_model.update_parameters(model)
save({"model": model, "swa": swa_model.module}, averaged=swa_model.n_averaged.item())
