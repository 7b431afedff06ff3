# kind: 3 counters in closures and globals, a temperature that falls every fifth step
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(132, 6)
y = (x.sum(1) > 0).long()
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)

seen_samples = 0


def trainer():
    step, temperature, window = 0, 2.0, []

    def one(a, b):
        nonlocal step, temperature, window
        global seen_samples
        optimizer.zero_grad()
        loss = F.cross_entropy(model(a) / temperature, b)
        loss.backward()
        optimizer.step()
        step += 1
        seen_samples += len(a)
        window = [*window[-4:], step]
        if step % 5 == 0:
            temperature = max(temperature * 0.9, 0.5)
        return temperature, sum(window)

    return one


train_one = trainer()
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        temperature, total = train_one(a, b)
    coadapt.report(temperature=temperature, total=float(total))
save(model)
