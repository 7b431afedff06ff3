"""An ordinary training script for tests and benchmarks: a small regression whose dataset notes what it hands out.

`--plain` is the same script without Coadapt (alone or under torchrun), in the order that Coadapt draws.
"""

import argparse
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset
from torch.utils.data.distributed import DistributedSampler

parser = argparse.ArgumentParser()
parser.add_argument("--out", type=Path, required=True)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--samples", type=int, default=101)
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--optimizer", default="sgd")
parser.add_argument("--pause", type=float, default=0.0)
parser.add_argument("--workers", type=int, default=0)
parser.add_argument("--plain", action="store_true")
parser.add_argument("--gpu", action="store_true")
parser.add_argument("--stream", action="store_true")
parser.add_argument("--drop-last", action="store_true")
parser.add_argument("--schedule", choices=["step", "epoch"])
parser.add_argument("--amp", action="store_true")
parser.add_argument("--infinite-at", type=int, default=-1, help="a sample whose loss overflows, once")
parser.add_argument("--clip", action="store_true")
parser.add_argument("--crash-at", type=int, default=-1)
parser.add_argument("--fits", type=int, default=1 << 30, help="samples of a batch that fit in memory")
parser.add_argument("--fits-in-training", type=int, default=1 << 30, help="where that is less than in profiling")
parser.add_argument("--overcommits", action="store_true", help="the kernel kills the process that does not fit")
args = parser.parse_args()
ME = os.environ.get("COADAPT_MEMBER", os.environ.get("RANK", "0"))


class Points(Dataset):
    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(1)
        self.x = torch.randn(args.samples, 8, generator=generator)
        self.y = self.x @ torch.randn(8, 1, generator=generator)

    def __len__(self) -> int:
        return args.samples

    def __getitem__(self, index: int) -> tuple[int, torch.Tensor, torch.Tensor]:
        return index, self.x[index], self.y[index]


class Stream(IterableDataset):
    def __iter__(self) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
        points = Points()
        yield from (points[index] for index in torch.randperm(args.samples).tolist())


class Seen:
    """A state of the user's own."""

    steps = 0

    def state_dict(self) -> dict[str, int]:
        return {"steps": self.steps}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.steps = state["steps"]


torch.manual_seed(0 if args.plain or ME == "0" else 100 + int(ME))
device = torch.device("cuda" if args.gpu else "cpu")
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)).to(device)
data = Stream() if args.stream else Points()
base, head = list(model[0].parameters()), list(model[2].parameters())
groups = [{"params": base, "lr": 0.05}, {"params": head, "lr": 0.02}]
if args.optimizer == "sgd":
    optimizer = torch.optim.SGD(groups, momentum=0.9)
else:
    optimizer = torch.optim.Adam([{**group, "lr": group["lr"] / 10} for group in groups])
steps = -(-args.samples // args.batch_size) * args.epochs
schedule = (
    torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / (2 * steps))
    if args.schedule == "step"
    else torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.8)
)
scaler = torch.amp.GradScaler(device.type, enabled=args.amp, init_scale=1024.0, growth_interval=5)
seen = Seen()

if args.plain:
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world > 1:
        dist.init_process_group("gloo")
        model = nn.parallel.DistributedDataParallel(model)
    order = DistributedSampler(data, world, int(os.environ.get("RANK", "0")), drop_last=args.drop_last)
    loader = DataLoader(data, args.batch_size // world, sampler=order, drop_last=args.drop_last)
    epochs, is_main = range, lambda: os.environ.get("RANK", "0") == "0"
else:
    import coadapt

    loader = DataLoader(
        data,
        args.batch_size,
        shuffle=not args.stream,
        num_workers=args.workers,
        drop_last=args.drop_last,
    )
    model, optimizer, loader, schedule, scaler, seen = coadapt.prepare(
        model, optimizer, loader, schedule, scaler, seen
    )
    epochs, is_main = coadapt.epochs, coadapt.is_main

log = open(args.out / f"seen-{ME}.txt", "a", buffering=1)  # noqa: SIM115
done = 0
for epoch in epochs(args.epochs):
    if args.plain:
        order.set_epoch(epoch)
    for index, x, y in loader:
        if len(x) > (args.fits if os.environ.get("COADAPT_MODE") == "profile" else args.fits_in_training):
            if args.overcommits:
                os.kill(os.getpid(), signal.SIGKILL)
            torch.empty(1 << 50)
        log.write(f"{epoch} {' '.join(map(str, index.tolist()))}\n")  # before peers can have its gradients
        optimizer.zero_grad()
        loss = ((model(x.to(device)) - y.to(device)) ** 2).mean()
        if args.infinite_at in index.tolist() and epoch == 0:
            loss = loss * float("inf")
        scaler.scale(loss).backward()
        if args.clip:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        scaler.step(optimizer)
        scaler.update()
        if args.schedule == "step":
            schedule.step()
        seen.steps += 1
        done += 1
        if done == args.crash_at:
            raise ArithmeticError("the script's own mistake")
        time.sleep(args.pause)
    if args.schedule == "epoch":
        schedule.step()
    if not args.plain:
        coadapt.report(loss=loss.item(), epochs_done=epoch + 1)

if is_main():
    bare = model.module if isinstance(model, nn.parallel.DistributedDataParallel) else model
    rates = [group["lr"] for group in optimizer.param_groups]
    torch.save({"model": bare.state_dict(), "lr": rates, "seen": seen.steps}, args.out / "final.pt")
if args.plain and dist.is_initialized():
    dist.destroy_process_group()
    log.close()
    os._exit(0)  # the interpreter may abort at its end, while gloo's threads still run
