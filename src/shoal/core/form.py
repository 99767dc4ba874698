"""The form of a program: how it is written for the device that runs it.

The same numbers can be computed by programs of different shapes. A loop over the seven columns of a view is right on a
CPU, where XLA would otherwise compute the cells again and again; on a GPU each trip of a loop is a kernel launch, and
seven columns in one kernel are faster. One flat vector of weights saves launches for one agent, but costs whole passes
over memory for two thousand. Which shape is used follows from (platform, members), here and nowhere else: rooms above
read `current()` while they are traced, and never ask for the backend.

A form changes speed, never meaning: in every form an environment gives the same numbers up to the last digits of
floats, and a learner up to the order of sums. `using` sets a form for what is traced inside of it, so a CPU can run the
form of an accelerator; `jit` traces a function again where the form differs. docs/how-it-is-fast.md shows the numbers
behind each choice.
"""

import functools
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import jax

KEPT_FUNCTIONS = 16  # of `in_form`: those of about four trainings
FEW_MEMBERS = 16  # up to so many members an update is limited by its number of kernels, above by their memory traffic


class Form(NamedTuple):
    """How programs are written for a device. The defaults are the form of a CPU."""

    platform: str = "cpu"
    unroll_short_loops: bool = False  # write a loop of a few trips inside an environment as straight-line code
    retries_at_once: bool = False  # a generator that retries works on many environments in each trip, not on a few
    computed_once: bool = True  # barriers keep XLA from computing the parts of a step again for each use of them
    envs_last_views: bool = True  # the views of E grids are computed with the axis E last, which vectors of a CPU want
    steps_per_trip: int = 1  # steps of a rollout in each trip of its loop
    unchanged_in_bank: bool = False  # arrays of a state that no step changes are read from the reset bank, not carried
    returns_per_trip: int = 1  # steps in each trip of the loops that sum rewards: advantages, returns
    flat_weights: bool = True  # the optimizer works on one vector of all weights, not on each array of weights
    stacked_networks: bool = True  # actor and critic as one batched product, not as two products
    linear_recurrences_as_trees: bool = False  # steps are joined pairwise, in log2(T) passes, not read in a loop
    texts_once: bool = True  # an instruction that many samples of a batch share is read once, in a loop of some trips
    late_weight_gradients: bool = False  # the gradient of a recurrent cell's weights is one product after its loop
    joined_losses: bool = False  # the losses of a gradient step are one vector, written by one kernel
    guarded_steps: bool = False  # a stopped member is kept inside the optimizer step, not by a choice after the update
    loops_over_rare_work: bool = False  # work that is seldom due is a loop of no or one trip, not a choice of results
    replay_as_rows: bool = False  # new rows are written as numbers [T, N]: XLA then keeps a ring in the order of reads
    gradient_kernels: bool = False  # gradient steps run in a kernel of our own (`ops.kernels`), if `kernels` is auto
    rollout_kernels: bool = False  # so do rollouts
    q_network_kernels: bool = False  # so do gradient steps of DQN, and PQN's updates: no GPU has timed them yet
    interpreted_kernels: bool = False  # kernels run operation by operation, on any device: for tests
    double_buffered_loops: bool = False  # two trips of a compiled loop per iteration: no copies of what it carries

    @property
    def compiler_options(self) -> dict[str, Any]:
        """Options for XLA's compiler that belong to this form, beside those of the placement."""
        if not self.double_buffered_loops:
            return {}
        return {"xla_gpu_enable_while_loop_unrolling": "WHILE_LOOP_UNROLLING_DOUBLE_BUFFER"}


CPU = Form()
_form = jax.make_user_context(None)


def form_for(platform: str, members: int = 1) -> Form:
    """Return the form of programs for a platform of JAX ("cpu", "gpu", "tpu") with M members in one call."""
    if platform == "cpu":
        return CPU
    many = members > FEW_MEMBERS
    return Form(
        platform=platform,
        unroll_short_loops=True,
        retries_at_once=True,
        computed_once=False,
        envs_last_views=False,
        steps_per_trip=4,
        unchanged_in_bank=True,
        returns_per_trip=16,
        flat_weights=not many,
        stacked_networks=not many,
        linear_recurrences_as_trees=True,
        texts_once=False,
        late_weight_gradients=True,
        joined_losses=True,
        guarded_steps=True,
        loops_over_rare_work=many,
        replay_as_rows=True,
        gradient_kernels=many and platform == "gpu",
        rollout_kernels=platform == "gpu",
        double_buffered_loops=platform == "gpu",
    )


def current() -> Form:
    """Return the form in which programs are traced now: that of `using`, otherwise that of the default backend."""
    return form_for(jax.default_backend()) if _form.value is None else _form.value


def chosen(platform: str, members: int = 1) -> Form:
    """Return the form of `using`; without it, `form_for` this platform with M members in one call."""
    return form_for(platform, members) if _form.value is None else _form.value


def using(form: Form) -> AbstractContextManager:
    """Return a context in which programs are traced in this form."""
    return _form(form)


@functools.lru_cache(maxsize=KEPT_FUNCTIONS)
def in_form(function: Callable, form: Form, kind: Hashable = None) -> Callable:
    """Return the function, always traced in this form. Equal arguments give the same function, as `jit` likes it.

    JAX keeps the programs of a function as long as the function exists, and a program of a training has 200 memory
    maps, of which a process may have 65,530. So only those of the functions that were used last are kept: `kind` is
    what programs of one training have in common, such as the structure of the agent and the environment.
    """

    @functools.wraps(function)
    def formed(*args: Any, **kwargs: Any) -> Any:
        with using(form):
            return function(*args, **kwargs)

    return formed


def computed_once(values: Any) -> Any:
    """Return the values behind a barrier, if the form has barriers.

    XLA on a CPU would otherwise compute the values again for each value that depends on them. On an accelerator it
    knows what a kernel costs, and a barrier only ends a kernel.
    """
    return jax.lax.optimization_barrier(values) if current().computed_once else values
