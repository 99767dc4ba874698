"""Contract tests of every registered agent: `check_agent`, and probe environments whose values are known by hand.

The tests run for every registered agent. `CONTRACT` in the agent's own test file has the settings with which it learns
a probe quickly. Probes that an agent cannot play (its `bind` refuses them) are left out, but every agent plays some.
Probes with the same observation and action spaces share one compiled program, because compilation takes most time.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.interpreters.partial_eval import dce_jaxpr

from environments import Scaled, Several
from learners import NO_FIELDS, VARIANTS, all_agents, bound, playable, settings_of, unbound
from shoal.core.errors import Unsuited
from shoal.core.keys import make_key
from shoal.core.registry import AGENTS, make
from shoal.core.spaces import Box, Discrete
from shoal.core.struct import hyper_fields, info_of, static, struct, to_arrays
from shoal.envs.probes import ContinuousMatching
from shoal.nn.torsos import CNN
from shoal.rollouts.checks import check_agent
from shoal.rollouts.demonstrations import Demonstrations
from shoal.rollouts.evaluate import evaluate
from shoal.specs.points import is_initial
from shoal.specs.settings import AgentEnv

DISCOUNT = 0.9
UPDATES = 200
IMAGE = {"network": CNN(channels=(4,), hidden=(16,)), "learning_rate": 3e-3}  # a network for the small image

VALUES = {
    "Probe-ConstantReward-v0": {0.0: 1.0},
    "Probe-ObservationReward-v0": {1.0: 1.0, -1.0: -1.0},
    "Probe-DiscountedReward-v0": {0.0: DISCOUNT, 1.0: 1.0},
    "Probe-TimeLimit-v0": {t / 5: 10.0 for t in range(5)},
    "Probe-Termination-v0": {t / 5: (1 - DISCOUNT ** (5 - t)) / (1 - DISCOUNT) for t in range(5)},
    "Probe-CountedTimeLimit-v0": dict.fromkeys(range(5), 10.0),
    "Probe-Chain-v0": {cell: DISCOUNT ** (3 - cell) for cell in range(4)},
}
# First observations of an episode. A recurrent agent is tested on these only: later values depend on its carry.
FIRST_OBSERVATIONS = {"Probe-ObservationReward-v0": [1.0, -1.0]}
BEST_RETURNS = {
    "Probe-ActionReward-v0": 1.0,
    "Probe-MatchingAction-v0": 1.0,
    "Probe-ContinuousAction-v0": 1.0,
    "Probe-ContinuousMatching-v0": 1.0,
    "Probe-MultiDiscrete-v0": 1.0,
    "Probe-Instruction-v0": 1.0,
    "Probe-Image-v0": 1.0,
    "Probe-CountedMatching-v0": 1.0,
    "Probe-Chain-v0": 1.0,
    "Probe-Mask-v0": -1.0,
}
ALONE = ("Probe-MultiDiscrete-v0", "Probe-Image-v0", "Probe-Mask-v0", "Probe-Memory-v0", "Probe-Instruction-v0")
# Probes that share a program, and the space that all their observations lie in.
GROUPS = {
    "numbers": (
        (
            "Probe-ConstantReward-v0",
            "Probe-ObservationReward-v0",
            "Probe-DiscountedReward-v0",
            "Probe-ActionReward-v0",
            "Probe-MatchingAction-v0",
            "Probe-TimeLimit-v0",
            "Probe-Termination-v0",
        ),
        Box(-1.0, 2.0, (1,)),
    ),
    "dials": (("Probe-ContinuousAction-v0", "Probe-ContinuousMatching-v0"), Box(-1.0, 1.0, (1,))),
    "counts": (("Probe-CountedTimeLimit-v0", "Probe-Chain-v0", "Probe-CountedMatching-v0"), Discrete(5)),
    **{probe: ((probe,), None) for probe in ALONE},
}


# Groups that `make test` runs where they are not "numbers"; the other groups double the compilation for each agent.
# That a time limit bootstraps for SAC is tested in its own file.
FIRST = {"ppo": ("numbers", "dials"), "sac": ("dials",), "td3": ("dials",), "crossq": ("dials",), "tqc": ("dials",)}


def agent_cases():
    """(agent, whether the further groups of probes run) as pytest parameters; those and variants are slow."""
    return [
        pytest.param(
            name, is_extended, id=f"{name}-extended" if is_extended else name, marks=[pytest.mark.slow] if slow else []
        )
        for name in sorted(AGENTS)
        for is_extended, slow in ((False, name in VARIANTS), (True, True))
    ]


@functools.cache
def agents_and_envs(name, group):
    """{probe: (agent, environment)} of a group, without probes that the agent cannot play.

    Probes of a group share one environment class and one agent, and thus one program. Where the settings of an agent
    depend on the probe (`for_env`), each probe has its own.
    """
    probes, space = GROUPS[group]
    envs, settings = {probe: make(probe) for probe in probes}, settings_of(name)
    if space is not None and "for_env" not in settings:
        several = Several.of(tuple(envs.values()), space)
        agent = bound(name, several)
        return {probe: (agent, several.only(i)) for i, probe in enumerate(probes)} if agent else {}
    has_network = group == "Probe-Image-v0" and "network" in AGENTS[name].cls.__dataclass_fields__
    image = {**IMAGE, **settings.get("image", {})} if has_network else {}
    pairs = {probe: (bound(name, env, **image), to_arrays(env)) for probe, env in envs.items()}
    return {probe: pair for probe, pair in pairs.items() if pair[0]}


@functools.cache
def trained(name, group):
    """{probe: (values of the group's observations, returns of 64 greedy episodes)} after training."""
    run, probe_obs = jax.jit(train_and_evaluate), jnp.asarray(observations_of(group))
    updates = settings_of(name).get("updates", UPDATES)
    return {probe: run(agent, env, probe_obs, updates) for probe, (agent, env) in agents_and_envs(name, group).items()}


def train_and_evaluate(agent, env, probe_obs, updates):
    """Train a member; return its values of the observations `probe_obs`, and returns of greedy episodes."""
    state = agent.init(make_key(0), env)
    state = jax.lax.fori_loop(0, updates, lambda i, s: agent.update(s, env, i)[0], state)
    space = env.observation_space
    to_obs = jax.vmap(lambda obs: jnp.full(space.shape, obs, space.dtype))
    values = jax.vmap(lambda obs: agent.value(state, obs))(to_obs(probe_obs)) if hasattr(agent, "value") else None
    return values, evaluate(agent, state, env, make_key(1), episodes=64, horizon=5).episode_return


def observations_of(group):
    """All observations (as numbers) for which the value in some probe of a group is known."""
    return sorted({obs for probe in GROUPS[group][0] for obs in VALUES.get(probe, {0.0: 0.0})})


def probes_of(name, known, groups=tuple(GROUPS)):
    """(probe, group) of the probes in `known` that an agent can play."""
    return [(probe, group) for group in groups for probe in agents_and_envs(name, group) if probe in known]


def groups_to_run(name, is_extended):
    """The first groups of probes, or the further ones; also the further ones if an agent can play none of the first."""
    first = FIRST.get(VARIANTS.get(name, name), ("numbers",))
    beyond = [group for group in GROUPS if group not in first]
    return beyond if is_extended or not any(agents_and_envs(name, group) for group in first) else first


@pytest.mark.parametrize("name", all_agents())
@pytest.mark.sampled(7)
def test_an_agent_keeps_the_contract(name):
    env = make(playable(name))
    check_agent(unbound(name, env), env)


# Boxes of several numbers, by their centers and half-widths.
SMALL_AND_LARGE = Scaled(center=(0.0, 0.0, 5.0, -7.0), half=(1e-3, 1e3, 0.25, 1e30))
FROM_MINUS_1_TO_1 = Scaled(center=(0.0,) * 4, half=(1.0,) * 4)


def after_three_updates(name, env):
    """(greedy actions for heads and tails on a scale from -1 to 1, losses), or None for an agent without a Box."""
    fields = {}
    if name == "bc":
        obs = jnp.asarray([[1.0], [-1.0]] * 16)
        unit = 0.5 * obs * jnp.ones((1, 4))
        fields["demonstrations"] = Demonstrations(
            obs, jnp.asarray(env.center)[None] + jnp.asarray(env.half)[None] * unit
        )
    agent = AGENTS[name].build(**{**{k: v for k, v in settings_of(name).items() if k not in NO_FIELDS}, **fields})
    try:
        agent, env = to_arrays(agent.bind(env)), to_arrays(env)
    except Unsuited:
        return None

    @jax.jit
    def run(agent, env):
        state = agent.init(make_key(0), env)
        losses = []
        for clock in range(3):
            state, metrics = agent.update(state, env, jnp.int32(clock))
            losses.append((metrics.losses, metrics.episodes.return_sum))
        actions = [
            agent.act(agent.policy_state(state), jnp.asarray([obs]), agent.initial_carry(), make_key(1), greedy)[0]
            for obs in (1.0, -1.0)
            for greedy in (True, False)
        ]
        return jnp.stack(actions), losses

    actions, losses = run(agent, env)
    return (np.asarray(actions) - env.center) / env.half, losses


@pytest.mark.parametrize("name", all_agents())
@pytest.mark.sampled(3)
def test_what_is_learned_does_not_depend_on_the_units_of_actions(name):
    expected = after_three_updates(name, FROM_MINUS_1_TO_1)
    if expected is None:
        pytest.skip("it has no actions in a Box")
    (actions, losses), (expected, expected_losses) = after_three_updates(name, SMALL_AND_LARGE), expected
    assert np.mean((np.abs(expected) > 1e-3) & (np.abs(expected) < 1)) > 0.2  # neither untrained nor on the bounds
    np.testing.assert_allclose(actions, expected, atol=2e-4)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-4), losses, expected_losses)


@struct
class Odd(ContinuousMatching):
    """A probe with a configurable action box, whose actions have no effect."""

    space: Box = static(Box(-1.0, 1.0, (1,)))

    @property
    def action_space(self):
        return self.space

    def transition(self, state, action, noise):
        return ContinuousMatching.transition(self, state, jnp.zeros(1), noise)


ODD_BOXES = {
    "half open, huge, of one point": Box((0.0, -np.inf, -np.inf, -3e38, 4.0), (np.inf, 2.0, np.inf, 3e38, 4.0), (5,)),
    "bounded, huge and narrow": Box((-3e38, 5.0, -1e-30), (3e38, 5.001, 1e-30), (3,)),
    "float16": Box((-1.0, 5.0), (3.0, 5.25), (2,), np.float16),
    "float64": Box((-1e300, 5.0), (3.0, 5.001), (2,), np.float64),
}


@pytest.mark.parametrize("box", ["half open, huge, of one point", "bounded, huge and narrow", "float16"])
@pytest.mark.parametrize("name", all_agents())
@pytest.mark.sampled(12)
def test_actions_lie_in_any_box(name, box):
    env = to_arrays(Odd(space=ODD_BOXES[box]))
    settings = {k: v for k, v in settings_of(name).items() if k not in NO_FIELDS}
    if name == "bc":
        obs = jnp.asarray([[1.0], [-1.0]] * 16)
        settings["demonstrations"] = Demonstrations(
            obs, jax.vmap(env.action_space.sample)(jax.random.split(make_key(0), 32))
        )
    try:
        agent = to_arrays(AGENTS[name].build(**settings).bind(env))
    except Unsuited as reason:
        assert "Box" in str(reason) or "bounds" in str(reason)
        return

    @jax.jit
    def run(agent, env):
        state, metrics = agent.update(agent.init(make_key(0), env), env, jnp.int32(0))
        policy, obs = agent.policy_state(state), jnp.asarray([1.0])
        actions = [agent.act(policy, obs, agent.initial_carry(), make_key(1), greedy)[0] for greedy in (True, False)]
        return actions, metrics.losses

    actions, losses = run(agent, env)
    assert all(env.action_space.contains(action) for action in actions)
    assert all(np.isfinite(x) for x in jax.tree.leaves(losses))


def unread_by_update(agent, env):
    """The hyperparameters of a bound agent that the program of its update does not read."""
    names = [name for name in hyper_fields(agent) if getattr(agent, name) is not None]

    def update(values, state, env, clock):
        return agent.replace(**dict(zip(names, values, strict=True))).update(state, env, clock)

    values = [jnp.asarray(getattr(agent, name)) for name in names]
    state = jax.eval_shape(agent.init, make_key(0), env)
    program = jax.make_jaxpr(update)(values, state, env, jnp.int32(0)).jaxpr
    is_read = dce_jaxpr(program, [True] * len(program.outvars))[1]
    return {name for name, read in zip(names, is_read, strict=False) if not read}


def is_accepted(agent, env, name):
    """Whether an agent that is not bound may have another value in a field."""
    valid = info_of(hyper_fields(agent)[name]).valid
    try:
        agent.replace(**{name: valid.low if getattr(agent, name) != valid.low else valid.high}).bind(env)
    except ValueError:
        return False
    return True


ES_STRATEGIES = ("SNES", "PGPE", "Sep_CMA_ES", "PSO", "DifferentialEvolution", "LGA", "MR15_GA", "SimpleGA")


@pytest.mark.parametrize(
    ("name", "fields"),
    [(name, {}) for name in sorted(AGENTS)]
    + [
        pytest.param("es", {"strategy": x}, marks=[] if x in ("SNES", "PSO") else pytest.mark.slow)
        for x in ES_STRATEGIES
    ]
    + [("sac", {"temperature": "tuned"})],
)
def test_hyperparameters_that_only_init_reads_are_declared(name, fields):
    for env in (make(playable(name)), make("Probe-ContinuousMatching-v0")):
        agent = unbound(name, env)
        if agent is None or bound(name, env) is None:
            continue
        if fields.get("strategy"):
            agent = agent.replace(learning_rate_decay=1.0, sigma_decay=1.0, learning_rate=0.0)
        agent = agent.replace(**fields)
        declared = {path for path in hyper_fields(agent) if is_initial(AgentEnv(agent, env), path)}
        unread = unread_by_update(to_arrays(agent.bind(env)), to_arrays(env))
        # With a tuned temperature `alpha` has no effect on an update, which its program does not show.
        tuned = {"alpha"} if fields.get("temperature") else set()
        assert {path for path in declared if is_accepted(agent, env, path)} == tuned | {
            path for path in unread if is_accepted(agent, env, path)
        }


@pytest.mark.parametrize("name", sorted(AGENTS))
def test_every_agent_can_play_some_probes(name):
    assert len(probes_of(name, BEST_RETURNS)) >= 2


def test_every_probe_is_in_a_group():
    assert sorted(probe for probes, _ in GROUPS.values() for probe in probes) == sorted(
        {*VALUES, *BEST_RETURNS, "Probe-Memory-v0"}
    )


@pytest.mark.parametrize(("name", "is_extended"), agent_cases())
@pytest.mark.sampled(6)
def test_values_are_those_computed_by_hand(name, is_extended, subtests):
    for probe, group in (
        probes_of(name, VALUES, groups_to_run(name, is_extended)) if hasattr(AGENTS[name].cls, "value") else []
    ):
        with subtests.test(probe):
            values = dict(zip(observations_of(group), np.asarray(trained(name, group)[probe][0]), strict=True))
            is_recurrent = agents_and_envs(name, group)[probe][0].initial_carry() is not None
            for obs in FIRST_OBSERVATIONS.get(probe, [0.0]) if is_recurrent else VALUES[probe]:
                expected = VALUES[probe][obs]
                np.testing.assert_allclose(
                    values[obs], expected, atol=0.05 * max(1.0, abs(expected)), err_msg=f"at {obs}"
                )


@pytest.mark.parametrize(("name", "is_extended"), agent_cases())
@pytest.mark.sampled(4)
def test_policies_find_the_best_actions(name, is_extended, subtests):
    for probe, group in probes_of(name, BEST_RETURNS, groups_to_run(name, is_extended)):
        with subtests.test(probe):
            np.testing.assert_allclose(trained(name, group)[probe][1], BEST_RETURNS[probe], atol=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("probe", ["Probe-TimeLimit-v0", "Probe-Termination-v0", "Probe-Mask-v0", "Probe-Memory-v0"])
def test_a_recurrent_dqn_finds_the_values_and_actions_of_probes(probe):
    env = make(probe)
    sizes = {"memory": "gru", "memory_size": 16, "sequence_length": 10, "burn_in": 5, "batch_size": 16}
    agent = bound("dqn", env, **sizes)
    values, returns = jax.jit(train_and_evaluate)(agent, to_arrays(env), jnp.zeros(1), settings_of("dqn")["updates"])
    if probe in VALUES:
        np.testing.assert_allclose(values[0], VALUES[probe][0.0], rtol=0.05)
    else:
        np.testing.assert_allclose(returns, BEST_RETURNS.get(probe, 1.0), atol=0.02)


@pytest.mark.slow  # PPO with either cell is trained on the same probe in its own tests
def test_recurrent_agents_solve_the_memory_probe(subtests):
    probe = "Probe-Memory-v0"
    agents = {name: agents_and_envs(name, probe)[probe][0] for name in sorted(AGENTS) if agents_and_envs(name, probe)}
    recurrent = [name for name, agent in agents.items() if agent.initial_carry() is not None]
    assert recurrent
    for name in recurrent:
        with subtests.test(name):
            np.testing.assert_array_equal(trained(name, probe)[probe][1], 1.0)
