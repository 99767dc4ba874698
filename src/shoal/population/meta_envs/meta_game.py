"""Meta-games: matrix games whose opponent learns. A step of the environment is one gradient step of the opponent.

Source: Lu et al. 2022, "Model-Free Opponent Shaping", section 4.1 and `src/environments.py` of its code
(github.com/luchris429/Model-Free-Opponent-Shaping), formula for formula.
"""

import abc
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt8

from shoal.core.env import Env, Key, State, Transition
from shoal.core.registry import env
from shoal.core.spaces import Box
from shoal.core.struct import Number, static, struct
from shoal.envs.checks import check_range
from shoal.population.meta_envs.matrix_game import iterated_values, lola_step, naive_step, one_round_values
from shoal.population.meta_envs.picture import policies_picture

OPPONENTS = {"naive": naive_step, "lola": lola_step}


@struct
class MetaGameState(State):
    """The policies of the last step, the opponent's next policy, and rewards (which only `render` uses)."""

    agent: Float[Array, "D"]  # logits of the agent's policy in the last step
    opponent: Float[Array, "D"]  # logits of the opponent's policy in the last step
    learned: Float[Array, "D"]  # logits of the opponent's policy after its gradient step: its policy in the next step
    reward: Float[Array, "2"]  # of the agent and of the opponent in the last step
    total_reward: Float[Array, "2"]  # sums over the episode


@struct
class MetaGame(Env):
    """The base class of meta-games. Subclasses define `payoffs`, and `game_values` with the size of a policy.

    Action: Box(D), float32: the logits of the agent's policy for this step, from -`max_logit` to `max_logit` (10).
    A logit is that of the probability of the first action.

    Observation: Box(2 D), float32: the probabilities of the first action in the agent's policy and in the opponent's
    policy, both of the last step.

    Reward: the agent's exact expected reward per round when its policy meets the opponent's. The opponent then takes
    one gradient step on its own exact value. With `opponent="naive"` it takes the agent's policy as fixed; with
    `"lola"` it takes the agent for a naive learner, and includes how its own step changes that learner's step.
    `info["opponent_reward"]` is the opponent's reward.
    Start: all logits are normal with mean 0 and standard deviation `init_std` (1). The opponent has taken one step
    against the agent's random policy.
    End: never terminated; truncated after `max_steps` (100).
    Difference from the reference: actions have bounds. At 10 a probability differs from 1 by 5e-5.
    """

    reset_every: ClassVar[int] = 100
    policy_size: ClassVar[int]  # D
    situations: ClassVar[tuple[str, ...]]  # a name for each logit, which `render` shows
    first_action: ClassVar[str] = "cooperates"

    opponent_learning_rate: Number = 1.0
    init_std: Number = 1.0
    max_logit: float = static(10.0)  # static: it is the bound of the action space
    opponent: str = static("naive", choices=("naive", "lola"))
    max_steps: Number | None = 100

    def __post_init__(self) -> None:
        if self.opponent not in OPPONENTS:
            raise ValueError(f"opponent={self.opponent!r} is unknown. Choose 'naive' or 'lola'.")
        check_range(self, "opponent_learning_rate", "init_std", low=0.0)
        check_range(self, "max_logit", above=0.0, high=80.0)

    @abc.abstractmethod
    def payoffs(self) -> tuple[tuple[Number, Number], ...]:
        """The payoffs (first player, second player) of the outcomes CC, CD, DC, DD; the first player's action first."""

    @abc.abstractmethod
    def game_values(self, first: Float[Array, "D"], second: Float[Array, "D"]) -> Float[Array, "2"]:
        """The exact values of both players, from the logits of their policies."""

    @abc.abstractmethod
    def value_per_round(self, value: Float[Array, "2"]) -> Float[Array, "2"]:
        """The values of `game_values` as rewards per round."""

    @property
    def observation_space(self) -> Box:
        """Probabilities of both policies."""
        return Box(0.0, 1.0, (2 * self.policy_size,))

    @property
    def action_space(self) -> Box:
        """The logits of a policy."""
        return Box(-self.max_logit, self.max_logit, (self.policy_size,))

    def init(self, key: Key) -> MetaGameState:
        """The first state: two random policies have met once, and the opponent has learned from it."""
        agent, opponent = jnp.asarray(self.init_std, jnp.float32) * jax.random.normal(
            key, (2, self.policy_size), jnp.float32
        )
        return self._meet(agent, opponent, MetaGameState(jnp.int32(0), *[agent] * 3, *[jnp.zeros(2, jnp.float32)] * 2))

    def transition(self, state: MetaGameState, action: Float[Array, "D"], noise: None) -> Transition[MetaGameState]:
        """The agent's policy meets the opponent's, and the opponent learns."""
        del noise
        agent = jnp.clip(action.astype(jnp.float32), -self.max_logit, self.max_logit)
        state = self._meet(agent, state.learned, state)
        state = state.replace(total_reward=state.total_reward + state.reward)
        return state, state.reward[0], jnp.bool_(False), {"opponent_reward": state.reward[1]}

    def observe(self, state: MetaGameState) -> Float[Array, "n"]:
        """The probabilities of both policies in the last step."""
        return jax.nn.sigmoid(jnp.concatenate([state.agent, state.opponent]))

    def render(self, state: MetaGameState) -> UInt8[np.ndarray, "320 480 3"]:
        """A pair of bars for each situation: the probability of the first action, of the agent and of the opponent."""
        policies = np.asarray(self.observe(state)).reshape(2, self.policy_size)
        steps = int(state.time)
        mean = np.asarray(state.total_reward) / steps if steps else None
        return policies_picture(
            policies, self.situations, f"probability that a player {self.first_action}", mean, steps
        )

    @jax.jit  # eager calls then compile one program instead of each operation
    def _meet(self, agent: Float[Array, "D"], opponent: Float[Array, "D"], state: MetaGameState) -> MetaGameState:
        """The state after the two policies met: with their rewards and the opponent's next policy."""
        value = self.game_values(opponent, agent)  # the opponent is the first player
        rate = jnp.asarray(self.opponent_learning_rate, jnp.float32)
        learned = OPPONENTS[self.opponent](self.game_values, opponent, agent, rate)
        return state.replace(
            agent=agent.astype(jnp.float32),
            opponent=opponent.astype(jnp.float32),
            learned=learned.astype(jnp.float32),
            reward=self.value_per_round(value)[::-1].astype(jnp.float32),
        )

    def _payoff_array(self) -> Float[Array, "4 2"]:
        return jnp.asarray([[jnp.asarray(x, jnp.float32) for x in row] for row in self.payoffs()])


@struct
class IteratedGame(MetaGame):
    """A `MetaGame` with infinitely many discounted rounds. A policy remembers the last round, in five logits.

    The rewards are (1 - `discount`) times the discounted values, so that they are averages per round.
    """

    policy_size: ClassVar[int] = 5
    situations: ClassVar[tuple[str, ...]] = ("first", "CC", "CD", "DC", "DD")

    discount: Number = 0.96  # of the rounds of the game

    def __post_init__(self) -> None:
        check_range(self, "discount", low=0.0, high=0.9999)

    def game_values(self, first: Float[Array, "5"], second: Float[Array, "5"]) -> Float[Array, "2"]:
        """The exact discounted values of both players."""
        return iterated_values(first, second, self._payoff_array(), self.discount)

    def value_per_round(self, value: Float[Array, "2"]) -> Float[Array, "2"]:
        """(1 - discount) times the values."""
        return (1 - self.discount) * value


@env("MFOS/IPD-LOLA-v0", opponent="lola", about="The iterated prisoner's dilemma against a LOLA learner.")
@env("MFOS/IPD-NL-v0")
@struct
class PrisonersDilemma(IteratedGame):
    """Shape a learner in the iterated prisoner's dilemma: make it cooperate although the agent sometimes defects.

    Action: Box(5), float32: the logits of the probability to cooperate in the first round, and after the rounds CC, CD,
    DC and DD (C: cooperated, D: defected; the agent's own action first). From -`max_logit` to `max_logit` (10).

    Observation: Box(10), float32

    | i      | quantity                                                                       |
    |--------|--------------------------------------------------------------------------------|
    | 0 to 4 | the agent's probabilities to cooperate in the last step, in this order         |
    | 5 to 9 | the opponent's, with its own action first                                      |

    Reward: the agent's expected reward per round, from the exact value of the game that both policies play with the
    discount `discount` (0.96). In a round, both get `cooperation` (-1) if both cooperate and `defection` (-2) if both
    defect; if one defects alone, it gets `temptation` (0) and the other `sucker` (-3). After the game the opponent
    takes one gradient step on its own value. With `opponent="naive"` it takes the agent's policy as fixed; with
    `"lola"` (`MFOS/IPD-LOLA-v0`) it includes how its own step changes the step of a naive learner.
    `info["opponent_reward"]` is its reward.
    Start: all logits are normal with mean 0 and standard deviation `init_std` (1). The opponent has taken one step
    against the agent's random policy.
    End: never terminated; truncated after `max_steps` (100).
    Difference from the reference: actions have bounds. At 10 a probability differs from 1 by 5e-5.
    """

    cooperation: Number = -1.0
    sucker: Number = -3.0
    temptation: Number = 0.0
    defection: Number = -2.0

    def __post_init__(self) -> None:
        check_range(self, "cooperation", "sucker", "temptation", "defection")

    def payoffs(self) -> tuple[tuple[Number, Number], ...]:
        """The payoffs of both players after CC, CD, DC, DD."""
        both, alone, cheats, neither = self.cooperation, self.sucker, self.temptation, self.defection
        return (both, both), (alone, cheats), (cheats, alone), (neither, neither)


@env("MFOS/IMP-LOLA-v0", opponent="lola", about="Iterated matching pennies against a LOLA learner.")
@env("MFOS/IMP-NL-v0")
@struct
class MatchingPennies(IteratedGame):
    """Shape a learner in iterated matching pennies, a zero-sum game: the agent wins when both show the same side.

    Action: Box(5), float32: the logits of the probability of heads in the first round, and after the rounds HH, HT, TH
    and TT (the agent's own coin first). From -`max_logit` to `max_logit` (10).

    Observation: Box(10), float32

    | i      | quantity                                                                       |
    |--------|--------------------------------------------------------------------------------|
    | 0 to 4 | the agent's probabilities of heads in the last step, in this order             |
    | 5 to 9 | the opponent's, with its own coin first                                        |

    Reward: the agent's expected reward per round, from the exact value of the game that both policies play with the
    discount `discount` (0.96). In a round the agent gets `stake` (1) if both coins show the same side, otherwise
    -`stake`; the opponent gets the negative of it. Afterwards the opponent takes one gradient step on its own value, as
    in `MFOS/IPD-NL-v0`. `info["opponent_reward"]` is its reward.
    Start: all logits are normal with mean 0 and standard deviation `init_std` (1). The opponent has taken one step
    against the agent's random policy.
    End: never terminated; truncated after `max_steps` (100).
    Difference from the reference: actions have bounds. At 10 a probability differs from 1 by 5e-5.
    """

    situations: ClassVar[tuple[str, ...]] = ("first", "HH", "HT", "TH", "TT")
    first_action: ClassVar[str] = "shows heads"

    stake: Number = 1.0

    def __post_init__(self) -> None:
        check_range(self, "stake", low=0.0)

    def payoffs(self) -> tuple[tuple[Number, Number], ...]:
        """The payoffs of both players after HH, HT, TH, TT; the opponent is the first."""
        win, lose = self.stake, -self.stake
        return (lose, win), (win, lose), (win, lose), (lose, win)


@env("MFOS/Chicken-LOLA-v0", opponent="lola", about="The game of chicken against a LOLA learner.")
@env("MFOS/Chicken-NL-v0")
@struct
class Chicken(MetaGame):
    """Shape a learner in the game of chicken: make it swerve. Each step is a game of a single round.

    Action: Box(1), float32: the logit of the probability to swerve, from -`max_logit` to `max_logit` (10).

    Observation: Box(2), float32

    | i | quantity                                            |
    |---|-----------------------------------------------------|
    | 0 | the agent's probability to swerve in the last step  |
    | 1 | the opponent's                                      |

    Reward: the agent's expected payoff: `both_swerve` (0) if both swerve; if one swerves alone, it gets `swerve_alone`
    (-1) and the other `straight_alone` (1); `crash` (-100) for both if none swerves. Afterwards the opponent takes one
    gradient step on its own expected payoff, as in `MFOS/IPD-NL-v0`. `info["opponent_reward"]` is its payoff.
    Start: both logits are normal with mean 0 and standard deviation `init_std` (1). The opponent has taken one step
    against the agent's random policy.
    End: never terminated; truncated after `max_steps` (100).
    Difference from the reference: actions have bounds. At 10 a probability differs from 1 by 5e-5.
    """

    policy_size: ClassVar[int] = 1
    situations: ClassVar[tuple[str, ...]] = ("always",)
    first_action: ClassVar[str] = "swerves"

    both_swerve: Number = 0.0
    swerve_alone: Number = -1.0
    straight_alone: Number = 1.0
    crash: Number = -100.0

    def __post_init__(self) -> None:
        check_range(self, "both_swerve", "swerve_alone", "straight_alone", "crash")

    def payoffs(self) -> tuple[tuple[Number, Number], ...]:
        """The payoffs of both players: both swerve, the first alone, the second alone, none."""
        both, alone, wins, none = self.both_swerve, self.swerve_alone, self.straight_alone, self.crash
        return (both, both), (alone, wins), (wins, alone), (none, none)

    def game_values(self, first: Float[Array, "1"], second: Float[Array, "1"]) -> Float[Array, "2"]:
        """The expected payoffs of both players."""
        return one_round_values(first, second, self._payoff_array())

    def value_per_round(self, value: Float[Array, "2"]) -> Float[Array, "2"]:
        """The values themselves: there is one round."""
        return value
