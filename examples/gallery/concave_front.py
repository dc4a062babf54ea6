"""A concave front: where weighted sums end, and where rays end, from one start."""

import torch

import ferero

c = torch.full((20,), 20**-0.5, dtype=torch.float64)  # the first loss is 0 at c, the second at -c


def losses(x):
    return torch.stack([1 - torch.exp(-(x - s * c).square().sum()) for s in (1, -1)])


f = ferero.objectives("first", "second")
start = 0.8 * c + 0.16 * torch.sin(torch.arange(20, dtype=torch.float64))
preferences = [ferero.Preference.ray([a, b], names=f) for a, b in ((1, 2), (1, 1), (2, 1))]
preferences += [ferero.Preference(f, minimize=w * f.first + (1 - w) * f.second) for w in (0.2, 0.5)]
front = ferero.trace(losses, start, preferences, step=0.05, max_iter=2000)

print(front)
print(f"first loss: {losses(start)[0]:.3f} at the start, {front.losses[1, 0]:.3f} on the ray 1 : 1")
print(f"largest angle to a ray: {front.ray_errors()[:3].max():.1e} degrees")

best = torch.stack([losses(t * c) for t in torch.linspace(-1, 1, 100)])
front.plot(truth=best).figure.savefig("concave_front.png")
