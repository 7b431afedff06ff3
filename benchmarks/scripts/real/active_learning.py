# kind: 8, 10 active learning: after each epoch the samples that are least sure join the subset that is trained on
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset

torch.manual_seed(0)
x = torch.randn(160, 6)
y = (x.sum(1) > 0).long()
full = TensorDataset(torch.arange(160), x, y)
labelled = list(range(48))
unlabelled = list(range(48, 160))
train_set = Subset(full, labelled)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
loader = DataLoader(train_set, batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
pool_sizes = []
for round_ in coadapt.epochs(5):
    for idx, a, b in loader:
        saw(idx, round_)
        optimizer.zero_grad()
        F.cross_entropy(model(a), b).backward()
        optimizer.step()
    with torch.no_grad():
        probs = model(x[unlabelled]).softmax(1)
    entropy = -(probs * probs.log()).sum(1)
    query = [unlabelled[i] for i in entropy.topk(16).indices.tolist()]
    labelled.extend(query)
    unlabelled = [i for i in unlabelled if i not in query]
    pool_sizes.append(len(labelled))
    coadapt.report(pool=len(labelled))
save(model, pool=pool_sizes, labelled=labelled)
