# kind: 8 the best weights so far kept as a dictionary of copied tensors, in an object
import copy

import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class EarlyStopping:
    def __init__(self, patience):
        self.patience, self.counter, self.best_score = patience, 0, None
        self.best_weights = None
        self.stop = False

    def __call__(self, score, model):
        if self.best_score is None or score < self.best_score - 1e-4:
            self.best_score, self.counter = score, 0
            self.best_weights = copy.deepcopy(model.state_dict())
        else:
            self.counter += 1
            self.stop = self.counter >= self.patience


torch.manual_seed(0)
x, y = torch.randn(128, 8), torch.randn(128, 1)
val_x, val_y = torch.randn(64, 8), torch.randn(64, 1)
model = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 1))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
stopping = EarlyStopping(patience=3)
for epoch in coadapt.epochs(50):
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(a), b).backward()
        optimizer.step()
    with torch.no_grad():
        val = nn.functional.mse_loss(model(val_x), val_y).item()
    coadapt.report(val=val)
    stopping(val, model)
    if stopping.stop:
        break
model.load_state_dict(stopping.best_weights)
save(model, best=stopping.best_score, counter=stopping.counter, epoch=epoch)
