# kind: 6, 8 a validation loop over another loader, best accuracy and its epoch kept in globals
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

best_acc, best_epoch = 0.0, -1


@torch.no_grad()
def validate(model, loader):
    model.eval()
    loss, correct, count = 0.0, 0, 0
    for a, b in loader:
        out = model(a)
        loss += nn.functional.cross_entropy(out, b, reduction="sum").item()
        correct += (out.argmax(1) == b).sum().item()
        count += len(b)
    model.train()
    return loss / count, correct / count


def main():
    global best_acc, best_epoch
    torch.manual_seed(0)
    x = torch.randn(192, 8)
    y = (x.sum(1) > 0).long()
    train_set, val_set = random_split(TensorDataset(x, y), [128, 64])
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    train_loader = DataLoader(train_set, batch_size=16)
    val_loader = DataLoader(val_set, batch_size=32)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    model, optimizer, train_loader = coadapt.prepare(model, optimizer, train_loader)
    for epoch in coadapt.epochs(5):
        for a, b in train_loader:
            saw(a, epoch)
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(a), b).backward()
            optimizer.step()
        val_loss, val_acc = validate(model, val_loader)
        is_best = val_acc > best_acc
        if is_best:
            best_acc, best_epoch = val_acc, epoch
        coadapt.report(val_loss=val_loss, val_acc=val_acc, best_acc=best_acc)
    save(model, best_acc=best_acc, best_epoch=best_epoch)


if __name__ == "__main__":
    main()
