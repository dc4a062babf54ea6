"""Reads losses that come as families: one tensor for all members, or a sample of them with its index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite, nan
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from ferero._arrays import to_float64
from ferero.errors import InputError, NonFiniteError, UnknownNameError
from ferero.preference._family import Family
from ferero.preference._objectives import did_you_mean
from ferero.training._losses import Counts, Losses, LossFunction, Reading, check_attached, read_losses, read_values

Index: TypeAlias = Mapping[str, Any] | None
"""Which members the values of a family are of, by its name."""


class Layout(NamedTuple):
    """Where the losses are: single ones first, then the members of every family.

    Attributes:
        names: All names, (m,).
        families: The families among them.
    """

    names: tuple[str, ...]
    families: tuple[Family, ...]

    @property
    def single(self) -> tuple[str, ...]:
        """The names of losses in no family."""
        return self.names[: self.families[0].start] if self.families else self.names


class _GivenFamily(NamedTuple):
    """What was given of a family.

    Attributes:
        values: (n,), 0 where a member is missing.
        counts: (n,); None for one each.
        members: The numbers of these members, (n,); None for all in their order.
    """

    values: Tensor
    counts: Tensor | None
    members: Tensor | None

    def spread(self, size: int) -> tuple[Tensor, Tensor | None]:
        """Values and counts of all members, (size,)."""
        if self.members is None:
            return self.values, self.counts
        counts = torch.ones_like(self.values, requires_grad=False) if self.counts is None else self.counts
        at = (self.members.to(self.values.device),)
        return (
            self.values.new_zeros(size).index_put(at, self.values),
            counts.new_zeros(size).index_put(at, counts),
        )


def read_family_losses(
    losses: Losses,
    counts: Counts,
    layout: Layout,
    device: torch.device,
    *,
    index: Index = None,
    keep_graph: bool = False,
    is_compact: bool = False,
) -> Reading:
    """`read_losses`, where names may be those of families.

    Args:
        losses: As for `read_losses`; by name, a family has a tensor (n,), NaN where a member is missing, or the values
            (k,) of a sample.
        counts: As for `read_losses`; by name, of a family one number or as many as it has values.
        layout: The losses' names and families.
        device: Where to put numbers that come without one.
        index: The numbers (k,) of the members that the values of a family are of.
        keep_graph: As for `read_losses`.
        is_compact: Whether values by name are only read of losses that arrived, which costs what these cost; on the
            CPU.

    Raises:
        InputError: A wrong number, shape or kind, or an index that does not fit.
        UnknownNameError: A name that is none of the losses', or an index for what is no family.
    """
    check_index(index, layout, losses)
    if not layout.families or not isinstance(losses, Mapping):
        return read_losses(losses, counts, layout.names, device, keep_graph)
    _check_names(losses, layout, "losses")
    if isinstance(counts, Mapping):
        _check_names(counts, layout, "counts")
    single = _read_single(losses, counts, layout, device, keep_graph)
    parts = [_read_family(family, losses, counts, index or {}, layout) for family in layout.families]
    return _arrived(single, parts, layout) if is_compact else _joined(single, parts, layout, device)


def spelled_out(loss_fn: LossFunction, layout: Layout) -> LossFunction:
    """A loss function that gives the members of families by their own names, for many models at once."""
    if not layout.families:
        return loss_fn
    sizes = {family.name: family.size for family in layout.families}

    def spell(model: Any, batch: Any) -> Losses:
        losses = loss_fn(model, batch)
        if not isinstance(losses, Mapping):
            return losses
        found: dict[str, Any] = {}
        for name, value in losses.items():
            if name not in sizes:
                found[name] = value
                continue
            if not isinstance(value, Tensor) or value.shape != (sizes[name],):
                raise InputError(
                    f"loss_fn: expected shape ({sizes[name]},) for the family {name!r}, one number for each member, "
                    f"found {tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__}."
                )
            found |= {f"{name}[{i}]": one for i, one in enumerate(value.unbind())}
        return found

    return spell


def check_family_attached(losses: Losses, layout: Layout, counts: Counts = None) -> None:
    """Refuse losses that no gradient can flow through.

    Raises:
        InputError: Naming the first of them.
    """
    if not layout.families or not isinstance(losses, Mapping):
        check_attached(losses, layout.names, counts)
        return
    _check_names(losses, layout, "losses")
    families = {family.name for family in layout.families}
    single = {name: value for name, value in losses.items() if name not in families}
    if layout.single:
        check_attached(single, layout.single, _counts_of(counts, layout.single))
    given = {name: value for name, value in losses.items() if name in families}
    for name, value in given.items():
        if isinstance(value, Tensor) and value.numel():
            check_attached({name: value}, (name,))
        elif value is not None and not isinstance(value, Tensor):
            raise InputError(f"losses: expected a tensor for the family {name!r}, found {type(value).__name__}.")


def read_family_values(values: Mapping[str, Any], layout: Layout, what: str, index: Index = None) -> Tensor:
    """Plain numbers by name, (m,), float64, NaN for what is missing; see `read_values`.

    Args:
        values: One number by name, an array (n,) for a family, or (k,) for a sample of it; a name may be
            absent or None.
        layout: The losses' names and families.
        what: What they are called in errors.
        index: The numbers (k,) of the members that the values of a family are of.

    Raises:
        InputError: A tensor that needs a gradient, or what is not of real numbers and of that size.
        UnknownNameError: A name that is none of the losses'.
        NonFiniteError: What is not finite; in a family NaN means missing.
    """
    check_index(index, layout, values)
    if layout.families:
        _check_names(values, layout, what)
    single = {name: value for name, value in values.items() if not layout.families or name in layout.single}
    read = read_values(single, layout.single, what)
    bad = [name for name, x in zip(layout.single, read, strict=True) if x is not None and not isfinite(x)]
    numbers = [torch.tensor([nan if x is None else x for x in read], dtype=torch.float64)]
    for family in layout.families:
        found = _plain_family(family, values.get(family.name), index or {}, what)
        numbers.append(found)
        bad += [f"{family.name}[{i}]" for i in torch.nonzero(found.isinf())[:3, 0].tolist()]
    if bad:
        told = ", ".join(f"{name} = {values[name]}" if name in values else f"{name} = inf" for name in bad)
        raise NonFiniteError(
            f"{what}: expected finite numbers, found {told}; nothing was updated. Leave out what is not known."
        )
    return torch.cat(numbers)


def _plain_family(family: Family, value: Any, index: Mapping[str, Any], what: str) -> Tensor:
    """The numbers of a family, (n,), NaN where a member is missing."""
    everything = torch.full((family.size,), nan, dtype=torch.float64)
    if value is None:
        return everything
    if isinstance(value, Tensor) and value.requires_grad:
        raise InputError(
            f"{what}: expected plain numbers for {family.name!r}, found a tensor that needs a gradient, which step "
            "cannot give it; pass its .detach() and apply the weights yourself, or use ferero.Steer."
        )
    values = _as_values(to_float64(value, family.name).cpu(), family, sampled=family.name in index)
    if family.name not in index:
        return values
    return everything.index_put((read_members(index[family.name], family, len(values)),), values)


def check_index(index: Index, layout: Layout, losses: object) -> None:
    """Refuse an index for what is no family or has no values.

    Raises:
        InputError: No mapping, or a name without values.
        UnknownNameError: A name that is no family's.
    """
    if index is None:
        return
    if not isinstance(index, Mapping):
        raise InputError(f"index: expected {{family: numbers of its members}}, found {type(index).__name__}.")
    families = [family.name for family in layout.families]
    for name in index:
        if name not in families:
            known = did_you_mean(str(name), families) if families else "; the preference has no families"
            raise UnknownNameError(f"index: expected the name of a family, found {name!r}{known}")
        if not isinstance(losses, Mapping) or losses.get(name) is None:
            raise InputError(f"index: expected values of {name!r} beside its index, found none; pass both by name.")


def read_members(ids: Any, family: Family, count: int) -> Tensor:
    """The numbers of the members that ``count`` values are of, (count,), int64, on the host.

    Raises:
        InputError: No integers, another number of them, one that is no member, or one that repeats.
    """
    found = torch.as_tensor(ids) if not isinstance(ids, Tensor) else ids.detach()
    name = family.name
    if found.is_floating_point() or found.is_complex() or found.dtype == torch.bool:
        kind = str(found.dtype).removeprefix("torch.")
        if found.numel():
            raise InputError(f"index: expected integers for {name!r}, found {kind}; pass the members' numbers.")
    if found.shape != (count,):
        raise InputError(
            f"index: expected as many numbers as {name!r} has values, shape ({count},), found {tuple(found.shape)}; "
            "each value belongs to one member."
        )
    members = found.to("cpu", torch.int64)
    if count and not 0 <= int(members.min()) <= int(members.max()) < family.size:
        bad = members[(members < 0) | (members >= family.size)][0]
        raise InputError(
            f"index: expected members of {name!r}, from 0 to {family.size - 1}, found {int(bad)}; the family was "
            f"declared with {family.size} members."
        )
    ordered = members.sort().values
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if len(twice):
        raise InputError(
            f"index: expected each member of {name!r} once in a batch, found {int(twice[0])} more than once; average "
            "its values first, and pass how many there were as counts."
        )
    return members


def _check_names(given: Mapping[str, Any], layout: Layout, what: str) -> None:
    known = (*layout.single, *(family.name for family in layout.families))
    for name in given:
        if name not in known:
            hint = did_you_mean(str(name), known)
            raise UnknownNameError(f"{what}: there is no loss {name!r}{hint}{'' if hint.endswith('?') else '.'}")


def _read_single(
    losses: Mapping[str, Any], counts: Counts, layout: Layout, device: torch.device, keep_graph: bool
) -> Reading | None:
    if not layout.single:
        return None
    mine = {name: losses[name] for name in layout.single if name in losses}
    return read_losses(mine, _counts_of(counts, layout.single), layout.single, device, keep_graph)


def _counts_of(counts: Counts, single: Sequence[str]) -> Counts:
    """The counts of the losses in no family."""
    if isinstance(counts, Mapping):
        return {name: counts[name] for name in single if name in counts}
    if isinstance(counts, Sequence) or (isinstance(counts, Tensor) and counts.ndim):
        return counts[: len(single)]
    return counts


def _read_family(
    family: Family, losses: Mapping[str, Any], counts: Counts, index: Mapping[str, Any], layout: Layout
) -> _GivenFamily | None:
    """The values of a family; None where it is absent."""
    value = losses.get(family.name)
    if value is None:
        return None
    values = _as_values(value, family, sampled=family.name in index)
    amounts = _family_counts(counts, family, values, layout)
    is_missing = torch.isnan(values.detach())
    if values.device.type != "cpu" or bool(is_missing.any()):
        known = (~is_missing).to(values.dtype)
        values, amounts = torch.where(is_missing, 0.0, values), known if amounts is None else amounts * known
    if amounts is not None:
        values = torch.where(amounts > 0, values, 0.0)
    members = read_members(index[family.name], family, len(values)) if family.name in index else None
    return _GivenFamily(values, amounts, members)


def _as_values(value: Any, family: Family, *, sampled: bool) -> Tensor:
    values = value if isinstance(value, Tensor) else to_float64(value, family.name)
    if values.is_complex():
        raise InputError(f"losses: expected real numbers for {family.name!r}, found {values.dtype}.")
    if sampled and values.ndim != 1:
        raise InputError(
            f"losses: expected the values of some members of {family.name!r}, shape (k,), found "
            f"{tuple(values.shape)}; each value belongs to one number of its index."
        )
    if not sampled and values.shape != (family.size,):
        raise InputError(
            f"losses: expected shape ({family.size},) for the family {family.name!r}, one number for each member, "
            f"found {tuple(values.shape)}; for some of them pass index={{{family.name!r}: their numbers}}."
        )
    return values if values.dtype in (torch.float32, torch.float64) else values.float()


def _family_counts(counts: Counts, family: Family, values: Tensor, layout: Layout) -> Tensor | None:
    """How many examples are behind each value, like these; None for one each."""
    given: Any = counts.get(family.name) if isinstance(counts, Mapping) else counts
    if given is None:
        return None
    amounts = torch.as_tensor(given, dtype=values.dtype, device=values.device).detach()
    if not isinstance(counts, Mapping) and amounts.ndim:
        if amounts.shape != (len(layout.names),):
            raise InputError(f"counts: expected shape ({len(layout.names)},), found {tuple(amounts.shape)}.")
        amounts = amounts[family.start : family.stop]
    if amounts.ndim and amounts.shape != values.shape:
        raise InputError(
            f"counts: expected one number for {family.name!r}, or one for each of its {len(values)} values, found "
            f"shape {tuple(amounts.shape)}."
        )
    if amounts.device.type == "cpu" and not bool(((amounts >= 0) & (amounts < torch.inf)).all()):
        raise InputError(f"counts: expected finite numbers >= 0 for {family.name!r}, found {given!r}.")
    return amounts.expand_as(values)


def _joined(
    single: Reading | None, parts: Sequence[_GivenFamily | None], layout: Layout, device: torch.device
) -> Reading:
    """All losses in their order, in the widest type, where the families are."""
    given = [part.values for part in parts if part is not None]
    given += [] if single is None else [single.values]
    wide = torch.float64 if any(values.dtype == torch.float64 for values in given) else torch.float32
    where = given[0].device if given else device
    values = [] if single is None else [single.values.to(where, wide)]
    counts = [] if single is None else [single.counts]
    for family, part in zip(layout.families, parts, strict=True):
        missing = _GivenFamily(torch.zeros(0, dtype=wide, device=where), None, torch.zeros(0, dtype=torch.int64))
        own, amounts = (missing if part is None else part).spread(family.size)
        values.append(own.to(wide))
        counts.append(amounts)
    if all(count is None for count in counts):
        return Reading(torch.cat(values), None)
    known = [
        torch.ones_like(v.detach()) if n is None else n.to(where, wide) for v, n in zip(values, counts, strict=True)
    ]
    return Reading(torch.cat(values), torch.cat(known))


def _arrived(single: Reading | None, parts: Sequence[_GivenFamily | None], layout: Layout) -> Reading:
    """The losses that arrived, in the widest type, with their places."""
    found = [] if single is None else [(single.values, single.counts, torch.arange(len(layout.single)))]
    for family, part in zip(layout.families, parts, strict=True):
        if part is not None:
            members = torch.arange(family.size) if part.members is None else part.members
            found.append((part.values, part.counts, members + family.start))
    kept = [
        (values, places) if counts is None or bool((counts > 0).all()) else (values[counts > 0], places[counts > 0])
        for values, counts, places in found
    ]
    is_wide = any(values.dtype == torch.float64 for values, _ in kept)
    wide = torch.float64 if is_wide else torch.float32
    none = torch.zeros(0, dtype=wide), torch.zeros(0, dtype=torch.int64)
    values, places = zip(none, *kept, strict=True)
    return Reading(torch.cat([one.to(wide) for one in values]), None, torch.cat(places))
