"""Halves of a batch: every example once, in whatever it comes."""

from __future__ import annotations

from collections import OrderedDict, UserDict, defaultdict, namedtuple
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
import pytest
import torch
from torch.nn.utils.rnn import pack_sequence

from ferero.errors import InputError
from ferero.training._halves import halve

Pair = namedtuple("Pair", "x y")


@dataclass
class Sample:
    x: torch.Tensor
    words: list[str]
    scale: float = 1.0


def both(halves, read):
    return [read(half).tolist() for half in halves]


X = torch.arange(5)
NESTS = {
    "tensor": (X, lambda b: b),
    "tuple": ((X, X + 1), lambda b: b[0]),
    "list": ([X, [X, X]], lambda b: b[1][1]),
    "dict": ({"a": {"x": X}}, lambda b: b["a"]["x"]),
    "ordered": (OrderedDict(x=X), lambda b: b["x"]),
    "default": (defaultdict(list, x=X), lambda b: b["x"]),
    "user dict": (UserDict(x=X), lambda b: b["x"]),
    "read only": (MappingProxyType({"x": X}), lambda b: b["x"]),
    "named tuple": (Pair(X, X), lambda b: b.y),
    "dataclass": (Sample(X, list("abcde")), lambda b: b.x),
    "array": ({"x": np.arange(5)}, lambda b: b["x"]),
}


@pytest.mark.parametrize("name", NESTS)
def test_any_nesting_and_an_odd_number(name):
    batch, read = NESTS[name]
    assert both(halve(batch), read) == [[0, 1, 2], [3, 4]]
    if name != "read only":
        assert all(type(half) is type(batch) for half in halve(batch))


@pytest.mark.parametrize("name", NESTS)
def test_at_random_every_example_once(name):
    batch, read = NESTS[name]
    first, second = both(halve(batch, torch.Generator().manual_seed(3)), read)
    assert sorted(first + second) == list(range(5))
    assert len(first) == 3
    assert [first, second] != [[0, 1, 2], [3, 4]]


def test_examples_stay_together():
    batch = {"x": torch.arange(6.0), "y": torch.arange(6) * 10, "words": list("abcdef")}
    for half in halve(batch, torch.Generator().manual_seed(0)):
        assert (half["x"] * 10).tolist() == half["y"].tolist()
        assert half["words"] == ["abcdef"[i] for i in half["x"].long()]


def test_plain_values_go_to_both():
    batch = {"x": X, "names": ("a", "b"), "scale": torch.tensor(2.0), "task": "read", "none": None, "size": (36, 36)}
    first, second = halve(batch)
    for half in (first, second):
        assert half["scale"] == 2
        assert (half["task"], half["none"], half["size"], half["names"]) == ("read", None, (36, 36), ("a", "b"))


def test_texts_alone():
    assert halve(["a", "b", "c"]) == (["a", "b"], ["c"])


def test_the_halves_are_views():
    first, second = halve(X)
    assert first.data_ptr() == X.data_ptr()
    assert second._base is X


def test_the_batch_stays_as_it_was():
    batch = {"x": X, "list": [X]}
    halve(batch)
    assert batch["x"] is X
    assert batch["list"][0] is X


def test_batch_encodings():
    transformers = pytest.importorskip("transformers")
    first, second = halve(transformers.BatchEncoding({"input_ids": torch.ones(3, 4), "labels": torch.arange(3)}))
    assert type(first) is transformers.BatchEncoding
    assert first.labels.tolist() == [0, 1]
    assert second["labels"].tolist() == [2]


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (torch.ones(1, 3), "at least two examples.*found 1.*twin="),
        (torch.ones(0, 3), "at least two examples.*found 0"),
        ({"x": X, "y": [torch.ones(4)]}, r"batch\['y'\]\[0\]: expected length 5.*\(4,\).*split="),
        (object(), "expected tensors to halve, found none in object.*split="),
        (3.0, "found none in float"),
        ((X, object()), r"batch\[1\]: .*found object.*split="),
        ((X, {1, 2}), r"batch\[1\]: .*found set"),
        ((X, pack_sequence([torch.ones(2)])), r"batch\[1\]: .*PackedSequence.*split="),
        ((X, torch.eye(5).to_sparse()), r"batch\[1\]: .*cannot be halved"),
    ],
)
def test_what_cannot_be_halved(batch, message):
    with pytest.raises(InputError, match=f"(?s){message}"):
        halve(batch)


def test_a_list_of_mappings_is_a_list_of_examples():
    batch = [{"tokens": torch.full((6,), i)} for i in range(4)]
    first, second = halve(batch)
    assert [int(example["tokens"][0]) for example in first] == [0, 1]
    assert [int(example["tokens"][0]) for example in second] == [2, 3]
    assert all(len(example["tokens"]) == 6 for example in (*first, *second))
    with pytest.raises(InputError, match=r"batch\[1\]: expected 3 examples, as the batch's first part has, found 4"):
        halve((torch.zeros(3), batch))


def test_a_dataclass_with_a_computed_field():
    @dataclass(frozen=True)
    class Batch:
        x: torch.Tensor
        size: torch.Tensor = field(init=False)

        def __post_init__(self):
            object.__setattr__(self, "size", self.x + 1)

    first, second = halve(Batch(torch.arange(4)))
    assert first.x.tolist() == [0, 1]
    assert second.size.tolist() == [3, 4]
