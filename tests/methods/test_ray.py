"""What the neighbours read from a preference, and how they refuse the rest."""

import pytest
import torch

import ferero
from ferero.methods._baselines.ray import knows_rays_only, knows_the_order_only, ray_of, through_of, weights_of
from ferero.preference import Preference

CPU = torch.device("cpu")


class Neighbour:
    """Knows little."""


def test_weights_make_the_weighted_losses_equal_on_the_ray() -> None:
    ray = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64)
    weights = weights_of(Preference.ray(ray), CPU)
    torch.testing.assert_close(weights * ray, torch.full((3,), float(weights[0])).double())
    assert float(weights.sum()) == pytest.approx(1.0)


def test_weights_of_from_weights_are_those_weights() -> None:
    torch.testing.assert_close(weights_of(Preference.from_weights([0.3, 0.7]), CPU), torch.tensor([0.3, 0.7]).double())


def test_a_zero_in_the_ray_takes_all_the_weight() -> None:
    assert weights_of(Preference.ray([1.0, 0.0, 0.0]), CPU).tolist() == [0.0, 0.5, 0.5]


def test_without_a_ray_all_count_the_same() -> None:
    assert weights_of(Preference.pareto(4), CPU).tolist() == [0.25] * 4


def test_a_stack_keeps_each_members_own() -> None:
    members = [Preference.ray([1.0, 3.0]), Preference.pareto(2), Preference.ray([1.0, 1.0], through=[0.1, 0.2])]
    stack = Preference.stack(members)
    for function in (weights_of, ray_of, through_of):
        torch.testing.assert_close(function(stack, CPU), torch.stack([function(member, CPU) for member in members]))


def test_refusals_say_what_to_do() -> None:
    f = ferero.objectives("a", "b")
    n = Neighbour()
    assert knows_rays_only(n, Preference.ray([1.0, 2.0])) is None
    assert knows_rays_only(n, Preference.ray([1.0, 2.0], through=[0.1, 0.1]), shifted=True) is None
    refused = {
        "knows no constraint but": Preference(f, [f.a <= 1]),
        "rays from the origin only": Preference.ray([1.0, 2.0], through=[0.1, 0.1]),
        "no order but that of the losses": Preference.pareto(2, cone=ferero.Cone([[1.0, 0.2], [0.2, 1.0]])),
        "entries are >= 0": Preference.between([1.0, 2.0], [2.0, 1.0]),
    }
    for words, preference in refused.items():
        for wanted in (preference, Preference.stack([Preference.pareto(2, names=preference.names), preference])):
            text = knows_rays_only(n, wanted)
            assert text is not None
            assert words in text
            assert text.startswith("Neighbour")
    assert knows_the_order_only(n, Preference.pareto(2)) is None
    assert "ends somewhere on the front" in (knows_the_order_only(n, Preference.ray([1.0, 2.0])) or "")
