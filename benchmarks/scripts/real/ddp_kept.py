# kind: 4 a DDP script that keeps its group, its wrapper and its sampler
import os

import coadapt
import torch
import torch.distributed as dist
from results import save, saw
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

if "RANK" in os.environ:
    dist.init_process_group("gloo")
    world, rank = dist.get_world_size(), dist.get_rank()
else:
    world, rank = 1, 0
torch.manual_seed(0)
x = torch.randn(128, 8)
y = x @ torch.randn(8, 1)
data = TensorDataset(x, y)
net = nn.Linear(8, 1)
model = DDP(net) if world > 1 or "RANK" in os.environ else net
sampler = DistributedSampler(data, world, rank, shuffle=True, seed=3)
loader = DataLoader(data, batch_size=16 // world, sampler=sampler)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    sampler.set_epoch(epoch)
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(a), b).backward()
        optimizer.step()
save(net)
