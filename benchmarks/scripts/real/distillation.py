# kind: 11 a frozen teacher given to prepare, a student that learns from its logits
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, y = torch.randn(128, 8), torch.randint(0, 4, (128,))
teacher = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4)).eval().requires_grad_(False)
student = nn.Linear(8, 4)
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
teacher, student, optimizer, loader = coadapt.prepare(teacher, student, optimizer, loader)
T = 2.0
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        with torch.no_grad():
            soft = F.softmax(teacher(a) / T, dim=1)
        out = student(a)
        kd = F.kl_div(F.log_softmax(out / T, dim=1), soft, reduction="batchmean") * T * T
        loss = 0.7 * kd + 0.3 * F.cross_entropy(out, b)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
save({"student": student, "teacher": teacher})
