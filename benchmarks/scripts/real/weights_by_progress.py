# kind: 6 weights of tasks by how their losses of the last two epochs went
# leave out: model facts metrics of lose crash chain: sums of a replica that is lost are lost with it
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(128, 8)
y = x @ torch.randn(8, 1)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
history = []
for epoch in coadapt.epochs(5):
    total, count = torch.zeros(2), 0
    ratio = torch.stack(history[-1:]) / torch.stack(history[-2:-1]) if len(history) > 1 else torch.ones(1, 2)
    weights = 2 * torch.softmax(ratio[0] / 2.0, 0)
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        out = model(a)
        losses = torch.stack([nn.functional.mse_loss(out, b), nn.functional.l1_loss(out, b)])
        (weights * losses).sum().backward()
        optimizer.step()
        total += losses.detach() * len(a)
        count += len(a)
    history.append(torch.tensor([coadapt.combine(v) for v in (total / count).tolist()]))
save(model, history=torch.stack(history))
