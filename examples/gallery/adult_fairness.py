"""Who earns more than 50,000 dollars? Mean predictions for women and men may differ by 0.05 at most."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch

import ferero.plot


def read(name):
    table = np.loadtxt(Path(__file__).with_name("adult") / name, np.float32, delimiter=",", skiprows=1)
    features, rich = torch.from_numpy(table).split([8, 1], dim=1)
    return torch.log1p(features) / 4, rich, features[:, 7:] == 1


def losses(model, x, rich, male):
    out = model(x)
    error = torch.nn.functional.binary_cross_entropy_with_logits(out, rich)
    return [error, *(torch.sigmoid(out[group]).mean() for group in (~male, male))]


people, others = read("train.csv.gz"), read("test.csv.gz")
with ferero.plot.theme():
    figure, (above, below) = plt.subplots(2, 1, figsize=(5, 3.6), sharex=True, layout="constrained")
for text in ("minimize error", "minimize error; abs(men - women) <= 0.05"):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    # headroom=0, since the learning rate decays to 0
    steer = ferero.Steer(ferero.Preference.parse(text, names=["error", "women", "men"]), ferero.FereroPI(headroom=0))
    optimizer, seen = torch.optim.Adam(model.parameters(), lr=0.01), []
    for step in range(3000):
        rows = torch.randint(32561, (512,))
        optimizer.zero_grad()
        steer(losses(model, *(part[rows] for part in people))).backward()
        optimizer.param_groups[0]["lr"] = 0.01 * (1 - step / 3000)
        optimizer.step()
        if step % 40 == 39:
            seen.append([step, *(loss.item() for loss in losses(model, *others))])
    steps, error, women, men = np.array(seen).T
    print(f"{text}: log-loss {error[-1]:.3f}, gap {men[-1] - women[-1]:.3f} on the test people")
    above.plot(steps, error, label=text)
    below.plot(steps, men - women)
print(steer.report())
above.set(ylabel="log-loss, test people", ylim=(0.32, 0.45))
above.legend(frameon=False)
below.set(ylabel="gap, test people", xlabel="step")
below.axhline(0.05, color="gray", linestyle="--")
figure.savefig("adult_fairness.png")
