"""Convolution and pooling by patches are those of torch: values, gradients, forward mode, many networks at once."""

import pytest
import torch
from torch import nn

from ferero_lab.data import LeNet, cross_entropies
from ferero_lab.data.digit_models import PatchConv2d, PatchPool2d


def images(n=3, is_dark=False, seed=0):
    """Noise; or mostly black, where all the places of a pool see the same and are equal."""
    noise = torch.rand(n, 1, 36, 36, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    if is_dark:
        noise[:, :, :20, :] = 0
        noise[:, :, :, 24:] = 0
    return noise


def both(seed=0, bias=None):
    """The two forms of one network, in double precision."""
    made = [LeNet(seed=seed, patches=patches).double() for patches in (False, True)]
    if bias is not None:
        for net in made:
            for layer in (net.body[0], net.body[3]):
                nn.init.constant_(layer.bias, bias)
    return made


def losses(net, x):
    labels = torch.arange(2 * len(x)).reshape(-1, 2) % 10
    return cross_entropies(net(x), labels)


def test_the_two_forms_have_the_same_parameters_by_the_same_names():
    plain, patches = both(seed=5)
    assert list(plain.state_dict()) == list(patches.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), patches.parameters(), strict=True))


@pytest.mark.parametrize("shape", [(1, 1, 9, 9), (2, 3, 12, 11), (5, 4, 7, 16)])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kernel", [1, 3, (2, 5)])
def test_convolution_is_torchs(shape, bias, kernel):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    layer = PatchConv2d(shape[1], 6, kernel, bias=bias).double()
    wanted = nn.functional.conv2d(x, layer.weight, layer.bias)
    torch.testing.assert_close(layer(x.transpose(0, 1)).transpose(0, 1), wanted)


def test_pooling_is_torchs():
    x = torch.randn(2, 3, 6, 8, generator=torch.Generator().manual_seed(1))
    assert torch.equal(PatchPool2d()(x), nn.functional.max_pool2d(x, 2))


@pytest.mark.parametrize("n", [1, 4])
@pytest.mark.parametrize(("is_dark", "bias"), [(False, None), (True, None), (True, 0.1), (True, -0.1)])
def test_the_network_has_the_same_values_and_gradients(n, is_dark, bias):
    x, found = images(n, is_dark), []
    for net in both(bias=bias):
        value = losses(net, x)
        rows = [torch.autograd.grad(value[i], tuple(net.parameters()), retain_graph=True, allow_unused=True,
                                    materialize_grads=True) for i in range(2)]  # fmt: skip
        found.append((value, rows))
    torch.testing.assert_close(found[1][0], found[0][0])
    for i in range(2):
        torch.testing.assert_close(found[1][1][i], found[0][1][i], atol=1e-12, rtol=1e-9)


@pytest.mark.parametrize(("is_dark", "bias"), [(False, None), (True, 0.1)])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_forward_mode_gives_the_same_slopes(is_dark, bias):
    x, found = images(is_dark=is_dark), []
    for net in both(bias=bias):
        at = {name: p.detach() for name, p in net.named_parameters()}
        generator = torch.Generator().manual_seed(2)
        along = {name: torch.randn(p.shape, generator=generator, dtype=p.dtype) for name, p in at.items()}

        def of(parameters, net=net):
            return cross_entropies(torch.func.functional_call(net, parameters, (x,)), torch.zeros(3, 2).long())

        found.append(torch.func.jvp(of, (at,), (along,)))
    torch.testing.assert_close(found[1], found[0])


def test_many_networks_at_once_are_each_by_itself():
    nets, x = [LeNet(seed=seed, patches=True).double() for seed in range(3)], images()
    parameters, buffers = torch.func.stack_module_state(nets)
    together = torch.vmap(lambda p, b: torch.func.functional_call(nets[0], (p, b), (x,)))(parameters, buffers)
    wanted = torch.stack([LeNet(seed=seed).double()(x) for seed in range(3)])
    torch.testing.assert_close(together, wanted)
