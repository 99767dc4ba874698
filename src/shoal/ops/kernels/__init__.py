"""GPU kernels of our own, for work where XLA moves many times the least possible bytes through memory.

Each is a function with the signature of XLA's form, which is its oracle in the tests:

    gradient.py   kernel_gradient(loss, weights, rows)   like   jax.grad(loss, has_aux=True)(weights, rows)
    loop.py       kernel_scan(step, carry, xs)           like   jax.lax.scan(step, carry, xs)

The caller's own function is traced and runs inside the kernel; nothing is written twice. Where that cannot be, they
raise `CannotLower` with the operation or the size that stands in the way. Both are for one member: under `vmap` they
are launched once, with a block of threads for each member. `choice.py` decides where they are used.

The kernels are written with Pallas for Triton. JAX deprecates it in favor of Mosaic GPU, which cannot express them
today (JAX 0.11): it has no rule for `dot_general`, `transpose` or `argmax`, which a traced loss and a traced policy
contain; its products are explicit calls on tiles in shared memory. So the choice is contained: only `memory.py` knows
Triton, and where a version of JAX has none, no kernel is used.

Importing this package imports neither Pallas nor a device.
"""
