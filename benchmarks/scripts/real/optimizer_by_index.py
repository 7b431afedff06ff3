# kind: 8 Adam, then SGD: the one of the phase is looked up in each epoch
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
optimizers = {
    "adam": torch.optim.Adam(model.parameters(), lr=0.01, eps=1e-3),
    "sgd": torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9),
}
model, optimizers["adam"], optimizers["sgd"], loader = coadapt.prepare(
    model, optimizers["adam"], optimizers["sgd"], loader
)
phase, last = "adam", float("inf")
for epoch in coadapt.epochs(6):
    optimizer = optimizers[phase]
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        F.cross_entropy(model(a), b).backward()
        optimizer.step()
    with torch.no_grad():
        loss = F.cross_entropy(model(x), y).item()
    if phase == "adam" and loss > 0.8 * last:
        phase = "sgd"
    last = loss
    coadapt.report(loss=loss)
save(model, phase=phase, last=last)
