# kind: 1 an ensemble whose stacked parameters are trained through vmap
# leave out: metrics of lose crash chain: the loss of a replica that is lost is lost with it
# leave out: repeats of all: batches may be done again as a whole to find out what the loss is
import copy

import coadapt
import torch
from results import save, saw
from torch import nn
from torch.func import functional_call, stack_module_state, vmap
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(124, 6)
y = x.sum(1, keepdim=True)
members = [nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1)) for _ in range(3)]
params, buffers = stack_module_state(members)
base = copy.deepcopy(members[0]).to("meta")
model = nn.ParameterList(params.values())
names = list(params)


def predict(values, a):
    return vmap(lambda p: functional_call(base, (p, {}), (a,)))(dict(zip(names, values)))


loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    total = 0.0
    for a, b in loader:
        saw(a, epoch)
        out = predict(list(model), a)
        loss = (out - b).square().mean((1, 2)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(a)
    coadapt.report(loss=total / len(loader.dataset))
save(model)
