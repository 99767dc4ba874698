"""Deep Q-learning, with its refinements as options.

They are double, dueling, n-step, prioritised, distributional, noisy, Munchausen and recurrent.

Source: Mnih et al. 2015, "Human-level control through deep reinforcement learning"; the source of each refinement is
beside its field. The defaults are the hyperparameters of CleanRL's `dqn.py`. Differences: truncation by a time limit
bootstraps from the true final observation; samples are taken with replacement; several environments may fill one
buffer.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int

from shoal.agents.kernels import check_kernels, gradient_of, kernels_field
from shoal.agents.normalization import first_stats, normalized, updated
from shoal.agents.replay_agent import Observed, ReplayAgent, SequenceShape, steps_of
from shoal.agents.sequences import (
    Hidden,
    burn_in_field,
    check_sequences,
    hidden_of_sequences,
    length_field,
    sequence_shape,
)
from shoal.core.agent import Guarded, Metrics, check_choices, check_counts, refuse_ignored
from shoal.core.env import Env, Key
from shoal.core.errors import Unsuited
from shoal.core.form import current
from shoal.core.registry import agent
from shoal.core.spaces import Discrete
from shoal.core.struct import Choice, Number, Struct, hyper, static, struct
from shoal.nn.distributions import masked
from shoal.nn.memory.fields import memory_field, memory_of, window_field
from shoal.nn.q_network import QNetwork
from shoal.nn.torso_choice import TORSO_HELP, TORSOS, chosen_torso
from shoal.ops.distributional import (
    categorical_mean,
    check_support,
    cross_entropy,
    entropy,
    huber,
    project,
    quantile_huber,
    support,
)
from shoal.ops.exploration import allowed, epsilon_greedy, greedy, sample_uniforms
from shoal.ops.gradients import Optimizer, adam, descend, first_moments, pack, polyak_update
from shoal.ops.priorities import Priorities
from shoal.ops.replay import Replay, Transitions
from shoal.ops.running import RunningStats
from shoal.ops.schedules import linear, passed, progress
from shoal.rollouts.rollout import EnvStates, Trajectory

Weights = Any
HEADS = ("expected", "categorical", "quantile", "implicit")
OPTIMIZERS = ("adam", "sgd")
SGD = OPTIMIZERS.index("sgd")


@struct
class DQNState(Guarded):
    """The agent state of one member."""

    age: Int[Array, ""]
    key: Key
    weights: Weights
    target: Weights
    optimizer: Any  # over packed weights (`ops.gradients`)
    env_states: EnvStates
    replay: Replay
    priorities: Priorities | None
    obs_stats: RunningStats | None = None  # statistics that normalize observations
    carry: Any = None  # recurrent carries [E] at the start of the next rollout
    is_stopped: Bool[Array, ""] | None = None  # within guarded updates: see `core.agent.Guarded`

    guarded = ("weights", "target", "optimizer")


@struct
class DQNPolicy(Struct):
    """The inputs of `act` and `value`: weights, and the age from which epsilon follows."""

    age: Int[Array, ""]
    weights: Weights
    obs_stats: RunningStats | None = None  # statistics that normalize observations


@agent("dqn")
@agent(
    "c51", head="categorical", about="Distributional deep Q-learning: a categorical distribution of returns per action."
)
@agent(
    "iqn",
    head="implicit",
    atoms=64,
    about="Implicit quantile networks: deep Q-learning of the whole distribution of returns, at random quantiles.",
)
@agent(
    "rainbow",
    head="categorical",
    double=True,
    dueling=True,
    n_step=3,
    prioritized=True,
    priority_exponent=0.5,
    noisy=True,
    about="Rainbow: deep Q-learning with all six refinements: double, dueling, n-step, prioritized, noisy, and c51's.",
)
@struct
class DQN(ReplayAgent):
    """Deep Q-learning for discrete actions.

    An update takes `num_steps` steps of `num_envs` environments and stores them. Then it makes the gradient steps that
    are due: `train_iterations` for every `train_frequency` environment steps, from `learning_starts` on. `buffer_size`
    and `batch_size` are hyperparameters: all values of a sweep share one compiled program, whose arrays have the
    largest sizes (`max_buffer_size`, `max_batch_size`).

    `head="categorical"` learns the distribution of returns on `atoms` points between `v_min` and `v_max` (C51,
    Bellemare et al. 2017), `head="quantile"` its quantiles (Dabney et al. 2018), `head="implicit"` a function that
    computes the quantile of any level (IQN, Dabney et al. 2018, "Implicit quantile networks"). With `loss="huber"` an
    error larger than `kappa` enters the loss linearly, so a rare large error counts less than many small ones. Q-values
    that are much larger than `kappa` may then diverge (on CartPole they do, also in CleanRL's implementation).

    An implicit head is trained at `atoms` random levels, and at as many for the target (N and N' of the paper). It
    differs from the paper in that actions are chosen by the mean over the middles of `atoms` equal parts instead of 32
    random levels, which costs no random numbers and makes greedy actions reproducible.

    With `munchausen=True` the target is that of Vieillard et al. 2020, "Munchausen reinforcement learning", eq. 2, for
    the policy pi = softmax(q / temperature) of the target network: the reward increases by the scaled log pi(a|s),
    clipped from below, and the next state's value is the mean over all actions, with an entropy bonus. Other than in
    their code, the policy is restricted to the actions that a mask allows. Distributions are averaged over actions as
    their quantiles.

    `rainbow` (Hessel et al. 2018) differs from the paper in its hyperparameters and range of returns, which are those
    of `c51`, in its heads, which have no hidden layer of their own and are the only noisy ones, and in what all agents
    here have in common (see `agents/dqn.py`).

    `memory` adds a network with `memory_size` units after the torso, so that Q-values can depend on earlier
    observations of the episode (see `nn/memory/`). The buffer then also stores the recurrent carries at the start of
    every rollout, and a sample is a sequence: the memory first reads `burn_in` steps, from the stored carry on and
    without gradients, then the loss is the mean over `sequence_length` steps (R2D2, Kapturowski et al. 2019). Online
    and target network read it from the same stored carry, each with its own weights. `batch_size` counts sequences,
    `buffer_size` steps. A sequence begins where a rollout began, so `num_steps` must divide `sequence_length`. With
    `prioritized` every sequence has one priority, from 0.9 times the largest and 0.1 times the mean error of its steps.
    Differences from R2D2 are listed in `agents/sequences.py`.

    `network` takes any torso with `init(key, features)` and `apply(weights, features)`.
    """

    learning_rate: Number = hyper(2.5e-4, search=(1e-5, 1e-2, "log"), valid=(0, 1))
    batch_size: Number = hyper(128.0, search=(16, 512, "log"), valid=(1, 1e6), cap="max_batch_size")
    buffer_size: Number = hyper(1e4, search=(1e3, 1e5, "log"), valid=(1, 1e9), cap="max_buffer_size")
    learning_starts: Number = hyper(1e4, valid=(0, 1e9), help="environment steps before the first gradient step")
    train_frequency: Number = hyper(
        10.0, search=(1, 64, "log"), valid=(1, 1e9), help="environment steps per train_iterations gradient steps"
    )
    target_period: Number = hyper(
        500.0, search=(100, 1e4, "log"), valid=(1, 1e9), help="environment steps between two target network updates"
    )
    target_mix: Number = hyper(1.0, valid=(0, 1), help="weight of the online weights in a target network update")
    epsilon_start: Number = hyper(1.0, valid=(0, 1))
    epsilon_end: Number = hyper(0.05, search=(0.001, 0.2, "log"), valid=(0, 1))
    exploration: Number = hyper(0.5, search=(0.05, 0.8), valid=(0, 1), help="fraction of the horizon until epsilon_end")
    horizon: Number = hyper(
        0.0, valid=(0, 1e18), spans_run=True, help="steps over which schedules run; 0: as long as the run"
    )
    optimizer: Choice = hyper(0, names=OPTIMIZERS)
    max_grad_norm: Number = hyper(1e9, search=(0.5, 50, "log"), valid=(1e-9, 1e9), help="norm of the whole gradient")
    kappa: Number = hyper(1.0, valid=(1e-6, 1e6), help="where Huber losses become linear")
    v_min: Number = hyper(-100.0, valid=(-1e9, 1e9), help="smallest return of a categorical head")
    v_max: Number = hyper(100.0, valid=(-1e9, 1e9), help="largest return of a categorical head")
    importance_exponent: Number = hyper(
        0.4, valid=(0, 1), help="initial exponent of importance weights; linear to 1 at the horizon"
    )

    munchausen_scale: Number = hyper(0.9, search=(0.5, 1.0), valid=(0, 1), help="weight of log pi(a|s) in the reward")
    munchausen_temperature: Number = hyper(
        0.03, search=(0.003, 0.3, "log"), valid=(1e-6, 1e6), help="of the softmax policy pi"
    )
    munchausen_clip: Number = hyper(-1.0, valid=(-1e6, 0), help="smallest temperature * log pi(a|s)")

    num_steps: int = static(10, help="steps of each environment in one update")
    double: bool = static(False, choices=(False, True), help="van Hasselt et al. 2016")
    dueling: bool = static(False, choices=(False, True), help="Wang et al. 2016")
    noisy: bool = static(False, choices=(False, True), help="explore with noisy weights (Fortunato et al. 2018)")
    munchausen: bool = static(False, choices=(False, True), help="Vieillard et al. 2020")
    head: str = static("expected", choices=HEADS)
    atoms: int = static(51, help="atoms or quantiles of a categorical, quantile or implicit head")
    loss: str = static("squared", choices=("squared", "huber"), help="with head=expected")
    hidden: tuple[int, ...] = static((120, 84))
    activation: str = static("relu", choices=("tanh", "relu", "silu", "gelu"))
    layer_norm: bool = static(False, choices=(False, True), help="layer normalisation before each activation")
    torso: str = static("auto", choices=TORSOS, help=TORSO_HELP)
    network: Any = static(None, help="your own torso; hidden, activation, layer_norm and torso then have no effect")
    memory: str = memory_field()
    memory_size: int = static(64, help="units of the memory")
    memory_window: int = window_field()
    sequence_length: int = length_field()
    burn_in: int = burn_in_field()
    kernels: str = kernels_field("gradient steps")

    def bind(self, env: Env) -> "DQN":
        """The agent with the spaces and sizes of an environment.

        Raises Unsuited if actions are not Discrete, and ValueError for fields that do not fit together.
        """
        check_choices(self)
        check_counts(self, "num_envs", "num_steps", "atoms", "hidden")
        if not isinstance(env.action_space, Discrete):
            raise Unsuited(f"it has one Q-value per action, so it needs Discrete actions, not {env.action_space}.")
        if self.noisy:
            refuse_ignored(self, "with noisy=True", "epsilon_start", "epsilon_end", "exploration")
        if self.head != "categorical":
            refuse_ignored(self, "without head='categorical'", "v_min", "v_max")
        if self.head == "categorical" or (self.head == "expected" and self.loss != "huber"):
            refuse_ignored(self, "without a Huber loss", "kappa")
        if self.head == "expected":
            refuse_ignored(self, "with head='expected'", "atoms")
        else:
            refuse_ignored(self, f"with head={self.head!r}", "loss")
        if self.munchausen:
            refuse_ignored(self, "with munchausen=True, whose targets average over actions", "double")
            _check_munchausen(self)
        else:
            names = ("munchausen_scale", "munchausen_temperature", "munchausen_clip")
            refuse_ignored(self, "without munchausen=True", *names)
        if np.all(np.asarray(self.optimizer) == SGD):
            refuse_ignored(self, "with optimizer='sgd'", "adam_eps")
        if self.head == "categorical":
            check_support(self.v_min, self.v_max, self.atoms)
        check_sequences(self)
        space = env.observation_space
        bound = self.fitted(env).replace(network=chosen_torso(self, space, layer_norm=self.layer_norm))
        check_kernels(bound, env)
        return bound

    def init(self, key: Key, env: Env) -> DQNState:
        """Initial weights, environment states, and an empty buffer. `key` is consumed."""
        key, k_weights, k_envs = jax.random.split(key, 3)
        env_states = self.rollout.init(env, k_envs)
        observed = Observed(jax.vmap(env.observe)(env_states.state), jax.vmap(env.action_mask)(env_states.state))
        stats = first_stats(self)
        weights = self._net.init(k_weights, normalized(stats, observed.obs))
        replay = self.empty_replay(observed, jnp.int32(0), self.initial_carry())
        return DQNState(
            age=jnp.int32(0),
            key=key,
            weights=weights,
            target=jax.tree.map(jnp.copy, weights),
            optimizer=first_moments(self._optimizer, weights),
            env_states=env_states,
            replay=replay,
            priorities=self.first_priorities(replay),
            obs_stats=stats,
            carry=self._first_carries,
        )

    @property
    def sequence(self) -> SequenceShape | None:
        """The shape of sampled sequences; None without a memory."""
        return sequence_shape(self)

    def initial_carry(self) -> Any:
        """The recurrent carry at the start of an episode; None without a memory."""
        return self._net.initial_carry()

    def actor_carries(self, state: DQNState) -> tuple[Any, Any]:
        """The carries [E] at the start of the next rollout, and at the start of an episode."""
        return state.carry, self._first_carries

    def policy_noise(self, state: DQNState, key: Key) -> Any:
        """The noise of noisy weights, or (uniforms [T, E, ...] that decide the actions, epsilon [T]).

        `key` is consumed.
        """
        k_uniforms, k_weights = jax.random.split(key)
        shape = (self.num_steps, self.num_envs)
        if self.noisy:
            return self._net.sample_noise(k_weights, state.weights, shape)
        epsilon = self._epsilon(state.age, jnp.arange(self.num_steps, dtype=jnp.int32))
        return sample_uniforms(k_uniforms, shape, self.action_space.n), epsilon

    def behavior(self, state: DQNState) -> Any:
        """The policy of a rollout: greedy with noisy weights, or epsilon-greedy."""

        def behave(obs, mask, noise, carry):
            obs = normalized(state.obs_stats, obs)
            if self.noisy:
                q_values, carry = self._step(state.weights, obs, carry, noise)
                action = greedy(q_values, mask)
            else:
                uniforms, epsilon = noise
                q_values, carry = self._step(state.weights, obs, carry)
                action = epsilon_greedy(q_values, epsilon, uniforms, mask)
            return action.astype(self.action_space.dtype), None, carry

        return behave

    def learn_from(
        self, state: DQNState, trajectory: Trajectory, carry: Any, key: Key, clock: Int[Array, ""]
    ) -> tuple[DQNState, Metrics]:
        """Store the steps, make the gradient steps that are due, and update the target network if due."""
        replay = state.replay.add(steps_of(trajectory, state.carry), clock)
        state = state.replace(
            replay=replay,
            priorities=self.add_priorities(state.priorities, replay, state.age),
            obs_stats=updated(state.obs_stats, trajectory.obs),
            carry=carry,
        )
        state, losses, due = self._train(state, clock, key, trajectory.env)
        state = state.replace(target=self._updated_target(state), age=state.age + 1)
        return state, Metrics(trajectory.episodes(), losses, due.astype(jnp.float32))

    def act(
        self, state: DQNState | DQNPolicy, obs: Any, carry: Any, key: Key, greedy: bool, mask: Any = None
    ) -> tuple[Any, Any]:
        """(action, carry): the best action when greedy; otherwise as in training, with the epsilon of this age."""
        k_weights, k_uniforms = jax.random.split(key)
        noise = None if greedy else self._net.sample_noise(k_weights, state.weights, ())
        q_values, carry = self._step(state.weights, normalized(state.obs_stats, obs), carry, noise)
        epsilon = 0.0 if greedy or self.noisy else self._epsilon(state.age, 0)
        uniforms = sample_uniforms(k_uniforms, (), self.action_space.n)
        return epsilon_greedy(q_values, epsilon, uniforms, mask).astype(self.action_space.dtype), carry

    def q_values(self, weights: Weights, obs: Any, noise: Any = None, carry: Any = None) -> Float[Array, "*axes A"]:
        """The Q-values of all actions. `obs` is normalized already; `noise` is that of a noisy network.

        With a memory, `carry` is what it knows before the observation (None: the observation begins an episode).
        """
        carry = self._net.first_carry(obs) if carry is None else carry
        return self._step(weights, obs, carry, noise)[0]

    def value(self, state: DQNState | DQNPolicy, obs: Any, carry: Any = None) -> Float[Array, "*axes"]:
        """The largest Q-value of each observation, as if all actions were allowed. `carry` is as in `q_values`."""
        return jnp.max(self.q_values(state.weights, normalized(state.obs_stats, obs), carry=carry), axis=-1)

    def _step(self, weights: Weights, obs: Any, carry: Any, noise: Any = None) -> tuple[Float[Array, "*axes A"], Any]:
        out, carry = self._net.step(weights, obs, carry, noise)
        return self._mean(out), carry

    def with_policy(self, state: DQNState, policy: DQNPolicy) -> DQNState:
        """A new member's state with the weights (online and target) and observation statistics of a policy."""
        return state.replace(weights=policy.weights, target=policy.weights, obs_stats=policy.obs_stats)

    def policy_state(self, state: DQNState) -> DQNPolicy:
        """Weights, age and observation statistics."""
        return DQNPolicy(state.age, state.weights, state.obs_stats)

    # The parts of an update, in order.

    def _train(
        self, state: DQNState, clock: Int[Array, ""], key: Key, env: Env | None
    ) -> tuple[DQNState, dict[str, Array], Int[Array, ""]]:
        packed, unpack = pack(state.weights)
        gradient_of_loss = self._gradient_of_loss(unpack)

        def step(learner: Any, batch: Transitions, weight: Float[Array, "B"], key: Key) -> tuple[Any, Any, Any]:
            packed, optimizer, is_stopped = learner
            gradient, (priority_error, losses) = gradient_of_loss(packed, (batch, weight), state.target, key)
            learner = descend(
                self._optimizer,
                packed,
                gradient,
                optimizer,
                self.learning_rate,
                largest_norm=self.max_grad_norm,
                is_stopped=is_stopped,
            )
            return learner, losses, priority_error

        (packed, optimizer, is_stopped), losses, due, priorities = self.train_on_replay(
            step,
            (packed, state.optimizer, state.is_stopped),
            state.replay,
            state.age,
            clock,
            key,
            state.obs_stats,
            state.priorities,
            env,
        )
        state = state.replace(weights=unpack(packed), optimizer=optimizer, is_stopped=is_stopped, priorities=priorities)
        return state, losses, due

    def _gradient_of_loss(self, unpack: Any) -> Any:
        # The function (packed weights, (batch, sample weights), target, key) -> (gradient, (errors, losses)).
        def loss(weights: Weights, rows: tuple[Transitions, Array], target: Weights, key: Key) -> tuple[Array, Any]:
            batch, weight = rows
            total, (error, losses) = self._loss(weights, target, batch, weight, key)
            return total, (error if self.prioritized else None, losses)

        return gradient_of(self, loss, unpack, "q_network_kernels", sums=True)

    def importance(self, age: Int[Array, ""]) -> Number:
        """The exponent of importance weights at this age: linear to 1 at the horizon."""
        return linear(self.importance_exponent, 1.0, self._progress(age, 0))

    def _loss(
        self, weights: Weights, target: Weights, batch: Transitions, weight: Float[Array, "B"], key: Key
    ) -> tuple[Float[Array, ""], Any]:
        k_online, k_target = jax.random.split(key)
        online, of_target = self._hidden(weights, batch), self._hidden(target, batch)
        noise, levels = self._noise_and_levels(k_online, weights, weight.shape)
        chosen = _of_action(self._net.outputs(weights, online.observed, noise, levels), batch.action)
        if self.munchausen:
            k_target, k_reward = jax.random.split(k_target)
            log_policy = self._log_policy_reward(target, of_target.observed, batch, k_reward)
            batch = batch.replace(reward=batch.reward + log_policy)
        hidden = online.successor, of_target.successor
        next_out = jax.lax.stop_gradient(self._next_output(weights, target, hidden, batch, k_target))
        priority_error, loss = self._errors(chosen, next_out, batch, levels)
        q_value = self._mean(chosen)
        error = q_value - batch.reward - batch.bootstrap * self._mean(next_out)
        share = self.share_of(weight)
        losses = {"td_error": jnp.sum(share * jnp.abs(error)), "q_value": jnp.sum(share * q_value)}
        losses["loss"] = jnp.sum(weight * loss)
        return losses["loss"], (priority_error, losses)

    def _hidden(self, weights: Weights, batch: Transitions) -> Hidden:
        """The hidden vectors of the samples' observations and of their successors' (XLA removes what is not used)."""
        torso = self._net.recurrent_torso
        if self.sequence is None:
            return Hidden(*(torso.hidden(weights, x.obs)[0] for x in (batch.observed, batch.next_observed)))
        return hidden_of_sequences(torso, weights, batch, self.sequence)

    def _next_output(
        self, weights: Weights, target: Weights, hidden: tuple[Array, Array], batch: Transitions, key: Key
    ) -> Float[Array, "B Z"]:
        """The target network's output in the next state: for the best action, or averaged over a soft policy.

        `hidden` are the vectors [B, H] of the next state, of the online network and of the target network.
        """
        k_target, k_online = jax.random.split(key)
        rows, mask = batch.reward.shape, batch.next_observed.mask
        noise, levels = self._noise_and_levels(k_target, target, rows)
        online, of_target = hidden
        out = self._net.outputs(target, of_target, noise, levels)
        selection_out = out
        if self.double:
            selection_out = self._net.outputs(weights, online, self._net.sample_noise(k_online, weights, rows))
        elif levels is not None:
            selection_out = self._net.outputs(target, of_target, noise)
        if not self.munchausen:
            return _of_action(out, greedy(allowed(self._mean(selection_out), mask)))
        log_policy = self._log_policy(self._mean(selection_out), mask)
        policy, bonus = jnp.exp(log_policy), jnp.where(jnp.isfinite(log_policy), log_policy, 0)
        return jnp.sum(policy[..., None] * (out - self.munchausen_temperature * bonus[..., None]), axis=1)

    def _log_policy_reward(
        self, target: Weights, hidden: Float[Array, "B H"], batch: Transitions, key: Key
    ) -> Float[Array, "B"]:
        """The scaled and clipped log-probabilities of the actions that were taken."""
        noise = self._net.sample_noise(key, target, batch.reward.shape)
        q_values = self._mean(self._net.outputs(target, hidden, noise))
        log_policy = self._log_policy(q_values, batch.observed.mask)
        log_policy = jnp.take_along_axis(log_policy, batch.action[:, None], axis=1)[:, 0]
        return self.munchausen_scale * jnp.clip(self.munchausen_temperature * log_policy, self.munchausen_clip, 0)

    def _log_policy(self, q_values: Float[Array, "B A"], mask: Any) -> Float[Array, "B A"]:
        return jax.nn.log_softmax(masked(q_values / self.munchausen_temperature, mask))

    def _noise_and_levels(self, key: Key, weights: Weights, rows: tuple[int, ...]) -> tuple[Any, Any]:
        """(noise of a noisy network or None, random quantile levels of an implicit one [*rows, atoms] or None)."""
        if self.head != "implicit":
            return self._net.sample_noise(key, weights, rows), None
        k_noise, k_levels = jax.random.split(key)
        levels = jax.random.uniform(k_levels, (*rows, self.atoms), jnp.float32)
        return self._net.sample_noise(k_noise, weights, rows), levels

    def _errors(
        self, chosen: Float[Array, "B Z"], next_out: Float[Array, "B Z"], batch: Transitions, levels: Any
    ) -> tuple[Float[Array, "B"], Float[Array, "B"]]:
        """(the error from which the priority is computed, the loss) of each sample.

        `chosen` is the network's output for the action that was taken; Z is 1, or the number of atoms. `levels` are
        those of the quantiles of an implicit head.
        """
        if self.head == "categorical":
            target = project(self._support, jax.nn.softmax(next_out), batch.reward, batch.bootstrap)
            loss = cross_entropy(chosen, target)
            return loss - entropy(target), loss  # the KL divergence: 0 where the prediction equals the target
        target = batch.reward[:, None] + batch.bootstrap[:, None] * next_out
        if self.head != "expected":
            loss = quantile_huber(chosen, target, self.kappa, levels)
            return loss, loss
        error = (chosen - target)[:, 0]
        return error, error**2 if self.loss == "squared" else huber(error, self.kappa)

    def _updated_target(self, state: DQNState) -> Weights:
        # Several target updates may be due. All mix in the same weights, so together they equal one with a larger mix.
        copies = passed(state.age, self.steps_per_update, self.target_period)
        fraction = 1 - (1 - self.target_mix) ** copies

        def mix(_: Any, target: Weights) -> Weights:
            return polyak_update(target, state.weights, fraction)

        # A loop of at most one trip moves nothing through memory where nothing is due; a choice would.
        if current().loops_over_rare_work:
            return jax.lax.fori_loop(0, jnp.minimum(copies, 1).astype(jnp.int32), mix, state.target)
        return mix(0, state.target)

    # Networks, optimizer and schedules.

    @property
    def _net(self) -> QNetwork:
        atoms = 1 if self.head == "expected" else self.atoms
        return QNetwork(
            self.network,
            self.observation_space,
            self.action_space.n,
            atoms,
            self.dueling,
            self.noisy,
            memory_of(self),
            implicit=self.head == "implicit",
        )

    @property
    def _first_carries(self) -> Any:
        return self._net.initial_carry((self.num_envs,))

    @property
    def _optimizer(self) -> Optimizer:
        # Adam, or stochastic gradient descent: its direction is the gradient. Adam's state is kept up in both.
        def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
            direction, state = adam(self.adam_eps).update(updates, state, params)
            return jax.tree.map(lambda g, d: jnp.where(self.optimizer == SGD, g, d), updates, direction), state

        return optax.GradientTransformation(adam().init, update)

    @property
    def _support(self) -> Float[Array, "Z"]:
        return support(self.v_min, self.v_max, self.atoms)

    def _mean(self, out: Float[Array, "*axes Z"]) -> Float[Array, "*axes"]:
        # Q-values from the network's outputs.
        if self.head == "categorical":
            return categorical_mean(out, self._support)
        return jnp.mean(out, axis=-1)

    def _progress(self, age: Int[Array, ""], step: Int[Array, "*T"] | int) -> Float[Array, "*T"]:
        return progress(age, self.steps_per_update, self.horizon, step * self.num_envs)

    def _epsilon(self, age: Int[Array, ""], step: Int[Array, "*T"] | int) -> Float[Array, "*T"]:
        return linear(self.epsilon_start, self.epsilon_end, self._progress(age, step), self.exploration)


def _of_action(out: Float[Array, "B A Z"], action: Int[Array, "B"]) -> Float[Array, "B Z"]:
    chosen = jax.nn.one_hot(action, out.shape[1], dtype=out.dtype)
    return jnp.sum(out * chosen[:, :, None], axis=1)


def _check_munchausen(agent: DQN) -> None:
    """Raise ValueError for options whose target with the log-policy of Munchausen is not defined."""
    if agent.head == "categorical":
        raise ValueError(
            "munchausen=True averages returns over actions, which head='categorical' cannot: choose head='implicit', "
            "'quantile' or 'expected'."
        )
    if agent.n_step > 1:
        raise ValueError(
            f"munchausen=True changes the reward of every step, and n_step={agent.n_step} adds rewards up as they were "
            "stored: leave out n_step."
        )
