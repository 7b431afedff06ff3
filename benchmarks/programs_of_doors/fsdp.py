import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh("cpu", (world,))
torch.manual_seed(0)
blocks = [nn.Sequential(nn.Linear(16, 16), nn.Tanh()) for _ in range(2)]
model = nn.Sequential(*blocks, nn.Linear(16, 1))
for block in blocks:
    fully_shard(block, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for step in range(20):
    generator = torch.Generator().manual_seed(step)
    x = torch.randn(16, 16, generator=generator)
    mine = x[rank::world]
    loss = nn.functional.mse_loss(model(mine), mine.sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
total = loss.detach().clone()
dist.all_reduce(total)
if rank == 0:
    print(f"final loss {total.item() / world:.6f}")
dist.destroy_process_group()
