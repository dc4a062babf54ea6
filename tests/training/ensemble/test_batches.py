"""Orders are functions of seed and epoch alone, every example comes at most once, and evaluation leaves no trace."""

from __future__ import annotations

import pytest
import torch
from torch.utils.data import DataLoader, DistributedSampler, RandomSampler, TensorDataset

from ferero.training._batches import LoaderBatches, TensorBatches, read_batches, read_examples

CPU = torch.device("cpu")
X = torch.arange(11)


def test_an_epoch_deals_every_example_at_most_once_in_whole_batches():
    batches = TensorBatches((X, 10 * X), 4, CPU, [0])
    assert batches.steps == 2
    dealt = list(batches.epoch(0))
    assert [x.shape for x, _ in dealt] == [(4,), (4,)]
    assert all(torch.equal(y, 10 * x) for x, y in dealt)
    assert len(set(torch.cat([x for x, _ in dealt]).tolist())) == 8


def test_orders_differ_by_seed_and_by_epoch_and_by_nothing_else():
    torch.manual_seed(1)
    first = TensorBatches((X,), 4, CPU, [3]).order(5)
    torch.manual_seed(2)
    assert torch.equal(TensorBatches((X,), 4, CPU, [3]).order(5), first)
    assert not torch.equal(TensorBatches((X,), 4, CPU, [3]).order(6), first)
    assert not torch.equal(TensorBatches((X,), 4, CPU, [4]).order(5), first)


def test_left_over_examples_are_others_each_time():
    batches = TensorBatches((X,), 4, CPU, [0])
    seen = {number for epoch in range(6) for number in batches.order(epoch).flatten().tolist()}
    assert seen == set(range(11))


def test_members_with_orders_of_their_own():
    batches = TensorBatches((X,), 4, CPU, [3, 7, 3])
    order = batches.order(1)
    assert order.shape == (2, 3, 4)
    assert batches.is_own
    for k, seed in enumerate((3, 7, 3)):
        assert torch.equal(order[:, k], TensorBatches((X,), 4, CPU, [seed]).order(1))
    assert next(iter(batches.epoch(1)))[0].shape == (3, 4)


def test_the_whole_is_in_order_and_the_same_for_all():
    (found,) = TensorBatches((X, X), 4, CPU, [3, 7]).whole()
    assert torch.equal(found[0], X)


def test_a_shared_order_is_that_of_seed_0_whatever_the_seeds():
    found = read_batches((X,), 4, "shared", CPU, [5, 6])
    assert not found.is_own
    assert torch.equal(found.order(2), TensorBatches((X,), 4, CPU, [0]).order(2))


def test_large_seeds_are_seeds():
    order = TensorBatches((X,), 4, CPU, [2**62]).order(1)
    assert not torch.equal(order, TensorBatches((X,), 4, CPU, [2**62 + 1]).order(1))


@pytest.mark.parametrize("of", ["loader", "sampler"])
def test_a_loaders_own_generator_goes_on_where_it_was_and_no_evaluation_moves_it(of):
    def make():
        generator, dataset = torch.Generator().manual_seed(3), TensorDataset(X)
        if of == "loader":
            return LoaderBatches(DataLoader(dataset, batch_size=4, shuffle=True, generator=generator), CPU)
        return LoaderBatches(DataLoader(dataset, batch_size=4, sampler=RandomSampler(X, generator=generator)), CPU)

    def epochs(batches, count):
        return [torch.cat([x for (x,) in batches.epoch(i)]).tolist() for i in range(count)]

    wanted = epochs(make(), 3)
    assert wanted[0] != wanted[1]
    batches = make()
    assert epochs(batches, 1) == wanted[:1]
    list(batches.whole())
    state = batches.state()
    assert epochs(batches, 2) == wanted[1:]
    later = make()
    later.go_on(state)
    assert epochs(later, 2) == wanted[1:]


def test_a_sampler_is_told_the_epoch():
    sampler = DistributedSampler(TensorDataset(X), num_replicas=1, rank=0)
    batches = LoaderBatches(DataLoader(TensorDataset(X), batch_size=11, sampler=sampler), CPU)
    assert not torch.equal(next(batches.epoch(0))[0], next(batches.epoch(1))[0])


def test_what_batches_say_of_themselves():
    assert str(TensorBatches((X,), 4, CPU, [0])) == "2 an epoch, of 4 out of 11 examples in an order that all share"
    assert (
        str(TensorBatches((X,), 4, CPU, [0, 1])) == "2 an epoch, of 4 out of 11 examples in an order of each seed's own"
    )
    assert str(LoaderBatches([1, 2, 3], CPU)) == "3 an epoch"
    assert LoaderBatches((i for i in range(2)), CPU).steps is None


def test_examples_need_no_batch_size():
    assert [len(x) for (x,) in read_examples((torch.arange(5000),), CPU, "evaluate").whole()] == [2048, 2048, 904]
