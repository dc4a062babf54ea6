"""What a training loop may pass as its losses, and what it is told otherwise."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from ferero.errors import InputError, UnknownNameError
from ferero.training._losses import check_attached, read_losses

NAMES = ("zh", "en", "gap")
CPU = torch.device("cpu")


def read(losses, counts=None):
    return read_losses(losses, counts, NAMES, CPU)


def leaf(value, dtype=torch.float32):
    return torch.tensor(value, dtype=dtype, requires_grad=True)


def test_a_tensor_a_list_and_names_are_the_same():
    tensor = torch.tensor([1.0, 2.0, 3.0])
    for losses in (tensor, [1.0, torch.tensor(2.0), torch.tensor([3.0])], {"gap": 3.0, "en": tensor[1], "zh": 1}):
        reading = read(losses)
        assert reading.values.tolist() == [1.0, 2.0, 3.0]
        assert reading.counts is None
    assert read(tensor).values is tensor  # nothing is done where nothing is to do


def test_one_loss_may_come_as_it_is():
    loss = torch.tensor(2.0, requires_grad=True)
    reading = read_losses(loss, None, ["error"], torch.device("cpu"))
    assert reading.values.tolist() == [2.0]
    assert reading.values.requires_grad
    assert read_losses(loss, 8, ["error"], torch.device("cpu")).counts.tolist() == [8.0]


@pytest.mark.parametrize(
    ("losses", "counts"),
    [
        ({"zh": 1.0, "gap": 3.0}, None),
        ({"zh": 1.0, "en": None, "gap": 3.0}, None),
        ([1.0, None, 3.0], None),
        ([1.0, math.nan, 3.0], [1, 0, 1]),
        ([1.0, math.nan, 3.0], {"en": 0}),
        ([1.0, math.nan, 3.0], torch.tensor([1.0, 0.0, 1.0])),
    ],
)
def test_missing_losses(losses, counts):
    reading = read(losses, counts)
    assert reading.values.tolist() == [1.0, 0.0, 3.0]
    assert reading.counts.tolist() == [1.0, 0.0, 1.0]


def test_counts():
    assert read([1.0, 2.0, 3.0], 8).counts.tolist() == [8.0] * 3
    assert read([1.0, 2.0, None], {"zh": 5}).counts.tolist() == [5.0, 1.0, 0.0]
    assert read([1.0, 2.0, 3.0], torch.tensor(4)).counts.tolist() == [4.0] * 3
    assert read(torch.ones(3), torch.tensor([4, 0, 2])).counts.tolist() == [4.0, 0.0, 2.0]


@pytest.mark.parametrize(
    ("dtype", "wanted"),
    [(torch.float16, torch.float32), (torch.bfloat16, torch.float32), (torch.float64, torch.float64)],
)
def test_values_are_float32_or_wider(dtype, wanted):
    assert read(torch.ones(3, dtype=dtype)).values.dtype == wanted
    assert read([torch.ones((), dtype=dtype), 1.0, torch.ones((), dtype=torch.float16)]).values.dtype == wanted


def test_the_graph_is_kept():
    a, b = leaf(1.0), leaf(2.0)
    read({"zh": a * 2, "gap": b}).values.sum().backward()
    assert (a.grad.item(), b.grad.item()) == (2.0, 1.0)


@pytest.mark.parametrize(
    ("losses", "counts", "kind", "words"),
    [
        (torch.ones(2), None, InputError, r"losses: expected shape \(3,\), one number for each of .*found \(2,\)"),
        (torch.ones(3, 1), None, InputError, r"found \(3, 1\); reduce each to one number"),
        (torch.ones(()), None, InputError, "losses: expected one for each of zh, en, gap, found a single number"),
        ([1.0, 2.0], None, InputError, r"losses: expected 3 of them \(zh, en, gap\), found 2"),
        ({"zhh": 1.0}, None, UnknownNameError, r"losses: there is no loss 'zhh'; did you mean 'zh'\?"),
        ({0: 1.0}, None, UnknownNameError, r"there is no loss 0"),
        (1.0, None, InputError, r"losses: expected a tensor \(3,\), a list or \{name: value\}, found float"),
        ("zh", None, InputError, r"losses: expected a tensor .* found str"),
        (None, None, InputError, r"losses: expected a tensor .* found NoneType"),
        ([1.0, "x", 2.0], None, InputError, r"losses: expected a scalar for 'en', found str"),
        ([1.0, torch.ones(2), 2.0], None, InputError, r"losses: expected one real number for 'en', found shape \(2,\)"),
        (torch.ones(3, dtype=torch.complex64), None, InputError, r"losses: expected .*real"),
        ([1.0, 2.0, 3.0], [1, 2], InputError, r"counts: expected 3 of them"),
        ([1.0, 2.0, 3.0], {"e": 1}, UnknownNameError, r"counts: there is no loss 'e'"),
        ([1.0, 2.0, 3.0], [1, -2, 3], InputError, r"counts: expected a finite number >= 0 for 'en', found -2"),
        ([1.0, 2.0, 3.0], {"gap": math.nan}, InputError, r"counts: expected a finite number >= 0 for 'gap', found nan"),
        ([1.0, 2.0, 3.0], -1, InputError, r"counts: expected a finite number >= 0.*found -1"),
        ([1.0, 2.0, 3.0], math.nan, InputError, r"counts: expected a finite number >= 0.*found nan"),
        ([1.0, 2.0, 3.0], "many", InputError, r"counts: expected a tensor .* found str"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused(losses, counts, kind, words):
    with pytest.raises(kind, match=words):
        read(losses, counts)


@pytest.mark.parametrize(
    "losses",
    [
        torch.ones(3),
        [leaf(1.0), leaf(1.0).detach(), leaf(1.0)],
        {"zh": leaf(1.0), "en": 1.0},
        {"en": np.float64(1.0)},
    ],
    ids=["tensor", "detached", "float", "numpy"],
)
def test_losses_must_be_attached(losses):
    with pytest.raises(
        InputError, match=r"losses: '(zh|en)' is not attached to the graph.*steer\.observe\((zh|en)=\.\.\.\)"
    ):
        check_attached(losses, NAMES)


def test_attached_or_missing_losses_pass():
    check_attached(torch.ones(3, requires_grad=True) * 2, NAMES)
    check_attached({"zh": leaf(1.0), "en": None}, NAMES)
