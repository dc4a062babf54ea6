"""Networks with a shared body: shapes, seeds, the layers of the paper, and the losses."""

import pytest
import torch

from ferero.errors import InputError
from ferero_lab.data import LeNet, PairNet, batches, cross_entropies, digit_pairs

MODELS = [(PairNet, 12), (LeNet, 36)]


@pytest.mark.parametrize(("model", "size"), MODELS)
@pytest.mark.parametrize("tasks", [1, 2, 5])
def test_one_row_of_logits_a_task(model, size, tasks):
    logits = model(tasks=tasks)(torch.rand(7, 1, size, size))
    assert logits.shape == (tasks, 7, 10)
    assert logits.unique(dim=0).shape == logits.shape  # no two heads alike


@pytest.mark.parametrize(("model", "size"), MODELS)
def test_the_seed_decides_and_torchs_own_generator_is_untouched(model, size):
    before = torch.random.get_rng_state()
    one, two, other = (torch.nn.utils.parameters_to_vector(model(seed=seed).parameters()) for seed in (3, 3, 4))
    assert torch.equal(one, two)
    assert not torch.equal(one, other)
    assert torch.equal(before, torch.random.get_rng_state())


def test_lenet_has_the_papers_layers():
    shapes = [tuple(p.shape) for p in LeNet(3).parameters() if p.ndim > 1]
    assert shapes == [(10, 1, 9, 9), (20, 10, 5, 5), (50, 500), (10, 50), (10, 50), (10, 50)]


def test_hidden_is_the_width_of_the_shared_layer():
    assert [tuple(p.shape) for p in PairNet(5).parameters() if p.ndim > 1] == [(5, 144), (10, 5), (10, 5)]


def test_cross_entropies_are_means_of_minus_log_probabilities():
    logits = torch.randn(2, 6, 10, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    labels = torch.randint(10, (6, 2), generator=torch.Generator().manual_seed(1))
    chances = logits.exp() / logits.exp().sum(dim=-1, keepdim=True)
    by_hand = [-sum(chances[i, j, labels[j, i]].log() for j in range(6)) / 6 for i in range(2)]
    torch.testing.assert_close(cross_entropies(logits, labels), torch.stack(by_hand))
    torch.testing.assert_close(cross_entropies(tuple(logits), labels), torch.stack(by_hand))


@pytest.mark.parametrize("shape", [(6, 3), (5, 2), (6,)])
def test_logits_and_labels_must_belong_together(shape):
    with pytest.raises(InputError, match=r"labels: expected \(n, m\) = \(6, 2\) to go with the logits, found \("):
        cross_entropies(torch.zeros(2, 6, 10), torch.zeros(shape, dtype=torch.int64))


def test_logits_of_no_task():
    with pytest.raises(InputError, match=r"logits: expected m tensors \(n, classes\), found none"):
        cross_entropies([], torch.zeros(0, 0, dtype=torch.int64))


@pytest.mark.parametrize("numbers", [{"hidden": 0}, {"tasks": 0}])
def test_numbers_are_checked(numbers):
    with pytest.raises(InputError, match=f"{next(iter(numbers))}: expected a positive integer, found 0"):
        PairNet(**numbers)


def test_lenet_needs_a_task():
    with pytest.raises(InputError, match="tasks: expected a positive integer, found -1"):
        LeNet(-1)


def test_a_few_steps_lower_both_losses():
    part = digit_pairs(train=512).train
    net = PairNet()
    optimizer = torch.optim.Adam(net.parameters(), 1e-2)
    first = cross_entropies(net(part.images), part.labels).detach()
    for _, rows in zip(range(100), batches(len(part), 64), strict=False):
        optimizer.zero_grad()
        cross_entropies(net(part.images[rows]), part.labels[rows]).mean().backward()
        optimizer.step()
    assert (cross_entropies(net(part.images), part.labels) < 0.7 * first).all()
