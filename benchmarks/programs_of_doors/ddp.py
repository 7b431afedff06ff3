import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
x = torch.randn(256, 8)
y = x.sum(1, keepdim=True)
model = DistributedDataParallel(nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
sampler = DistributedSampler(TensorDataset(x, y))
loader = DataLoader(TensorDataset(x, y), batch_size=32 // world, sampler=sampler)
for epoch in range(4):
    sampler.set_epoch(epoch)
    for inputs, target in loader:
        loss = nn.functional.mse_loss(model(inputs), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
print(f"rank {rank} of {world}, local rank {os.environ['LOCAL_RANK']}", flush=True)
if rank == 0:
    print(f"final loss {nn.functional.mse_loss(model(x), y).item():.6f}")
dist.destroy_process_group()
