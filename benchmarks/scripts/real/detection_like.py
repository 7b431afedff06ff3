# kind: 9 lists of images and targets of other sizes, losses of each image in the model
# leave out: repeats of all: every replica computes whole batches, as a loop over images shows in no graph
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Boxes(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        count = 1 + i % 3
        return torch.randn(8 + i % 4, 8, generator=g), {"boxes": torch.rand(count, 4, generator=g), "number": i}


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.box, self.score = nn.Linear(8, 16), nn.Linear(16, 4), nn.Linear(16, 1)

    def forward(self, images, targets):
        box_loss, score_loss = 0.0, 0.0
        for image, target in zip(images, targets, strict=True):
            h = torch.tanh(self.body(image)).mean(0)
            box_loss = box_loss + nn.functional.smooth_l1_loss(
                self.box(h).expand_as(target["boxes"]), target["boxes"]
            )
            score_loss = score_loss + (self.score(h) - float(len(target["boxes"]))).square().mean()
        return {"box": box_loss / len(images), "score": score_loss / len(images)}


torch.manual_seed(0)
model = Detector()
loader = DataLoader(Boxes(), batch_size=8, collate_fn=lambda rows: tuple(zip(*rows, strict=True)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for images, targets in loader:
        saw([t["number"] for t in targets], epoch)
        losses = model(images, targets)
        loss = sum(losses.values())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
save(model)
