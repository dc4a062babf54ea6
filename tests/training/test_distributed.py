"""What ranks average and what they compare, with the other ranks' numbers made up; `distributed` has real ones."""

from __future__ import annotations

import copy
import zlib

import pytest
import torch

import ferero
from ferero.errors import InputError
from ferero.training import Steer
from ferero.training import _distributed as several
from ferero.training import _steer as steer_module
from ferero.training._distributed import check_agreement, gather, traits_of
from ferero.training._losses import Reading

f = ferero.objectives("a", "b")
PREFERENCE = ferero.Preference(f, [f.a <= 0.5])
THREE = ferero.objectives("a", "b", "c")


def tensor(*values):
    return torch.tensor(values, dtype=torch.float64)


@pytest.fixture
def with_another_rank(monkeypatch):
    """A second rank whose payload (sums, counts, measured times counts, counts) is added to this one's."""
    other = torch.stack([tensor(8.0, 0.0, 5.0), tensor(4.0, 0.0, 1.0), tensor(0.6, 0.0, 0.0), tensor(1.0, 0.0, 0.0)])
    monkeypatch.setattr(several, "ranks_of", lambda group: 2)
    monkeypatch.setattr(several.distributed, "all_reduce", lambda payload, group: payload.add_(other))


def test_means_and_shares_are_those_of_the_joint_batch(with_another_rank):
    reading = Reading(tensor(1.0, 3.0, 0.0), tensor(12.0, 2.0, 0.0))
    step, _ = gather(reading, torch.zeros(2, 3, dtype=torch.float64), None)
    assert step.means.tolist() == [20.0 / 16, 3.0, 5.0]
    assert step.counts.tolist() == [16.0, 2.0, 1.0]
    assert step.share.tolist() == [2 * 12 / 16, 2.0, 0.0]


def test_what_both_ranks_measured_counts_as_its_mean(with_another_rank):
    measured = torch.stack([tensor(0.2, 0.7, 0.0), tensor(1.0, 1.0, 0.0)])
    _, joined = gather(Reading(tensor(1.0, 1.0, 1.0), None), measured, None)
    assert joined[0].tolist() == pytest.approx([0.4, 0.7, 0.0])
    assert joined[1].tolist() == [2.0, 1.0, 0.0]


def traits(preference=PREFERENCE, method=None, every=1, on_nonfinite="raise"):
    return traits_of(preference, method or ferero.FereroPI(), every, on_nonfinite)


def marks(found):
    return torch.tensor([zlib.crc32(text.encode()) for text in found.values()])


@pytest.fixture
def ranks(monkeypatch):
    """Ranks with these traits, beside this one."""

    def with_others(*others):
        def all_gather(found, mine, group):
            for place, tensor in zip(found, [mine, *map(marks, others)], strict=True):
                place.copy_(tensor)

        monkeypatch.setattr(several.distributed, "get_world_size", lambda group: 1 + len(others))
        monkeypatch.setattr(several.distributed, "get_process_group_ranks", lambda group: range(1 + len(others)))
        monkeypatch.setattr(several.distributed, "all_gather", all_gather)

    return with_others


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"preference": ferero.Preference(f, [f.a <= 0.4])}, "other constraints than rank 0"),
        ({"preference": ferero.Preference(f, [f.b <= 0.5])}, "other constraints than"),
        ({"preference": ferero.Preference(f, [f.a == 0.5])}, "other constraints than"),
        ({"preference": ferero.Preference(f, [f.a <= 0.5], minimize=f.b)}, "another order than"),
        ({"preference": ferero.Preference(ferero.objectives("a", "c"), [])}, "other losses and other constraints than"),
        ({"preference": ferero.Preference(THREE, [THREE.a <= 0.5])}, "other losses, another order and other con"),
        ({"every": 2}, "another every than"),
        ({"on_nonfinite": "skip"}, "another on_nonfinite than"),
    ],
)
def test_what_differs_is_named(ranks, other, words):
    ranks(traits(), traits(**other), traits())
    with pytest.raises(InputError, match=rf"Steer: rank 2 has {words}.*build the same Steer on every rank") as caught:
        check_agreement(traits(), torch.device("cpu"), None)
    assert "ranks differ" not in str(caught.value)


def test_another_method_is_named_and_ranks_are_counted(ranks):
    other = traits() | {"another method": "FereroPI FereroPI(gain=2.0)"}
    ranks(traits(), other, other)
    with pytest.raises(InputError, match=r"rank 2 has another method than rank 0 \(2 of 4 ranks differ from it\)"):
        check_agreement(traits(), torch.device("cpu"), None)


def test_rounding_and_addresses_do_not_count():
    near = ferero.Preference(f, [f.a <= 0.5 + 1e-13])

    class Method:
        def __init__(self):
            self.inner = object()

    assert traits(near) == traits()
    assert traits(method=Method()) == traits(method=Method())


def test_a_steer_compares_once_and_again_after_a_reset_or_a_copy(monkeypatch):
    asked = []
    for module in (several, steer_module):
        monkeypatch.setattr(module, "ranks_of", lambda group: 2)
    monkeypatch.setattr(several.distributed, "all_reduce", lambda payload, group: payload.mul_(2))
    monkeypatch.setattr(steer_module, "check_agreement", lambda *_: asked.append(1))
    steer = Steer(PREFERENCE)

    def calls(steer, count=3):
        for _ in range(count):
            steer(torch.ones(2, requires_grad=True))
        return len(asked)

    steer.eval()
    assert calls(steer) == 0
    steer.train()
    assert calls(steer) == 1
    steer.reset()
    assert calls(steer) == 2
    assert calls(copy.deepcopy(steer)) == 3
    assert calls(steer) == 3
