# kind: 5, 8 a ratio of teacher forcing that decays with the steps, drawn by Python's generator
import random

import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Seq2Seq(nn.Module):
    def __init__(self, vocabulary=10, hidden=12):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, hidden)
        self.encoder = nn.GRU(hidden, hidden, batch_first=True)
        self.cell, self.out = nn.GRUCell(hidden, hidden), nn.Linear(hidden, vocabulary)

    def forward(self, source, target, ratio):
        h = self.encoder(self.embed(source))[1][0]
        token, logits = torch.zeros_like(target[:, 0]), []
        for t in range(target.shape[1]):
            h = self.cell(self.embed(token), h)
            logits.append(self.out(h))
            forced = random.random() < ratio
            token = target[:, t] if forced else logits[-1].argmax(1)
        return torch.stack(logits, 1)


torch.manual_seed(0)
random.seed(0)
source = torch.randint(1, 10, (96, 4))
target = source.flip(1)
model = Seq2Seq()
loader = DataLoader(TensorDataset(torch.arange(96), source, target), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
ratio, ratios = 1.0, []
for epoch in coadapt.epochs(5):
    epoch_loss = 0.0
    for step, (ids, s, t) in enumerate(loader):
        saw(ids, epoch)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(s, t, ratio).flatten(0, 1), t.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        epoch_loss += loss.item()
        ratio = max(0.5, ratio - 0.02)
    ratios.append(ratio)
    coadapt.report(loss=epoch_loss / len(loader), ratio=ratio)
save(model, ratios=ratios)
