# kind: 7 sequences with the time first, a perplexity over tokens
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randint(0, 20, (96, 7))


def collate(items):
    t = torch.stack([i[0] for i in items], dim=1)
    return t[:-1], t[1:]


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(20, 8)
        self.rnn = nn.LSTM(8, 12)
        self.out = nn.Linear(12, 20)

    def forward(self, t):
        return self.out(self.rnn(self.emb(t))[0])


model = LM()
loader = DataLoader(TensorDataset(x), batch_size=12, collate_fn=collate)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    total = words = 0
    for a, b in loader:
        saw(a.T, epoch)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(a).flatten(0, 1), b.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
        total += loss.item() * b.numel()
        words += b.numel()
    coadapt.report(perplexity=total / words)
save(model)
