"""Measure environment steps per second on this machine, by default for every registered environment."""

import contextlib
import json
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, UInt32

from shoal.core.env import Env, Key
from shoal.core.keys import make_key
from shoal.core.kinds import checked_kinds
from shoal.core.names import ranges
from shoal.core.process import check_process
from shoal.core.registry import AGENTS, ENVS
from shoal.core.spaces import Box, Discrete, Space
from shoal.rollouts.rollout import Rollout
from shoal.specs.describe import describe, in_words
from shoal.training.host import usable_cores
from shoal.training.placement import Placement, make_placement

POLICIES = ("random", "mlp")
HORIZON = 100  # steps of one rollout; a new reset bank is sampled before each
FEWEST_PER_CORE = 64  # with fewer environments per core, one thread steps them all


class Throughput(NamedTuple):
    """One measurement. Every observation is computed and added to a checksum, so that XLA cannot leave it out."""

    env: str
    num_envs: int
    policy: str
    steps_per_second: float
    compile_seconds: float
    resets_reused: int
    checksum: float


class Stepper(NamedTuple):
    """A program to measure: `carry, written = run(*carry)`. The carry is (env_states, checksum, key, resets_reused).

    `resets_reused` has two words, low and high, because a GPU makes more than 2^32 resets in a second.
    """

    run: Callable[..., tuple[tuple, Any]]
    carry: tuple  # of the first call
    steps: int  # of all environments together in one call
    bank_size: int


@checked_kinds("envs")
def throughput(
    envs: Sequence[str | Env] = (), *, policy: str = "random", sizes: Sequence[int] = (), seconds: float = 0.5
) -> Iterator[Throughput]:
    """Measure environments, by name or as values, with several numbers of parallel environments.

        for row in shoal.throughput(["CartPole-v1"], sizes=[256], seconds=0.1):
            print(row.env, row.num_envs, row.steps_per_second)

    Without `envs` all registered environments are measured, but only the first of the ids that differ in a final
    number, such as bsuite's, and none whose files are missing. Each measurement runs for about `seconds`, with random
    actions or, with `policy="mlp"`, with actions of PPO's default network. Yields one row per measurement. Raises
    ValueError for an unknown name or policy.
    """
    check_process()
    if policy not in POLICIES:
        raise ValueError(f"policy={policy!r} is unknown. Choose one of: {', '.join(POLICIES)}.")
    entries = [
        ENVS[env] if isinstance(env, str) else env
        for env in ([envs] if isinstance(envs, str) else envs) or measurable()
    ]
    for entry in entries:
        name, env = (in_words(describe(entry)), entry) if isinstance(entry, Env) else (entry.name, entry.build())
        for num_envs in sizes or default_sizes():
            yield measure(name, env, num_envs, policy, seconds)


def measurable() -> list[str]:
    """The first name of each range of ids, except those whose environment raises ValueError (a file is missing)."""
    found = []
    for members in ranges(ENVS).values():
        env = ENVS[members[0]].build()
        with contextlib.suppress(ValueError):
            jax.eval_shape(env.init, make_key(0))
            found.append(members[0])
    return found


def default_sizes() -> list[int]:
    """Numbers of parallel environments, powers of four: up to 16,384 on a CPU, up to 2^20 on other devices."""
    return [4**k for k in range(8 if jax.default_backend() == "cpu" else 11)]


def measure(name: str, env: Env, num_envs: int, policy: str, seconds: float) -> Throughput:
    """Compile, call once without measuring, then call for `seconds`; the rate is that of the median call."""
    begin = time.perf_counter()
    fleet = make_fleet(env, num_envs, policy=policy)
    compile_seconds = time.perf_counter() - begin
    fleet.advance()
    durations: list[float] = []
    while len(durations) < 3 or sum(durations) < seconds:
        begin = time.perf_counter()
        fleet.advance()
        durations.append(time.perf_counter() - begin)
    rate = fleet.steps / sorted(durations)[len(durations) // 2]
    return Throughput(name, num_envs, policy, rate, compile_seconds, fleet.resets_reused, fleet.checksum)


class Fleet:
    """Environments that are stepped by one compiled program on every core, each core with a part of them."""

    def __init__(self, program: Any, carries: list[tuple], placement: Placement, stepper: Stepper) -> None:
        """Use `make_fleet`. `carries` holds one carry per core."""
        self._program, self._placement, self._carries = program, placement, carries
        self.steps = stepper.steps * len(carries)  # of one `advance`
        self.bank_size = stepper.bank_size

    def advance(self) -> None:
        """Step every environment once through the whole program."""
        done = self._placement.call(self._program, [list(column) for column in zip(*self._carries, strict=True)])
        self._carries = [carry for carry, _ in done]

    @property
    def resets_reused(self) -> int:
        """The number of resets that reused a state of the bank; it must be 0 in a comparison."""
        return sum(int(low) + (int(high) << 32) for *_, (low, high) in self._carries)

    @property
    def checksum(self) -> float:
        return sum(total(carry[1]) for carry in self._carries)


def make_fleet(env: Env, num_envs: int, **how: Any) -> Fleet:
    """A compiled fleet of `num_envs` environments. `how` holds further arguments of `make_stepper`."""
    cores = usable_cores() if jax.default_backend() == "cpu" else 1
    parts = cores if num_envs >= FEWEST_PER_CORE * cores and num_envs % cores == 0 else 1
    steppers = [make_stepper(env, num_envs // parts, seed=i, **how) for i in range(parts)]
    placement = make_placement(parts, block=1)
    program = jax.jit(steppers[0].run).lower(*steppers[0].carry).compile(placement.compiler_options)
    return Fleet(program, [stepper.carry for stepper in steppers], placement, steppers[0])


def make_stepper(
    env: Env,
    num_envs: int,
    *,
    policy: str = "random",
    rounds: int = 1,
    bank_size: int = 0,
    trajectory: bool = False,
    envs_last: bool = False,
    prng: str = "mix32",
    seed: int = 0,
) -> Stepper:
    """A program that steps `num_envs` environments for `rounds` rollouts of 100 steps, each with a new reset bank.

    Observations are summed in the carry, each in its own dtype (integers wrap around); with `trajectory=True` they are
    returned with the rest of the trajectory instead. With `envs_last` the environments are the last axis of the sums.
    """
    rollout = Rollout.for_env(env, num_envs, HORIZON, bank_size=bank_size)
    sample, act = _random(env.action_space) if policy == "random" else _mlp(env, num_envs)

    def summable(obs: Any) -> Any:
        obs = jax.tree.map(lambda x: x.astype(jnp.uint8) if x.dtype == jnp.bool_ else x, obs)
        return jax.tree.map(lambda x: jnp.moveaxis(x, 0, -1), obs) if envs_last else obs

    def act_and_sum(obs: Any, mask: Any, noise: Any, checksum: Any) -> tuple[Any, None, Any]:
        return act(obs, mask, noise), None, checksum if trajectory else jax.tree.map(jnp.add, checksum, summable(obs))

    def collect(carry: tuple, _: None) -> tuple[tuple, Any]:
        env_states, checksum, key, reused = carry
        key, k_act, k_env = jax.random.split(key, 3)
        noise = sample(k_act, (HORIZON, num_envs))
        env_states, record, checksum = rollout.collect(env, env_states, act_and_sum, noise, k_env, checksum)
        written = (
            (record.obs, record.action, record.reward, record.terminated, record.truncated) if trajectory else None
        )
        return (env_states, checksum, key, _added(reused, record.episodes().resets_reused)), written

    def run(*carry: Any) -> tuple[tuple, Any]:
        return jax.lax.scan(collect, carry, None, rounds)

    k_env, k_run = jax.random.split(make_key(seed, prng))
    env_states = rollout.init(env, k_env)
    obs = jax.eval_shape(lambda state: summable(jax.vmap(env.observe)(state)), env_states.state)
    checksum = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), obs)
    carry = (env_states, checksum, k_run, jnp.zeros(2, jnp.uint32))
    return Stepper(run, carry, rounds * HORIZON * num_envs, rollout.bank_size)


def total(checksum: Any) -> float:
    """The summed observations as one number."""
    return sum(float(x.sum()) for x in jax.tree.leaves(checksum))


def _added(count: UInt32[Array, "2"], number: Int[Array, ""]) -> UInt32[Array, "2"]:
    """A count of two words, low and high, plus a number that is not negative."""
    low = count[0] + number.astype(jnp.uint32)
    return jnp.stack([low, count[1] + (low < count[0]).astype(jnp.uint32)])


def report(rows: Sequence[Throughput], path: Path) -> None:
    """Write measurements and a description of the machine to a JSON file."""
    device = jax.devices()[0]
    machine = {
        "device": getattr(device, "device_kind", device.platform),
        "devices": jax.device_count(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "jax": jax.__version__,
        "load_average": os.getloadavg(),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"machine": machine, "rows": [row._asdict() for row in rows]}, indent=1) + "\n")


Sample = Callable[[Key, tuple[int, int]], Any]  # action noise [T, E] of a whole rollout
Act = Callable[[Any, Any, Any], Any]  # (obs, mask, noise) of one step, all [E], to actions [E]


def _random(space: Space) -> tuple[Sample, Act]:
    def sample(key: Key, shape: tuple[int, int]) -> Any:
        if isinstance(space, Discrete):
            return jax.random.randint(key, shape, 0, space.n, space.dtype)
        if isinstance(space, Box):
            low, high = space.bounds()
            return jax.random.uniform(key, (*shape, *space.shape), minval=low, maxval=high)
        return jax.vmap(jax.vmap(space.sample))(jax.random.split(key, shape))

    return sample, lambda obs, mask, noise: noise


def _mlp(env: Env, num_envs: int) -> tuple[Sample, Act]:
    # PPO's default policy with initial weights and sampled actions.
    agent = AGENTS["ppo"].build(num_envs=num_envs).bind(env)
    policy = agent.policy_state(agent.init(make_key(1), env))

    def act(obs: Any, mask: Any, keys: Key) -> Any:
        one = jax.vmap(lambda o, m, k: agent.act(policy, o, None, k, False, m)[0])
        return one(obs, mask, keys)

    return jax.random.split, act
