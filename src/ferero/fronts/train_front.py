"""`train_front`: a whole front of models in one go, P preferences times S seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ferero.errors import InputError
from ferero.fronts.front import Front
from ferero.fronts.front_run import FrontRun, Plan, ScheduleFactory
from ferero.fronts.preferences import read_preferences
from ferero.fronts.progress import Watcher, read_watcher
from ferero.geometry.arrays import ArrayLike
from ferero.methods import Method
from ferero.methods.control import FereroPI
from ferero.preference import Preference
from ferero.training.ensemble import Ensemble, Members, read_batches
from ferero.training.ensemble.batches import Order
from ferero.training.ensemble.ensemble import OptimizerFactory
from ferero.training.ensemble.evaluation import Metrics
from ferero.training.ensemble.members import LossFunction
from ferero.training.stepping.slopes import SlopeKind

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
    slopes: SlopeKind = "realized",
    double_sampling: bool = True,
    evaluate: Mapping[str, Iterable[Any] | tuple[Tensor, ...]] | None = None,
    metrics: Metrics | None = None,
    evaluate_every: int | None = None,
    held_out: str | None = None,
    checkpoint: str | Path | None = None,
    progress: Watcher | bool | None = None,
    compile: bool = False,  # noqa: A002  # torch's word
) -> Front:
    """Train one model for each of P preferences and S seeds, all together, each as it would train alone.

    Parameters are stacked and `torch.vmap` gives the losses of all models in one call, so that a step of 25 models
    costs a few times that of one. On a GPU the whole step (losses, weights, gradients, optimizer) is captured once and
    replayed, and nothing waits for the device within an epoch. A model that vmap cannot follow is trained in a loop,
    and a warning says so.

    Args:
        make_model: ``make_model(seed)``, models of one structure; torch's random numbers are seeded before each call,
            and all preferences of a seed start from the same model.
        loss_fn: ``loss_fn(model, batch)`` gives the batch's mean losses, (m,) or scalars by name, with the graph.
        loader: Batches, the same for all models; or a tuple of tensors (n, ...), which are kept on the device and dealt
            anew at every epoch in batches of ``batch_size``, what is left over being left out.
        preferences: A list, a stack, or rays (P, m), as `ferero.trace` takes them.
        optimizer: ``optimizer(parameters)``, for example ``lambda parameters: torch.optim.SGD(parameters, lr=0.1)``;
            one that treats every number by itself.
        epochs: Passes over the data.
        seeds: How many (0, 1, ...), or which.
        method: Any method; `ferero.FereroPI` if None.
        device: Where to train; a GPU if there is one, for None.
        batch_size: Examples in a batch, with tensors.
        order: "shared" deals the data alike for all models, "seed" anew for each seed (with tensors).
        schedule: ``schedule(optimizer)``, one of torch's learning-rate schedulers.
        schedule_by: Whether it moves on after every "epoch" or every "step".
        clip_norm: Largest norm of a model's gradient.
        slopes: For methods that read slopes; see `ferero.Stepper`.
        double_sampling: The same: gradients on the first half of a batch and slopes on the second.
        evaluate: Further data by name, measured at the end and every ``evaluate_every`` epochs. The training data are
            measured at the end in any case, under "train", unless that name is given here.
        metrics: ``metrics(model, batch)`` gives further figures by name, means over the batch, to be measured beside
            the losses.
        evaluate_every: Epochs between two evaluations; None for the end only.
        held_out: The name in ``evaluate`` whose figures drive the constraints: after each epoch they correct the
            training values, as `ferero.Steer.observe` does.
        checkpoint: A file, written after every epoch. The same call goes on from it, and on a CPU ends bit for bit
            where it would have ended; one with more epochs trains on.
        progress: ``progress(done, total)`` in steps; True for a line on stderr, False for none, None for a line on a
            terminal.
        compile: Have `torch.compile` make one piece of the losses: a minute at first, then faster on a GPU.

    Returns:
        The `Front` of P * S `Trained`, the seeds of a preference side by side: the losses over the training data, the
        verdict, the weights, and ``front.state_dicts``.

    Raises:
        InputError: What does not fit, or a checkpoint of another run.
        UnsupportedError: A method that does not understand a preference, or an optimizer that would mix the models.

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
    wanted = read_preferences(preferences)
    plan = Plan(
        preferences=wanted,
        seeds=_read_seeds(seeds),
        epochs=_check_count("epochs", epochs),
        evaluate_every=None if evaluate_every is None else _check_count("evaluate_every", evaluate_every),
        schedule_by=schedule_by,
        held_out=held_out,
        checkpoint=None if checkpoint is None else Path(checkpoint),
    )
    if schedule_by not in ("epoch", "step"):
        raise InputError(f'schedule_by: expected "epoch" or "step", found {schedule_by!r}.')
    if order not in ("shared", "seed"):
        raise InputError(f'order: expected "shared" or "seed", found {order!r}.')
    where = _read_device(device)
    steered = FereroPI() if method is None else method
    if isinstance(steered, type):
        raise InputError(f"method: expected an instance, found the class; write {steered.__name__}().")
    data = dict(evaluate or {})
    if held_out is not None and held_out not in data:
        raise InputError(
            f"held_out: expected one of evaluate's names ({', '.join(data) or 'none'}), found {held_out!r}."
        )
    with torch.random.fork_rng():
        members = Members(_make_models(make_model, plan.seeds), len(wanted), where)
        batches = read_batches(loader, batch_size, order, where, plan.member_seeds)
        others = {
            name: read_batches(some, batch_size if isinstance(some, tuple) else None, "shared", where, [0], "evaluate")
            for name, some in data.items()
        }
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
            compile=compile,
        )
        run = FrontRun(plan, ensemble, batches, others, metrics, schedule)
        torch.manual_seed(plan.seeds[0])
        return run.train(read_watcher(progress, f"training {members.count} models"))


def _make_models(make_model: Callable[[int], nn.Module], seeds: Sequence[int]) -> list[nn.Module]:
    if not callable(make_model):
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
    found = tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)
    if not found or len(set(found)) < len(found) or not all(isinstance(s, int) and s >= 0 for s in found):
        raise InputError(f"seeds: expected how many, or different integers >= 0, found {seeds!r}.")
    return found


def _check_count(argument: str, number: Any) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise InputError(f"{argument}: expected an integer >= 1, found {number!r}.")
    return number


def _read_device(device: torch.device | str | None) -> torch.device:
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    found = torch.device(device)
    if found.type == "cuda" and not torch.cuda.is_available():
        raise InputError(f'device: expected one that is here, found {str(device)!r} without a GPU; pass "cpu" or None.')
    return found
