"""`check_agent` accepts a correct agent, and names the fault of each of many broken ones."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jaxtyping import Array, Float, Int

from shoal.core.agent import Agent, Metrics
from shoal.core.errors import CheckError, Unsuited
from shoal.core.keys import Key, make_key
from shoal.core.spaces import Discrete
from shoal.core.struct import Number, Struct, filled_by_bind, hyper, static, struct
from shoal.envs.probes import ContinuousAction, Fork, MatchingAction
from shoal.rollouts.checks import check_agent
from shoal.rollouts.episodes import EpisodeStats


@struct
class BanditState(Struct):
    """The Q-value of each action."""

    age: Int[Array, ""]
    key: Key
    q_values: Float[Array, "A"]


@struct
class Bandit(Agent):
    """Learn the reward of the first action of an episode, for any observation. It keeps the whole contract."""

    learning_rate: Number = hyper(0.1, search=(0.01, 1.0, "log"), valid=(0, 1))
    size: int = static(1)
    action_space: Any = filled_by_bind()

    def bind(self, env):
        if not isinstance(env.action_space, Discrete):
            raise Unsuited("a bandit needs Discrete actions.")
        return self.replace(action_space=env.action_space)

    @property
    def steps_per_update(self):
        return 1

    def init(self, key, env):
        return BanditState(jnp.int32(0), key, jnp.zeros(self.action_space.n, jnp.float32))

    def update(self, state, env, clock):
        key, k_init, k_act, k_noise = jax.random.split(state.key, 4)
        env_state = env.init(k_init)
        action, _ = self.act(state, env.observe(env_state), None, k_act, False, env.action_mask(env_state))
        _, reward, terminated, _, _ = env.advance(env_state, action, env.noise(k_noise))
        step = self.learning_rate * (reward - state.q_values[action])
        episodes = EpisodeStats.of(terminated[None], reward[None], jnp.ones(1, jnp.int32))
        state = BanditState(state.age + 1, key, state.q_values.at[action].add(step))
        return state, Metrics(episodes, {"error": jnp.abs(step)})

    def act(self, state, obs, carry, key, greedy, mask=None):
        q_values = state.q_values if mask is None else jnp.where(mask, state.q_values, -jnp.inf)
        action = jnp.argmax(q_values) if greedy else jax.random.categorical(key, q_values)
        return action.astype(self.action_space.dtype), carry

    def value(self, state, obs):
        return jnp.max(state.q_values)

    def policy_state(self, state):
        return Known(state.q_values)


@struct
class Known(Struct):
    """The policy state."""

    q_values: Float[Array, "A"]


def test_a_correct_agent_passes():
    check_agent(Bandit(), Fork(), key=make_key(7))


def test_an_agent_that_is_bound_passes_too():
    check_agent(Bandit().bind(MatchingAction()), MatchingAction(), updates=4)


@struct
class NumberlessField(Bandit):
    title: Any = "bandit"


@struct
class ForgetsToBind(Bandit):
    def bind(self, env):
        return self


@struct
class SilentWithoutBind(Bandit):
    pass


SilentWithoutBind.value = lambda self, state, obs: jnp.float32(0)


@struct
class HalfSteps(Bandit):
    @property
    def steps_per_update(self):
        return 0.5


@struct
class DictState(Bandit):
    def init(self, key, env):
        return {"age": jnp.int32(0), "key": key}


@struct
class FloatAge(Bandit):
    def init(self, key, env):
        return Bandit.init(self, key, env).replace(age=jnp.float32(0))


@struct
class GrowingState(Bandit):
    def update(self, state, env, clock):
        state, metrics = Bandit.update(self, state, env, clock)
        return state.replace(q_values=jnp.append(state.q_values, 0)), metrics


@struct
class DoublesUnderX64(Bandit):
    def update(self, state, env, clock):
        state, metrics = Bandit.update(self, state, env, clock)
        return state.replace(q_values=state.q_values + jnp.zeros(()) * jnp.arange(2.0)), metrics


@struct
class NoMetrics(Bandit):
    def update(self, state, env, clock):
        return Bandit.update(self, state, env, clock)[0], {}


@struct
class LossOfEachAction(Bandit):
    def update(self, state, env, clock):
        state, metrics = Bandit.update(self, state, env, clock)
        object.__setattr__(
            metrics, "losses", {"q_value": state.q_values}
        )  # the type checks of the tests would refuse this
        return state, metrics


@struct
class BranchOnNumber(Bandit):
    def update(self, state, env, clock):
        if self.learning_rate > 0.5:
            return Bandit.update(self, state, env, clock + 1)
        return Bandit.update(self, state, env, clock)


@struct
class SameKeyTwice(Bandit):
    def update(self, state, env, clock):
        after, metrics = Bandit.update(self, state, env, clock)
        return after.replace(q_values=after.q_values + jax.random.normal(state.key, dtype=jnp.float32)), metrics


@struct
class FloatAction(Bandit):
    def act(self, state, obs, carry, key, greedy, mask=None):
        action, carry = Bandit.act(self, state, obs, carry, key, greedy, mask)
        return action.astype(jnp.float32) if greedy else action, carry


@struct
class GrowingCarry(Bandit):
    def act(self, state, obs, carry, key, greedy, mask=None):
        return Bandit.act(self, state, obs, carry, key, greedy, mask)[0], obs


@struct
class StaticFromNumber(Bandit):
    def __post_init__(self):
        object.__setattr__(self, "size", 1 if float(self.learning_rate) == pytest.approx(0.1) else 2)


@struct
class NeverAges(Bandit):
    def update(self, state, env, clock):
        after, metrics = Bandit.update(self, state, env, clock)
        return after.replace(age=state.age), metrics


@struct
class OneKeyForAll(Bandit):
    def init(self, key, env):
        return Bandit.init(self, make_key(0), env)


@struct
class ForgetfulCopy(Bandit):
    def reseed(self, state, key):
        return state.replace(key=key, q_values=0 * state.q_values + 1)


@struct
class SameDrawsAlways(Bandit):
    def update(self, state, env, clock):
        after, metrics = Bandit.update(self, state, env, clock)
        noise = jax.random.normal(after.key, dtype=jnp.float32)
        return after.replace(key=state.key, q_values=after.q_values + noise), metrics


@struct
class FollowsTheClock(Bandit):
    def update(self, state, env, clock):
        after, metrics = Bandit.update(self, state, env, clock)
        return after.replace(q_values=after.q_values + 0.01 * clock.astype(jnp.float32)), metrics


@struct
class IgnoresItsNumbers(Bandit):
    def update(self, state, env, clock):
        return Bandit.update(self.replace(learning_rate=0.1), state, env, clock)


@jax.custom_batching.custom_vmap
def shifted(x):
    return x


@shifted.def_vmap
def _shifted_batch(axis_size, in_batched, x):
    return x + 0.5, in_batched[0]


@struct
class OtherAmongOthers(Bandit):
    def update(self, state, env, clock):
        after, metrics = Bandit.update(self, state, env, clock)
        return after.replace(q_values=shifted(after.q_values)), metrics


@struct
class BeyondTheLast(Bandit):
    def act(self, state, obs, carry, key, greedy, mask=None):
        return jnp.full((), self.action_space.n, self.action_space.dtype), carry


@struct
class IgnoresTheMask(Bandit):
    def act(self, state, obs, carry, key, greedy, mask=None):
        return Bandit.act(self, state, obs, carry, key, greedy)


@struct
class PoorPolicy(Bandit):
    def policy_state(self, state):
        return Known(jnp.zeros_like(state.q_values) + jnp.arange(len(state.q_values)))


@struct
class RandomWhenGreedy(Bandit):
    def act(self, state, obs, carry, key, greedy, mask=None):
        return Bandit.act(self, state, obs, carry, key, False, mask)


@struct
class ValueOfTheWholeState(Bandit):
    def value(self, state, obs):
        return jnp.max(state.q_values) + (1.0 if isinstance(state, BanditState) else 0.0)


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (NumberlessField, r"title='bandit' is not a number.*static"),
        (ForgetsToBind, r"bind leaves action_space empty, which is declared as filled_by_bind\(\)"),
        (SilentWithoutBind, "value does not say that the agent was not bound: define it in the class body"),
        (HalfSteps, "steps_per_update is 0.5: return a whole number, at least 1"),
        (DictState, "init gives a dict without age: return a @struct class with age and key"),
        (FloatAge, r"init gives age as float32\[\], not as a scalar int32: start it as jnp.int32\(0\)"),
        (GrowingState, r"update changes state.q_values from float32\[2\], which init gives, to float32\[3\]"),
        (
            DoublesUnderX64,
            r"update changes state.q_values from float32\[2\], which init gives, to float64.*where JAX has 64 bits",
        ),
        (NoMetrics, r"update must give Metrics\(episodes, losses\) with EpisodeStats for episodes"),
        (LossOfEachAction, r"update gives q_value with shape \(2,\): average it"),
        (BranchOnNumber, "update needs the value of a traced number.*Use jnp.where"),
        (SameKeyTwice, "update uses a key twice: split it first"),
        (FloatAction, "act disagrees with action_space when greedy=True: the action is float32"),
        (GrowingCarry, "act gives carry .*, but initial_carry None"),
        (StaticFromNumber, "learning_rate recompiles when it changes: static fields must not be made from it"),
        (NeverAges, "update leaves state.age at 0 after 4 updates: add 1 in each"),
        (OneKeyForAll, "init gives the same state.key for two keys: derive it from `key`"),
        (ForgetfulCopy, "reseed changes leaf .* of the state: a copy differs by its keys alone"),
        (SameDrawsAlways, "update uses state.key and does not change it: split it"),
        (
            FollowsTheClock,
            "update leaves another policy .* where the clock begins at 3: schedules must follow state.age",
        ),
        (IgnoresItsNumbers, r"update gives the same member with other hyperparameters \(learning_rate\): use them"),
        (OtherAmongOthers, "update gives another member under vmap than alone .*: write it for one member"),
        (BeyondTheLast, "act leaves action_space: the action=2 is out of bounds"),
        (PoorPolicy, r"act .* with policy_state\(state\) .* with the state"),
        (RandomWhenGreedy, "act acts otherwise .* when greedy: .* do not use the key when greedy"),
        (ValueOfTheWholeState, r"value differs with policy_state\(state\) from that with the state"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_a_broken_agent_is_named_with_its_hook(broken, says):
    with pytest.raises(CheckError, match=f"(?s){broken.__name__}.{says}"):
        check_agent(broken(), MatchingAction(), updates=8)


def test_forbidden_actions_are_noticed():
    with pytest.raises(CheckError, match=r"IgnoresTheMask.act takes action \d, which the mask .* forbids"):
        check_agent(IgnoresTheMask(), Fork(), updates=4)


def test_hyperparameters_need_no_effect_before_learning_starts():
    @struct
    class Waits(IgnoresItsNumbers):
        learns_from = property(lambda self: 100)

    check_agent(Waits(), MatchingAction(), updates=4)


def test_an_undecorated_class_is_asked_to_be_a_struct():
    class Bare(Bandit):
        pass

    with pytest.raises(CheckError, match="write @struct above `class Bare`"):
        check_agent(Bare(), MatchingAction())


def test_a_value_that_is_no_agent_is_refused():
    with pytest.raises(CheckError, match="'ppo' is not an agent"):
        check_agent("ppo", MatchingAction())
    with pytest.raises(ValueError, match="updates=2 are too few"):
        check_agent(Bandit(), MatchingAction(), updates=2)


def test_an_invalid_pair_is_refused_with_the_message_of_bind():
    with pytest.raises(Unsuited, match="a bandit needs Discrete actions"):
        check_agent(Bandit(), ContinuousAction())


def test_an_error_inside_a_hook_is_the_cause_of_one_that_names_hook_and_line():
    @struct
    class Raising(Bandit):
        def update(self, state, env, clock):
            raise OverflowError("too deep")

    with pytest.raises(
        CheckError, match=r"test_checks.py:\d+: Raising.update raises OverflowError: too deep"
    ) as caught:
        check_agent(Raising(), MatchingAction())
    assert isinstance(caught.value.__cause__, OverflowError)
