"""A small transformer for tests and benchmarks, sharded by FSDP2. `--plain`: without shards and Coadapt.

Both train on the same samples in the same order, so that their parameters can be compared.
"""

import argparse
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

parser = argparse.ArgumentParser()
parser.add_argument("--out", type=Path, required=True)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--samples", type=int, default=96)
parser.add_argument("--batch-size", type=int, default=12)
parser.add_argument("--optimizer", choices=["sgd", "adam"], default="sgd")
parser.add_argument("--width", type=int, default=16)
parser.add_argument("--layers", type=int, default=2)
parser.add_argument("--lr", type=float, default=0.05)
parser.add_argument("--pause", type=float, default=0.0)
parser.add_argument("--plain", action="store_true")
parser.add_argument("--whole", action="store_true", help="with Coadapt, and without shards")
parser.add_argument("--clip", action="store_true")
parser.add_argument("--accumulate", type=int, default=1, help="batches to a step of the script")
parser.add_argument("--evaluate", action="store_true", help="look at the loss of all data after each epoch")
parser.add_argument("--schedule", action="store_true")
parser.add_argument("--amp", action="store_true", help="scale the loss, one of which overflows")
parser.add_argument("--unsynced", action="store_true", help="let FSDP keep gradients back but for a step's last")
parser.add_argument("--tensor-parallel", type=int, default=1, help="processes that hold a layer together")
parser.add_argument("--default-mesh", action="store_true", help="call fully_shard(model) as under torchrun")
args = parser.parse_args()
ME = os.environ.get("COADAPT_MEMBER", os.environ.get("RANK", "0"))
WORDS, LENGTH = 17, 5


class Sentences(Dataset):
    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(1)
        self.x = torch.randint(WORDS, (args.samples, LENGTH), generator=generator)
        self.y = self.x.amax(1)  # some words are far more likely, so that there is a gradient beside its noise

    def __len__(self) -> int:
        return args.samples

    def __getitem__(self, index: int) -> tuple[int, torch.Tensor, torch.Tensor]:
        return index, self.x[index], self.y[index]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(args.width)
        self.attention = nn.MultiheadAttention(
            args.width, 2, bias=False, batch_first=True
        )  # that of keys does nothing
        self.feed = nn.Sequential(
            nn.Linear(args.width, 2 * args.width), nn.GELU(), nn.Linear(2 * args.width, args.width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normed = self.norm(x)
        x = x + self.attention(normed, normed, normed, need_weights=False)[0]
        return x + self.feed(x)


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, args.width)
        self.blocks = nn.ModuleList(Block() for _ in range(args.layers))
        self.head = nn.Linear(args.width, WORDS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(1))


torch.manual_seed(0)
model = Transformer()
if not (args.plain or args.whole):
    import coadapt
    from torch.distributed.fsdp import fully_shard

    mesh = None if args.default_mesh else coadapt.shard_mesh()
    if args.tensor_parallel > 1:
        coadapt.shard_mesh()
        shape = dist.get_world_size() // args.tensor_parallel, args.tensor_parallel
        whole_mesh = init_device_mesh("cpu", shape, mesh_dim_names=("data", "tensor"))
        mesh = whole_mesh["data"]
        for block in model.blocks:
            plan = {"feed.0": ColwiseParallel(), "feed.2": RowwiseParallel()}
            parallelize_module(block, whole_mesh["tensor"], plan)
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
optimizer = (
    torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    if args.optimizer == "sgd"
    else torch.optim.Adam(model.parameters(), lr=args.lr / 10)
)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + 0.05 * step))
scaler = torch.amp.GradScaler("cpu", enabled=args.amp, init_scale=1024.0, growth_interval=5)
data = Sentences()
if args.plain:
    order = DistributedSampler(data, 1, 0)
    loader = DataLoader(data, args.batch_size, sampler=order)
    epochs = range
else:
    import coadapt

    loader = DataLoader(data, args.batch_size, shuffle=True)
    model, optimizer, loader, scheduler, scaler = coadapt.prepare(model, optimizer, loader, scheduler, scaler)
    epochs = coadapt.epochs

log = open(args.out / f"seen-{ME}.txt", "a", buffering=1)  # noqa: SIM115
batches = 0
for epoch in epochs(args.epochs):
    if args.plain:
        order.set_epoch(epoch)
    for index, x, y in loader:
        log.write(f"{epoch} {' '.join(map(str, index.tolist()))}\n")  # before peers can have its gradients
        batches += 1
        if args.unsynced and not args.plain:
            model.set_requires_gradient_sync(batches % args.accumulate == 0)
        loss = nn.functional.cross_entropy(model(x), y)
        if args.amp and 7 in index.tolist() and epoch == 1:
            loss = loss * float("inf")
        scaler.scale(loss / args.accumulate).backward()
        if batches % args.accumulate == 0:
            scaler.unscale_(optimizer)
            if args.clip:
                norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            scaler.step(optimizer)
            scaler.update()
            if args.schedule:
                scheduler.step()
            optimizer.zero_grad()
        time.sleep(args.pause)
    if args.evaluate:
        with torch.no_grad():
            print("loss of all", nn.functional.cross_entropy(model(data.x), data.y).item(), flush=True)
    if not args.plain:
        coadapt.report(loss=loss.item())

state = {
    name: value.full_tensor() if hasattr(value, "full_tensor") else value
    for name, value in model.state_dict().items()
}
if args.plain or coadapt.is_main():
    torch.save(state, args.out / "final.pt")
