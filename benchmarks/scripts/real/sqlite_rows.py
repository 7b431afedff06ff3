# kind: 9 a data set in sqlite, connected lazily in each worker; texts are padded, and batches are dictionaries
import os
import sqlite3
import tempfile

import coadapt
import torch
from results import save, saw
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

FOLDER = tempfile.mkdtemp(prefix="texts-")
PATH = os.path.join(FOLDER, "texts.db")
VOCABULARY = {c: i + 1 for i, c in enumerate("abcdefgh ")}


def make():
    connection = sqlite3.connect(PATH)
    connection.execute("CREATE TABLE texts (id INTEGER PRIMARY KEY, text TEXT, label INTEGER)")
    for i in range(100):
        text = "".join("abcdefgh "[(i * (j + 3) + j * j) % 9] for j in range(4 + i % 9))
        connection.execute("INSERT INTO texts VALUES (?, ?, ?)", (i, text, text.count("a") % 3))
    connection.commit()
    connection.close()


class Texts(Dataset):
    def __init__(self, path):
        self.path, self.connection = path, None
        with sqlite3.connect(path) as connection:
            (self.count,) = connection.execute("SELECT COUNT(*) FROM texts").fetchone()

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if self.connection is None:
            self.connection = sqlite3.connect(self.path)
        text, label = self.connection.execute("SELECT text, label FROM texts WHERE id = ?", (index,)).fetchone()
        return {"id": f"text-{index}", "text": text, "label": label}


def collate(items):
    tokens = [torch.tensor([VOCABULARY[c] for c in item["text"]]) for item in items]
    batch = {
        "ids": [item["id"] for item in items],
        "tokens": pad_sequence(tokens, batch_first=True),
        "lengths": torch.tensor([len(t) for t in tokens]),
        "labels": torch.tensor([item["label"] for item in items]),
    }
    if any("a" in item["text"] for item in items):
        batch["with_a"] = torch.tensor([item["text"].count("a") for item in items])
    return batch


def init_worker(worker_id):
    torch.set_num_threads(1)


if __name__ == "__main__":
    make()
    torch.manual_seed(0)
    train_set = Texts(PATH)
    loader = DataLoader(
        train_set,
        batch_size=16,
        num_workers=1,
        collate_fn=collate,
        persistent_workers=True,
        worker_init_fn=init_worker,
    )
    model = nn.ModuleDict({"embedding": nn.Embedding(10, 8, padding_idx=0), "head": nn.Linear(8, 3)})
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02, eps=1e-3)
    model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
    for epoch in coadapt.epochs(4):
        tokens, loss_sum = 0, 0.0
        for batch in loader:
            saw(batch["ids"], epoch)
            mask = (batch["tokens"] > 0).unsqueeze(2)
            pooled = (model["embedding"](batch["tokens"]) * mask).sum(1) / batch["lengths"].unsqueeze(1)
            loss = nn.functional.cross_entropy(model["head"](pooled), batch["labels"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            tokens += batch["lengths"].sum().item()
            loss_sum += loss.item() * len(batch["ids"])
        assert os.path.exists(PATH)
        coadapt.report(tokens=tokens, loss=loss_sum / len(train_set))
    save(model)
