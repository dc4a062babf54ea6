"""FereroPI, the default in training: proportional-integral control of the constraints' logits from loss values."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from ferero.errors import InputError
from ferero.methods._channels import LOG_RANGE, Channels, Projector, channels_of, log_size
from ferero.methods._method import Decision, Diagnosis, Observation, check_observation, in_dtype_of
from ferero.methods._rows import Rows, rows_of
from ferero.preference import Preference

__all__ = ["ControlStep", "FereroPI", "FereroPIState", "Rest"]

_FIRST = 3  # values whose median counts as one: a single one may be an outlier
_SMALLEST_RATE = 1 / 128  # of the smoothing
_NOISE_MEMORY = 50.0  # steps over which the variance of surprises is averaged
_SWING = 60.0  # steps within which a violation that rises and falls again has swung
_SWING_MEMORY = 1000.0  # steps over which products of successive deviations are averaged
_OF_NOISE = 1 / (2 * math.pi) + 2 / math.sqrt(_SWING_MEMORY)  # what white noise leaves there, and two standard errors
_MARGIN_WINDOW = 32.0  # values whose standard error a margin counts in
_OUTWEIGHS = 0.5  # share of the weights from which on violations that only creep down lift the limit of all weights
_GROWTH = 1.02  # of that limit, each step
_CREEPS = 1e-5  # the share by which such violations together fall in a step; less is none: two may exchange places
_FALLS = 0.98  # a violation below this share of what it was is falling
_VISIBLE = 0.01  # relative violation below which patience does not count
_HURRY = 10.0  # the most that patience multiplies the integral gain by
_EVEN = 2.0  # what multiplies the integral gain of equalities, which have no side on which to release
_LOWEST, _HIGHEST = -10.0, 14.0  # of the logits' integral part
_PUSH_UP = math.exp(-8)  # a loss's weight turns negative once it has fallen to a factor of about sqrt(this)
_ALL = 0.99  # share of the weights from which on a constraint is saturated
_LARGEST_WEIGHT = 1e30  # finite in single precision


@dataclass(frozen=True, eq=False)
class FereroPIState:
    """The controller's memory of m losses, k rows of the order, r rows of constraints and c channels.

    A channel is an inequality, or a loss that equalities name; see `FereroPI`.

    Attributes:
        seen: How often each loss has arrived, (..., m).
        latest: The last value of each, (..., m).
        arrived: The step at which each loss arrived last, (..., m).
        updated: The step at which each row was updated last, (..., r): it waits until all its losses arrived later.
        updates: How often each row of the order and each channel was updated, (..., k + c).
        sizes: Logarithms of their running sizes, (..., k + c).
        units: The largest of these so far, (..., k + c).
        before: Logarithms of their last values, (..., k + c), and
        earlier: of those before these, (..., k + c).
        level: Smoothed relative violations, (..., c).
        surprise: What the level failed to predict at the last value, (..., c).
        variance: Running mean of its square, (..., c).
        rate: Logarithm of the smoothing rate, (..., c).
        usual: Running mean of the relative violations as they come, (..., c).
        deviation: How far the last ones lay from it, (..., c).
        swings: Running mean of the products of successive deviations above it, (..., c), and
        jitter: of half the square of their differences: what is independent from step to step, (..., c).
        held: Values since the level first reached the bound, over which both are averaged, (..., c).
        anchor: The level from which on patience is counted, (..., c).
        age: Steps since the violation last changed sides or fell by a fiftieth, (..., c).
        logits: The integral parts of the logits, (..., c).
        limit: Logarithm of how many times those of the plain sum all weights may be, (..., 1).
        weights: The last weights, (..., m).
    """

    seen: Tensor
    latest: Tensor
    arrived: Tensor
    updated: Tensor
    updates: Tensor
    sizes: Tensor
    units: Tensor
    before: Tensor
    earlier: Tensor
    level: Tensor
    surprise: Tensor
    variance: Tensor
    rate: Tensor
    usual: Tensor
    deviation: Tensor
    swings: Tensor
    jitter: Tensor
    held: Tensor
    anchor: Tensor
    age: Tensor
    logits: Tensor
    limit: Tensor
    weights: Tensor

    def like(self, losses: Tensor, dtype: torch.dtype) -> FereroPIState:
        """The same state on the losses' device and with their leading dimensions."""
        missing = losses.ndim - self.seen.ndim
        if missing == 0 and self.seen.device == losses.device and self.seen.dtype == dtype:
            return self

        def move(tensor: Tensor) -> Tensor:
            tensor = tensor.to(losses.device, dtype)
            return tensor.expand(*losses.shape[:missing], *tensor.shape) if missing > 0 else tensor

        return type(self)(*(move(getattr(self, field.name)) for field in fields(self)))

    def after_whole(self, raw: Tensor, channels: Channels) -> FereroPIState:  # noqa: ARG002  # for states that keep sums
        """The state after a step on all losses, with their weights before the common factor, (..., m)."""
        return self


class Rest(NamedTuple):
    """What lies outside of a sample adds to sums over all losses and rows, () each.

    Attributes:
        weight: The absolute weights, before the common factor.
        losses: The number of losses.
        over: By how much the logarithms of units exceed those of the bounds.
        bounds: The number of these bounds.
        now: The number of this step.
    """

    weight: Tensor
    losses: Tensor
    over: Tensor
    bounds: Tensor
    now: Tensor


class ControlStep(NamedTuple):
    """A step of the controller.

    Attributes:
        multipliers: ``[lam_f; lam_g; lam_h]``, (..., k + r).
        raw: The weights before the common factor, (..., m).
        state: The next state, with the weights.
    """

    multipliers: Tensor
    raw: Tensor
    state: FereroPIState


@dataclass(frozen=True)
class FereroPI:
    """FERERO's single loop on loss values alone: a logit for every constraint, moved by its relative violation.

    For an inequality ``P <= N``, its positive terms on one side and its negative ones on the other:

        e   = (P - N) / q                  q the running size of the larger side; e is kept within [-1, 1]
        l  <- l + a (e - l)                the smoothing rate a grows while successive surprises agree
        v   = max(l, min(l, 0) + room)     room = headroom * s, s^2 the covariance of successive rises of e
        u  <- u + k_I h (v + e - l)        v within [-near, near]; h = release just below 0, else 1; grows while v stays
        lam = exp(u + k_P v) / q*          the largest v counts as near; k_P from steady, under noise, to proportional
        w   = w_o / s* + B^T lam           w_o the objective; q* and s* are units: the largest sizes so far

    times one common factor: the weights of the objective part are those of plain training, or smaller where all weights
    together would exceed those of the plain sum. Where violations that outweigh the rest only creep down, this limit
    grows by 2 % a step, up to `stretch` times; it returns when they rest, rise or are gone. The q* of several
    bounds are their geometric mean, shared out in the proportions of the bounds. A loss that equalities name has a
    channel of its own, e its relative displacement from the set where the equalities hold,
    ``S B^T (B S^2 B^T)^-1 H``, v = e and h = 2. Where every loss is minimised its logit multiplies its weight,
    ``w_i exp(u_i + k_P e_i)``: a ray is met by positive weights, and one turns negative only after it has vanished.
    Where an expression is minimised, ``sinh(u_i + k_P e_i)`` is a multiplier of any sign.

    Nothing depends on the units of the losses, on their order, or on the basis chosen for the equalities, except for
    the common factor. docs/steering.md derives the law from Algorithm 2 of the paper, by mirror ascent with realised
    slopes, says for which step sizes it is stable, and what of the paper's guarantees is left.

    Cost: that of the weighted sum. Understands every preference, also levels that move: the bound of a step is that of
    the number of updates before. Choose it in training; for smooth deterministic
    problems `Ferero` in `minimize` is faster and exact.

    Args:
        proportional: k_P where values carry no noise. Concave fronts need up to 4.
        steady: k_P where values are nothing but noise.
        integral: k_I, a step of the logit for a relative violation of 1.
        release: How much more slowly a constraint that holds by less than `near` and its noise is released, which
            leaves a margin under noise.
        headroom: How many times its own swings a level stays below the bound. Batch noise, which is independent from
            step to step, is no swing.
        patience: Steps after which the logit of a violation that does not fall rises faster, and a constraint that
            holds and still outweighs the objective is released faster.
        near: The largest level that moves the logit; larger ones count as this.
        adaptation: By how much a full agreement of successive surprises moves the logarithm of a.
        memory: Steps over which the sizes of the sides are averaged.
        stretch: How many times those of the plain sum all weights may become where violations that outweigh the rest
            only creep down (plain SGD on a loss with small gradients); 1 for never more.

    Example:
        >>> method, preference = FereroPI(), Preference.ray([1.0, 1.0])
        >>> decision, state = method.update(preference, Observation([2.0, 1.0]), method.init(preference))
        >>> decision.weights.tolist()[0] > decision.weights.tolist()[1]  # the loss that is too large counts more
        True
    """

    requires: ClassVar[frozenset[str]] = frozenset({"losses"})
    has_merit: ClassVar[bool] = False
    follows_levels: ClassVar[bool] = True

    proportional: float = 5.0
    steady: float = 1.0
    integral: float = 0.03
    release: float = 0.3
    headroom: float = 3.0
    patience: float = 50.0
    near: float = 0.2
    adaptation: float = 0.1
    memory: float = 100.0
    stretch: float = 10.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            least = {"headroom": 0, "stretch": 1}.get(field.name)
            if not (0 < value < math.inf if least is None else least <= value < math.inf):
                kind = "a positive finite number" if least is None else f"a finite number from {least} on"
                raise InputError(f"{field.name}: expected {kind}, found {value!r}.")

    def understands(self, preference: Preference) -> str | None:  # noqa: ARG002  # part of the protocol
        """None: it takes every preference."""
        return None

    def init(self, preference: Preference) -> FereroPIState:
        """Nothing seen, every logit 0."""
        m, k = preference.m, preference.A.shape[-2]
        c = preference.m_g + (m if preference.m_h else 0)
        r = rows_of(preference, preference.A.device, preference.A.dtype).count

        def of(*shape: int) -> Tensor:
            return preference.A.new_zeros(*preference.batch_shape, *shape)

        sized = dict.fromkeys(("seen", "latest", "arrived", "weights"), m) | {"updated": r, "limit": 1}
        sized |= dict.fromkeys(("updates", "sizes", "units", "before", "earlier"), k + c)
        return FereroPIState(**{field.name: of(sized.get(field.name, c)) for field in fields(FereroPIState)})

    def update(
        self, preference: Preference, observation: Observation, state: FereroPIState
    ) -> tuple[Decision, FereroPIState]:
        """Takes one step of the controller. Without a host sync where the losses are on a GPU.

        Args:
            preference: For a stack of P the observation has (..., P, m).
            observation: With losses (..., m); those not present keep their weights, and a constraint waits until
                all its names have arrived.
            state: From :meth:`init` or the last step.

        Returns:
            The decision and the next state.

        Raises:
            InputError: An observation that does not fit.
            NonFiniteError: Losses that are not finite (checked on the CPU only).
        """
        check_observation(self, preference, observation)
        losses, present = observation.losses.detach(), observation.present
        dtype = torch.float32 if losses.device.type == "mps" else torch.float64
        old = state.like(losses, dtype)
        channels = channels_of(preference, losses.device, dtype).at(old.arrived)
        values = losses.to(dtype).clamp(-math.exp(LOG_RANGE), math.exp(LOG_RANGE))
        stepped = self._step(channels, values, present, old)
        return Decision(in_dtype_of(stepped.state.weights, losses), stepped.multipliers), stepped.state

    def _step(
        self, channels: Channels, values: Tensor, present: Tensor | None, old: FereroPIState, rest: Rest | None = None
    ) -> ControlStep:
        """One step on values (..., m); those of a sample beside the rest of the losses."""
        latest = values if present is None else torch.where(present, values, old.latest)
        seen = old.seen + (1 if present is None else present)
        last, updated, complete = _arrivals(channels.rows, present, old, rest)
        arrived = channels.arrived(seen, present, complete)
        updates = old.updates + arrived
        projector, violations, sized = self._measure(channels, latest, old, complete, arrived, updates)
        moved, logits = self._move(channels, violations, old, arrived, updates)
        limit = self._limit(channels, moved, logits)
        units = _guessed(_alike(channels, sized.units, updates, rest), updates)
        weighed = _weigh(channels, projector, units, logits)
        factor = _common_factor(channels, weighed, limit, present, rest)
        weights = _bounded(weighed.weights * factor)
        if present is not None:
            weights = torch.where(present | (old.seen == 0), weights, old.weights)
        new = replace(
            moved, seen=seen, latest=latest, arrived=last, updated=updated, updates=updates, limit=limit,
            weights=weights, **sized._asdict(),
        )  # fmt: skip
        new = new.after_whole(weighed.weights, channels) if rest is None else new
        return ControlStep(_bounded(weighed.multipliers * factor), weighed.weights, new)

    def diagnose(self, preference: Preference, state: FereroPIState) -> Diagnosis:
        """Which constraints are saturated: violated with all the weight there is, and one of them not improving."""
        channels = channels_of(preference, state.logits.device, state.logits.dtype)
        is_stuck = state.age >= self.patience
        m_g = channels.rows.m_g
        logits = state.logits + self._gain(state.rate) * self._seen_by_gain(channels, self._aimed(channels, state))
        violated = _violated(channels, state)
        found = [violated & self._is_stuck(channels, state, logits, _ALL)]
        if channels.equalities is not None:
            own, named = logits[..., m_g:], channels.equalities.named > 0
            stuck = is_stuck[..., m_g:] & named
            highest = own.masked_fill(~named, -math.inf).amax(dim=-1, keepdim=True)
            is_low = own - highest < math.log(1 - _ALL)
            weight = torch.where(named, own, 0.0).exp()
            over = stuck & (state.level[..., m_g:] > 0) & (own > -math.log(1 - _ALL))
            is_all = (weight * over).sum(dim=-1, keepdim=True) >= _ALL * weight.sum(dim=-1, keepdim=True)
            is_full = torch.where(channels.multiplies, is_low | (over & is_all), own.sinh().abs() > 1 / (1 - _ALL))
            stuck = is_full & stuck
            found.append(channels.equalities.B.name_any(stuck))
        return Diagnosis(torch.cat(found, dim=-1))

    def _measure(
        self, channels: Channels, latest: Tensor, old: FereroPIState, complete: Tensor, arrived: Tensor, updates: Tensor
    ) -> tuple[Projector | None, Tensor, _Sized]:
        """The projection onto the equalities (if any), the channels' relative violations, and all sizes."""
        rows, m_g, k = channels.rows, channels.rows.m_g, channels.rows.k
        b = rows.b[..., :m_g]
        above, below = rows.B.sides(latest)[..., :m_g]
        positive = above + b.clamp(min=0)
        negative = b.clamp(max=0).abs() - below
        side = torch.maximum(positive, negative)
        parts = [rows.A.times(latest), side] + ([] if channels.equalities is None else [latest])
        value = log_size(torch.cat(parts, dim=-1))
        low, high = torch.minimum(old.before, old.earlier), torch.maximum(old.before, old.earlier)
        middle = torch.where(updates < _FIRST, value, value.clamp(low, high))
        share = arrived / (updates - _FIRST + 1).clamp(min=1, max=self.memory)
        sizes = torch.lerp(old.sizes, middle, share)
        violations = (positive - negative) / sizes[..., k : k + m_g].exp()
        if rows.margins is not None:
            error = (old.variance[..., :m_g] / (2 * _MARGIN_WINDOW - 1)).sqrt()
            violations = violations + rows.margins[..., :m_g] * error
        projector, found = None, sizes
        if channels.equalities is not None:
            own = sizes[..., k + m_g :].exp()
            projector, displacement, wide = channels.equalities.project(latest, own, complete[..., m_g:])
            violations = torch.cat([violations, displacement], dim=-1)
            found = torch.cat([sizes[..., : k + m_g], log_size(wide)], dim=-1)
        is_new = arrived > 0
        known = torch.where(updates <= _FIRST, found, torch.maximum(old.units, found))
        before, earlier = torch.where(is_new, value, old.before), torch.where(is_new, old.before, old.earlier)
        return projector, violations.clamp(-1, 1), _Sized(sizes, torch.where(is_new, known, old.units), before, earlier)

    def _move(
        self, channels: Channels, e: Tensor, old: FereroPIState, arrived: Tensor, updates: Tensor
    ) -> tuple[FereroPIState, Tensor]:
        """Smooth the violations e (..., c), and move the logits of those that have arrived; all logits (..., c)."""
        k = channels.rows.k
        arrived, updates = arrived[..., k:], updates[..., k:]
        surprise = torch.where(updates > 1, e - old.level, 0.0) * arrived
        share = arrived * (updates > 1) / (updates - 1).clamp(min=1, max=_NOISE_MEMORY)
        variance = torch.lerp(old.variance, surprise.square(), share)
        agreement = surprise * old.surprise / variance.clamp(min=torch.finfo(e.dtype).tiny)
        rate = (old.rate + self.adaptation * agreement.clamp(-1, 1)).clamp(math.log(_SMALLEST_RATE), 0.0)
        level = torch.where((updates == 1) & (arrived > 0), e, old.level + rate.exp() * surprise)

        moved = replace(old, level=level, variance=variance, rate=rate, **_swing(e, level, old, arrived, updates))
        aimed = self._aimed(channels, moved)

        size = aimed.abs()
        stays = (aimed * old.anchor > 0) & (size >= _FALLS * old.anchor.abs()) & (size >= _VISIBLE)
        age = torch.where(stays, old.age + arrived, 0.0)
        anchor = torch.where(stays, old.anchor, aimed)

        gain = self._gain(rate)
        is_released_slowly = (aimed < 0) & (aimed > -self.near - variance.sqrt())  # far is farther than noise
        speed = 1 - (1 - self.release) * is_released_slowly.to(e.dtype)  # of the logit, and of the clock of patience
        hurries = (aimed > 0) | (old.logits + gain * aimed > 0)
        pace = speed * torch.where(hurries, (speed * age / self.patience).clamp(1.0, _HURRY), 1.0)
        seen_by_gain = self._seen_by_gain(channels, aimed)
        if channels.is_inequality is not None:
            pace = torch.where(channels.is_inequality, pace, _EVEN)
            seen_by_gain = torch.where(channels.is_inequality, seen_by_gain, e)
        noise = e - level  # is not cut off, lest the mean be biased
        step = self.integral * pace * (aimed.clamp(-self.near, self.near) + noise)
        logits = (old.logits + step * arrived).clamp(_LOWEST, _HIGHEST)
        surprise = torch.where(arrived > 0, surprise, old.surprise)
        new = replace(moved, surprise=surprise, anchor=anchor, age=age, logits=logits)
        return new, logits + gain * seen_by_gain

    def _limit(self, channels: Channels, moved: FereroPIState, logits: Tensor) -> Tensor:
        """Logarithm of how many times those of the plain sum all weights may be, (..., 1)."""
        if channels.rows.m_g == 0:
            return moved.limit
        level, usual = (state[..., : channels.rows.m_g] for state in (moved.level, moved.usual))
        is_over = _violated(channels, moved) & (level > _VISIBLE)
        together, before = (torch.where(is_over, part, 0.0).sum(dim=-1, keepdim=True) for part in (level, usual))
        is_stuck = self._is_stuck(channels, moved, logits, _OUTWEIGHS)
        grows = is_stuck & (before - together > _CREEPS * _SWING * together)
        shrinks = ~grows & (is_stuck | ~is_over.any(dim=-1, keepdim=True))
        change = grows.to(level.dtype) - shrinks.to(level.dtype)
        return (moved.limit + math.log(_GROWTH) * change).clamp(0.0, math.log(self.stretch))

    def _is_stuck(self, channels: Channels, state: FereroPIState, logits: Tensor, share: float) -> Tensor:
        """Whether violated inequalities have a share of the weight, and one of them does not fall, (..., 1)."""
        m_g = channels.rows.m_g
        lam = logits[..., :m_g].exp() * channels.rows.real[..., :m_g]
        violated = _violated(channels, state)
        has = (lam * violated).sum(dim=-1, keepdim=True) / (1 + lam.sum(dim=-1, keepdim=True))
        return (violated & (state.age[..., :m_g] >= self.patience)).any(dim=-1, keepdim=True) & (has >= share)

    def _aimed(self, channels: Channels, state: FereroPIState) -> Tensor:
        """v: the level of an inequality with the room that its swings take; that of an equality as it is.

        White noise of variance n leaves ``n / 2 pi`` in the mean product of successive rises, with a standard error of
        about ``n / sqrt(steps)``: what is not larger than this and two standard errors is no swing. A violation that is
        larger than the room counts as it is, so that the balance of several violations does not depend on their swings.
        """
        room = self.headroom * (state.swings - _OF_NOISE * state.jitter).clamp(min=0).sqrt()
        aimed = torch.maximum(state.level, torch.minimum(state.level + room, room))
        return aimed if channels.is_inequality is None else torch.where(channels.is_inequality, aimed, state.level)

    def _seen_by_gain(self, channels: Channels, aimed: Tensor) -> Tensor:
        """How the proportional part takes v: all violations less what the largest of them is above `near`, but not < 0.

        How large a violation is says nothing about the multiplier that it needs; how two of them differ does, and on a
        concave front it is what keeps their balance.
        """
        own = aimed[..., : channels.rows.m_g]
        if own.shape[-1] == 0:
            return aimed
        excess = (own.amax(dim=-1, keepdim=True) - self.near).clamp(min=0)
        limited = torch.maximum(own - excess, own.clamp(max=0))
        return torch.cat([limited, aimed[..., channels.rows.m_g :]], dim=-1)

    def _gain(self, rate: Tensor) -> Tensor:
        """k_P: between `steady` and `proportional` as the square root of the smoothing rate."""
        return self.steady + (self.proportional - self.steady) * (rate / 2).exp()


class _Sized(NamedTuple):
    """Sizes of the rows of the order and of the channels, (..., k + c) each, as in `FereroPIState`."""

    sizes: Tensor
    units: Tensor
    before: Tensor
    earlier: Tensor


def _swing(e: Tensor, level: Tensor, old: FereroPIState, arrived: Tensor, updates: Tensor) -> dict[str, Tensor]:
    """How far the violations e (..., c) lie from their running mean, and what successive ones have in common.

    The latter counts from the first time that the level (..., c) is within the bound: on the way there, rising and
    falling is no swing.
    """
    is_new = arrived > 0
    usual = torch.where((updates == 1) & is_new, e, torch.lerp(old.usual, e, arrived / updates.clamp(1, _SWING)))
    deviation = e - usual
    both = deviation.clamp(min=0) * old.deviation.clamp(min=0)
    held = old.held + arrived * ((old.held > 0) | (level <= 0))
    share = arrived * (held > 0) / held.clamp(1, _SWING_MEMORY)
    return {
        "held": held,
        "usual": usual,
        "deviation": torch.where(is_new, deviation, old.deviation),
        "swings": torch.lerp(old.swings, both, share),
        "jitter": torch.lerp(old.jitter, (deviation - old.deviation).square() / 2, share),
    }


def _violated(channels: Channels, state: FereroPIState) -> Tensor:
    """Which inequalities are violated, (..., m_g), bool."""
    m_g = channels.rows.m_g
    return (state.level[..., :m_g] > 0) & channels.rows.is_real[..., :m_g]


class _Weighed(NamedTuple):
    """Weights before the common factor.

    Attributes:
        weights: w, (..., m).
        multipliers: ``[lam_f; lam_g; lam_h]``, so that ``w = A^T lam_f + B^T lam``.
        plain: What the absolute weights of the objective sum to, (..., 1).
        least: What those of all at least count as, (..., 1).
    """

    weights: Tensor
    multipliers: Tensor
    plain: Tensor
    least: Tensor


def _weigh(channels: Channels, projector: Projector | None, units: Tensor, logits: Tensor) -> _Weighed:
    """The weights (..., m) and the multipliers, before the common factor."""
    rows, m_g, k = channels.rows, channels.rows.m_g, channels.rows.k
    sized = channels.orders * (units[..., :k] > -LOG_RANGE)  # a loss that has been 0 throughout has no size yet
    sized = torch.where(sized.sum(dim=-1, keepdim=True) > 0, sized, channels.orders)
    lam_f = sized * (-units[..., :k]).exp() / sized.sum(dim=-1, keepdim=True)
    objective = rows.A.combine(lam_f)
    if channels.is_ray is not None:
        objective = torch.where(channels.is_ray, objective.new_ones(()) / channels.ray, objective)

    lam_g = (logits[..., :m_g] - units[..., k : k + m_g]).exp() * rows.real[..., :m_g]
    lam_h = lam_g.new_zeros(*lam_g.shape[:-1], rows.count - m_g)
    weights = objective + rows.B.combine(torch.cat([lam_g, lam_h], dim=-1)) if m_g else objective
    least = torch.zeros_like(channels.scale)
    if channels.equalities is not None and projector is not None:
        named, unit = channels.equalities.named, units[..., k + m_g :].exp()
        signed = logits[..., m_g:].sinh() * named / unit
        balanced = _balance(objective, logits[..., m_g:], named)
        lam_h = channels.equalities.multipliers(
            projector, torch.where(channels.multiplies, balanced - objective, signed)
        )
        added = channels.equalities.spread(lam_h)
        weights = weights + torch.where(channels.multiplies, balanced - objective, added)
        lam_f = torch.where(channels.multiplies, rows.A.share_out(balanced - added), lam_f)
        passing = logits[..., m_g:].cosh() * named / unit  # one that passes 0 counts as its unit, lest the others jump
        least = torch.where(channels.multiplies, 0.0, passing.sum(dim=-1, keepdim=True))
    plain = objective.abs().sum(dim=-1, keepdim=True)
    return _Weighed(weights, torch.cat([lam_f, lam_g, lam_h], dim=-1), plain, least)


def _common_factor(
    channels: Channels, weighed: _Weighed, limit: Tensor, present: Tensor | None, rest: Rest | None
) -> Tensor:
    """What all weights are multiplied by, (..., 1); of a sample, those that are present count with the rest."""
    sizes: Tensor = weighed.weights.abs()
    count: Tensor | int = sizes.shape[-1]
    if rest is not None and present is not None:
        sizes, count = sizes * present, (present.sum() + rest.losses).clamp(min=1)
    together = sizes.sum(dim=-1, keepdim=True) + (0.0 if rest is None else rest.weight)
    together = torch.maximum(together, weighed.least)
    return channels.scale / torch.maximum(weighed.plain, together / (count * limit.exp()))


def _alike(channels: Channels, units: Tensor, updates: Tensor, rest: Rest | None) -> Tensor:
    """Logarithms of units (..., k + c), those of bounds in the proportions of the bounds, with the same mean."""
    counts = channels.has_bound * (updates > 0)
    over, number = ((units - channels.bound) * counts).sum(dim=-1, keepdim=True), counts.sum(dim=-1, keepdim=True)
    if rest is not None:
        over, number = over + rest.over, number + rest.bounds
    return torch.where(channels.has_bound > 0, channels.bound + over / number.clamp(min=1), units)


def _guessed(units: Tensor, updates: Tensor) -> Tensor:
    """Logarithms of units (..., k + c); those of what has not arrived yet are the mean of the others."""
    known = (updates > 0).to(units.dtype)
    mean = (units * known).sum(dim=-1, keepdim=True) / known.sum(dim=-1, keepdim=True).clamp(min=1)
    return torch.where(updates > 0, units, mean)


def _balance(weights: Tensor, logits: Tensor, named: Tensor) -> Tensor:
    """Weights (..., m) times the exponentials of the logits, less a trace by which one that vanished turns negative."""
    times = torch.where(named > 0, logits.exp() - _PUSH_UP * (-logits).exp(), 1.0)
    return weights * times / times.abs().mean(dim=-1, keepdim=True)


def _bounded(weights: Tensor) -> Tensor:
    return weights.clamp(-_LARGEST_WEIGHT, _LARGEST_WEIGHT)


def _arrivals(
    rows: Rows, present: Tensor | None, old: FereroPIState, rest: Rest | None
) -> tuple[Tensor, Tensor, Tensor]:
    """When each loss (..., m) arrived and each row (..., r) was updated last, and which rows are complete now."""
    now = old.arrived.amax(dim=-1, keepdim=True) + 1 if rest is None else rest.now
    if present is None:
        return now.expand_as(old.arrived), now.expand_as(old.updated), rows.is_real
    last = torch.where(present, now, old.arrived)
    complete = (rows.B.least(last) > old.updated) & rows.is_real
    return last, torch.where(complete, now, old.updated), complete
