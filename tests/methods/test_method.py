import numpy as np
import pytest
import torch

from ferero.errors import InputError, NonFiniteError
from ferero.methods import Ferero, FereroSA, Observation
from ferero.methods._method import check_observation
from ferero.preference import Preference


def test_tensors_stay_as_they_are_and_the_rest_become_tensors():
    losses = torch.ones(2, dtype=torch.float16)
    assert Observation(losses).losses is losses
    assert Observation([1, 2]).losses.dtype == torch.float64
    assert Observation(np.ones(2, dtype=np.float32)).losses.dtype == torch.float32
    assert Observation([1.0, 2.0], slopes=[0.0, 0.0]).slopes.shape == (2,)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"losses": 1.0}, r"losses: expected shape \(\.\.\., m\)"),
        ({"losses": []}, r"losses: expected shape"),
        ({"losses": [1.0, 2.0], "gramian": np.eye(3)}, r"gramian: .* for 2 losses, found \(3, 3\)"),
        ({"losses": [1.0, 2.0], "slopes": [1.0]}, r"slopes: .* for 2 losses, found \(1,\)"),
        ({"losses": torch.ones(2, dtype=torch.complex64)}, r"losses: expected real numbers"),
    ],
)  # fmt: skip
def test_observations_that_do_not_fit_are_refused(arguments, words):
    with pytest.raises(InputError, match=words):
        Observation(**arguments)


@pytest.mark.parametrize("method", [Ferero(), FereroSA()])
def test_an_observation_is_held_to_what_the_method_reads(method):
    p = Preference.pareto(2)
    missing = (method.requires - {"losses"}).copy()
    with pytest.raises(
        InputError, match=rf"observation: {type(method).__name__} reads {min(missing)}, found None; pass"
    ):
        check_observation(method, p, Observation([1.0, 2.0]))
    whole = {"losses": [1.0, 2.0, 3.0], "gramian": np.eye(3), "slopes": np.ones(3)}
    with pytest.raises(InputError, match=r"losses: expected shape \(\.\.\., 2\), one number for each of f1, f2"):
        check_observation(method, p, Observation(**whole))
    with pytest.raises(NonFiniteError, match=r"losses: expected finite numbers, found nan at index \(0,\)"):
        check_observation(method, p, Observation([np.nan, 1.0], np.eye(2), [0.0, 0.0]))
    with pytest.raises(InputError, match=r"losses: expected shape \(\.\.\., 3, 2\) for a stack of 3 preferences"):
        check_observation(method, Preference.stack([p] * 3), Observation(np.ones((4, 2)), np.eye(2), [0.0, 0.0]))
