"""The peer: evosax's Open_ES on its own GymnaxProblem, generation by generation in one compiled scan.

Its rollouts are not changed: every candidate's episodes run their full length, with random numbers that all candidates
share, and with a reset sampled in each step by gymnax. Observations are normalized with running statistics (its
default), for which it stacks all observations. GymnaxProblem has no recurrent policies, so with `--memory` its rollout
is rewritten with the carry of a GRU, and is otherwise the same. `--searches` run side by side: in one vmapped call, or
each in its own call on its own thread (`--threads`), as in shoal.
"""

import argparse
from concurrent.futures import ThreadPoolExecutor

import measure

parser = argparse.ArgumentParser()
parser.add_argument("--env", default="CartPole-v1")
parser.add_argument("--population", type=int, default=256)
parser.add_argument("--episodes", type=int, default=4)
parser.add_argument("--generations", type=int, default=50)
parser.add_argument("--searches", type=int, default=2)
parser.add_argument("--hidden", type=int, nargs="+", default=[32, 32])
parser.add_argument("--memory", type=int, default=0, help="units of a GRU; 0: none")
parser.add_argument("--threads", action="store_true", help="one call per search, each on its own thread")
args = parser.parse_args()

import flax.linen as nn  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import optax  # noqa: E402
from evosax.algorithms import Open_ES  # noqa: E402
from evosax.problems.networks import MLP, categorical_output_fn  # noqa: E402
from evosax.problems.rl.gymnax import GymnaxProblem  # noqa: E402

import_s = measure.seconds_since_start()
DISCRETE = args.env == "CartPole-v1"
OUTPUTS, LARGEST = (2, None) if DISCRETE else (1, 2.0)
# With threads, the options with which shoal compiles for one core; otherwise XLA's defaults.
OPTIONS = {"xla_cpu_multi_thread_eigen": False} if args.threads else None


def act(x, key):
    return categorical_output_fn(x, key) if DISCRETE else LARGEST * nn.tanh(x)


class Recurrent(nn.Module):
    """One or more tanh layers, a GRU and a head. Returns (action, memory), or only the action if no memory is given.

    GymnaxProblem's constructor calls a policy without a memory.
    """

    @nn.compact
    def __call__(self, x, key, memory=None):
        for size in args.hidden:
            x = nn.tanh(nn.Dense(size)(x))
        after, x = nn.GRUCell(args.memory)(jnp.zeros(args.memory) if memory is None else memory, x)
        action = act(nn.Dense(OUTPUTS)(x), key)
        return action if memory is None else (action, after)


class RecurrentProblem(GymnaxProblem):
    """GymnaxProblem with the memory of the GRU in the carry of its rollout."""

    def _rollout(self, key, policy_params, state):
        key_reset, key_scan = jax.random.split(key)
        obs, env_state = self.env.reset(key_reset, self.env_params)

        def step(carry, key):
            obs, env_state, memory, total, valid = carry
            key_action, key_step = jax.random.split(key)
            obs = self.normalize_obs(obs, state) if self.use_normalize_obs else obs
            action, memory = self.policy.apply(policy_params, obs, key_action, memory)
            obs, env_state, reward, terminated, truncated, _ = self.env.step(
                key_step, env_state, action, self.env_params
            )
            total = total + reward * valid
            valid = valid * (1 - (terminated | truncated))
            return (obs, env_state, memory, total, valid), (obs, env_state)

        start = (obs, env_state, jnp.zeros(args.memory), jnp.array(0.0), jnp.array(1.0))
        carry, env_states = jax.lax.scan(step, start, jax.random.split(key_scan, self.episode_length))
        return carry[3], env_states


if args.memory:
    problem = RecurrentProblem(args.env, Recurrent(), num_rollouts=args.episodes)
else:
    network = MLP(layer_sizes=(*args.hidden, OUTPUTS), output_fn=act)
    problem = GymnaxProblem(args.env, network, num_rollouts=args.episodes)
strategy = Open_ES(
    population_size=args.population,
    solution=problem.sample(jax.random.key(0)),
    optimizer=optax.adam(0.05),
    std_schedule=optax.constant_schedule(0.1),
)
PARAMS = strategy.default_params


def generation(carry, key):
    search, state = carry
    k_ask, k_eval, k_tell = jax.random.split(key, 3)
    population, search = strategy.ask(k_ask, search, PARAMS)
    fitness, state, _ = problem.eval(k_eval, population, state)
    search, _ = strategy.tell(k_tell, population, -fitness, search, PARAMS)
    return (search, state), jnp.mean(fitness)


def search(key):
    k_init, k_search, k_problem, k_run = jax.random.split(key, 4)
    start = (strategy.init(k_search, problem.sample(k_init), PARAMS), problem.init(k_problem))
    start = jax.tree.map(lambda x: jnp.asarray(x) + jnp.zeros((), jnp.asarray(x).dtype), start)
    (last, _), fitness = jax.lax.scan(generation, start, jax.random.split(k_run, args.generations))
    return last.mean, fitness


def main():
    keys = jax.random.split(jax.random.key(0), args.searches)
    calls = list(keys) if args.threads else [keys]
    program = jax.jit(search if args.threads else jax.vmap(search)).lower(calls[0]).compile(OPTIONS)
    compiled_s = measure.seconds_since_start()
    found = []

    def run():
        with ThreadPoolExecutor(len(calls)) as pool:
            found[:] = pool.map(lambda key: jax.block_until_ready(program(key)), calls)

    seconds = measure.repeat(run, 1)
    fitness = jnp.stack([fitness for _, fitness in found])
    measure.report(
        steps=args.searches * args.generations * args.population * args.episodes * int(problem.episode_length),
        import_s=import_s,
        compile_s=compiled_s - import_s,
        run_s=seconds["wall_s"][0],
        last_return=float(fitness[..., -5:].mean()),
        **seconds,
    )


if __name__ == "__main__":
    main()
