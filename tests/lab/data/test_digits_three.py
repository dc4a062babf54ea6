"""Three tasks on single digits."""

from itertools import combinations

import pytest
import torch

from ferero.errors import InputError
from ferero_lab.data import ThreeNet, cross_entropies, digits_three
from ferero_lab.data.digits import digits

PARTS = ("train", "validation", "test")


def test_the_seed_decides():
    one, two, other = digits_three(), digits_three(), digits_three(seed=1)
    for part in PARTS:
        assert torch.equal(getattr(one, part).images, getattr(two, part).images)
        assert torch.equal(getattr(one, part).labels, getattr(two, part).labels)
        assert not torch.equal(getattr(one, part).images, getattr(other, part).images)


def test_every_digit_is_in_exactly_one_part():
    data = digits_three()
    owned = [getattr(data, part).sources.flatten() for part in PARTS]
    assert [len(part) for part in owned] == [1200, 297, 300]
    assert torch.cat(owned).sort().values.tolist() == list(range(1797))
    assert all(set(left.tolist()).isdisjoint(right.tolist()) for left, right in combinations(owned, 2))


def test_labels_say_what_the_digit_is_and_only_parity_is_noisy():
    data = digits_three(noise=0.15)
    images, digit = digits()
    for part in PARTS:
        some = getattr(data, part)
        source = some.sources[:, 0]
        assert torch.equal(some.images[:, 0], images[source])
        assert some.images.dtype == torch.float32
        assert some.labels.dtype == torch.int64
        assert torch.equal(some.labels[:, 0], digit[source])
        assert torch.equal(some.labels[:, 2], (digit[source] > 4).long())
        wrong = int((some.labels[:, 1] != digit[source] % 2).sum())
        assert wrong == (180 if part == "train" else 0)


def test_logits_and_losses():
    part = digits_three().test
    logits = ThreeNet()(part.images)
    assert [tuple(task.shape) for task in logits] == [(300, 10), (300, 2), (300, 2)]
    assert cross_entropies(logits, part.labels).shape == (3,)


def test_the_seed_decides_the_first_parameters():
    one, two, other = (torch.nn.utils.parameters_to_vector(ThreeNet(seed=seed).parameters()) for seed in (3, 3, 4))
    assert torch.equal(one, two)
    assert not torch.equal(one, other)


@pytest.mark.parametrize(("validation", "test"), [(0, 10), (10, 0), (1000, 797)])
def test_counts_are_checked(validation, test):
    with pytest.raises(InputError, match=f"validation, test: expected .* below 1797, found {validation} and {test}"):
        digits_three(validation, test)


def test_noise_is_checked():
    with pytest.raises(InputError, match=r"noise: expected a share of wrong labels in \[0, 1\), found 1"):
        digits_three(noise=1)


def test_hidden_is_checked():
    with pytest.raises(InputError, match="hidden: expected a positive integer, found 0"):
        ThreeNet(0)
