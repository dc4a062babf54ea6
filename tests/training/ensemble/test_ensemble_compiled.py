"""What `torch.compile` makes of the losses is the same training, for every kind of gradient and slope."""

from __future__ import annotations

import gc
from contextlib import nullcontext

import pytest
import torch
from tests.training.ensemble.alone import ORDER, OTHER_RAY, RAY, Net, assert_same_state, sgd, train

import ferero

CASES = [
    (ferero.MGDA(), "realized"),
    (ferero.FereroPI(), "realized"),
    (ferero.FereroSA(gamma=0.01), "realized"),
    (ferero.FereroSA(gamma=0.01), "forward"),
    (ferero.FereroSA(gamma=0.01), "jacobian"),
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, while it compiles
@pytest.mark.parametrize("norm", [False, True], ids=["plain", "buffers"])
@pytest.mark.parametrize(("method", "slopes"), CASES, ids=lambda v: v if isinstance(v, str) else type(v).__name__)
def test_compiled_training_is_the_same(method, slopes, norm):
    wanted = [RAY, OTHER_RAY] if method.understands(RAY) is None else [ORDER]
    cannot = slopes == "forward" and norm
    with pytest.warns(UserWarning, match="compile: torch.compile cannot follow") if cannot else nullcontext():
        plain, compiled = (
            train(
                wanted, seeds=2, method=method, slopes=slopes, optimizer=sgd, compile=is_compiled,
                make_model=lambda seed: Net(norm=norm).double(),
            )
            for is_compiled in (False, True)
        )  # fmt: skip
    for one, other in zip(plain.results, compiled.results, strict=True):
        assert_same_state(other.state_dict, one.state_dict, atol=1e-8, rtol=1e-7)
    assert torch.allclose(plain.losses, compiled.losses)
    gc.collect()  # what a failed compilation leaves behind once turned gradients off here
    assert (2 * torch.ones(1, requires_grad=True)).requires_grad
