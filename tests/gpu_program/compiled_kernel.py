"""Compile a kernel of PPO for a GPU that is not there, in a process of its own: `compiled_kernel.py gradient|rollout`.

It writes one line of JSON: launches, bytes of the program, and the largest shared memory of a block. The compiler is
told to fail if registers spill.
"""

import json
import os
import re
import sys
import tempfile
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2] / name) for name in ("benchmarks", "src")]
from cuda_program import device  # noqa: E402

MEMBERS = 2048


def main(what: str) -> None:
    """Compile, and write what there is."""
    os.environ["XLA_FLAGS"] = "--xla_gpu_fail_ptx_compilation_on_register_spilling=true"
    with tempfile.TemporaryDirectory() as folder:
        device.prepare(Path(folder))
        function, arguments = {"gradient": gradient, "rollout": rollout}[what]()
        compiled = device.compile_for_gpu(function, arguments, {})
        (sequence,) = Path(folder).glob("*jit_in_form*thunk_sequence.txt")
        shared = [int(n) for n in re.findall(r"shared_memory: (\d+) bytes", sequence.read_text())]
    from cuda_program.count import launches, total

    counted = total(launches(compiled.module, compiled.thunks))
    sys.stdout.write(json.dumps({"launches": counted.launches, "bytes": counted.used, "shared": max(shared)}))


def ppo():
    """PPO on CartPole with its default fields, and the states of its members."""
    import jax
    import jax.numpy as jnp

    from shoal.agents.ppo import PPO
    from shoal.core.form import form_for, using
    from shoal.core.keys import make_key
    from shoal.core.registry import make
    from shoal.core.struct import to_arrays

    env = make("CartPole-v1")
    agent = to_arrays(PPO().bind(env))
    form = form_for("gpu", MEMBERS)
    with using(form):
        keys = jax.eval_shape(lambda: jax.random.split(make_key(0), MEMBERS))
        states = jax.eval_shape(jax.vmap(lambda key: agent.init(key, env)), keys)
    return agent, env, states, form, jnp


def gradient():
    """The gradient of PPO's loss on a minibatch of 128 samples."""
    import jax

    from shoal.agents.ppo import Batch
    from shoal.core.form import using
    from shoal.ops.kernels.gradient import kernel_gradient

    agent, _, states, form, jnp = ppo()
    numbers = jax.ShapeDtypeStruct((MEMBERS, 128), jnp.float32)
    obs = jax.ShapeDtypeStruct((MEMBERS, 128, 4), jnp.float32)
    rows = Batch(obs, None, jax.ShapeDtypeStruct((MEMBERS, 128), jnp.int32), *[numbers] * 4)

    def in_form(weights, rows):
        with using(form):
            return jax.vmap(lambda w, r: kernel_gradient(agent._loss, w, r))(weights, rows)

    return in_form, (states.weights, rows)


def rollout():
    """A rollout of 128 steps of 4 environments."""
    import jax

    from shoal.core.form import using

    agent, env, states, form, _ = ppo()

    def one(state):
        noise, behavior = agent.policy_noise(state, state.key), agent.behavior(state)
        return agent.rollout.collect(env, state.env_states, behavior, noise, state.key, scan=agent.scan)

    def in_form(states):
        with using(form):
            return jax.vmap(one)(states)

    return in_form, (states,)


if __name__ == "__main__":
    main(sys.argv[1])
