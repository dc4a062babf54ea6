"""Trains the networks of the emotions experiment, all rays and seeds of a method at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean, median
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

import ferero
from ferero import Front
from ferero.fronts import Trained, train_front
from ferero_lab.data import Emotions, Songs, emotions, emotions_like
from ferero_lab.experiments.emotions.plan import EmotionsPlan, make_method, mild_rays, uniform_rays
from ferero_lab.experiments.experiment import Context, Found, Settings

__all__ = [
    "CONSTANT_STEP",
    "HELD_OUT",
    "NAMES",
    "load_songs",
    "make_network",
    "song_losses",
    "train_constant",
    "train_held_out",
    "train_method",
]

NAMES = ("amazed", "happy", "relaxing", "quiet", "sad", "angry")
HELD_OUT = 78  # songs, a fifth of the training songs
SEARCH_SEED = 1000  # no seed of the report
CONSTANT_STEP = 1e-3
_EVALUATIONS = 20  # along a training


def load_songs(settings: Settings, validation: int = 0) -> Emotions:
    """The true data, or for a quick run without a data folder the stand-in."""
    if _is_stand_in(settings):
        return emotions_like(validation=validation)
    return emotions(settings.data, validation=validation)


def make_network(width: int) -> nn.Module:
    """Four fully connected layers from 72 features to six logits."""
    sizes = (72, width, width, width)
    hidden = [part for a, b in pairwise(sizes) for part in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*hidden, nn.Linear(width, 6))


def song_losses(model: Any, batch: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
    """The mean sigmoid cross-entropy of each emotion."""
    features, labels = batch
    losses = functional.binary_cross_entropy_with_logits(model(features), labels, reduction="none").mean(dim=0)
    return dict(zip(NAMES, losses.unbind(), strict=True))


@dataclass(frozen=True)
class Job:
    """One call of `train_front`.

    Attributes:
        method: a key of `TITLES`.
        step: the learning rate.
        seeds: which.
        rays: (P, 6).
        validation: songs set aside.
        is_driven: whether their losses drive the constraints.
        is_cosine: whether the step falls to 0 along a cosine.
        file: the checkpoint's name.
    """

    method: str
    step: float
    seeds: tuple[int, ...]
    rays: Tensor
    validation: int = 0
    is_driven: bool = False
    is_cosine: bool = True
    file: str = "models"


def train_method(plan: EmotionsPlan, method: str, context: Context) -> Found:
    """Chooses the step where there are several, then trains every ray and seed.

    The choice: training errors (median angle to the ray) of models that a further seed trains on four fifths of the
    training songs. What the other fifth would say is kept beside it.
    """
    several = len(plan.steps) > 1
    seeds = tuple(range(plan.seeds))
    jobs = [
        Job(method, step, (SEARCH_SEED,), uniform_rays(), HELD_OUT, False, plan.is_cosine, f"search-{i}")
        for i, step in enumerate(plan.steps)
        if several
    ]
    weight = [1] * len(jobs) + [plan.seeds]
    search = []
    for i, job in enumerate(jobs):
        found = _train(plan, job, context, sum(weight[:i]), weight[i], sum(weight))
        search.append({"step": job.step, **_judge(found)})
    step = min(search, key=lambda one: one["error_train"])["step"] if search else plan.steps[0]
    last = Job(method, step, seeds, uniform_rays(), is_cosine=plan.is_cosine)
    found = _train(plan, last, context, len(jobs), plan.seeds, sum(weight))
    return {**found, "step": step, "search": search}


def train_constant(plan: EmotionsPlan, context: Context) -> Found:
    """FERERO as it comes: Adam with a constant step of 1e-3."""
    job = Job("ferero", CONSTANT_STEP, tuple(range(plan.seeds)), uniform_rays(), is_cosine=False)
    return {**_train(plan, job, context, 0, 1, 1), "step": CONSTANT_STEP}


def train_held_out(plan: EmotionsPlan, context: Context) -> Found:
    """FERERO for the ten rays and for mild ones, driven by the losses of held-out songs and of training songs.

    Once in a short training, which ends before the songs are learned by heart, and once in a full one (not if quick).
    """
    seeds = tuple(range(plan.seeds))
    lengths = [(plan.gentle_step, max(1, plan.epochs // 2)), (CONSTANT_STEP, plan.epochs)]
    cases = [
        (step, epochs, rays, driven)
        for step, epochs in (lengths[:1] if plan.mode == "quick" else lengths)
        for rays in ("mild", "uniform")
        for driven in (True, False)
    ]
    found = []
    for i, (step, epochs, rays, driven) in enumerate(cases):
        vectors = mild_rays() if rays == "mild" else uniform_rays()
        job = Job("ferero", step, seeds, vectors, HELD_OUT, driven, True, f"models-{i}")
        trained = _train(replace(plan, epochs=epochs), job, context, i, 1, len(cases))
        found.append({"step": step, "rays_of": rays, "driven_by": "validation" if driven else "train", **trained})
    return {"cases": found, "data": found[0]["data"]}


def _train(plan: EmotionsPlan, job: Job, context: Context, done: int, share: int, total: int) -> Found:
    """One job, which is ``share`` of ``total`` in the part's progress."""
    settings = context.settings
    songs = load_songs(settings, job.validation)
    evaluate = {"train": _tensors(songs.train), "test": _tensors(songs.test)}
    if job.validation:
        evaluate["validation"] = _tensors(songs.validation)
    batch = min(plan.batch, len(songs.train))

    def advance(step: int, steps: int) -> None:
        context.advance(done * steps + share * step, total * steps)

    def schedule(optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LRScheduler:
        return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, plan.epochs)

    front = train_front(
        lambda _: make_network(plan.width),
        song_losses,
        _tensors(songs.train),
        [ferero.Preference.ray(ray, names=NAMES) for ray in job.rays],
        optimizer=_optimizer(plan.optimizer, job.step),
        epochs=plan.epochs,
        seeds=job.seeds,
        method=make_method(job.method, plan.mode),
        device=settings.device,
        batch_size=batch,
        order="seed",
        schedule=schedule if job.is_cosine else None,
        slopes="forward",
        evaluate=evaluate,
        evaluate_every=max(1, plan.epochs // _EVALUATIONS),
        held_out="validation" if job.is_driven else None,
        checkpoint=context.folder / f"{job.file}.pt",
        progress=advance,
    )
    return {
        "data": "stand-in" if _is_stand_in(settings) else "emotions",
        "method": job.method,
        "songs": len(songs.train),
        "epochs": plan.epochs,
        "rays": job.rays.tolist(),
        "runs": _runs(front, list(evaluate), len(job.seeds)),
        "seconds": front.results[0].seconds / plan.epochs,
    }


def _runs(front: Front[Trained], data: list[str], seeds: int) -> list[dict[str, Any]]:
    """Every model: its losses on each data set along the way (E, 6) and at the end, and their angles to its ray."""
    found = []
    for index, model in enumerate(front.results):
        losses = {name: [model.evaluated[name][loss] for loss in front.names] for name in data}
        found.append(
            {
                "ray": index // seeds,
                "seed": model.seed,
                "status": model.status,
                "weights": None if model.weights is None else model.weights.tolist(),
                "losses": losses,
                "errors": {name: _error(values, model.preference.ray) for name, values in losses.items()},
                "course": _course(model, data),
            }
        )
    return found


def _error(losses: list[float], ray: Any) -> float:
    return float(ferero.ray_error(losses, ray))


def _course(model: Any, data: list[str]) -> dict[str, Any]:
    """The losses at the evaluations along the way, by data set, (E, 6); training losses as they were tracked."""
    course = model.course
    seen = torch.isfinite(course.evaluated[f"test/{NAMES[0]}"])
    tables = {"train": course.losses[seen]}
    for name in data:
        if name != "train":
            tables[name] = torch.stack([course.evaluated[f"{name}/{loss}"][seen] for loss in NAMES], dim=1)
    return {"steps": course.steps[seen].tolist(), **{name: table.tolist() for name, table in tables.items()}}


def _judge(found: Found) -> dict[str, Any]:
    runs = found["runs"]
    return {
        "error_train": _median(runs, "train"),
        "error_held_out": _median(runs, "validation"),
        "loss_held_out": fmean(fmean(run["losses"]["validation"]) for run in runs),
        "diverged": sum(run["status"] == "diverged" for run in runs),
    }


def _median(runs: list[dict[str, Any]], data: str) -> float:
    """With a model that diverged counted as 180 degrees."""
    return median(180.0 if run["errors"][data] != run["errors"][data] else run["errors"][data] for run in runs)


def _optimizer(kind: str, step: float) -> Callable[[list[Tensor]], torch.optim.Optimizer]:
    made: type[torch.optim.Optimizer] = torch.optim.Adam if kind == "Adam" else torch.optim.SGD
    return lambda parameters: made(parameters, lr=step)  # type: ignore[call-arg]


def _tensors(songs: Songs) -> tuple[Tensor, Tensor]:
    return songs.features, songs.labels


def _is_stand_in(settings: Settings) -> bool:
    return settings.mode == "quick" and settings.data is None
