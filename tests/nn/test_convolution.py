"""Both convolution algorithms against XLA's own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.core.keys import make_key
from shoal.nn import convolution
from shoal.nn.convolution import Conv, convolve


@pytest.mark.sampled(4)
@pytest.mark.parametrize("padding", ["VALID", "SAME"])
@pytest.mark.parametrize("shape", [(2, 10, 10, 4), (3, 3, 5, 1), (1, 7, 4, 2), (11, 5, 4, 2)])
def test_a_convolution_and_its_gradients_are_those_of_xla(shape, padding, monkeypatch):
    monkeypatch.setattr(convolution, "PATCHES", 2000)  # of eleven images two or five go at once
    random = np.random.default_rng(0)
    images, kernel = (jnp.asarray(random.normal(size=s), jnp.float32) for s in (shape, (3, 3, shape[-1], 5)))

    def xla(images, kernel):
        return jax.lax.conv_general_dilated(images, kernel, (1, 1), padding, dimension_numbers=("NHWC", "HWIO", "NHWC"))

    @jax.jit
    def found(images, kernel, goal):
        """The two convolutions, and the gradients of both."""
        ends = [jax.vjp(f, images, kernel) for f in (lambda *x: convolve(*x, padding), xla)]
        return [out for out, _ in ends], [slope(goal) for _, slope in ends]

    goal = random.normal(size=jax.eval_shape(xla, images, kernel).shape).astype(np.float32)
    both, slopes = found(images, kernel, goal)
    np.testing.assert_allclose(*both, atol=1e-4)
    for ours, theirs in zip(*slopes, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-3)


@pytest.mark.parametrize(
    ("side", "stride", "shape"), [(8, 4, (3, 21, 18, 2)), (4, 2, (2, 9, 6, 3)), (2, 1, (2, 4, 3, 1))]
)
def test_kernels_of_other_sizes_and_strides_give_what_xla_gives(side, stride, shape):
    random = np.random.default_rng(0)
    images, kernel = (jnp.asarray(random.normal(size=s), jnp.float32) for s in (shape, (side, side, shape[-1], 5)))
    axes = ("NHWC", "HWIO", "NHWC")
    both = (
        lambda *x: convolve(*x, "VALID", stride),
        lambda *x: jax.lax.conv_general_dilated(*x, (stride, stride), "VALID", dimension_numbers=axes),
    )
    (ours, slope), (theirs, expected) = (jax.vjp(f, images, kernel) for f in both)
    np.testing.assert_allclose(ours, theirs, atol=1e-4)
    goal = jnp.asarray(random.normal(size=ours.shape), jnp.float32)
    for one, other in zip(slope(goal), expected(goal), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-3)


def test_a_stride_that_does_not_fit_the_kernel_is_refused():
    for stride, padding in ((2, "VALID"), (3, "SAME")):
        with pytest.raises(ValueError, match=f"stride={stride} needs padding='VALID'.*must divide the side 3"):
            convolve(jnp.zeros((1, 9, 9, 1)), jnp.zeros((3, 3, 1, 1)), padding, stride)


@pytest.mark.parametrize("padding", ["VALID", "SAME"])
def test_the_target_platform_selects_the_convolution_algorithm(padding):
    images, kernel = jnp.zeros((2, 6, 5, 3)), jnp.zeros((3, 3, 3, 4))
    slopes = jax.jit(jax.grad(lambda *x: jnp.sum(convolve(*x, padding) ** 2), (0, 1))).trace(images, kernel)
    for platform, count in (("cpu", 0), ("cuda", 3), ("tpu", 3)):  # forward, and for each of two gradients
        assert slopes.lower(lowering_platforms=(platform,)).as_text().count("stablehlo.convolution") == count


def test_weights_are_orthogonal_and_named_as_flaxs():
    weights = jax.jit(Conv(8).init)(make_key(0), jnp.zeros((1, 5, 5, 2)))["params"]
    assert {name: x.shape for name, x in weights.items()} == {"kernel": (3, 3, 2, 8), "bias": (8,)}
    columns = weights["kernel"].reshape(18, 8)
    np.testing.assert_allclose(columns.T @ columns, 2 * np.eye(8), atol=1e-4)
    assert not weights["bias"].any()


def test_patch_memory_is_bounded_for_many_images(monkeypatch):
    images, kernel = jnp.zeros((64, 10, 10, 4)), jnp.zeros((3, 3, 4, 1))

    def extra(patches):
        monkeypatch.setattr(convolution, "PATCHES", patches)
        slope = jax.jit(jax.grad(lambda kernel: jnp.sum(convolve(images, kernel, "VALID") ** 2)))
        return slope.lower(kernel).compile().memory_analysis().temp_size_in_bytes

    whole = 4 * 64 * 8 * 8 * 36
    assert extra(10**9) >= whole and extra(4 * 10 * 10 * 36) < whole / 2
