"""No option that does nothing: changing any option of any public callable changes what one gets.

`public_options` finds the options by introspection; `OPTIONS` has a run for each, which is made with the default,
twice, since an outcome that differs from itself would prove nothing, and with another value. A refusal is an outcome.
A new option without an entry fails `test_every_option_has_a_run`.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import io
import math
import pkgutil
import re
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest import mock

import matplotlib as mpl
import numpy as np
import pytest
import torch
from matplotlib import pyplot
from matplotlib.lines import Line2D
from rich.console import Console
from scipy.optimize import LinearConstraint
from torch import distributed, nn

import ferero
from ferero import Cone, Course, Observation, Preference, Trained, cli, plot, subprogram
from ferero.__main__ import main
from ferero.files import write_whole
from ferero.geometry import project_multipliers
from ferero.methods import Decision, check_observation
from ferero.optimize import minimize_many
from ferero.plot import style
from ferero.preference import Constraint, Family, FamilyConstraint, Logarithm, Objectives, Ratio, Rewriting
from ferero.training import Controller, Ensemble, FamilyReport, Members, Report, read_batches

mpl.use("Agg")

OPTIONS: dict[str, Callable[[], tuple[str, str, str]]] = {}
UNOBSERVABLE: dict[str, str] = {}  # "Callable.option": why no test in this process can see what it does

# the options ------------------------------------------------------------------------------------------------


def public_callables() -> Iterator[tuple[str, Any]]:
    """Functions and classes that a public package exports, and the methods that are defined in public classes."""
    modules = [ferero.__name__, *(info.name for info in pkgutil.walk_packages(ferero.__path__, "ferero."))]
    for name in modules:
        if any(part.startswith("_") for part in name.split(".")):
            continue
        module = importlib.import_module(name)
        for exported in getattr(module, "__all__", vars(module)):
            found = getattr(module, exported)
            if not callable(found) or not str(getattr(found, "__module__", "")).startswith("ferero"):
                continue
            yield exported, found
            for attribute in dir(found) if inspect.isclass(found) else ():
                method = getattr(found, attribute)
                is_ours = str(getattr(method, "__module__", "")).startswith("ferero")
                if is_ours and callable(method) and (attribute == "__call__" or not attribute.startswith("_")):
                    yield method.__qualname__, method


def public_options() -> set[str]:
    """``Callable.option`` for every parameter with a default, and every ``**options``."""
    found = set()
    for name, function in public_callables():
        is_error = inspect.isclass(function) and issubclass(function, BaseException)
        if getattr(function, "_is_protocol", False) or (is_error and "__init__" not in vars(function)):
            continue  # no options of ours
        for parameter in inspect.signature(function).parameters.values():
            if parameter.default is not parameter.empty or parameter.kind is parameter.VAR_KEYWORD:
                found.add(f"{name}.{parameter.name}")
    return found


# outcomes ---------------------------------------------------------------------------------------------------


class Later:
    """A value that must be made anew for each run."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


def options(name: str, run: Callable[..., Any], /, **values: Any) -> None:
    """Register ``run()`` against ``run(option=value)`` for each option."""
    usual = cache(lambda: (outcome(run), outcome(run)))
    for option, value in values.items():

        def compare(option: str = option, value: Any = value) -> tuple[str, str, str]:
            other = value.make() if isinstance(value, Later) else value
            return *usual(), outcome(partial(run, **{option: other}))

        assert f"{name}.{option}" not in OPTIONS
        OPTIONS[f"{name}.{option}"] = compare


def outcome(run: Callable[[], Any]) -> str:
    """What came of it in words: to the last digit, or the refusal."""
    try:
        return repr(plain(run()))
    except (ferero.FereroError, NotImplementedError) as error:  # the second is that of a device without numbers
        return str(error)
    finally:
        pyplot.close("all")


def plain(value: Any) -> Any:  # noqa: PLR0911  # a kind a line
    """Tensors, results and the like as lists."""
    if isinstance(value, torch.Tensor):
        return str(value.device), str(value.dtype), None if value.is_meta else value.tolist()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, mpl.axes.Axes):
        return drawn(value)
    if isinstance(value, Preference):
        numbers = (value.A, value.B_g, value.b_g, value.margins, value.B_h, value.b_h)
        return str(value), value.measured, value.labels_g, plain(numbers)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value) if f.name != "seconds"}
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else str(value)


def drawn(ax: Any) -> Any:
    """What is on axes, and on what page."""
    artists = [
        (type(a).__name__, a.get_label(), plain(np.asarray(a.get_xydata())), a.get_color(), a.get_linestyle())
        for a in ax.lines
    ]
    filled = [(a.get_label(), plain(a.get_facecolor()), plain(a.get_offsets())) for a in ax.collections]
    filled += [(a.get_label(), plain(a.get_facecolor()), plain(a.get_xy())) for a in ax.patches]
    legend = ax.get_legend() and [text.get_text() for text in ax.get_legend().get_texts()]
    page = ax.figure.get_facecolor(), plain(ax.figure.get_size_inches()), len(ax.figure.axes)
    return artists, filled, legend, page, ax.get_xlim(), ax.get_ylim(), ax.get_xlabel(), ax.get_ylabel()


# one small problem ------------------------------------------------------------------------------------------

CENTRES = torch.eye(3, dtype=torch.float64)
SIZES = torch.tensor([1.0, 1.5, 2.0], dtype=torch.float64)
X0 = torch.tensor([2.0, -1.0, 0.5], dtype=torch.float64)
RAY, PLAIN = Preference.ray([1.0, 2.0, 3.0]), Preference.pareto(3)
MIXED = Preference.parse("f1 <= 0.4; f2 - f3 == 0.5", names=["f1", "f2", "f3"])
UNMET = Preference.parse("f1 <= 0.1; f2 <= 0.1", names=["f1", "f2", "f3"])
NARROW = Cone.from_rays([[1.0, 0.2, 0.0], [0.0, 1.0, 0.2], [0.2, 0.0, 1.0]])


def losses_at(x: torch.Tensor) -> torch.Tensor:
    return SIZES * (x - CENTRES).square().sum(dim=-1)


def jacobian_at(x: torch.Tensor) -> torch.Tensor:
    return 2 * SIZES[:, None] * (x - CENTRES)


def weights_of(method: Any, preference: Preference, skew: float = 0.0, noise: float = 0.0, swing: float = 0.0) -> Any:
    """The weights of 50 steps, and which solver found them."""
    draw = torch.Generator().manual_seed(0)
    state, x, slopes, found = method.init(preference), X0, None, []
    for step in range(50):
        J = jacobian_at(x)
        seen = losses_at(x) * (1 + noise * torch.randn(3, generator=draw, dtype=torch.float64))
        seen = seen * (1 + swing * math.sin(step / 4))
        gramian = J @ J.T
        gramian[0, 1] += skew
        decision, state = method.update(preference, Observation(seen, gramian=gramian, slopes=slopes), state)
        found.append((decision.weights, getattr(decision.solution, "solver", "")))
        direction = -decision.weights @ J
        slopes = J @ direction
        x = x + 0.02 * direction
    return found


def creeping_weights(method: ferero.FereroPI) -> torch.Tensor:
    """The weights after 400 steps in which a violation that has all the weight hardly falls."""
    preference = Preference.parse("a <= 0.1; minimize b", names=["a", "b"])
    state = method.init(preference)
    for step in range(400):
        decision, state = method.update(preference, Observation([1 - 4e-5 * step, 1.0]), state)
    return decision.weights


def of_method(kind: Any, preference: Preference = RAY, values: Any = None, **how: float) -> None:
    options(kind.__name__, lambda **given: weights_of(kind(**given), preference, **how), **values)


LAW = {"c_g": 2.0, "c_h": 2.0}
of_method(ferero.Ferero, MIXED, LAW | {"domain": "simplex", "bound": 0.1, "solver": "batched"})
of_method(ferero.FereroSA, MIXED, LAW | {"gamma": 0.02, "domain": "simplex", "bound": 0.01})
of_method(ferero.FereroQG, MIXED, LAW | {"domain": "adaptive", "bound": 0.01, "damping": 0.5, "solver": "batched"})
GAINS = {"proportional": 4.0, "steady": 2.0, "integral": 0.02, "release": 0.2, "near": 0.1, "adaptation": 0.2}
of_method(ferero.FereroPI, MIXED, GAINS | {"memory": 10.0}, noise=0.1)
of_method(ferero.FereroPI, UNMET, {"headroom": 1.0, "patience": 5.0}, swing=0.3)
options("FereroPI", lambda **given: creeping_weights(ferero.FereroPI(**given)), stretch=2.0)
of_method(ferero.EPO, Preference.ray([1.0, 3.0, 1.0]), {"tolerance": 10.0, "relax": True})
of_method(ferero.MGDA, PLAIN, {"normalize": "l2", "solver": "batched"})
of_method(ferero.PMTL, RAY, {"vectors": [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], "count": 9, "warmup": 0})
of_method(ferero.WCMGDA, RAY, {"u": 0.3})
of_method(ferero.XWCMGDA, RAY, {"u": 0.3})
for unchecked in (ferero.EPO, ferero.PMTL, ferero.WCMGDA, ferero.XWCMGDA):  # "batched" does not check the gramian
    of_method(unchecked, RAY, {"solver": "batched"}, skew=0.1)
of_method(ferero.LinearScalarization, RAY, {"weights": [1.0, 1.0, 1.0]})
of_method(ferero.Tchebycheff, RAY, {"weights": [1.0, 1.0, 1.0], "ideal": [-9.0, 0.0, 0.0]})
of_method(ferero.SmoothTchebycheff, RAY, {"mu": 0.5, "weights": [1.0, 1.0, 1.0], "ideal": [0.5, 0.0, 0.0]})


def observed(method: Any = None, **parts: Any) -> Any:
    method = method or ferero.FereroPI()
    return method.update(RAY, Observation(losses_at(X0), **parts), method.init(RAY))


options("Observation", partial(observed, ferero.Ferero()), gramian=torch.eye(3))
options("Observation", partial(observed, ferero.FereroSA(domain="simplex")), slopes=[1.0, 2.0])
options("Observation", observed, present=[True, True, False])
options("Decision", partial(Decision, SIZES), multipliers=SIZES, solution="solved")
options("check_observation", partial(check_observation, ferero.Ferero(), RAY, Observation(SIZES)), required=("losses",))

# preferences and cones --------------------------------------------------------------------------------------

F = ferero.objectives("a", "b", "c")
NAMES, ROW = {"names": ["x", "y", "z"]}, [[1.0, -1.0, 0.0]]
options("Preference", partial(Preference, F), constraints=[F.a <= 1], minimize=F.a, cone=NARROW)
options("Preference.ray", partial(Preference.ray, [1.0, 2.0, 3.0]), through=[1.0, 0.0, 0.0], cone=NARROW, **NAMES)
options("Preference.ray", partial(Preference.ray, [1.0, 2.0, 3.0]), at_most=True)
options("Preference.from_weights", partial(Preference.from_weights, [1.0, 2.0, 3.0]), cone=NARROW, **NAMES)
options("Preference.between", partial(Preference.between, [1.0, 2.0, 3.0], [0.0, 0.0, 1.0]), cone=NARROW, **NAMES)
options("Preference.pareto", partial(Preference.pareto, 3), cone=NARROW, **NAMES)
options("Preference.parse", partial(Preference.parse, "y <= x + z"), cone=NARROW, **NAMES)
options("Preference.from_matrices", Preference.from_matrices, A=NARROW.matrix, B_g=ROW, B_h=ROW, cone=NARROW)
options("Preference.from_matrices", partial(Preference.from_matrices, B_g=ROW), b_g=[1.0], margins=2.0, **NAMES)
options("Preference.from_matrices", partial(Preference.from_matrices, B_h=ROW), b_h=[1.0])
options("Preference.is_satisfied", partial(MIXED.is_satisfied, [0.41, 1.0, 0.5]), atol=0.1)
options("Preference.to", RAY.to, device="meta", dtype=torch.float32)
TERM, FALLING = (F.a <= 1.0).left, ferero.ramp(2.0, 1.0, steps=10)
options("Constraint", lambda **how: Preference(F, Constraint(TERM, "<=", TERM, **how)), absolute=True, margin=2.0)
options("Constraint", lambda **how: Preference(F, Constraint(TERM, "<=", TERM, **how)), label="in other words")
options("Constraint", lambda **how: Preference(F, Constraint(TERM, "<=", TERM, **how)), name="budget")
DENOMINATOR, NEGATIVE = (F.b <= 1.0).left, [0.0, -1.0, 0.0]
DIVIDED = Rewriting(DENOMINATOR, (DENOMINATOR,))
options(
    "Constraint",
    lambda **how: Preference(F, Constraint(TERM, "<=", TERM, **how)).is_satisfied(NEGATIVE),
    rewriting=DIVIDED,
)
options("Rewriting", partial(Rewriting, DENOMINATOR, (DENOMINATOR,)), parts=(F.a <= 1,))
options("Ratio", lambda **how: Preference(F, Ratio(TERM, DENOMINATOR, **how) <= 2), offset=1.0, absolute=True)
options("Logarithm", lambda **how: Preference(F, Logarithm(((TERM, 1.0),), **how) <= 2), constant=1.0, absolute=True)
options("Constraint", lambda **how: Preference(F, Constraint(TERM, "<=", (F.a <= 1).right, **how)), schedule=FALLING)
options("ramp", partial(ferero.ramp, 1.0, 0.5, steps=10), after=3)
options("cosine", partial(ferero.cosine, 1.0, 0.5, steps=10), after=3)
options("Objectives", lambda **how: Preference(Objectives(("a", "b"), **how)), measured=("a",))
options("Objectives", lambda **how: Preference(Objectives(("a", "b[0]"), **how)), families=(Family("b", 1, 1),))
options("objectives", lambda **how: Preference(ferero.objectives("a", "b", **how)), measured=("a",))
options("objectives", lambda families=None: Preference(ferero.objectives("a", **(families or {}))), families={"b": 3})
FAMILY = ferero.objectives("a", b=3)


def family_constrained(**how: Any) -> Preference:
    side = FAMILY.b.family
    return Preference(FAMILY, FamilyConstraint(side, "<=", side.times(2.0), **how), minimize=FAMILY.a)


options("FamilyConstraint", family_constrained, absolute=True, margin=2.0, label="in other words", name="budget")
options("FamilyConstraint", family_constrained, schedule=FALLING, rewriting=DIVIDED)
options("spread", partial(ferero.spread, 2, 3), low=0.3, high=1.0)
options("Cone.dominates", partial(Cone.orthant(2).dominates, [1.0, 1.0], [1.0, 2.0]), strict=True)
options("nondominated", partial(ferero.nondominated, [[1.0, 2.0, 3.0], [3.0, 2.0, 1.5]]), cone=Cone([[1.0, 0.0, 0.0]]))
options("ray_error", partial(ferero.ray_error, [1.0, 2.0], [1.0, 1.0]), through=[0.0, 1.0])
options("project_multipliers", partial(project_multipliers, 9 * SIZES, SIZES[:1], 1.0, 1), bound=2.0)

# rates ------------------------------------------------------------------------------------------------------

LOGITS, LABELS = torch.tensor([1.0, -2.0, 0.5, 3.0]), torch.tensor([1.0, 1.0, 0.0, 0.0])
SOME = torch.tensor([True, False, True, False])
options("positive_rate", partial(ferero.rates.positive_rate, LOGITS), where=SOME)
for rate in ("true_positive_rate", "false_positive_rate", "recall", "precision", "accuracy", "true_positives"):
    options(rate, partial(getattr(ferero.rates, rate), LOGITS, LABELS), where=SOME)
for gap in ("demographic_parity", "equal_opportunity", "equalised_odds"):
    made = getattr(ferero.rates, gap)
    options(gap, lambda made=made, **how: made(0.1, **how).preference, groups=("a", "b", "c"), minimize="error")
options("Gap", partial(ferero.rates.Gap, ("positive_rate",), 0.1, ("a", "b")), minimize="error")

# the subprogram ---------------------------------------------------------------------------------------------

ROWS = torch.cat([torch.eye(3), MIXED.B_g, MIXED.B_h]).double()
GRAMIAN = jacobian_at(X0) @ jacobian_at(X0).T + 0.1 * torch.eye(3, dtype=torch.float64)
LINEAR = torch.tensor([0.0, 0.0, 0.0, 30.0, -20.0], dtype=torch.float64)
DUAL = (ROWS, GRAMIAN, LINEAR, torch.ones(3, dtype=torch.float64))
BATCH = (*(part[None] for part in DUAL), torch.ones(1, dtype=torch.float64))
BOUNDED = subprogram.Programs(*BATCH, equalities=1, bound=2.0)


def solved_exactly(**how: Any) -> Any:
    return subprogram.solve_exact(subprogram.Program(*(part.numpy() for part in DUAL), 1.0, **how)).multipliers


options("Program", solved_exactly, equalities=1, bound=0.01)
SHORT = {"max_iter": 50}
options("Programs", lambda **how: subprogram.pgd(subprogram.Programs(*BATCH, **how), **SHORT), equalities=1, bound=0.01)
options("solve_batched", partial(subprogram.solve_batched, *BATCH), equalities=1, bound=0.01)
options("pgd", partial(subprogram.pgd, BOUNDED, **SHORT), accelerated=False, step=0.5, tol=0.1, max_iter=3)
options("frank_wolfe", partial(subprogram.frank_wolfe, BOUNDED, **SHORT), tol=0.1, max_iter=3)
SOLVED = partial(ferero.solve_subprogram, MIXED, losses_at(X0), GRAMIAN)
options("solve_subprogram", SOLVED, c_g=2.0, c_h=2.0, domain="simplex", solver="batched", bound=0.01)
THREE = subprogram.Program(np.eye(3), np.diag([1.0, 2.0, 3.0]), np.array([0.0, -0.1, -0.2]), np.ones(3), 1.0)
options("solve_exact", lambda **how: subprogram.solve_exact(THREE, **how).solver, guess=np.full(3, 1 / 3))
options("check_gramian", partial(subprogram.check_gramian, np.array([[1.0, 0.1], [0.0, 1.0]])), rounding=0.1)
options("factor", partial(subprogram.factor, np.array([[1.0, 1.0], [1.0, 1.0 + 1e-10]])), tolerance=1e-3)

# deterministic problems -------------------------------------------------------------------------------------


def doubled(x: torch.Tensor) -> torch.Tensor:
    return 2 * jacobian_at(x) + 0.1


def stop(progress: Any) -> None:
    raise StopIteration


SEARCH: dict[str, Any] = {"method": ferero.SmoothTchebycheff(), "step": 0.05, "max_iter": 2, "tol": 1e-2}
SEARCH |= {"jac": doubled, "lower": [-1.0, 0.0, 0.0], "x_scale": [1.0, 8.0, 1.0], "noise": 1.0, "time_limit": 1e-9}
SEARCH |= {"bounds": [(-1, 1)] * 3, "constraints": LinearConstraint(np.ones((1, 3)), 1.0, 1.0)}
BOUNDED: dict[str, Any] = {
    "bounds": [(2, 3), (-1, 3), (0, 3)],
    "constraints": LinearConstraint(np.ones((1, 3)), 1.0, 1.0),
}
BOUNDED |= {"x_scale": [1.0, 8.0, 1.0], "atol": 10.0}
options("minimize", partial(ferero.minimize, losses_at, X0, PLAIN, max_iter=20), callback=stop, **SEARCH)
options("minimize_many", partial(minimize_many, losses_at, X0, [RAY, PLAIN], max_iter=20), **SEARCH)
options("trace", lambda **how: ferero.trace(losses_at, X0, [RAY, PLAIN], **SHORT | how).results, **SEARCH)
options("certify", partial(ferero.certify, losses_at, X0, MIXED), x0=1e6 * X0, jac=doubled, **BOUNDED)


def losses_of_array(x: np.ndarray) -> np.ndarray:
    return (SIZES * (torch.from_numpy(x) - CENTRES).square().sum(dim=-1)).exp().numpy()


ALONE: dict[str, Any] = {"jac": doubled, "lower": [-1.0, 0.0, 0.0], "max_iter": 2, **NAMES}
ALONE |= {"bounds": [(-1, 0.5)] * 3, "constraints": LinearConstraint(np.ones((1, 3)), 2.0, 2.0)}
options("payoff", partial(ferero.payoff, losses_at, X0), **ALONE)
options("payoff", partial(ferero.payoff, lambda x: losses_at(x).exp(), X0), tol=1e-2)
START = {"fun": losses_of_array, "x0": X0.numpy(), "max_iter": 3}
options("minimize", partial(ferero.minimize, losses_at, X0, MIXED), atol=0.1)
options("minimize_many", partial(minimize_many, losses_at, X0, [MIXED, MIXED]), atol=0.1)
options("trace", lambda **how: ferero.trace(losses_at, X0, [MIXED, MIXED], **how).results, atol=0.1)
options("minimize", partial(ferero.minimize, **START, preference=RAY), diff_step=1e-2)
options("minimize_many", partial(minimize_many, **START, preferences=[RAY]), diff_step=1e-2)
options("trace", lambda **how: ferero.trace(**START, preferences=[RAY], **how).results, diff_step=1e-2)
options("trace", partial(ferero.trace, losses_at, X0, [RAY, PLAIN]), workers=lambda function, values: [])


def of_search(kind: Any, preference: Preference = RAY, **values: Any) -> None:
    def run(**given: Any) -> Any:
        return ferero.minimize(losses_at, X0, preference, method=kind(**given), max_iter=20)

    options(f"minimize(step='auto').{kind.__name__}", run, **values)


def asking(programs: Any) -> torch.Tensor:
    raise ferero.FereroError("the solver was asked")


of_search(ferero.Ferero, MIXED, c_g=2.0, c_h=2.0, bound=1.0, solver="batched", domain="simplex")
of_search(ferero.LinearScalarization, weights=[1.0, 1.0, 1.0])
of_search(ferero.SmoothTchebycheff, mu=0.5, weights=[1.0, 1.0, 1.0], ideal=[0.5, 0.0, 0.0])
of_search(ferero.MGDA, PLAIN, normalize="l2", solver=asking)

# training ---------------------------------------------------------------------------------------------------

DATA = torch.randn(24, 3, generator=torch.Generator().manual_seed(0))
OTHER = torch.randn(16, 3, generator=torch.Generator().manual_seed(1))
RAY2 = Preference.ray([1.0, 2.0], names=["a", "b"])
SA = ferero.FereroSA(gamma=0.1, domain="simplex")


def loss_fn(model: Any, batch: Any) -> torch.Tensor:
    x = batch[0] if isinstance(batch, list | tuple) else batch
    miss = model(x)[..., 0] - x[..., :2].movedim(-1, 0)
    return miss.square().flatten(1).mean(dim=1)


def make_model(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Linear(3, 1)


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1)


def controlled(
    values: torch.Tensor = SIZES, method: Any = None, where: Any = None, arrived: Any = None, **parts: Any
) -> Any:
    controller = Controller(RAY, method)
    controller.step(SIZES.flip(0), gramian=GRAMIAN if isinstance(method, ferero.Ferero) else None)
    controller.observe(2 * SIZES, arrived, where)
    return controller.step(values, **parts), controller.losses, controller.weights


options("Controller", controlled, method=ferero.LinearScalarization())
options("Controller.observe", controlled, where=torch.tensor(False), arrived=torch.tensor([True, True, False]))
options("Controller.step", controlled, present=torch.tensor([True, True, False]), gramian=GRAMIAN)
options("Controller.step", partial(controlled, method=SA), slopes=SIZES)


def steered(counts: Any = None, measured: Any = None, bad: bool = False, **how: Any) -> Any:
    steer = ferero.Steer(RAY2, **how)
    theta, found = torch.tensor([2.0, 1.0], requires_grad=True), []
    for step in range(3):
        losses = theta.square() * (math.nan if bad and step == 1 else 1.0)
        loss = steer(losses, counts)
        found.append(loss.detach())
        if loss.requires_grad:
            loss.backward()
        slope = torch.zeros(2) if theta.grad is None else theta.grad
        theta = (theta - 0.1 * slope).detach().requires_grad_()
        if measured is not None:
            steer.observe(**measured)
    return found, steer.weights, steer.losses


@contextmanager
def two_ranks() -> Iterator[Any]:
    """This process as the first of two, the other of which adds nothing; a group of it alone."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    distributed.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    try:
        yield distributed.new_group([0])
    finally:
        distributed.destroy_process_group()


def together(run: Callable[..., Any], group: Any = None) -> Any:
    with two_ranks() as alone:
        return run(group=alone if group else None)


FAMILY_STEERED = Preference(FAMILY, [FAMILY.b <= 0.5], minimize=FAMILY.a)


def sampled(kind: Any, index: Any = None) -> Any:
    controller = kind(FAMILY_STEERED)
    b = torch.ones(3, requires_grad=kind is ferero.Steer)
    values = {"a": b.sum(), "b": b * 1}
    out = controller(values, index=index) if kind is ferero.Steer else controller.step(values, index=index)
    return out, controller.weights, controller.losses


options("Steer.forward", partial(sampled, ferero.Steer), index={"b": [0, 1, 3]})
options("Controller.step", partial(sampled, Controller), index={"b": [0, 1, 1]})


def told(**how: Any) -> Any:
    report = Report("met", "", (), {}, 1, 0, **how)
    return str(report), report.noise


ONE_FAMILY = FamilyReport("b <= 1", 3, 2, "b[1] <= 1", 0.5, "not_met", 0.1)
options("Report", told, families=(ONE_FAMILY,), noise=torch.ones(3))
options("Steer", steered, method=ferero.LinearScalarization(), every=2)
options("Steer", partial(steered, bad=True), on_nonfinite="skip")
options("Steer", partial(together, steered), group="alone")
options("Steer.forward", steered, counts={"a": 1, "b": 0})
options("Steer.observe", steered, measured={"a": 3.0})


def stepped(twin: Any = None, bad: bool = False, size: float = 1.0, method: Any = SA, **how: Any) -> Any:
    model = make_model()
    stepper = ferero.Stepper(model, loss_fn, RAY2, sgd(model.parameters()), method=method, **how)
    found = []
    for step in range(4):
        batch = size * DATA * (math.nan if bad and step == 1 else 1.0)
        found.append(stepper.step(batch, twin))
    return found, stepper.weights, model.state_dict()


def chunked(**how: Any) -> Any:
    """Whether gradients were vmapped."""
    with mock.patch.object(torch.autograd, "grad", wraps=torch.autograd.grad) as grad:
        stepped(method=ferero.Ferero(), **how)
    return [call.kwargs.get("is_grads_batched") for call in grad.call_args_list]


SCALER = Later(lambda: torch.amp.GradScaler("cpu", init_scale=2.0**127))  # skips the first step
DRAW = Later(lambda: torch.Generator().manual_seed(1))
options("Stepper", stepped, slopes="forward", double_sampling=False, split=lambda x: (x[:3], x[3:]), accumulate=2)
options("Stepper", stepped, clip_norm=0.01, generator=DRAW, step_size=1.0)
options("Stepper", partial(stepped, bad=True), on_nonfinite="skip")
options("Stepper", partial(stepped, size=10.0), scaler=SCALER)
options("Stepper", chunked, chunk=2)
options("Stepper", partial(together, partial(stepped, method=ferero.FereroPI())), group="alone")
options("Stepper.step", stepped, twin=OTHER)


def evaluated(**how: Any) -> Any:
    seen = []

    def watching(model: Any, batch: Any) -> torch.Tensor:
        seen.append(batch.device)
        return loss_fn(model.to(batch.device), batch)

    return ferero.evaluate(make_model(), watching, [DATA, OTHER], **how), seen


def counted(**how: Any) -> Any:
    """How often the processes of a group spoke."""
    with tempfile.TemporaryDirectory() as folder:
        distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
        try:
            with mock.patch.object(distributed, "all_reduce", wraps=distributed.all_reduce) as spoke:
                return ferero.evaluate(make_model(), loss_fn, [DATA], **how), spoke.call_count
        finally:
            distributed.destroy_process_group()


options("evaluate", evaluated, names=["a", "b"], device="meta")
options("evaluate", counted, reduce=False)


@contextmanager
def not_compiling() -> Iterator[list[Any]]:
    """`torch.compile` that leaves a function as it is, and who was given to it."""
    given: list[Any] = []
    with mock.patch.object(torch, "compile", side_effect=lambda f: given.append(type(f)) or f):
        yield given


def ensembled(method: Any = None, batch: torch.Tensor = DATA[:16], **how: Any) -> Any:
    members = Members([make_model(0)], 2, torch.device("cpu"))
    wanted = [RAY2, Preference.ray([2.0, 1.0], names=["a", "b"])]
    with not_compiling() as compiled:
        ensemble = Ensemble(members, loss_fn, wanted, method=method or ferero.FereroPI(), optimizer=sgd, **how)
        for _ in range(3):
            ensemble.step(batch)
    return [members.state_dict(k) for k in range(2)], ensemble.controller.weights, compiled


options("Ensemble", partial(ensembled, SA), slopes="forward", double_sampling=False)
options("Ensemble", ensembled, clip_norm=0.01, rate_factors=[1.0, 2.0], compile=True)
options("Ensemble", partial(ensembled, batch=DATA.view(2, 12, 3)), is_own=True)
options("read_batches", partial(read_batches, 5, None, "shared", torch.device("cpu"), [0]), what="evaluate")

# fronts -----------------------------------------------------------------------------------------------------


def halving(optimizer: torch.optim.Optimizer) -> Any:
    return torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)


def trained(checkpoint: str | None = None, data: Any = (DATA,), batch_size: Any = 8, **how: Any) -> Any:
    told: list[Any] = []
    if how.get("progress") == "told":
        how["progress"] = lambda done, total: told.append((done, total))
    with tempfile.TemporaryDirectory() as folder, not_compiling() as compiled:
        path = None if checkpoint is None else Path(folder) / checkpoint
        how |= {"checkpoint": path, "batch_size": batch_size}
        front = ferero.train_front(make_model, loss_fn, data, [RAY2, RAY2], optimizer=sgd, epochs=2, **how)
        files = sorted(file.name for file in Path(folder).iterdir())
    return front.results, files, told, compiled


TEST = {"test": (OTHER,)}
ELSEWHERE = "cpu" if torch.cuda.is_available() else "cuda"  # which is refused where there is none
options("train_front", trained, seeds=2, method=ferero.LinearScalarization(), device=ELSEWHERE, batch_size=6)
options("train_front", partial(trained, seeds=2), order="seed")
options("train_front", trained, schedule=halving, clip_norm=0.01, rate_factors=[1.0, 2.0], evaluate=TEST)
options("train_front", trained, metrics=lambda model, batch: {"one": batch[0].mean()}, checkpoint="run.pt")
options("train_front", trained, progress="told", compile=True)
options("train_front", partial(trained, schedule=halving), schedule_by="step")
options("train_front", partial(trained, method=SA), slopes="forward", double_sampling=False)
options("train_front", partial(trained, evaluate=TEST), evaluate_every=1, held_out="test")


class Losing:
    """An executor whose workers are lost twice."""

    def __init__(self) -> None:
        self.times = 0

    def submit(self, function: Any, *given: Any) -> Any:
        self.times += 1
        lost = mock.Mock(side_effect=RuntimeError("lost"))
        here = mock.Mock(side_effect=lambda: function(*given))
        return mock.Mock(done=lambda: True, result=lost if self.times <= 2 else here)


def swept(folder: str | None = None, progress: Any = None, **how: Any) -> Any:
    told: list[Any] = []
    watch = None if progress is None else lambda done, total: told.append((done, total))
    workers = how.pop("executor", None) and Losing()
    with tempfile.TemporaryDirectory() as place:
        path = None if folder is None else Path(place) / folder
        front = ferero.sweep(lambda p: p.ray, [[1.0, 1.0]], executor=workers, folder=path, progress=watch, **how)
        return front.losses, told, len(list(Path(place).rglob("*"))), workers and workers.times


options("sweep", swept, executor="losing", folder="kept", progress="told")
options("sweep", partial(swept, executor="losing"), retries=0)


def in_a_front(**how: Any) -> Any:
    one = Trained(RAY2, torch.tensor([1.0, 2.5]), **how)
    front = ferero.Front.from_results([one])
    return front.to_dict(), one.multipliers, front.plot(), one.state_dict and front.state_dicts


COURSE = Course(torch.arange(2), torch.tensor([[3.0, 3.0], [2.0, 2.0]]).double(), torch.ones(2, 2).double())
options("Trained", in_a_front, status="met", message="word", weights=torch.ones(2), multipliers=torch.ones(2), seed=1)
options("Trained", in_a_front, steps=3, seconds=2.0, evaluated={"test": {"a": 1.0}}, course=COURSE, state_dict={"w": 1})
options(
    "Course", partial(Course, *(getattr(COURSE, n) for n in ("steps", "losses", "weights"))), evaluated={"test/a": X0}
)
options("SweepError", lambda **how: vars(ferero.SweepError("", **how)), failures={0: OSError()}, finished={0: "it"})

# pictures ---------------------------------------------------------------------------------------------------

PLANE = ferero.trace(lambda x: losses_at(x)[:2], X0, [[1.0, 1.0], [1.0, 2.0]])
BOUND2 = Preference.parse("f1 <= 0.5", names=["f1", "f2"])
HISTORY = ferero.minimize(lambda x: losses_at(x)[:2], X0, BOUND2)
RECORDS = [{"ferero/loss/a": 1.0, "ferero/weight/a": 0.5}, {"ferero/loss/a": 0.5, "ferero/weight/a": 0.7}]
AXES = Later(lambda: pyplot.figure().subplots())
PAIR = Later(lambda: pyplot.figure().subplots(2))
PICTURE: dict[str, Any] = {"ax": AXES, "truth": [[0.0, 4.0], [1.0, 1.0]], "trajectories": False, "rays": False}
options("plot_front", partial(plot.plot_front, PLANE), labels=["one", "two"], **PICTURE)
options("Front.plot", PLANE.plot, labels=["one", "two"], **PICTURE)
options("Front.nondominated", PLANE.nondominated, cone=Cone([[1.0, 0.0]]))
options("plot_cone", partial(plot.plot_cone, Cone.orthant(2), [1.0, 1.0]), ax=AXES, color="red", label="mine")
options("plot_region", partial(plot.plot_region, BOUND2), ax=AXES, color="red", label="mine")
options("plot_history", partial(plot.plot_history, HISTORY), ax=AXES)
options("plot_training", partial(plot.plot_training, RECORDS), axes=PAIR)
options("new_plane", partial(style.new_plane, ["a", "b"]), width=2.0, height=2.0)
options("new_space", partial(style.new_space, ["a", "b", "c"]), size=2.0)


def themed(**how: Any) -> Any:
    with plot.theme(**how):
        return PLANE.plot()


options("theme", themed, dark=True)
options(
    "finish",
    lambda **how: (ax := style.new_plane(["a", "b"]), style.finish(ax, **how)),
    extra=[(Line2D([], []), "more")],
)

# files and the command line ---------------------------------------------------------------------------------


def written(**how: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        write_whole(Path(folder) / "file", b"all", **how)
        return (Path(folder) / "file").stat().st_mode


def interrupted(**how: Any) -> str:
    said = io.StringIO()
    with redirect_stderr(said), pytest.raises(Exception), cli.sentences(**how):  # noqa: B017, PT011  # typer's
        raise KeyboardInterrupt
    return said.getvalue()


def waited(**how: Any) -> bool:
    console = Console(file=io.StringIO(), force_terminal=True)
    with cli.waiting(console, "searching", **how):
        time.sleep(0.3)
    return "searching" in console.file.getvalue()  # type: ignore[attr-defined]


options("write_whole", written, mode=0o644)
options("sentences", interrupted, before="stopped")
options("waiting", waited, patience=0.0)
options("new_table", lambda **how: cli.new_table(**how).title, title="Results")


def command(*words: str) -> tuple[str, list[str], Any]:
    """What `ferero` prints, without the time it took, and the files it writes."""
    said, told, before = io.StringIO(), io.StringIO(), signal.getsignal(signal.SIGTERM)
    with (
        mock.patch.object(sys, "argv", ["ferero", *words]),
        mock.patch.dict("os.environ", COLUMNS="200"),
        redirect_stdout(said),
        redirect_stderr(told),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    signal.signal(signal.SIGTERM, before)
    return re.sub(r"[\d.]+ ms|\"milliseconds\": [\d.e-]+", "", said.getvalue()), [told.getvalue()], ended.value.code


PROBLEM = """
def losses(x):
    return (x - 1).square().sum().reshape(1).repeat(2) * (x.new_tensor([1.0, 2.0])) + (x[0] + 1).square()

def either(x):
    kind = type(x).__name__
    return x[:2] ** 2 + (1.0 if kind == "ndarray" else 2.0)

sum_is_one = {"type": "eq", "fun": lambda x: x.sum() - 1}
"""


def solve(function: str = "losses", **flags: Any) -> Any:
    flags = {"preference": "ray 1 2", "x0": "0,3"} | flags
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "problem.py").write_text(PROBLEM, encoding="utf-8")
        if "out" in flags:
            flags["out"] = f"{folder}/out"
        given = [f"--{flag.replace('_', '-')}" + ("" if v is True else f"={v}") for flag, v in flags.items() if v]
        said = command("solve", f"{folder}/problem.py:{function}", *given)
        return str(said).replace(folder, ""), sorted(file.name for file in Path(folder).glob("out/*"))


options(
    "solve", solve, **{"preference": "ray 1 3", "x0": "3,3", "names": "u,v", "step": 0.01, "max_iter": 1, "tol": 0.1}
)
options("solve", solve, json=True, out="out", bounds="0:0.5", constraints="sum_is_one")
options("solve", partial(solve, x0=None), n=3)
options("solve", partial(solve, x0=None, n=2), seed=1)
options("solve", partial(solve, "either"), numpy=True)

# the tests --------------------------------------------------------------------------------------------------


def test_every_option_has_a_run() -> None:
    missing = public_options() - OPTIONS.keys() - UNOBSERVABLE.keys()
    assert not missing, f"add to OPTIONS what each of these changes: {sorted(missing)}"


def test_every_option_of_the_command_has_a_run() -> None:
    here = {name.removeprefix("solve.").replace("_", "-") for name in OPTIONS if name.startswith("solve.")}
    assert set(re.findall(r"--([a-z0-9-]+)", command("solve", "--help")[0])) - {"help"} == here


def test_no_run_is_of_an_option_that_is_gone() -> None:
    of_searches = {name for name in OPTIONS if name.startswith(("minimize(", "solve."))}
    assert OPTIONS.keys() - of_searches <= public_options()
    assert UNOBSERVABLE.keys() <= public_options()


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_acts(name: str) -> None:
    usual, again, other = OPTIONS[name]()
    assert usual == again, "the run is not the same twice, so that a difference would mean nothing"
    assert usual != other


HALVED = {"split": lambda x: (x[:3], x[3:]), "generator": torch.Generator()}
FOUR = ferero.trace(lambda x: torch.cat([losses_at(x), x.square().sum()[None]]), X0, [[1.0, 1.0, 1.0, 1.0]], max_iter=1)
REFUSED: dict[str, Callable[[], Any]] = {
    "low: expected None for m = 1": lambda: ferero.spread(1, 2, low=0.1),
    "high: expected None for m = 1": lambda: ferero.spread(1, 2, high=0.1),
    "count: expected to be left out beside vectors": lambda: ferero.PMTL([[1.0, 2.0]], 7),
    "margins: only inequalities take a margin": lambda: Preference.from_matrices(B_h=ROW, margins=2.0),
    "truth: each point is drawn in units of its own ray": lambda: FOUR.plot(truth=[[1.0, 1.0, 1.0, 1.0]]),
    'schedule_by: expected "epoch" without a schedule': lambda: trained(schedule_by="step"),
    "evaluate_every: expected None without data": lambda: trained(evaluate_every=1),
    "gramian: FereroPI reads none": lambda: controlled(gramian=GRAMIAN),
    "slopes: FereroPI reads none": lambda: controlled(slopes=SIZES),
    "split: expected None with Ferero, which has no slopes": lambda: stepped(method=ferero.Ferero(), **HALVED),
    "split: expected None with double_sampling=False": lambda: stepped(double_sampling=False, **HALVED),
    "generator: expected None with split=": lambda: stepped(**HALVED),
    'step_size: expected None with slopes="forward", found 0.1': lambda: stepped(slopes="forward", step_size=0.1),
    "chunk: expected 1 with FereroSA, which has no gramian, found 2": lambda: stepped(chunk=2),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_an_option_is_refused_where_it_cannot_act(sentence: str) -> None:
    with pytest.raises(ferero.FereroError, match=f"^{re.escape(sentence)}"):
        REFUSED[sentence]()


def test_the_command_refuses_a_seed_beside_a_start() -> None:
    assert "--seed: expected none beside --x0, which leaves nothing to draw, found 1." in solve(seed=1)[0]
