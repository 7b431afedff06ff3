# kind: 11 a GAN with R1 every fourth batch, feature matching, and an average of the generator
# leave out: repeats of all: every replica computes whole batches, as features are compared by their means
import copy

import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.features, self.out = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2)), nn.Linear(16, 1)

    def forward(self, x):
        h = self.features(x)
        return self.out(h), h


def requires_grad(model, flag):
    for p in model.parameters():
        p.requires_grad = flag


torch.manual_seed(0)
real, noise = torch.randn(128, 2) + 1, torch.randn(128, 3)
gen = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2))
critic, average = Critic(), copy.deepcopy(gen).requires_grad_(False)
opt_g, opt_d = torch.optim.Adam(gen.parameters(), lr=2e-3), torch.optim.SGD(critic.parameters(), lr=0.02)
loader = DataLoader(TensorDataset(real, noise), batch_size=16)
gen, critic, average, opt_g, opt_d, loader = coadapt.prepare(gen, critic, average, opt_g, opt_d, loader)
for epoch in coadapt.epochs(4):
    for i, (x, z) in enumerate(loader):
        saw(x, epoch)
        requires_grad(gen, False)
        requires_grad(critic, True)
        d_real, d_fake = critic(x)[0], critic(gen(z))[0]
        loss_d = F.softplus(-d_real).mean() + F.softplus(d_fake).mean()
        critic.zero_grad()
        loss_d.backward()
        opt_d.step()
        if i % 4 == 0:
            x.requires_grad = True
            d_real, _ = critic(x)
            (grad,) = torch.autograd.grad(d_real.sum(), x, create_graph=True)
            penalty = grad.pow(2).reshape(len(grad), -1).sum(1).mean()
            critic.zero_grad()
            (5 * penalty * 4 + 0 * d_real[0]).sum().backward()
            opt_d.step()
        requires_grad(gen, True)
        requires_grad(critic, False)
        out, fake_features = critic(gen(z))
        _, real_features = critic(x.detach())
        matching = F.l1_loss(fake_features.mean(0), real_features.mean(0).detach())
        loss_g = F.softplus(-out).mean() + matching
        gen.zero_grad()
        loss_g.backward()
        opt_g.step()
        for p, q in zip(average.parameters(), gen.parameters()):
            p.data.mul_(0.95).add_(q.data, alpha=0.05)
save({"gen": gen, "critic": critic, "average": average})
