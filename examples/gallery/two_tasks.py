"""One small network reads two overlapping digits: a ray says which task may err more."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy

import ferero

torch.manual_seed(0)
digits, labels = map(torch.tensor, load_digits(return_X_y=True))
pairs = torch.randint(len(digits), (2, 4096))
canvas = torch.zeros(4096, 12, 12)
canvas[:, :8, :8] = digits[pairs[0]].reshape(-1, 8, 8) / 16
canvas[:, 4:, 4:] = canvas[:, 4:, 4:].maximum(digits[pairs[1]].reshape(-1, 8, 8) / 16)


def model(_):
    return nn.Sequential(nn.Flatten(), nn.Linear(144, 8), nn.Tanh(), nn.Linear(8, 20))


def losses(model, batch):
    image, left, right = batch
    out = model(image)
    return {"left": cross_entropy(out[:, :10], left), "right": cross_entropy(out[:, 10:], right)}


f = ferero.objectives("left", "right")
preferences = [ferero.Preference.ray([a, b], names=f) for a, b in ((1, 2), (1, 1), (2, 1))]
preferences.append(ferero.Preference(f, minimize=f.left + f.right))
front = ferero.train_front(
    model,
    losses,
    (canvas, labels[pairs[0]], labels[pairs[1]]),
    preferences,
    optimizer=lambda parameters: torch.optim.Adam(parameters, lr=0.01),
    epochs=60,
    schedule=lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 60),
    batch_size=128,
    device="cpu",
)
print(front)
print("right over left:", (front.losses[:, 1] / front.losses[:, 0]).round(decimals=2).tolist())
ax = front.plot()
ax.set(xlim=(0, 0.8), ylim=(0, 0.8))  # the last part of the trajectories
ax.figure.savefig("two_tasks.png")
