# kind: 3, 6 running sums in a dictionary, logged with the norm every ten steps of the whole training and reset
import argparse

import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--log-interval", type=int, default=10)
    parser.add_argument("--warmup", type=int, default=6)
    return parser.parse_args([])


def main():
    args = parse_args()
    torch.manual_seed(0)
    x = torch.randn(128, 6)
    y = (x.sum(1) > 0).long()
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
    loader = DataLoader(TensorDataset(x, y), batch_size=16)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / args.warmup))
    model, optimizer, scheduler, loader = coadapt.prepare(model, optimizer, scheduler, loader)
    running = {"loss": 0.0, "correct": 0, "count": 0, "steps": 0}
    logged = []
    iter_num = 0
    for epoch in coadapt.epochs(args.epochs):
        for a, b in loader:
            saw(a, epoch)
            iter_num += 1
            out = model(a)
            loss = F.cross_entropy(out, b)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            running["loss"] += loss.item() * len(b)
            running["correct"] += (out.argmax(1) == b).sum().item()
            running["count"] += len(b)
            running["steps"] += 1
            if iter_num % args.log_interval == 0:
                mean = {key: running[key] / running["count"] for key in ("loss", "correct")}
                logged.append((iter_num, running["steps"], scheduler.get_last_lr()[0]))
                print(f"step {iter_num}: {mean}")
                running = {key: type(value)(0) for key, value in running.items()}
    save(model, logged=logged, left=running["steps"], steps=iter_num)


if __name__ == "__main__":
    main()
