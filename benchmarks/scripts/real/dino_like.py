# kind: 3 schedules in arrays by the number of the iteration, a logger that hands batches on and smooths losses
import math
from collections import defaultdict, deque

import coadapt
import numpy as np
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class SmoothedValue:
    def __init__(self, window_size=4):
        self.deque = deque(maxlen=window_size)
        self.total, self.count = 0.0, 0

    def update(self, value, n=1):
        self.deque.append(value)
        self.count += n
        self.total += value * n

    @property
    def median(self):
        return torch.tensor(list(self.deque)).median().item()

    @property
    def global_avg(self):
        return self.total / self.count


class MetricLogger:
    def __init__(self):
        self.meters = defaultdict(SmoothedValue)
        self.lines = 0

    def update(self, **kwargs):
        for k, v in kwargs.items():
            self.meters[k].update(v.item() if isinstance(v, torch.Tensor) else v)

    def log_every(self, iterable, print_freq, header):
        i = 0
        for obj in iterable:
            yield obj
            if i % print_freq == 0 or i == len(iterable) - 1:
                self.lines += 1
                print(f"{header} [{i}/{len(iterable)}]", {k: f"{m.median:.4f}" for k, m in self.meters.items()})
            i += 1


def cosine_scheduler(base, final, epochs, niter_per_ep, warmup=0):
    warm = np.linspace(0.001, base, warmup)
    iters = np.arange(epochs * niter_per_ep - warmup)
    rest = np.array([final + 0.5 * (base - final) * (1 + math.cos(math.pi * i / len(iters))) for i in iters])
    return np.concatenate((warm, rest))


def train_one_epoch(student, teacher, loader, optimizer, lr_schedule, wd_schedule, momentum_schedule, epoch):
    metric_logger = MetricLogger()
    for it, (a, b) in enumerate(metric_logger.log_every(loader, 3, f"Epoch: [{epoch}]")):
        saw(a, epoch)
        it = len(loader) * epoch + it
        for i, group in enumerate(optimizer.param_groups):
            group["lr"] = lr_schedule[it]
            if i == 0:
                group["weight_decay"] = wd_schedule[it]
        with torch.no_grad():
            target = teacher(a).softmax(1)
        out = student(a)
        loss = F.cross_entropy(out, b) - 0.3 * (target * out.log_softmax(1)).sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            m = momentum_schedule[it]
            for q, k in zip(student.parameters(), teacher.parameters()):
                k.mul_(m).add_((1 - m) * q.detach())
        metric_logger.update(loss=loss.item())
        metric_logger.update(lr=optimizer.param_groups[0]["lr"], wd=optimizer.param_groups[0]["weight_decay"])
    return {k: meter.global_avg for k, meter in metric_logger.meters.items()}, metric_logger.lines


def main():
    torch.manual_seed(0)
    x = torch.randn(128, 6)
    y = (x.sum(1) > 0).long()
    student = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
    teacher = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
    teacher.load_state_dict(student.state_dict())
    for p in teacher.parameters():
        p.requires_grad = False
    loader = DataLoader(TensorDataset(x, y), batch_size=16)
    decayed = [p for p in student.parameters() if p.ndim > 1]
    others = [{"params": [p for p in student.parameters() if p.ndim == 1], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW([{"params": decayed}, *others], lr=0, eps=1e-3)
    lr_schedule = cosine_scheduler(0.02, 1e-4, 4, len(loader), warmup=5)
    wd_schedule = cosine_scheduler(0.04, 0.4, 4, len(loader))
    momentum_schedule = cosine_scheduler(0.9, 1.0, 4, len(loader))
    student, teacher, optimizer, loader = coadapt.prepare(student, teacher, optimizer, loader)
    lines = []
    for epoch in coadapt.epochs(4):
        stats, n = train_one_epoch(
            student, teacher, loader, optimizer, lr_schedule, wd_schedule, momentum_schedule, epoch
        )
        lines.append(n)
        coadapt.report(**stats)
    save({"student": student, "teacher": teacher}, lines=lines)


if __name__ == "__main__":
    main()
