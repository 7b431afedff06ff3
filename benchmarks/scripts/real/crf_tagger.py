# kind: 7 a tagger with a CRF layer: the forward algorithm, divided by the tokens of the batch
# leave out: repeats of all: batches may be done again as a whole to find out what the loss is
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class CRF(nn.Module):
    def __init__(self, tags):
        super().__init__()
        self.start, self.end = nn.Parameter(torch.zeros(tags)), nn.Parameter(torch.zeros(tags))
        self.transitions = nn.Parameter(0.1 * torch.randn(tags, tags))

    def score(self, emissions, tags, mask):
        rows = torch.arange(len(tags))
        score = self.start[tags[:, 0]] + emissions[rows, 0, tags[:, 0]]
        for t in range(1, tags.shape[1]):
            step = self.transitions[tags[:, t - 1], tags[:, t]] + emissions[rows, t, tags[:, t]]
            score = score + step * mask[:, t]
        last = mask.long().sum(1) - 1
        return score + self.end[tags[rows, last]]

    def normaliser(self, emissions, mask):
        alpha = self.start + emissions[:, 0]
        for t in range(1, emissions.shape[1]):
            inner = alpha.unsqueeze(2) + self.transitions + emissions[:, t].unsqueeze(1)
            alpha = torch.where(mask[:, t].unsqueeze(1), inner.logsumexp(1), alpha)
        return (alpha + self.end).logsumexp(1)

    def forward(self, emissions, tags, mask):
        likelihood = self.score(emissions, tags, mask) - self.normaliser(emissions, mask)
        return -likelihood.sum() / mask.sum()


torch.manual_seed(0)
words = torch.randint(0, 20, (124, 7))
tags = words % 4
lengths = 2 + torch.arange(124) % 6
mask = torch.arange(7) < lengths[:, None]
model = nn.ModuleDict({"embed": nn.Embedding(20, 8), "out": nn.Linear(8, 4), "crf": CRF(4)})
loader = DataLoader(TensorDataset(torch.arange(124), words, tags, mask), batch_size=16)
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for i, a, b, m in loader:
        saw(i, epoch)
        optimizer.zero_grad()
        loss = model["crf"](model["out"](model["embed"](a)), b, m)
        loss.backward()
        optimizer.step()
save(model)
