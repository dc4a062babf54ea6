"""`train_front`: trains the models of P preferences and S seeds at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from ferero._arrays import ArrayLike
from ferero.errors import InputError
from ferero.fronts._front import Front
from ferero.fronts._front_run import FrontPlan, FrontRun, ScheduleFactory
from ferero.fronts._progress_line import Watcher, read_watcher
from ferero.fronts._read_preferences import read_preferences
from ferero.fronts._trained import Trained
from ferero.methods import Method
from ferero.methods._ferero_pi import FereroPI
from ferero.methods._method import check_method
from ferero.preference import Preference
from ferero.training._batches import Order, read_batches, read_examples
from ferero.training._ensemble import Ensemble, OptimizerFactory
from ferero.training._losses import LossFunction
from ferero.training._members import Members, Metrics
from ferero.training._slopes import SlopeKind
from ferero.training._stepper_checks import check_options

__all__ = ["train_front"]


def train_front(
    make_model: Callable[[int], nn.Module],
    loss_fn: LossFunction,
    loader: Iterable[Any] | tuple[Tensor, ...],
    preferences: Preference | Iterable[Preference] | ArrayLike,
    *,
    optimizer: OptimizerFactory,
    epochs: int,
    seeds: int | Sequence[int] = 1,
    method: Method[Any] | None = None,
    device: torch.device | str | None = None,
    batch_size: int | None = None,
    order: Order = "shared",
    schedule: ScheduleFactory | None = None,
    schedule_by: Literal["epoch", "step"] = "epoch",
    clip_norm: float | None = None,
    rate_factors: Sequence[float] | None = None,
    slopes: SlopeKind = "realized",
    double_sampling: bool = True,
    evaluate: Mapping[str, Iterable[Any] | tuple[Tensor, ...]] | None = None,
    metrics: Metrics | None = None,
    evaluate_every: int | None = None,
    held_out: str | None = None,
    checkpoint: str | Path | None = None,
    progress: Watcher | bool | None = None,
    compile: bool = False,  # noqa: A002  # torch's word
) -> Front[Trained]:
    """Trains one model for each of P preferences and S seeds, all at once, each as it would train alone.

    Parameters are stacked and `torch.vmap` gives the losses of all models in one call, so that a step of 25 models
    costs a few times that of one. On a GPU the whole step (losses, weights, gradients, optimizer) is captured once and
    replayed, without a host sync within an epoch. Models that vmap cannot handle are trained in a loop,
    and a warning says so.

    Args:
        make_model: ``make_model(seed)``, models of one structure; torch's random numbers are seeded before each call,
            and all preferences of a seed start from the same model.
        loss_fn: ``loss_fn(model, batch)`` gives the batch's mean losses, (m,) or scalars by name, with the graph.
        loader: Batches, the same for all models; or a tuple of tensors (n, ...), which are kept on the device and
            shuffled at every epoch into batches of ``batch_size``; an incomplete last batch is dropped.
        preferences: A list, a stack, or rays (P, m), as `ferero.trace` takes them.
        optimizer: ``optimizer(parameters)``, for example ``lambda parameters: torch.optim.SGD(parameters, lr=0.1)``;
            it must treat every number by itself.
        epochs: Passes over the data.
        seeds: How many (0, 1, ...), or which.
        method: Any method; `ferero.FereroPI` if None.
        device: Where to train; a GPU if there is one, for None.
        batch_size: Examples in a batch, with tensors.
        order: "shared" shuffles the data alike for all models, "seed" differently for each seed (with tensors).
        schedule: ``schedule(optimizer)``, one of torch's learning-rate schedulers.
        schedule_by: Whether it advances after every "epoch" or every "step".
        clip_norm: Largest norm of a model's gradient.
        rate_factors: A factor of the learning rate for each preference, (P,): with a preference given several times, a
            search over the rate in one run.
        slopes: For methods that read slopes; see `ferero.Stepper`.
        double_sampling: The same: gradients on the first half of a batch and slopes on the second.
        evaluate: Further data by name, measured at the end and every ``evaluate_every`` epochs. The training data are
            measured at the end in any case, under "train", unless that name is given here.
        metrics: ``metrics(model, batch)`` gives further figures by name, means over the batch, measured beside
            the losses. With ``held_out`` one may have the name of a loss, and replaces it wherever it is measured.
        evaluate_every: Epochs between two evaluations; None for the end only.
        held_out: The name in ``evaluate`` whose figures drive the constraints: after each epoch they correct the
            training values, as `ferero.Steer.observe` does.
        checkpoint: A file, written after every epoch. The same call resumes from it, and on a CPU ends bit for bit
            where it would have ended; a call with more epochs trains on.
        progress: ``progress(done, total)`` in steps; True for a line on stderr, False for none, None for a line on a
            terminal.
        compile: Fuse the losses with `torch.compile`: a minute at first, then faster on a GPU.

    Returns:
        The `Front` of P * S `Trained`, the seeds of a preference side by side: the losses over the training data, the
        verdict, the weights, and ``front.state_dicts``.

    Raises:
        InputError: Arguments that do not fit, or a checkpoint of another run.
        UnsupportedError: A method that cannot read a preference, or an optimizer that would mix the models.

    Example:
        >>> import torch, ferero
        >>> x = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
        >>> def loss_fn(model, batch):
        ...     y = model(batch[0])[:, 0]
        ...     return torch.stack([(y - batch[0][:, 0]).square().mean(), (y - batch[0][:, 1]).square().mean()])
        >>> front = ferero.train_front(
        ...     lambda seed: torch.nn.Linear(3, 1), loss_fn, (x,), [[1.0, 1.0], [1.0, 3.0]], batch_size=32, epochs=200,
        ...     optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1), device="cpu",
        ... )
        >>> bool(front.ray_errors().max() < 1)
        True
    """
    given = read_preferences(preferences)
    plan = FrontPlan(
        preferences=given,
        seeds=_read_seeds(seeds),
        epochs=_check_count("epochs", epochs),
        evaluate_every=None if evaluate_every is None else _check_count("evaluate_every", evaluate_every),
        schedule_by=schedule_by,
        held_out=held_out,
        checkpoint=None if checkpoint is None else Path(checkpoint),
        step=f"clip_norm={clip_norm}, rate_factors={rate_factors}, slopes={slopes}, double_sampling={double_sampling}",
    )
    if schedule_by not in ("epoch", "step"):
        raise InputError(f'schedule_by: expected "epoch" or "step", found {schedule_by!r}.')
    if schedule_by != "epoch" and schedule is None:
        raise InputError(
            f'schedule_by: expected "epoch" without a schedule, found {schedule_by!r}; pass schedule=, or leave it out.'
        )
    if order not in ("shared", "seed"):
        raise InputError(f'order: expected "shared" or "seed", found {order!r}.')
    where = _read_device(device)
    steered = FereroPI() if method is None else method
    check_method(steered)
    check_options(
        slopes=slopes,
        clip_norm=clip_norm,
        loss_fn=loss_fn,
        accumulate=1,
        chunk=1,
        step_size=None,
        on_nonfinite="skip",
        split=None,
        scaler=None,
        generator=None,
    )
    if evaluate is not None and not isinstance(evaluate, Mapping):
        raise InputError(
            f'evaluate: expected data by name, such as {{"test": loader}}, found {type(evaluate).__name__}.'
        )
    if evaluate_every is not None and not evaluate:
        raise InputError(
            f"evaluate_every: expected None without data to evaluate, found {evaluate_every}; pass evaluate={{name: "
            "data}, or leave it out."
        )
    if metrics is not None and not callable(metrics):
        raise InputError(f"metrics: expected a function of model and batch, found {type(metrics).__name__}.")
    data = dict(evaluate or {})
    if held_out is not None and held_out not in data:
        raise InputError(
            f"held_out: expected one of evaluate's names ({', '.join(data) or 'none'}), found {held_out!r}."
        )
    if given[0].measured and held_out is None:
        raise InputError(
            f"held_out: expected the name in evaluate of the data on which {', '.join(given[0].measured)} can be "
            "measured, found None; pass evaluate={name: data}, held_out=name and metrics=."
        )
    with torch.random.fork_rng():
        members = Members(_make_models(make_model, plan.seeds), len(given), where)
        batches = read_batches(loader, batch_size, order, where, plan.member_seeds)
        others = {name: read_examples(some, where, f"evaluate[{name!r}]") for name, some in data.items()}
        ensemble = Ensemble(
            members,
            loss_fn,
            plan.member_preferences,
            method=steered,
            optimizer=optimizer,
            slopes=slopes,
            double_sampling=double_sampling,
            clip_norm=clip_norm,
            is_own=batches.is_own,
            rate_factors=_read_factors(rate_factors, plan),
            compile=compile,
        )
        run = FrontRun(plan, ensemble, batches, others, metrics, schedule)
        torch.manual_seed(0)  # so that a loader that shuffles does so alike, however many models there are
        return run.train(read_watcher(progress, f"training {members.count} models"))


def _make_models(make_model: Any, seeds: Sequence[int]) -> list[nn.Module]:
    if not callable(make_model) or isinstance(make_model, nn.Module):
        raise InputError(
            f"make_model: expected a function from a seed to a model, found {type(make_model).__name__}; write lambda "
            "seed: Net()."
        )
    models = []
    for seed in seeds:
        torch.manual_seed(seed)
        models.append(make_model(seed))
    return models


def _read_seeds(seeds: Any) -> tuple[int, ...]:
    count = _whole(seeds)
    given: Iterable[Any] = range(count) if count is not None else seeds if isinstance(seeds, Iterable) else ()
    found = [_whole(seed) for seed in given]
    known = [seed for seed in found if seed is not None and seed >= 0]
    if not known or len(set(known)) < len(found):
        raise InputError(f"seeds: expected how many, or different integers >= 0, found {seeds!r}.")
    return tuple(known)


def _read_factors(factors: Sequence[float] | None, plan: FrontPlan) -> list[float] | None:
    if factors is None:
        return None
    found = [float(factor) for factor in factors]
    if len(found) != len(plan.preferences) or not all(0 < factor < math.inf for factor in found):
        raise InputError(
            f"rate_factors: expected a positive number for each of the {len(plan.preferences)} preferences, found "
            f"{factors!r}."
        )
    return [factor for factor in found for _ in plan.seeds]


def _check_count(argument: str, number: Any) -> int:
    found = _whole(number)
    if found is None or found < 1:
        raise InputError(f"{argument}: expected an integer >= 1, found {number!r}.")
    return found


def _whole(number: Any) -> int | None:
    """An integer of Python or numpy as an int; None for anything else."""
    return int(number) if isinstance(number, int | np.integer) and number is not True and number is not False else None


def _read_device(device: torch.device | str | None) -> torch.device:
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
    except RuntimeError as error:
        raise InputError(f'device: expected "cpu", "cuda" or the like, found {device!r}.') from error
    if found.type == "cuda" and not torch.cuda.is_available():
        raise InputError(f'device: expected one that is here, found {str(device)!r} without a GPU; pass "cpu" or None.')
    return found
