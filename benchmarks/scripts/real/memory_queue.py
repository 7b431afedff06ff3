# kind: 11 MoCo: a queue of keys and a slow copy of the encoder, both changed by hand at each batch
# leave out: repeats of all: every replica computes whole batches, since the queue takes all of one
import copy

import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class MoCo(nn.Module):
    def __init__(self, size=64, momentum=0.9):
        super().__init__()
        self.query = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4))
        self.key = copy.deepcopy(self.query)
        self.key.requires_grad_(False)
        self.momentum = momentum
        self.register_buffer("queue", F.normalize(torch.randn(size, 4), dim=1))
        self.register_buffer("at", torch.zeros(1, dtype=torch.long))

    @torch.no_grad()
    def follow(self):
        for q, k in zip(self.query.parameters(), self.key.parameters()):
            k.data = k.data * self.momentum + q.data * (1 - self.momentum)

    @torch.no_grad()
    def put(self, keys):
        at = int(self.at)
        self.queue[at : at + len(keys)] = keys
        self.at[0] = (at + len(keys)) % len(self.queue)

    def forward(self, one, two):
        q = F.normalize(self.query(one), dim=1)
        with torch.no_grad():
            self.follow()
            k = F.normalize(self.key(two), dim=1)
        logits = torch.cat([(q * k).sum(1, keepdim=True), q @ self.queue.clone().T], 1) / 0.2
        self.put(k)
        return F.cross_entropy(logits, torch.zeros(len(q), dtype=torch.long))


torch.manual_seed(0)
one = torch.randn(128, 6)
two = one + 0.1 * torch.randn(128, 6)
model = MoCo()
loader = DataLoader(TensorDataset(one, two), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        loss = model(a, b)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
save(model)
