# kind: 9 packed sequences through an LSTM, the loss a mean over all their steps
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Sequences(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        n = 2 + i % 5
        return i, torch.randn(n, 4, generator=g), torch.randint(0, 3, (n,), generator=g)


def pack(rows):
    rows = sorted(rows, key=lambda row: -len(row[1]))
    lengths = torch.tensor([len(r[1]) for r in rows])
    padded = nn.utils.rnn.pad_sequence([r[1] for r in rows], batch_first=True)
    labels = nn.utils.rnn.pad_sequence([r[2] for r in rows], batch_first=True, padding_value=-100)
    return [r[0] for r in rows], padded, lengths, labels


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(4, 8, batch_first=True), nn.Linear(8, 3)

    def forward(self, padded, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(padded, lengths, batch_first=True)
        out, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return self.head(out)


torch.manual_seed(0)
model = Tagger()
loader = DataLoader(Sequences(), batch_size=8, collate_fn=pack)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
criterion = nn.CrossEntropyLoss(ignore_index=-100)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    correct = tokens = 0
    for numbers, padded, lengths, labels in loader:
        saw(numbers, epoch)
        optimizer.zero_grad()
        out = model(padded, lengths)
        criterion(out.reshape(-1, 3), labels.reshape(-1)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        mask = labels != -100
        correct += (out.argmax(-1)[mask] == labels[mask]).sum().item()
        tokens += mask.sum().item()
    coadapt.report(accuracy=correct / tokens)
save(model)
