"""Training with a plan is the same training, to the last bit, whatever the model does."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import yolo_ckpt
from tests.conftest import Block, Residual, Staged, assert_same_training, both_modes, plain_step, toy

ACTIVATIONS = [
    nn.SiLU(), nn.SiLU(inplace=True), nn.ReLU(), nn.ReLU(inplace=True), nn.Identity(), nn.LeakyReLU(0.1), nn.ReLU6(),
    nn.Hardswish(), nn.Hardtanh(-0.5, 2), nn.GELU(), nn.GELU("tanh"), nn.Mish(), nn.Sigmoid(), nn.ELU(), nn.Tanh(),
]  # fmt: skip


@both_modes
def test_plain_chain(ckpt: str) -> None:
    assert_same_training(toy(), ckpt, steps=3)


@both_modes
@pytest.mark.parametrize("act", ACTIVATIONS, ids=repr)
def test_activations(ckpt: str, act: nn.Module) -> None:
    assert_same_training(Staged(Block(3, 8, 3, act=act), Block(8, 8, 3, act=copy.deepcopy(act)), Block(8, 4)), ckpt)


@both_modes
@pytest.mark.parametrize("size", [33, 30, 7])
def test_odd_sizes(ckpt: str, size: int) -> None:
    assert_same_training(toy(), ckpt, plain_step(size))


@both_modes
@pytest.mark.parametrize("batch", [1, 3])
def test_large_maps_take_the_grouped_and_split_paths(ckpt: str, batch: int) -> None:
    model = Staged(Block(3, 48, 3), Block(48, 48, 3), Residual(48), nn.Sequential(Block(48, 48), nn.Conv2d(48, 4, 1)))
    assert_same_training(model, ckpt, plain_step(256, batch), steps=1)


@both_modes
def test_bf16_autocast(ckpt: str) -> None:
    def step(model: nn.Module, i: int) -> list[Tensor]:
        with torch.autocast("cpu", torch.bfloat16):
            out = model(torch.rand(2, 3, 32, 32))
        out.float().square().sum().backward()
        return [out.detach().clone()]

    assert_same_training(toy(16), ckpt, step)


class Twice(nn.Module):
    """One block, used twice: autocast casts its weight once for both."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.block = Block(c, c, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.block(self.block(x))


@both_modes
@pytest.mark.parametrize("cached", [True, False])
def test_bf16_autocast_of_large_and_shared_weights(ckpt: str, cached: bool) -> None:
    def step(model: nn.Module, i: int) -> list[Tensor]:
        with torch.autocast("cpu", torch.bfloat16, cache_enabled=cached):
            out = model(torch.rand(2, 3, 16, 16))
        out.float().square().sum().backward()
        return [out.detach().clone()]

    assert_same_training(Staged(Block(3, 256), Twice(256), Block(256, 256, 3)), ckpt, step)


@both_modes
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_other_dtypes(ckpt: str, dtype: torch.dtype) -> None:
    assert_same_training(toy().to(dtype), ckpt, plain_step(dtype=dtype))


@both_modes
def test_channels_last(ckpt: str) -> None:
    def step(model: nn.Module, i: int) -> list[Tensor]:
        torch.manual_seed(i)
        out = model(torch.rand(2, 3, 32, 32).to(memory_format=torch.channels_last))
        out.backward(torch.randn_like(out))
        return [out.detach().clone()]

    assert_same_training(toy(16).to(memory_format=torch.channels_last), ckpt, step)


class Glue(nn.Module):
    """Views, slices, copies, casts, pooling, upsampling, in-place changes and attention between convolutions."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.a, self.b, self.c = Block(c, 2 * c, 3), Block(c, c, 3), Block(6 * c, c)
        self.pool, self.drop = nn.MaxPool2d(5, 1, 2), nn.Dropout(0.3)

    def forward(self, x: Tensor) -> Tensor:
        left, right = self.a(x).chunk(2, 1)
        right = right + self.b(left)
        right = right.clone()
        right += 1
        right[:, :2] *= 2
        small = F.interpolate(F.max_pool2d(right, 2), scale_factor=2)
        tokens = left.flatten(2).transpose(1, 2)
        weights = (tokens @ tokens.transpose(1, 2) * 0.1).softmax(-1)
        mixed = (weights @ tokens).transpose(1, 2).view_as(left)
        parts = [left, right, small, mixed, self.drop(self.pool(left)), torch.sigmoid(mixed).double().float()]
        return self.c(torch.cat(parts, 1))


@both_modes
def test_glue_between_convolutions(ckpt: str) -> None:
    assert_same_training(Staged(Block(3, 8, 3, 2), Glue(8), Residual(8), Glue(8)), ckpt, plain_step(16))


class Add(nn.Module):
    """A stage that joins others, in place."""

    def forward(self, xs: list[Tensor]) -> Tensor:
        out = xs[0][:, 2:6] * 1
        out += xs[1][:, :4]
        return out


@both_modes
def test_views_and_in_place_adds_between_stages(ckpt: str) -> None:
    model = Staged(Block(3, 8, 3), Block(8, 8, 3), Add(), Block(4, 4, 3), sources={2: [0, 1]})
    assert_same_training(model, ckpt)


@both_modes
def test_module_twice_in_the_graph(ckpt: str) -> None:
    shared = Block(8, 8, 3)

    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = shared

        def forward(self, x: Tensor) -> Tensor:
            return self.block(self.block(x)) + x

    assert_same_training(Staged(Block(3, 8, 3), Twice(), Twice(), Block(8, 4)), ckpt)


@both_modes
@pytest.mark.parametrize("part", [1, 2, 3])
def test_frozen_prefix(ckpt: str, part: int) -> None:
    model = toy()
    for stage in list(model.model)[:part]:
        stage.requires_grad_(False)
    assert_same_training(model, ckpt)


@both_modes
def test_frozen_weights_in_the_middle_and_frozen_statistics(ckpt: str) -> None:
    model = toy()
    model.model[2].a.conv.requires_grad_(False)
    model.model[2].b.bn.requires_grad_(False)
    model.model[1].bn.eval()
    assert_same_training(model, ckpt)


@both_modes
@pytest.mark.parametrize(
    "options", [{"momentum": None}, {"affine": False}, {"track_running_stats": False}, {"eps": 0.1}]
)
def test_other_normalisations(ckpt: str, options: dict[str, object]) -> None:
    model = toy()
    for module in list(model.modules()):
        if isinstance(module, Block):
            module.bn = nn.BatchNorm2d(module.bn.num_features, **options)  # type: ignore[arg-type]
    assert_same_training(model, ckpt, steps=3)


@both_modes
def test_gradients_of_the_images(ckpt: str) -> None:
    def step(model: nn.Module, i: int) -> list[Tensor]:
        torch.manual_seed(i)
        images = torch.rand(2, 3, 32, 32, requires_grad=True)
        model(images).square().sum().backward()
        assert images.grad is not None
        return [images.grad]

    assert_same_training(toy(), ckpt, step)


@both_modes
def test_two_backward_passes_over_one_graph(ckpt: str) -> None:
    def step(model: nn.Module, i: int) -> list[Tensor]:
        torch.manual_seed(i)
        out = model(torch.rand(2, 3, 32, 32))
        out.sum().backward(retain_graph=True)
        out.square().sum().backward()
        return [out.detach().clone()]

    assert_same_training(toy(), ckpt, step)


@both_modes
def test_double_backward(ckpt: str) -> None:
    """The second derivative sums the same terms in another order, so it is compared in float64, to its precision."""
    gradients = []
    model = toy().double()
    for mode in ("off", ckpt):
        planned = yolo_ckpt.apply(copy.deepcopy(model), yolo_ckpt.plan(model, imgsz=16, batch=2, ckpt=mode))
        images = torch.linspace(0, 1, 2 * 3 * 16 * 16, dtype=torch.float64).view(2, 3, 16, 16).requires_grad_()
        (grad,) = torch.autograd.grad(planned(images).square().sum(), images, create_graph=True)
        grad.square().sum().backward()
        gradients.append([p.grad for p in planned.parameters()])
    for expected, found in zip(*gradients, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


@both_modes
def test_nested_checkpoint(ckpt: str) -> None:
    class Nested(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Residual(8)

        def forward(self, x: Tensor) -> Tensor:
            return checkpoint(self.inner, x, use_reentrant=False, preserve_rng_state=False) * 2  # type: ignore[no-any-return]

    # the recomputation moves the statistics twice, in stock as with a plan
    assert_same_training(Staged(Block(3, 8, 3), Nested(), Block(8, 4)), ckpt)


@both_modes
def test_hooks_on_parts_of_a_block_still_run(ckpt: str) -> None:
    seen: list[str] = []
    model = toy()
    model.model[1].bn.register_forward_hook(lambda *_: seen.append("bn"))
    model.model[2].a.act.register_forward_hook(lambda m, i, out: out * 2)
    model.model[2].b.register_forward_pre_hook(lambda m, args: (args[0] * 0.5,))
    model.model[3].conv.register_forward_hook(lambda m, i, out: out + 1)
    assert_same_training(model, ckpt)
    assert seen == ["bn"] * 4  # two steps each of the stock and of the planned copy


@both_modes
def test_tensor_hooks_see_gradients_that_stay_as_they_are(ckpt: str) -> None:
    """A gradient that somebody holds is never overwritten, though the engine reuses gradients that nobody holds."""
    kept: dict[int, list[Tensor]] = {}

    def step(model: nn.Module, i: int) -> list[Tensor]:
        torch.manual_seed(i)
        held = kept.setdefault(id(model), [])
        hooks = [
            stage.register_forward_hook(lambda m, a, out: out.register_hook(held.append) and None)
            for stage in model.model
        ]
        out = model(torch.rand(2, 3, 128, 128))
        out.backward(torch.ones_like(out))
        for hook in hooks:
            hook.remove()
        return [t.clone() for t in held]

    model = Staged(Block(3, 48, 3), Block(48, 48, 3), Residual(48), Block(48, 4))
    assert_same_training(model, ckpt, step, steps=1)


def test_gradient_accumulation_over_two_graphs_alive_at_once() -> None:
    def step(model: nn.Module, i: int) -> list[Tensor]:
        torch.manual_seed(i)
        first, second = model(torch.rand(2, 3, 32, 32)), model(torch.rand(2, 3, 32, 32))
        first.sum().backward()
        second.square().sum().backward()
        return [first.detach().clone(), second.detach().clone()]

    assert_same_training(toy(), "full", step)


def test_without_gradients_nothing_is_recorded() -> None:
    model = toy()
    yolo_ckpt.apply(model, yolo_ckpt.plan(model, imgsz=32, batch=1, ckpt="full"))
    with torch.no_grad():
        assert torch.equal(model.eval()(torch.ones(1, 3, 32, 32)), yolo_ckpt.remove(model)(torch.ones(1, 3, 32, 32)))
