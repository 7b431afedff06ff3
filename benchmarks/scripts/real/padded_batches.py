# kind: 7 sentences of unequal length, packed by a collate function that returns a dictionary
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from torch.utils.data import DataLoader

torch.manual_seed(0)
sentences = [(torch.randint(1, 20, (3 + i % 7,)), i % 2, i) for i in range(128)]


def collate(items):
    tokens, labels, ids = zip(*items)
    return {
        "tokens": pad_sequence(list(tokens), batch_first=True),
        "lengths": torch.tensor([len(t) for t in tokens]),
        "labels": torch.tensor(labels),
        "ids": list(ids),
    }


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 8, padding_idx=0)
        self.rnn = nn.LSTM(8, 12, batch_first=True)
        self.head = nn.Linear(12, 2)

    def forward(self, tokens, lengths):
        packed = pack_padded_sequence(self.embed(tokens), lengths, batch_first=True, enforce_sorted=False)
        return self.head(self.rnn(packed)[1][0][-1])


model = Reader()
loader = DataLoader(sentences, batch_size=16, collate_fn=collate)
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05, eps=1e-3)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    right = seen = 0
    for batch in loader:
        saw(batch["ids"], epoch)
        out = model(batch["tokens"], batch["lengths"])
        loss = F.cross_entropy(out, batch["labels"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        right += (out.argmax(1) == batch["labels"]).sum().item()
        seen += len(batch["labels"])
    coadapt.report(accuracy=right / seen)
save(model)
