# kind: 7 CTC over padded frames, targets of their own lengths in one row
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader


def collate(items):
    frames, words = zip(*items)
    return (
        nn.utils.rnn.pad_sequence(frames, batch_first=True),
        torch.cat(words),
        torch.tensor([len(f) for f in frames]),
        torch.tensor([len(w) for w in words]),
    )


torch.manual_seed(0)
data = [(torch.randn(8 + i % 5, 4), torch.randint(1, 6, (1 + i % 4,))) for i in range(96)]
rnn, out = nn.GRU(4, 8, batch_first=True), nn.Linear(8, 6)
model = nn.ModuleDict({"rnn": rnn, "out": out})
criterion = nn.CTCLoss(blank=0, zero_infinity=True)
loader = DataLoader(data, batch_size=12, collate_fn=collate)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    total = 0.0
    for frames, words, frame_lengths, word_lengths in loader:
        saw(frames.sum((1, 2)).round(decimals=3), epoch)
        optimizer.zero_grad()
        hidden, _ = model["rnn"](frames)
        log_probs = model["out"](hidden).log_softmax(2).transpose(0, 1)
        loss = criterion(log_probs, words, frame_lengths, word_lengths)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        total += loss.item() * len(frames)
    coadapt.report(loss=total / len(data))
save(model)
