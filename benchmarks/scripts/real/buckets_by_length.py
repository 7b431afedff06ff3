# kind: 8 a batch sampler that groups texts by length, shuffled by the random module, batches of other sizes
# reference: one: the order comes from the global random module, which Coadapt seeds for each epoch
import random

import coadapt
import torch
from results import save, saw
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader


class BucketSampler:
    def __init__(self, lengths, tokens):
        self.batches, batch = [], []
        for i in sorted(range(len(lengths)), key=lengths.__getitem__):
            if batch and (len(batch) + 1) * lengths[i] > tokens:
                self.batches.append(batch)
                batch = []
            batch.append(i)
        self.batches.append(batch)

    def __iter__(self):
        order = list(self.batches)
        random.shuffle(order)
        return iter(order)

    def __len__(self):
        return len(self.batches)


def collate(items):
    index, texts = zip(*items)
    return torch.tensor(index), pad_sequence(texts, batch_first=True), torch.tensor([len(t) for t in texts])


random.seed(0)
torch.manual_seed(0)
texts = [(i, torch.randint(1, 20, (2 + (i * 5) % 13,))) for i in range(100)]
model = nn.Sequential(nn.EmbeddingBag(20, 8, padding_idx=0), nn.Linear(8, 1))
loader = DataLoader(texts, batch_sampler=BucketSampler([len(t) for _, t in texts], 100), collate_fn=collate)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(5):
    for i, words, lengths in loader:
        saw(i, epoch)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(words).squeeze(1), lengths.float() / 10).backward()
        optimizer.step()
save(model)
