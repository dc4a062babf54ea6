"""K models as one stack: who is where, and that each can be taken out again."""

from __future__ import annotations

import pytest
import torch
from tests.training.ensemble.alone import CPU, Net, data, squares
from torch import nn

from ferero.errors import InputError
from ferero.training._members import Members, StackedFunction, stacked_losses

NAMES = ("a", "b", "c")


def models(count=3, **how):
    made = []
    for seed in range(count):
        torch.manual_seed(seed)
        made.append(Net(**how).double())
    return made


def test_member_k_is_a_copy_of_model_k_modulo_their_number():
    mine = models(3, norm=True)
    members = Members(mine, 2, CPU)
    assert members.count == 6
    for k in range(6):
        state = members.state_dict(k)
        wanted = mine[k % 3].state_dict()
        assert list(state) == list(wanted)
        assert all(torch.equal(state[name], tensor) for name, tensor in wanted.items())
    members.stacked["heads.bias"].data[1] += 1
    assert not torch.equal(members.state_dict(1)["heads.bias"], members.state_dict(4)["heads.bias"])
    assert torch.equal(mine[1].heads.bias, members.state_dict(4)["heads.bias"])


def test_a_state_taken_out_does_not_change_any_more():
    members = Members(models(), 1, CPU)
    state = members.state_dict(0)
    before = state["heads.bias"].clone()
    members.stacked["heads.bias"].data += 1
    assert torch.equal(state["heads.bias"], before)


def test_losses_of_all_are_those_of_each():
    mine, batch = models(3, norm=True), data(8)
    members = Members(mine, 1, CPU)
    found = stacked_losses(members, squares, NAMES).of_all(batch)
    wanted = torch.stack([torch.stack(list(squares(model, batch).values())) for model in mine])
    torch.testing.assert_close(found, wanted)
    for k, model in enumerate(mine):  # and so are the running statistics
        torch.testing.assert_close(members.state_dict(k)["norm.running_var"], model.norm.running_var)


def test_batches_of_their_own():
    mine, (x, y) = models(3), data(24)
    own = x.view(3, 8, 4), y.view(3, 8, 3)
    found = stacked_losses(Members(mine, 1, CPU), squares, NAMES, is_own=True).of_all(own)
    wanted = torch.stack(
        [torch.stack(list(squares(model, (own[0][k], own[1][k])).values())) for k, model in enumerate(mine)]
    )
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("is_own", [False, True])
def test_one_by_one_is_the_same(is_own):
    batch = tuple(part.view(3, 8, -1) for part in data(24)) if is_own else data(8)
    together = StackedFunction(Members(models(3, norm=True), 1, CPU), squares, is_own=is_own)
    single = StackedFunction(Members(models(3, norm=True), 1, CPU), squares, is_own=is_own)
    single.is_vmapped, single.is_settled = False, True
    found, wanted = together.of_all(batch), single.of_all(batch)
    assert together.is_vmapped
    assert together.is_settled
    for name in NAMES:
        torch.testing.assert_close(found[name], wanted[name])
    for a, b in zip(together._members.buffers, single._members.buffers, strict=True):
        torch.testing.assert_close(a, b)


def test_a_failed_attempt_leaves_buffers_and_random_numbers_alone():
    def asks(model, batch):
        out = model(batch[0]) + torch.rand(1)
        return {"a": out.mean() if out.sum() > 0 else out.mean() + 1}

    members = Members(models(2, norm=True), 1, CPU)
    stacked = StackedFunction(members, asks)
    torch.manual_seed(5)
    with pytest.warns(UserWarning, match="the 2 models are evaluated one after the other, since torch.vmap cannot"):
        found = stacked.of_all(data(8))
    assert not stacked.is_vmapped
    assert members.stacked["norm.num_batches_tracked"].tolist() == [1, 1]
    quiet = StackedFunction(Members(models(2, norm=True), 1, CPU), asks)
    quiet.is_vmapped, quiet.is_settled = False, True
    torch.manual_seed(5)
    assert torch.equal(found["a"], quiet.of_all(data(8))["a"])


def test_other_tensors_in_their_places():
    members = Members(models(2), 1, CPU)
    zeros = {name: torch.zeros_like(tensor) for name, tensor in members.stacked.items()}
    found = StackedFunction(members, lambda model, batch: model(batch[0]).abs().sum()).of_all(data(8), zeros)
    assert found.tolist() == [0.0, 0.0]


def test_extra_state_and_tied_weights_are_in_the_state():
    class Extra(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(2, 2), nn.Linear(2, 2)
            self.second.weight = self.first.weight

        def get_extra_state(self):
            return {"version": 3}

        def set_extra_state(self, state):
            assert state == {"version": 3}

    members = Members([Extra()], 2, CPU)
    state = members.state_dict(1)
    assert set(state) == {"first.weight", "first.bias", "second.weight", "second.bias", "_extra_state"}
    Extra().load_state_dict(state)
    assert len(members.parameters) == 3


def test_nobody():
    with pytest.raises(InputError, match="models: expected at least one, found none"):
        Members([], 1, CPU)
