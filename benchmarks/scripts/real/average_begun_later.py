# kind: 8 an average of weights that is begun in the second epoch, by an object made then
import copy

import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class ModelEma:
    def __init__(self, model, decay):
        self.module, self.decay, self.updates = copy.deepcopy(model), decay, 0

    @torch.no_grad()
    def update(self, model):
        self.updates += 1
        for mine, new in zip(self.module.parameters(), model.parameters()):
            mine.mul_(self.decay).add_(new, alpha=1 - self.decay)


torch.manual_seed(0)
x = torch.randn(128, 6)
y = (x.sum(1) > 0).long()
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
ema = None
for epoch in coadapt.epochs(5):
    if epoch == 1:
        ema = ModelEma(model, 0.9)
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        F.cross_entropy(model(a), b).backward()
        optimizer.step()
        if ema is not None:
            ema.update(model)
save({"model": model, "ema": ema.module}, updates=ema.updates)
