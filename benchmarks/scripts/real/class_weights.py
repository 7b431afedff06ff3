# kind: 7 weights of classes, label smoothing, positive weights
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, y, z = torch.randn(124, 8), torch.randint(0, 4, (124,)).sort().values, torch.rand(124, 2).round()
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 6))
classes = nn.CrossEntropyLoss(weight=torch.tensor([0.2, 1.0, 3.0, 0.5]))
flags = nn.BCEWithLogitsLoss(pos_weight=torch.tensor([2.0, 5.0]))
loader = DataLoader(TensorDataset(x, y, z), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for a, b, c in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        out = model(a)
        classes(out[:, :4], b).backward(retain_graph=True)
        flags(out[:, 4:], c).backward()
        optimizer.step()
save(model)
