"""GPU kernels of our own, for work where XLA moves many times the least possible bytes through memory.

Each is a function with the signature of XLA's form, which is its oracle in the tests:

    gradient.py   kernel_gradient(loss, weights, rows)   like   jax.grad(loss, has_aux=True)(weights, rows)
    loop.py       kernel_scan(step, carry, xs)           like   jax.lax.scan(step, carry, xs)

The caller's own function is traced and runs inside the kernel; nothing is written twice. Where that cannot be,
`why_no_gradient` and `why_no_scan` name the operation or the size that stands in the way. Both functions are for one
member: under `vmap` they are launched once, with a block of threads for each member. `is_used` decides whether they are
used.

The kernels are written with Pallas for Triton. JAX deprecates it in favor of Mosaic GPU, which cannot express them today
(JAX 0.11): it has no rule for `dot_general`, `transpose` or `argmax`, which the gradient of a traced loss contains; its
products are calls on blocks in shared memory with at least 64 rows, where a rollout of 4 environments has 16. So the
choice is contained: only `memory.py` knows Triton, and where a version of JAX has none, no kernel is used.

Importing this package imports neither Pallas nor a device.
"""

from collections.abc import Callable

KERNELS = ("auto", "on", "off")


def is_used(kernels: str, platform: str, why_not: Callable[[], str | None], *, is_faster: bool = True) -> bool:
    """Whether a kernel is used. `kernels` is one of `KERNELS`, `platform` that of JAX ("cpu", "gpu", "tpu").

    "auto" uses it on a GPU where it is measured to be faster (`is_faster`) and applies (`why_not` returns None). "on"
    uses it wherever it applies on a GPU, and raises ValueError with the condition that fails where it does not.
    """
    if kernels == "off" or (kernels == "auto" and (platform != "gpu" or not is_faster)):
        return False
    reason = why_not() if platform == "gpu" else f"they are for GPUs, and the platform is {platform}"
    if reason is not None and kernels == "on":
        raise ValueError(f"kernels='on', but kernels cannot be used here: {reason}. Use kernels='auto' or 'off'.")
    return reason is None
