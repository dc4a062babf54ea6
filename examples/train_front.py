"""Six models trained together: two digits in an image, three trade-offs between the two losses, two seeds each."""

import tempfile
from pathlib import Path

import torch
from torch.nn import functional

import ferero
from ferero_lab.data import PairNet, digit_pairs

data = digit_pairs(train=2048, validation=512, test=512)
f = ferero.objectives("left", "right")


def losses(model, batch):
    images, labels = batch
    left, right = model(images)
    return {
        "left": functional.cross_entropy(left, labels[:, 0]),
        "right": functional.cross_entropy(right, labels[:, 1]),
    }


def accuracies(model, batch):
    images, labels = batch
    hits = model(images).argmax(dim=-1) == labels.T
    return {"reads left": hits[0].float().mean(), "reads right": hits[1].float().mean()}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:  # use a permanent folder
        front = ferero.train_front(
            lambda seed: PairNet(seed=seed),
            losses,
            (data.train.images, data.train.labels),
            [ferero.Preference(f, [f.left == ratio * f.right]) for ratio in (0.5, 1.0, 2.0)],
            optimizer=lambda parameters: torch.optim.Adam(parameters, lr=0.01),
            schedule=lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 40),
            epochs=40,
            batch_size=128,
            seeds=2,
            evaluate={"test": (data.test.images, data.test.labels)},
            metrics=accuracies,
            checkpoint=Path(folder) / "front.pt",  # after an interruption the same call resumes
        )
    print(front)
    for trained in front:
        test = trained.evaluated["test"]
        print(f"{trained.preference.labels_h[0]}: reads {test['reads left']:.0%} and {test['reads right']:.0%}")

    best = PairNet()
    best.load_state_dict(front.state_dicts[2])
    ratios = front.losses[:, 0] / front.losses[:, 1]
    print(f"ratios of the losses: {', '.join(f'{ratio:.2f}' for ratio in ratios)}")
