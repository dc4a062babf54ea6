"""Three tasks on one digit: a bound for one of them, a fixed difference between the other two."""

import torch
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy

import ferero
from ferero.plot import plot_training

torch.manual_seed(0)
images, digit = map(torch.tensor, load_digits(return_X_y=True))
images, odd, large = images.float() / 16, digit % 2, (digit >= 5).long()
odd = torch.where(torch.rand(len(odd)) < 0.15, 1 - odd, odd)  # some labels are wrong
labels = (digit, odd, large)


def train(preference):
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 6), torch.nn.Tanh(), torch.nn.Linear(6, 14))
    steer, records = ferero.Steer(preference), []
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 2500)

    def losses(rows):  # ten digits, odd or even, five or more: 10 + 2 + 2 outputs
        parts = model(images[rows]).split([10, 2, 2], dim=1)
        return [cross_entropy(part, label[rows]) for part, label in zip(parts, labels, strict=True)]

    for step in range(2500):
        loss = steer(losses(torch.randint(len(images), (128,))))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 25 == 0:
            records.append({"step": step, **steer.metrics()})
    with torch.no_grad():
        return steer, records, losses(slice(None))


f = ferero.objectives("digit", "odd", "large")
steer, records, found = train(ferero.Preference(f, [f.odd <= 0.43, f.digit - f.large == 0.15]))
*_, plain = train(ferero.Preference(f, minimize=f.digit + f.odd + f.large))
print(steer.report())
for words, values in (("steered", found), ("plain sum", plain)):
    print(f"{words}, all digits: odd {values[1]:.3f}, digit - large {values[0] - values[2]:.3f}")
plot_training(records)[0].figure.savefig("three_losses.png")
