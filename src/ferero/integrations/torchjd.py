"""Bridge to TorchJD: its aggregators as ferero methods, and ferero's gramian methods as its weightings.

Needs ``pip install ferero[torchjd]``.
"""

from __future__ import annotations

from dataclasses import dataclass
from inspect import signature
from typing import Any, ClassVar

import torch
from torch import Tensor

from ferero.errors import InputError, UnsupportedError
from ferero.methods import check_understood
from ferero.methods._baselines.ray import knows_the_order_only
from ferero.methods._method import Decision, Method, Observation, Steps, check_method, check_observation, in_dtype_of
from ferero.preference import Preference
from ferero.training import _buffers as buffers

try:
    from torchjd.aggregation import (
        Aggregator,
        ConstantWeighting,
        GramianWeightedAggregator,
        MeanWeighting,
        RandomWeighting,
        SumWeighting,
        WeightedAggregator,
        Weighting,
    )
except ImportError as error:
    raise ImportError("ferero.integrations.torchjd needs torchjd; pip install 'ferero[torchjd]'.") from error

__all__ = ["FromTorchJD", "MethodWeighting"]

_OF_NO_MATRIX = (ConstantWeighting, MeanWeighting, RandomWeighting, SumWeighting)  # they read its shape only


@dataclass(frozen=True, eq=False)
class FromTorchJD:
    """A TorchJD aggregator as a method: ``weights = weighting(gramian)``.

    Cost: m backward passes for the gramian. Understands no preference but the order of the losses, for TorchJD knows
    none. Choose it to compare: the same loop, resume and checks for UPGrad, CAGrad, PCGrad, IMTL-G and the rest.

    Args:
        aggregator: One whose weights depend on the Jacobian through its gramian, such as ``UPGrad()``, or the weighting
            itself, such as ``UPGradWeighting()``; also Constant, Mean, Sum and Random. Some of them need extras of
            TorchJD's own.

    Raises:
        UnsupportedError: An aggregator that looks at single entries of the gradients, or that keeps a state of its own,
            which a resumed run would lose.

    Example:
        >>> from torchjd.aggregation import IMTLG
        >>> method, preference = FromTorchJD(IMTLG()), Preference.pareto(2)
        >>> observation = Observation([1.0, 1.0], gramian=[[1.0, 0.0], [0.0, 1.0]])
        >>> decision, state = method.update(preference, observation, method.init(preference))
        >>> [round(x, 2) for x in decision.weights.tolist()]
        [0.5, 0.5]
    """

    requires: ClassVar[frozenset[str]] = frozenset({"losses", "gramian"})
    has_merit: ClassVar[bool] = False

    aggregator: Aggregator | Weighting[Any]

    def __post_init__(self) -> None:
        weighting = _weighting_of(self.aggregator)
        if any(hasattr(part, "reset") for part in weighting.modules()):
            raise UnsupportedError(
                f"aggregator: {type(self.aggregator).__name__} keeps a state of its own, which a resumed run would "
                "lose; take one without, such as IMTLG()."
            )

    def understands(self, preference: Preference) -> str | None:
        """None for a preference that only orders the losses."""
        return knows_the_order_only(self.aggregator, preference)

    def init(self, preference: Preference) -> Steps:  # noqa: ARG002  # part of the protocol
        """Nothing but a count."""
        return Steps.none()

    def update(self, preference: Preference, observation: Observation, state: Steps) -> tuple[Decision, Steps]:
        """Asks the aggregator, one gramian at a time.

        Args:
            preference: Of which only the number of losses counts.
            observation: With losses (..., m) and gramian (..., m, m).
            state: From :meth:`init` or the last step.

        Raises:
            InputError: An observation that does not fit.
            NonFiniteError: Losses or gramian that are not finite.
        """
        check_observation(self, preference, observation)
        assert observation.gramian is not None  # checked above
        weighting = _weighting_of(self.aggregator)
        m = preference.m
        gramian = observation.gramian.detach().double().expand(*observation.losses.shape[:-1], m, m)
        with torch.no_grad():
            found = [weighting(one) for one in gramian.reshape(-1, m, m)]
        weights = torch.stack(found).reshape(observation.losses.shape)
        return Decision(in_dtype_of(weights, observation.losses)), state.next()


class MethodWeighting(Weighting[Any]):
    """One of our methods as a TorchJD weighting of gramians.

    TorchJD's interface passes the gramian alone, and preferences depend on the losses: call `observe` first.

    Args:
        method: One that reads losses and gramian, such as ``ferero.Ferero()`` or ``ferero.EPO()``.
        preference: A single one.

    Raises:
        UnsupportedError: A method that reads slopes, or that does not understand the preference.

    Example:
        >>> import ferero
        >>> weighting = MethodWeighting(ferero.Ferero(), Preference.ray([1.0, 1.0]))
        >>> weighting.observe([2.0, 1.0])
        >>> [round(x, 4) for x in weighting(torch.eye(2)).tolist()]
        [2.0, 1.0]
    """

    def __init__(self, method: Method[Any], preference: Preference) -> None:
        super().__init__()
        check_method(method)
        if "slopes" in method.requires:
            raise UnsupportedError(
                f"method: {type(method).__name__} reads slopes, which TorchJD does not compute; use ferero.Stepper."
            )
        check_understood(method, preference)
        if preference.members:
            raise InputError("preference: expected a single one, found a stack.")
        self.method, self.preference = method, preference
        state = method.init(preference)
        self._kind = type(state)
        for name, tensor in buffers.named("method", state).items():
            self.register_buffer(name, tensor)
        self._losses: Tensor | None = None

    def observe(self, losses: Any) -> None:
        """The losses (m,) whose gramian comes next."""
        self._losses = Observation(losses).losses.detach()

    def forward(self, stat: Tensor, /) -> Tensor:
        """The weights (m,) for a gramian (m, m).

        Raises:
            InputError: `observe` was not called since the last gramian.
        """
        if self._losses is None:
            raise InputError("losses: the method reads them; call weighting.observe(losses) before the gramian comes.")
        losses, self._losses = self._losses, None
        state = buffers.load(self, "method", self._kind)
        decision, state = self.method.update(self.preference, Observation(losses, gramian=stat), state)
        named = buffers.named("method", state)
        buffers.write([self.get_buffer(name) for name in named], list(named.values()))
        return decision.weights.to(stat)


def _weighting_of(aggregator: object) -> Weighting[Any]:
    """What maps a gramian to weights.

    Raises:
        InputError: Something that is no aggregator.
        UnsupportedError: One whose weights cannot be had from a gramian.
    """
    if isinstance(aggregator, GramianWeightedAggregator):
        return aggregator.gramian_weighting
    weighting = aggregator.weighting if isinstance(aggregator, WeightedAggregator) else aggregator
    if isinstance(weighting, _OF_NO_MATRIX):
        return weighting
    if isinstance(weighting, Weighting) and "gramian" in signature(type(weighting).forward).parameters:
        return weighting
    if isinstance(aggregator, (Aggregator, Weighting)):
        raise UnsupportedError(
            f"aggregator: {type(aggregator).__name__} looks at the gradients themselves, and a method sees only their "
            "products; take one that weighs by the gramian, such as IMTLG()."
        )
    raise InputError(f"aggregator: expected one of torchjd.aggregation, such as IMTLG(), found {aggregator!r}.")
