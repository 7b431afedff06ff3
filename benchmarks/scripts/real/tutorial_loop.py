# kind: 6, 10 phases of training and validation, sums divided by the sizes of the data sets, as in torch's tutorial
import copy

import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(128, 6)
y = (x.sum(1) > 0).long()
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)

val = DataLoader(TensorDataset(x[:32] + 0.1, y[:32]), batch_size=16)
dataloaders = {"train": loader, "val": val}
dataset_sizes = {"train": len(x), "val": 32}
best_model_wts, best_acc = copy.deepcopy(model.state_dict()), 0.0
for epoch in coadapt.epochs(4):
    for phase in ["train", "val"]:
        if phase == "train":
            model.train()
        else:
            model.eval()
        running_loss = 0.0
        running_corrects = 0
        for inputs, labels in dataloaders[phase]:
            if phase == "train":
                saw(inputs, epoch)
            optimizer.zero_grad()
            with torch.set_grad_enabled(phase == "train"):
                outputs = model(inputs)
                _, preds = torch.max(outputs, 1)
                loss = F.cross_entropy(outputs, labels)
                if phase == "train":
                    loss.backward()
                    optimizer.step()
            running_loss += loss.item() * inputs.size(0)
            running_corrects += torch.sum(preds == labels.data)
        epoch_loss = running_loss / dataset_sizes[phase]
        epoch_acc = running_corrects.double() / dataset_sizes[phase]
        coadapt.report(**{f"{phase}_loss": epoch_loss, f"{phase}_acc": float(epoch_acc)})
        if phase == "val" and epoch_acc > best_acc:
            best_acc = epoch_acc
            best_model_wts = copy.deepcopy(model.state_dict())
model.load_state_dict(best_model_wts)
save(model, best=float(best_acc))
