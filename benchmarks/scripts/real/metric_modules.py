# kind: 6 metrics in the style of torchmetrics: modules with states, update, compute and reset, in a collection
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Metric(nn.Module):
    def __init__(self):
        super().__init__()
        self._defaults = {}

    def add_state(self, name, default):
        self._defaults[name] = default
        self.register_buffer(name, default.clone(), persistent=False)

    def reset(self):
        for name, default in self._defaults.items():
            setattr(self, name, default.clone())

    def forward(self, *args):
        self.update(*args)


class Accuracy(Metric):
    def __init__(self):
        super().__init__()
        self.add_state("correct", torch.tensor(0))
        self.add_state("total", torch.tensor(0))

    def update(self, preds, target):
        self.correct += (preds.argmax(1) == target).sum()
        self.total += target.numel()

    def compute(self):
        return self.correct.float() / self.total


class MeanMetric(Metric):
    def __init__(self):
        super().__init__()
        self.add_state("value", torch.tensor(0.0))
        self.add_state("weight", torch.tensor(0.0))

    def update(self, value, weight):
        self.value += value.detach() * weight
        self.weight += weight

    def compute(self):
        return self.value / self.weight


class TopK(Metric):
    def __init__(self, k):
        super().__init__()
        self.k = k
        self.add_state("hits", torch.tensor(0.0))
        self.add_state("count", torch.tensor(0.0))

    def update(self, preds, target):
        top = preds.topk(self.k, 1).indices
        self.hits += (top == target[:, None]).any(1).float().sum()
        self.count += len(target)

    def compute(self):
        return self.hits / self.count


torch.manual_seed(0)
x = torch.randn(124, 8)
y = (x @ torch.randn(8, 4)).argmax(1)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
metrics = nn.ModuleDict({"accuracy": Accuracy(), "top2": TopK(2)})
mean_loss = MeanMetric()
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    metrics.train()
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        out = model(a)
        loss = nn.functional.cross_entropy(out, b)
        loss.backward()
        optimizer.step()
        mean_loss(loss, len(b))
        for metric in metrics.values():
            metric(out, b)
    coadapt.report(loss=mean_loss.compute(), **{name: metric.compute() for name, metric in metrics.items()})
    mean_loss.reset()
    for metric in metrics.values():
        metric.reset()
save(model)
