"""Compile a kernel for a GPU that is not there, in a process of its own: `compiled_kernel.py KERNEL`.

KERNEL is `gradient` or `rollout` of PPO, or `replay_gradient` of DQN.

It writes one line of JSON: launches, bytes of the program, the largest shared memory of a block of threads, and for
each of our kernels the bytes of registers that spill.
"""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2] / name) for name in ("benchmarks", "src")]
from cuda_program import device  # noqa: E402

MEMBERS = 2048


def main(what: str) -> None:
    """Compile, and write what there is."""
    os.environ["XLA_FLAGS"] = "--xla_gpu_dump_llvmir=true --xla_dump_emitter_re=ptx"
    with tempfile.TemporaryDirectory() as folder:
        device.prepare(Path(folder))
        function, arguments = {"gradient": gradient, "rollout": rollout, "replay_gradient": replay_gradient}[what]()
        compiled = device.compile_for_gpu(function, arguments, {})
        (sequence,) = Path(folder).glob("*jit_in_form*thunk_sequence.txt")
        spilled = [spills(file) for file in Path(folder).glob("*.ptx") if ".entry shoal_" in file.read_text()]
        shared = [int(n) for n in re.findall(r"shared_memory: (\d+) bytes", sequence.read_text())]
    from cuda_program.count import launches, total

    counted = total(launches(compiled.module, compiled.thunks))
    sys.stdout.write(
        json.dumps({"launches": counted.launches, "bytes": counted.used, "shared": max(shared), "spilled": spilled})
    )


def spills(file: Path) -> int:
    """The bytes of registers that a kernel writes to memory, as NVIDIA's assembler counts them."""
    nvidia = importlib.util.find_spec("nvidia")
    places = [f"{root}/cu13/bin" for root in (nvidia.submodule_search_locations or [])] if nvidia else []
    assembler = shutil.which("ptxas", path=os.pathsep.join([*places, "/usr/local/cuda/bin", os.environ["PATH"]]))
    command = [assembler, "-v", "-arch=sm_90a", str(file), "-o", os.devnull]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    return sum(int(n) for n in re.findall(r"(\d+) bytes spill stores", said))


def bound(name):
    """An agent on CartPole with its default fields, whose numbers differ between members, and the states of members."""
    import jax

    from shoal.core.form import form_for, using
    from shoal.core.keys import make_key
    from shoal.core.registry import AGENTS, make
    from shoal.core.struct import to_arrays

    env, form = make("CartPole-v1"), form_for("gpu", MEMBERS)
    with using(form):
        agent = to_arrays(AGENTS[name].build(kernels="on").bind(env))
        keys = jax.eval_shape(lambda: jax.random.split(make_key(0), MEMBERS))
        states = jax.eval_shape(jax.vmap(lambda key: agent.init(key, env)), keys)
    agents = jax.tree.map(lambda x: jax.ShapeDtypeStruct((MEMBERS, *x.shape), x.dtype), agent)
    return agents, env, states, form


def gradient():
    """The gradient of PPO's loss on a minibatch of 128 samples."""
    import jax
    import jax.numpy as jnp

    from shoal.agents.ppo import Batch
    from shoal.core.form import using
    from shoal.ops.kernels.gradient import kernel_gradient

    agents, _, states, form = bound("ppo")
    numbers = jax.ShapeDtypeStruct((MEMBERS, 128), jnp.float32)
    obs = jax.ShapeDtypeStruct((MEMBERS, 128, 4), jnp.float32)
    rows = Batch(obs, None, jax.ShapeDtypeStruct((MEMBERS, 128), jnp.int32), *[numbers] * 4)

    def in_form(agents, weights, rows):
        with using(form):
            return jax.vmap(lambda agent, w, r: kernel_gradient(agent._loss, w, r))(agents, weights, rows)

    return in_form, (agents, states.weights, rows)


def replay_gradient():
    """The gradient of DQN's loss on a minibatch of 128 samples."""
    import jax
    import jax.numpy as jnp

    from shoal.agents.replay_agent import Observed
    from shoal.core.form import using
    from shoal.core.keys import make_key
    from shoal.ops.gradients import pack
    from shoal.ops.replay import Transitions

    agents, _, states, form = bound("dqn")
    numbers = jax.ShapeDtypeStruct((MEMBERS, 128), jnp.float32)
    obs = Observed(jax.ShapeDtypeStruct((MEMBERS, 128, 4), jnp.float32), None)
    rows = Transitions(obs, jax.ShapeDtypeStruct((MEMBERS, 128), jnp.int32), numbers, numbers, obs)

    def one(agent, weights, target, rows, share):
        packed, unpack = pack(weights)
        return agent._gradient_of_loss(unpack)(packed, (rows, share), target, make_key(0))

    def in_form(agents, *rest):
        with using(form):
            return jax.vmap(one)(agents, *rest)

    return in_form, (agents, states.weights, states.target, rows, numbers)


def rollout():
    """A rollout of 128 steps of 4 environments."""
    import jax

    from shoal.core.form import using

    agents, env, states, form = bound("ppo")

    def one(agent, state):
        noise, behavior = agent.policy_noise(state, state.key), agent.behavior(state)
        how = {"scan": agent.scan}
        states, trajectory, carry = agent.rollout.collect(env, state.env_states, behavior, noise, state.key, **how)
        return states, trajectory.replace(env=None), carry  # no copies of its numbers, which an update does not make

    def in_form(agents, states):
        with using(form):
            return jax.vmap(one)(agents, states)

    return in_form, (agents, states)


if __name__ == "__main__":
    main(sys.argv[1])
