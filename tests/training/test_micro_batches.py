"""Cycles of micro-batches that an optimizer's step ends early, and optimizers whose steps end none."""

from __future__ import annotations

import copy
import gc
import io
import pickle
import weakref
from itertools import pairwise

import pytest
import torch
from torch import nn

import ferero
from ferero.training import Steer
from ferero.training._micro_batches import Leaves, MicroBatchCycle

f = ferero.objectives("a", "b")
PREFERENCE = ferero.Preference(f, [f.a <= 0.5])


def rows(count, seed=0):
    return 0.5 + torch.rand(count, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def leaf():
    return torch.ones(2, dtype=torch.float64, requires_grad=True)


def still(*leaves):
    """An optimizer that steps and moves nothing."""
    return torch.optim.SGD(leaves, lr=0.0)


def moves(steer):
    return int(steer.record_arrived.max())


def train(steer, losses_of, sizes, step):
    """Steps after so many micro-batches each; how often the law had moved at every call, step by step."""
    found = []
    for index, size in enumerate(sizes):
        found.append([])
        for row in rows(size, seed=index):
            steer(losses_of(row)).backward()
            found[-1].append(moves(steer))
        step()
    return found


def in_phase(sizes, before=0):
    """One move a step, at its first micro-batch."""
    return [[before + i + 1] * size for i, size in enumerate(sizes)]


EPOCHS = [(4, 4, 2, 4, 4, 2, 4), (4, 3, 4, 1, 4), (3, 4, 4), (1, 1, 1), (2, 2, 2, 2)]


@pytest.mark.parametrize("sizes", EPOCHS, ids=lambda sizes: "-".join(map(str, sizes)))
def test_a_step_begins_a_new_cycle(sizes):
    steer, x = Steer(PREFERENCE, every=4), leaf()
    assert train(steer, lambda row: x * row, sizes, still(x).step) == in_phase(sizes)


def test_nothing_of_a_cycle_that_was_cut_is_lost():
    steer, x = Steer(PREFERENCE, every=4), leaf()
    train(steer, lambda row: x * row, (4, 2, 1), still(x).step)
    torch.testing.assert_close(steer.record_latest, rows(2, seed=1).mean(dim=0))


@pytest.mark.parametrize("sizes", EPOCHS[:2], ids=lambda sizes: "-".join(map(str, sizes)))
def test_two_optimizers_of_one_model(sizes):
    steer, x, y = Steer(PREFERENCE, every=4), leaf(), leaf()
    one, other = still(x), still(y)

    def step():
        one.step()
        other.step()

    assert train(steer, lambda row: x * y * row, sizes, step) == in_phase(sizes)


@pytest.mark.parametrize("is_frozen", [False, True])
@pytest.mark.parametrize("when", ["first", "last"])
def test_a_critic_that_steps_at_every_micro_batch_does_not_disturb(is_frozen, when):
    """Where the generator's loss goes through the critic, its parameters are in the graph as well."""
    steer, x, critic = Steer(PREFERENCE, every=4), leaf(), leaf()
    generator_steps, critic_steps = still(x), still(critic)
    found = []
    for index, size in enumerate((4, 4, 4, 2, 4, 4)):
        found.append([])
        for row in rows(size, seed=index):
            if when == "first":
                critic_steps.step()
            steer(x * (critic.detach() if is_frozen else critic) * row).backward()
            if when == "last":
                critic_steps.step()
            found[-1].append(moves(steer))
        generator_steps.step()
    assert found == in_phase((4, 4, 4, 2, 4, 4))


def test_another_model_does_not_disturb():
    steers, leaves = [Steer(PREFERENCE, every=4) for _ in range(2)], [leaf(), leaf()]
    steps = [still(x).step for x in leaves]
    found, made = ([], []), [0, 0]
    for _ in range(40):
        for k, (steer, x, epoch) in enumerate(zip(steers, leaves, (6, 9), strict=True)):
            made[k] += 1
            place = (made[k] - 1) % epoch
            steer(x * 0.7).backward()
            found[k].append((place % 4 == 0, moves(steer)))
            if place % 4 == 3 or place == epoch - 1:
                steps[k]()
    for seen in found:
        assert all(after - before == is_first for (_, before), (is_first, after) in pairwise(seen))


class Sharded(torch.optim.SGD):
    """Has its own copies of the parameters, as where they are in pieces."""

    def __init__(self, *leaves):
        super().__init__([tensor.detach().clone().requires_grad_() for tensor in leaves], lr=0.0)


def test_parameters_in_pieces_are_followed_after_one_cycle():
    steer, x = Steer(PREFERENCE, every=4), leaf()
    sizes = (4, 2, 4, 1, 4)
    assert train(steer, lambda row: x * row, sizes, Sharded(x).step) == in_phase(sizes)


def test_parameters_in_pieces_of_two_models():
    steer, x = Steer(PREFERENCE, every=4), leaf()
    generator_steps, critic_steps = Sharded(x), Sharded(leaf())

    def losses_of(row):
        critic_steps.step()
        return x * row

    sizes = (4, 4, 2, 4)
    assert train(steer, losses_of, sizes, generator_steps.step) == in_phase(sizes)


def test_parameters_that_are_thawed_later():
    steer, head, trunk = Steer(PREFERENCE, every=4), leaf(), leaf()
    first = still(head)
    train(steer, lambda row: head * row, (4, 4), first.step)
    later = still(trunk)
    sizes = (4, 2, 4, 2, 4)
    found = train(steer, lambda row: head.detach() * trunk * row, sizes, later.step)
    assert found == in_phase(sizes, before=2)


@pytest.mark.parametrize("copied", [lambda steer: steer, copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s)), None])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_state_is_in_phase_wherever_it_was_saved(copied, at):
    steer, x = Steer(PREFERENCE, every=4), leaf()
    train(steer, lambda row: x * row, (4, 4), still(x).step)
    for row in rows(at):
        steer(x * row).backward()
    if copied is None:
        file = io.BytesIO()
        torch.save(steer.state_dict(), file)
        file.seek(0)
        steer = Steer(PREFERENCE, every=4)
        steer.load_state_dict(torch.load(file, weights_only=True))
    else:
        steer = copied(steer)
    before, rest = moves(steer), 4 - at
    found = train(steer, lambda row: x * row, (rest, 4, 2, 4), still(x).step)
    assert found == [[before + (at == 0)] * rest, *in_phase((4, 2, 4), before + (at == 0))]


def test_loading_in_the_middle_of_a_cycle_and_beginning_a_new_one():
    """The state was saved two micro-batches after a step, and training begins at that step again."""
    steer, x = Steer(PREFERENCE, every=4), leaf()
    optimizer = still(x)
    train(steer, lambda row: x * row, (4, 4), optimizer.step)
    for row in rows(2):
        steer(x * row).backward()
    steer.load_state_dict(steer.state_dict())
    train(steer, lambda row: x * row, (4,), optimizer.step)
    before = moves(steer)
    assert train(steer, lambda row: x * row, (4, 4), optimizer.step) == in_phase((4, 4), before)


def test_a_step_that_the_scaler_skips():
    """The cycle goes on where it was, and the next step that is taken puts it right."""
    steer, x = Steer(PREFERENCE, every=4), leaf()
    optimizer, scaler = torch.optim.SGD([x], lr=0.1), torch.amp.GradScaler("cpu", init_scale=1.0)
    overflows = [False, True, False, False, False]

    def step():
        if overflows.pop(0):
            x.grad.fill_(torch.inf)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()

    found = []
    for index, size in enumerate((4, 2, 4, 4, 4)):
        found.append([])
        for row in rows(size, seed=index):
            scaler.scale(steer(x * row)).backward()
            found[-1].append(moves(steer))
        step()
    assert found == [[1] * 4, [2] * 2, [2, 2, 3, 3], [4] * 4, [5] * 4]


def test_skipped_micro_batches_count():
    steer, x = Steer(PREFERENCE, every=4, on_nonfinite="skip"), leaf()
    sizes, made = (4, 2, 4, 4), []

    def losses_of(row):
        made.append(row)
        return x * row * (torch.nan if len(made) in (6, 8) else 1.0)

    assert train(steer, losses_of, sizes, still(x).step) == in_phase(sizes)


def test_closures_of_a_trainer():
    """The last micro-batch of a step comes inside it, as in Lightning."""
    steer, x = Steer(PREFERENCE, every=4), leaf()
    optimizer, found = torch.optim.Adam([x], lr=0.0), []

    def closure():
        loss = steer(x * 0.7)
        loss.backward()
        found[-1].append(moves(steer))
        return loss

    sizes = (4, 4, 2, 4, 1, 4)
    for size in sizes:
        found.append([])
        for _ in range(size - 1):
            closure()
        optimizer.step(closure)
    assert found == in_phase(sizes)


@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")
def test_a_compiled_step_ends_a_cycle_as_well():
    steer, x = Steer(PREFERENCE, every=4), leaf()
    sizes = (4, 2, 4)
    step = torch.compile(torch.optim.SGD([x], lr=0.1).step, backend="eager")
    assert train(steer, lambda row: x * row, sizes, step) == in_phase(sizes)


# what it costs and keeps --------------------------------------------------------------------------------------


def test_a_whole_cycle_is_never_corrected_and_nothing_is_asked_of_the_device():
    cycle, x = MicroBatchCycle(), leaf()
    optimizer = still(x)
    for _ in range(5):
        for _ in range(4):
            cycle.count(x.sum())
        assert not cycle.is_ended_early_by(optimizer, 4)
    cycle.count(x.sum())
    assert cycle.is_ended_early_by(optimizer, 4)


def test_nothing_is_kept_alive():
    steer, net = Steer(PREFERENCE, every=2), nn.Linear(2, 2)
    optimizer = still(*net.parameters())
    for _ in range(3):
        steer(net(torch.ones(2)).square()).backward()
        optimizer.step()
    gone = [weakref.ref(net), weakref.ref(net.weight), weakref.ref(optimizer)]
    del net, optimizer
    gc.collect()
    assert [reference() for reference in gone] == [None] * 3
    steer_gone = weakref.ref(steer)
    del steer
    gc.collect()
    assert steer_gone() is None


def test_leaves_are_found_through_a_long_graph_and_their_number_is_bounded():
    x, near, strange = leaf(), leaf(), leaf()
    deep = x
    for _ in range(20_000):
        deep = deep + 0.0
    leaves = Leaves()
    leaves.add((deep * near).sum())
    assert len(leaves) == leaves.count_in(still(near, strange)) == 1
    assert leaves.count_in(still(x)) == 0  # too far away to be looked for
