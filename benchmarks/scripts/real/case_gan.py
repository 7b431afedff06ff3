# kind: 11 case gan: one module used in parts, two optimizers, two backward passes per batch
# leave out: repeats of accumulate chain: the first batch of several steps is done again, in one pass
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Gan(nn.Module):
    def __init__(self):
        super().__init__()
        self.G = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
        self.D = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, what, t):
        return self.G(t) if what == "G" else self.D(t)


torch.manual_seed(0)
real, noise = torch.randn(128, 2) + 3, torch.randn(128, 4)
model = Gan()
loader = DataLoader(TensorDataset(real, noise), batch_size=16)
opt_g = torch.optim.SGD(model.G.parameters(), lr=0.05)
opt_d = torch.optim.SGD(model.D.parameters(), lr=0.05)
model, opt_g, opt_d, loader = coadapt.prepare(model, opt_g, opt_d, loader)
bce = nn.functional.binary_cross_entropy_with_logits
for epoch in coadapt.epochs(4):
    for r, z in loader:
        saw(r, epoch)
        opt_d.zero_grad()
        fake = model("G", z)
        on_real, on_fake = model("D", r), model("D", fake.detach())
        loss_d = bce(on_real, torch.ones_like(on_real)) + bce(on_fake, torch.zeros_like(on_fake))
        loss_d.backward()
        opt_d.step()
        opt_g.zero_grad()
        on_fake = model("D", fake)
        loss_g = bce(on_fake, torch.ones_like(on_fake))
        loss_g.backward()
        opt_g.step()
save(model)
