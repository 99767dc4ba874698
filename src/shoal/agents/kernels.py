"""The parts of an update that may run in kernels of shoal's own (`ops/kernels`), and the field that says whether."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from shoal.core.env import Env
from shoal.core.form import current
from shoal.core.keys import make_key
from shoal.core.struct import static, to_arrays
from shoal.ops.gradients import Packed, pack
from shoal.ops.kernels.choice import KERNELS, with_kernel
from shoal.ops.kernels.flat import CannotLower
from shoal.ops.kernels.gradient import kernel_gradient
from shoal.ops.kernels.loop import kernel_scan
from shoal.rollouts.rollout import Scan, looped

Loss = Callable[..., tuple[Any, Any]]


def kernels_field(what: str) -> Any:
    """Declare `kernels`; `what` names the parts of an update that can run in kernels."""
    text = f"run {what} in kernels of shoal's own on an NVIDIA GPU; auto: where that was measured to be faster"
    return static("auto", choices=KERNELS, help=text)


def check_kernels(agent: Any, env: Env) -> None:
    """Raise ValueError if a bound agent has `kernels="on"` and they do not apply; the message has the condition."""
    if agent.kernels != "on":
        return
    form = current()
    if form.platform != "gpu" and not form.interpreted_kernels:
        raise ValueError(
            f"kernels='on', but kernels run on NVIDIA GPUs, and JAX uses {form.platform} here: leave kernels out."
        )
    first = jax.tree.map(lambda x: np.ravel(x)[0] if isinstance(x, np.ndarray) else x, agent)  # of a sweep
    one, env = to_arrays(first), to_arrays(env)
    jax.eval_shape(lambda: one.update(one.init(make_key(0), env), env, jnp.int32(0)))


def gradient_of(
    agent: Any, loss: Loss, unpack: Callable, of_form: str, *, sums: bool = False, only_measured: bool = False
) -> Callable:
    """The function (packed weights, rows, *others) -> (gradient, losses), as one kernel where one is used.

    `loss(weights, rows, *others)` returns (the loss of a minibatch, a tree of what is reported). `of_form` is the field
    of the form that decides. See `ops.kernels.gradient` for what a kernel computes, and for the other arguments.
    """

    def of_xla(packed: Packed, *rest: Any) -> tuple[Any, Any]:
        return jax.grad(lambda packed: loss(unpack(packed), *rest), has_aux=True)(packed)

    def of_kernel(packed: Packed, rows: Any, *others: Any) -> tuple[Any, Any]:
        if agent.memory != "none":
            raise CannotLower("a memory reads sequences, and a kernel single rows")
        gradient, losses = kernel_gradient(
            lambda weights, rows: loss(weights, rows, *others),
            unpack(packed),
            rows,
            sums=sums,
            only_measured=only_measured,
            interpret=current().interpreted_kernels,
        )
        return pack(gradient)[0], losses

    return with_kernel(agent.kernels, of_form, of_kernel, of_xla)


def scan_of(agent: Any, of_form: str) -> Scan:
    """The function that runs the loop of a rollout: one kernel, where one is used."""
    of_kernel = partial(kernel_scan, interpret=current().interpreted_kernels)
    return with_kernel(agent.kernels, of_form, of_kernel, looped)
