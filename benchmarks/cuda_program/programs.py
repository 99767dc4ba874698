"""The programs of shoal that are counted, each with the fewest bytes that it could move."""

import contextlib
import importlib.util
import inspect
import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

AGENT_FIELDS = {"dqn": {"num_envs": 10, "num_steps": 1, "buffer_size": 10_000}}  # as PureJaxRL's recipe
AGENT_ENVS = {"sac": "Pendulum-v1", "td3": "Pendulum-v1", "ddpg": "Pendulum-v1", "rl2": "BernoulliBandit-v0"}
AGENT_ENVS |= dict.fromkeys(("crossq", "droq", "fasttd3", "redq", "tqc"), "Pendulum-v1")
AGENT_ENVS |= dict.fromkeys(("q-learning", "double-q", "sarsa", "expected-sarsa"), "CliffWalking-v1")
HORIZON = 500_000  # steps of the run that schedules expect
NOT_LEARNED = ("age", "key", "env_states", "replay", "priorities", "action", "carry")  # nor what normalization keeps
NUMBERS_OF_A_SAMPLE = 16  # bytes: log-probability, value, advantage, target; or reward and discount
GRADIENT_LOOP = re.compile(r"_gradient_steps$|train_on_replay$|BC\.update$")  # functions with such a loop
EPISODE_LOOP = re.compile(r"_run_episodes$")


class Program(NamedTuple):
    """A function to compile, with the shapes of its arguments."""

    function: Any
    arguments: tuple
    unit: str  # "step", "update" or "reset": what launches and bytes are divided by
    units: int  # of them in the program
    parts: int  # environments or members in the program
    least_bytes: float  # of one unit, all environments or members together
    gradient_steps: float = 0.0  # of each member in an update
    episode_steps: int = 1  # trips of a loop that ends with the last episode


def environment_steps(name: str, envs: int, policy: str = "random") -> Program:
    """100 steps of E environments, every observation summed, with resets, as `shoal.throughput` measures them.

    The fewest bytes of a step: each array of the environments' states and of the sums of observations is read once and
    written once, and the noise of the step (the environments' and the action) is read once. A program needs fewer only
    if it changes arrays in place, such as one cell of a grid.
    """
    import jax

    from shoal.core.keys import make_key
    from shoal.core.registry import ENVS
    from shoal.rollouts.rollout import sample_noise
    from shoal.studies.throughput import HORIZON as STEPS
    from shoal.studies.throughput import make_stepper

    env = ENVS[name].build()
    stepper = make_stepper(env, envs, policy=policy)
    noise = jax.eval_shape(lambda key: sample_noise(env, key, (envs,)), make_key(0))
    action = jax.eval_shape(env.action_space.sample, make_key(0))
    states, sums = stepper.carry[0], stepper.carry[1]
    least = 2 * size(states) + 2 * size(sums) + size(noise) + envs * size(action)
    return Program(stepper.run, stepper.carry, "step", STEPS, envs, least)


def environment_resets(name: str, envs: int) -> Program:
    """First states of E environments. The fewest bytes: each array of the states is written once."""
    import jax

    from shoal.core.keys import make_key
    from shoal.core.registry import ENVS

    env = ENVS[name].build()

    def reset(key: Any) -> Any:
        return jax.vmap(env.init)(jax.random.split(key, envs))

    return Program(reset, (make_key(0),), "reset", 1, envs, size(jax.eval_shape(reset, make_key(0))))


def training_update(name: str, members: int, env_name: str = "", fields: dict[str, Any] | None = None) -> Program:
    """Updates of M members of an agent, as `shoal.train` compiles them.

    The fewest bytes of an update: each gradient step reads and writes the weights and the optimizer's moments once and
    reads its minibatch once, and each step of the rollout writes its sample once. A sample is one observation (two from
    a replay buffer), the action, and 16 bytes of numbers. Evolution strategies write and read the weights of all
    candidates once instead.
    """
    import jax
    import jax.numpy as jnp

    from shoal.core.keys import make_key
    from shoal.core.registry import AGENTS, make
    from shoal.core.struct import to_arrays
    from shoal.training.program import begin, train_chunk

    env = make(env_name or AGENT_ENVS.get(name, "CartPole-v1"))
    known = AGENTS[name].build()
    usual = {**AGENT_FIELDS.get(name, {}), **({"horizon": HORIZON} if hasattr(known, "horizon") else {})}
    if hasattr(known, "demonstrations"):
        usual["demonstrations"] = _demonstrations(env)
    agent = to_arrays(AGENTS[name].build(**usual | (fields or {})).bind(env))
    state = jax.eval_shape(jax.vmap(lambda seed: begin(agent, env, seed, make_key(0))), jnp.arange(members))
    total = {"total": None} if "total" in inspect.signature(train_chunk).parameters else {}  # not in older checkouts

    def update(state: Any, updates: Any) -> Any:
        def of_one(member: Any, n: Any) -> Any:
            return train_chunk(member, agent, env, clock=jnp.int32(0), updates=n, **total)

        return jax.vmap(of_one, in_axes=(0, None))(state, updates)

    return Program(
        function=update,
        arguments=(state, jax.ShapeDtypeStruct((), jnp.int32)),
        unit="update",
        units=1,
        parts=members,
        least_bytes=_least_of_update(agent, state.state, env, members),
        gradient_steps=_gradient_steps(agent)[0],
        episode_steps=int(getattr(agent, "longest_episode", None) or 1),
    )


def trips(program: Program, function: str) -> int:
    """The number of trips of a loop in this function of shoal, where XLA does not know it: at least 1."""
    if GRADIENT_LOOP.search(function):
        return max(1, round(program.gradient_steps))
    return program.episode_steps if EPISODE_LOOP.search(function) else 1


@contextlib.contextmanager
def in_form(platform: str, members: int) -> Iterator[dict[str, Any]]:
    """A context in which programs are traced in the form of a platform; it gives the options for the compiler.

    Checkouts from before forms have only one form, and no options.
    """
    if importlib.util.find_spec("shoal.core.form") is None:
        yield {}
        return
    from shoal.core import form

    chosen = form.form_for(platform, members)
    with form.using(chosen):
        yield chosen.compiler_options


def size(tree: Any) -> int:
    """Bytes of all arrays of a tree."""
    import jax

    return sum(math.prod(x.shape) * x.dtype.itemsize for x in jax.tree.leaves(tree))


def _least_of_update(agent: Any, state: Any, env: Any, members: int) -> float:
    import jax

    from shoal.core.keys import make_key

    learned = {k: v for k, v in vars(state).items() if k not in NOT_LEARNED and "stats" not in k}
    observation = jax.eval_shape(lambda key: env.reset(key)[0], make_key(0))
    action = jax.eval_shape(env.action_space.sample, make_key(0))
    sample = size(observation) + size(action) + NUMBERS_OF_A_SAMPLE
    steps, batch = _gradient_steps(agent)
    if hasattr(agent, "population_size"):
        weights = size(jax.eval_shape(jax.vmap(agent.policy_state), state))
        return 2 * size(learned) + 2 * agent.population_size * weights
    from_replay = sample + size(observation) * hasattr(state, "replay")
    return steps * (2 * size(learned) + members * batch * from_replay) + members * agent.steps_per_update * sample


def _gradient_steps(agent: Any) -> tuple[float, int]:
    """(gradient steps of an update, samples in each); those of a table read and write it once."""
    if hasattr(agent, "num_minibatches"):
        return agent.num_epochs * agent.num_minibatches, agent.steps_per_update // agent.num_minibatches
    if hasattr(agent, "num_batches"):
        return agent.num_batches, agent.batch_size
    if hasattr(agent, "train_frequency"):
        due = agent.steps_per_update / float(agent.train_frequency) * float(agent.train_iterations)
        return due, agent.max_batch_size
    return 1, 0


def _demonstrations(env: Any) -> Any:
    import numpy as np

    from shoal.rollouts.demonstrations import Demonstrations

    rng = np.random.default_rng(0)
    obs = rng.uniform(-0.4, 0.4, (200, *env.observation_space.shape)).astype(np.float32)
    return Demonstrations(obs, rng.integers(env.action_space.n, size=200).astype(np.int32))
