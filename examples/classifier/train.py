"""An image classifier with early stopping, which keeps its best weights in best.pt.

The images are drawn from a seed. They show ten blocky shapes, moved by up to two pixels, under noise.
"""

import argparse
from pathlib import Path

import coadapt
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CLASSES, SIZE, NOISE = 10, 12, 1.7


def make_images(count: int, seed: int) -> TensorDataset:
    shapes = F.interpolate(torch.randn(CLASSES, 1, 4, 4, generator=torch.Generator().manual_seed(0)), SIZE)
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(CLASSES, (count,), generator=generator)
    images = shapes[labels]
    for dim in (2, 3):
        moves = torch.randint(-2, 3, (count,), generator=generator)
        images = torch.stack([image.roll(int(move), dim - 1) for image, move in zip(images, moves, strict=True)])
    return TensorDataset(images + NOISE * torch.randn(images.shape, generator=generator), labels)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(32)
        self.fc = nn.Linear(32 * 3 * 3, CLASSES)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)
        x = F.max_pool2d(F.relu(self.bn2(self.conv2(x))), 2)
        return self.fc(x.flatten(1))


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    correct = 0
    for images, labels in loader:
        correct += (model(images.to(device)).argmax(1).cpu() == labels).sum().item()
    return correct / len(loader.dataset)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--patience", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", action="store_true")
    parser.add_argument("--out", type=Path, default=coadapt.output_dir())
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train_loader = DataLoader(make_images(2000, seed=1), batch_size=32, shuffle=True)
    val_loader = DataLoader(make_images(1000, seed=2), batch_size=250)
    model = Net().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.epochs)
    coadapt.prepare(model, optimizer, train_loader, scheduler)

    best_accuracy, best_epoch = 0.0, 0
    for epoch in coadapt.epochs(args.epochs):
        model.train()
        running_loss = 0.0
        for images, labels in train_loader:
            images, labels = images.to(device), labels.to(device)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            running_loss += loss.item()
        scheduler.step()

        accuracy = evaluate(model, val_loader, device)
        if accuracy > best_accuracy:
            best_accuracy, best_epoch = accuracy, epoch
            if args.save and coadapt.is_main():
                torch.save({"model": model.state_dict(), "accuracy": accuracy}, args.out / "best.pt")
        coadapt.report(accuracy=accuracy, best_accuracy=best_accuracy)
        print(f"epoch {epoch} loss {running_loss / len(train_loader):.4f} accuracy {accuracy:.4f}", flush=True)
        if epoch - best_epoch >= args.patience:
            print(f"no better for {args.patience} epochs")
            break
    print(f"best accuracy {best_accuracy:.4f}")


if __name__ == "__main__":
    main()
