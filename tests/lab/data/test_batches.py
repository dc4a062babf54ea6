"""Which examples each step sees."""

from itertools import islice

import pytest
import torch

from ferero.errors import InputError
from ferero_lab.data import batches


def first(count, size, number, seed=0):
    return torch.stack(list(islice(batches(count, size, seed=seed), number)))


def test_the_seed_decides_and_torchs_own_generator_is_untouched():
    before = torch.random.get_rng_state()
    assert torch.equal(first(50, 8, 20), first(50, 8, 20))
    assert not torch.equal(first(50, 8, 20), first(50, 8, 20, seed=1))
    assert torch.equal(before, torch.random.get_rng_state())


def test_an_epoch_repeats_nothing_and_the_next_is_reshuffled():
    got = first(50, 8, 12)
    assert got.shape == (12, 8)
    assert got.dtype == torch.int64
    one, two = got[:6].flatten(), got[6:].flatten()
    assert len(one.unique()) == len(two.unique()) == 48
    assert got.min() >= 0
    assert got.max() < 50
    assert not torch.equal(one, two)


def test_a_batch_may_be_all_there_is():
    assert first(5, 5, 3).sort(dim=1).values.tolist() == [[0, 1, 2, 3, 4]] * 3


@pytest.mark.parametrize("size", [0, 11, -1])
def test_size_is_checked_at_the_call(size):
    with pytest.raises(InputError, match=f"size: expected 1 to 10, the number of examples, found {size}"):
        batches(10, size)


def test_no_examples():
    with pytest.raises(InputError, match="count: expected a positive number of examples, found 0"):
        batches(0, 1)
