"""Whether a kernel of our own runs, or XLA's form of the same."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from shoal.core.form import current
from shoal.core.keys import make_key
from shoal.core.struct import to_arrays
from shoal.ops.kernels.flat import CannotLower

KERNELS = ("auto", "on", "off")


def with_kernel(kernels: str, of_form: str, of_kernel: Callable, of_xla: Callable) -> Callable:
    """The function to call: `of_kernel` where a kernel is used, otherwise `of_xla`, which computes the same.

    With `kernels="auto"` the field `of_form` of the form decides, and XLA's form is used where the kernel does not
    apply. With "on" the kernel is used on every GPU. Raises ValueError where it does not apply.
    """
    if kernels == "off" or (kernels == "auto" and not getattr(current(), of_form)):
        return of_xla

    def call(*args: Any) -> Any:
        try:
            return of_kernel(*args)
        except CannotLower as reason:
            if kernels == "on":
                raise ValueError(
                    f"kernels='on', but {of_form.replace('_', ' ')} do not apply here: {reason}. Use kernels='auto', "
                    "which uses those that apply."
                ) from None
            return of_xla(*args)

    return call


def check_kernels(agent: Any, env: Any) -> None:
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
