"""The experiment on the images: its parts with our settings, with the paper's, and in a small form without download."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import ferero
from ferero.errors import InputError
from ferero.fronts import Front, Trained
from ferero_lab.experiments.experiment import Context, Experiment, Found, Part, Settings, Story
from ferero_lab.experiments.images.oracle import attainable_preferences, find_oracles, tried_data
from ferero_lab.experiments.images.plan import (
    KINDS,
    METHODS,
    NAMES,
    PAPER,
    PAPER_RAYS,
    QUICK,
    ImageTask,
    chosen_methods,
    knows_rays,
    load_task,
    ray,
)
from ferero_lab.experiments.images.report import tell_story
from ferero_lab.experiments.images.train import Recipe, models_of, time_steps, train

__all__ = ["EXPERIMENT"]

RATES = {"ours": (0.1, 0.3, 1.0), "quick": (0.3, 1.0, 3.0)}
SEARCH_EPOCHS = {"ours": 2, "quick": 12}
VALIDATION = 10_000
EPOCHS = {"ours": 8, "paper": 100, "quick": 50}
SEEDS = {"ours": 3, "paper": 5, "quick": 2}


class ImagesExperiment:
    """Two labels an image: the paper's three data sets, seven methods, rays and other preferences."""

    name = "images"
    summary = "Multi-MNIST, Multi-Fashion and Multi-Fashion+MNIST: seven methods on rays, FERERO on other preferences"
    defaults: Mapping[str, Any] = {
        "epochs": EPOCHS,
        "seeds": SEEDS,
        "rays": PAPER_RAYS,
        "rates": RATES,
        "search_epochs": SEARCH_EPOCHS,
        "validation": VALIDATION,
    }

    def parts(self, settings: Settings) -> Sequence[Part]:
        """For each data set its fixed weights and each method; on a GPU also the time of a step.

        Raises:
            InputError: a data set or a method that there is not.
        """
        kinds = _chosen_kinds(settings)
        is_paper = settings.mode == "paper"
        methods = chosen_methods(PAPER if is_paper else METHODS, settings.methods)
        parts = []
        for kind in kinds:
            title = KINDS[kind].title
            if not is_paper:
                parts.append(Part(f"{kind}-fixed", f"{title}: fixed weights, and preferences", partial(_fixed, kind)))
            for name in methods:
                run = _paper if is_paper else _compared
                parts.append(Part(f"{kind}-{name}", f"{title}: {name}", partial(run, kind, name)))
        if settings.device.startswith("cuda") and settings.mode == "ours":
            parts.append(Part("time", "time of a step", partial(_timed, kinds[0]), alone=True))
        return parts

    def story(self, settings: Settings, found: Mapping[str, Found]) -> Story:
        """The report of the parts that are there."""
        return tell_story(settings, found)


def _chosen_kinds(settings: Settings) -> list[str]:
    known = [QUICK] if settings.mode == "quick" else [kind for kind in KINDS if kind != QUICK]
    for name in settings.only:
        if name not in known:
            raise InputError(f"--only: expected {', '.join(known)}, found {name!r}.")
    return [kind for kind in known if kind in settings.only or not settings.only]


def _task(kind: str, settings: Settings) -> ImageTask:
    on_gpu = settings.device.startswith("cuda")
    return load_task(kind, settings.data, validation=0 if settings.mode == "paper" else VALIDATION, patches=on_gpu)


def _recipe(settings: Settings, rate: float, *, decay: bool = True, is_large: bool = True) -> Recipe:
    epochs = settings.epochs or EPOCHS[settings.mode]
    return Recipe(epochs, rate, decay, compiled=is_large and settings.device.startswith("cuda"))


def _seeds(settings: Settings) -> tuple[int, ...]:
    return tuple(range(settings.seeds or SEEDS[settings.mode]))


def _paper(kind: str, name: str, context: Context) -> Found:
    """The paper's settings: SGD 1e-3, 100 epochs, batches of 256 that FERERO halves, three rays, five seeds."""
    settings, method = context.settings, PAPER[name]
    recipe = _recipe(settings, 1e-3, decay=False)
    preferences = [ray(degrees) for degrees in PAPER_RAYS]
    front, seconds = train(
        _task(kind, settings), method, preferences, recipe, _seeds(settings), context, name=name, slopes="forward"
    )
    return {
        "kind": kind,
        "method": name,
        "settings": "paper",
        "rays": list(PAPER_RAYS),
        "rate": recipe.rate,
        "epochs": recipe.epochs,
        "models": models_of(front),
        "seconds": seconds,
    }


def _compared(kind: str, name: str, context: Context) -> Found:
    """Ours: the step chosen from three on held-out images with one seed, then all seeds with it."""
    settings, method = context.settings, METHODS[name]
    task, rays = _task(kind, settings), PAPER_RAYS
    preferences = [ray(degrees) for degrees in rays]
    if not knows_rays(method):
        preferences = [ferero.Preference.pareto(2, names=NAMES)]
    search = _searched(task, name, preferences, rays, context)
    rate = min(search, key=lambda one: one["achieved"])["rate"]
    recipe = _recipe(settings, rate, is_large=len(preferences) > 1)
    front, seconds = train(task, method, preferences, recipe, _seeds(settings), context, name=name)
    return {
        "kind": kind,
        "method": name,
        "settings": "ours",
        "rays": list(rays),
        "rate": rate,
        "search": search,
        "epochs": recipe.epochs,
        "models": models_of(front),
        "seconds": seconds,
    }


def _searched(
    task: ImageTask, name: str, preferences: Sequence[ferero.Preference], rays: Sequence[float], context: Context
) -> list[dict[str, float]]:
    """For each rate the mean over the rays of ``max_i f_i / r_i`` on held-out images: what every method makes small."""
    aims = [[degrees] for degrees in rays] if knows_rays(METHODS[name]) else [list(rays)]
    mode, rates = context.settings.mode, RATES[context.settings.mode]
    epochs = min(SEARCH_EPOCHS[mode], context.settings.epochs or SEARCH_EPOCHS[mode])
    recipe = Recipe(epochs, rates[0], compiled=len(preferences) > 1 and context.settings.device.startswith("cuda"))
    front, _ = train(
        task,
        METHODS[name],
        [preference for _ in rates for preference in preferences],
        recipe,
        (0,),
        context,
        name=f"{name}-search",
        rate_factors=[rate / rates[0] for rate in rates for _ in preferences],
    )
    found = []
    for i, rate in enumerate(rates):
        some = front.results[i * len(preferences) : (i + 1) * len(preferences)]
        values = [
            _achieved(result.evaluated["validation"], degrees)
            for result, aim in zip(some, aims, strict=True)
            for degrees in aim
        ]
        mean = sum(values) / len(values)
        found.append({"rate": rate, "achieved": mean if math.isfinite(mean) else 1e9})
    return found


def _achieved(figures: dict[str, float], degrees: float) -> float:
    direction = (math.cos(math.radians(degrees)), math.sin(math.radians(degrees)))
    return max(figures[name] / part for name, part in zip(NAMES, direction, strict=True))


def _fixed(kind: str, context: Context) -> Found:
    """Fixed weights for every ray, each task alone, and FERERO on preferences that fixed weights show attainable."""
    settings = context.settings
    task, rays = _task(kind, settings), PAPER_RAYS
    recipe = _recipe(settings, RATES[settings.mode][1])
    tried, seconds = find_oracles(task, rays, recipe, 0, context, rounds=2)
    preferences = {**{f"ray at {degrees:g}": ray(degrees) for degrees in rays}, **attainable_preferences(tried)}
    models = []
    for begin in range(
        0, len(preferences), len(rays)
    ):  # as many at a time as in the comparison: nothing is compiled anew
        some = dict(list(preferences.items())[begin : begin + len(rays)])
        front, more = train(
            task, METHODS["FERERO"], list(some.values()), recipe, _seeds(settings), context, name=f"preferences-{begin}"
        )
        models += _labelled(front, list(some), len(_seeds(settings)))
        seconds += more
    return {
        "kind": kind,
        "rays": list(rays),
        "rate": recipe.rate,
        "epochs": recipe.epochs,
        "fixed": tried_data(tried),
        "preferences": models,
        "seconds": seconds,
    }


def _labelled(front: Front[Trained], labels: list[str], seeds: int) -> list[dict[str, Any]]:
    models = models_of(front)
    return [{"name": labels[k // seeds], **model} for k, model in enumerate(models)]


def _timed(kind: str, context: Context) -> Found:
    """A step of FERERO on 25 models and on one, each in its fastest form."""
    begin = time.perf_counter()
    found = time_steps(_task(kind, context.settings), context)
    return {**found, "seconds": time.perf_counter() - begin}


EXPERIMENT: Experiment = ImagesExperiment()
