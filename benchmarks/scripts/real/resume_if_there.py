# kind: 12 last.pt and best.pt, and a start after the epoch of last.pt, whose history is appended to a jsonl file
# leave out: facts of torchrun: the other process may read the file before its last line is written
import json
import os
from dataclasses import dataclass, field

import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Record:
    best: float = float("inf")
    best_epoch: int = -1
    history: list = field(default_factory=list)


def main(epochs=5):
    torch.manual_seed(0)
    x, weight = torch.randn(160, 6), torch.randn(6, 1)
    loader = DataLoader(TensorDataset(x[:112], x[:112] @ weight), batch_size=16)
    validation = DataLoader(TensorDataset(x[112:], x[112:] @ weight), batch_size=16)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02, eps=1e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    record, start_epoch = Record(), 0
    if os.path.exists("last.pt"):
        last = torch.load("last.pt", weights_only=False)
        model.load_state_dict(last["model"])
        optimizer.load_state_dict(last["optimizer"])
        scheduler.load_state_dict(last["scheduler"])
        record, start_epoch = last["record"], last["epoch"] + 1
    model, optimizer, scheduler, loader = coadapt.prepare(model, optimizer, scheduler, loader)
    for epoch in coadapt.epochs(epochs):
        if epoch < start_epoch:
            continue
        for a, b in loader:
            saw(a, epoch)
            optimizer.zero_grad()
            nn.functional.mse_loss(model(a), b).backward()
            optimizer.step()
        scheduler.step()
        model.eval()
        with torch.no_grad():
            losses = [nn.functional.mse_loss(model(a), b).item() for a, b in validation]
        model.train()
        val_loss = sum(losses) / len(losses)
        record.history.append(val_loss)
        if val_loss < record.best:
            record.best, record.best_epoch = val_loss, epoch
            if coadapt.is_main():
                torch.save(model.state_dict(), "best.pt")
        if coadapt.is_main():
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "record": record}
            torch.save(state | {"scheduler": scheduler.state_dict(), "epoch": epoch}, "last.tmp")
            os.replace("last.tmp", "last.pt")
            with open("history.jsonl", "a") as file:
                file.write(json.dumps({"epoch": epoch, "val_loss": val_loss}) + "\n")
        coadapt.report(val_loss=val_loss, best=record.best)
    lines = [json.loads(line) for line in open("history.jsonl")]
    save(
        model,
        history=record.history,
        best_epoch=record.best_epoch,
        epochs=sorted({line["epoch"] for line in lines}),
    )


if __name__ == "__main__":
    main()
