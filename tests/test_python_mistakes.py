"""A table of mistakes in Python code that uses shoal, and the one message that each of them must give."""

import copy
import functools

import flax.linen as nn
import jax
import jaxtyping
import numpy as np
import pytest

import shoal
from shoal import DQN, PPO, SAC
from shoal.agents.ppo import PPOState
from shoal.core.keys import make_key
from shoal.core.wrappers import FrameStack
from shoal.envs.classic.cartpole import CartPole
from shoal.nn.torsos import MLP
from tiny import SILENT

KEY = make_key(0)


def train(*args, **changes):
    return shoal.train(*args, **{"preset": None, "steps": 512, **SILENT, **changes})


class Gymnasium:
    """Looks like an environment of another library by where its class comes from."""

    __module__ = "gymnasium.wrappers.common"
    spec = type("Spec", (), {"id": "CartPole-v1"})()


class Gymnax:
    """Likewise, without an id."""

    __module__ = "gymnax.environments.classic"


def reset(*args, **options):
    return shoal.make("CartPole-v1").reset(*args, **options)


def bound(**fields):
    return PPO(**fields).bind(shoal.make("CartPole-v1"))


class Heads:
    """A network as PureJaxRL's `ActorCritic`: it returns (action logits, value)."""

    def init(self, key, features):
        return {}

    def apply(self, weights, features):
        return features[..., :2], features[..., 0]


class Dropout(nn.Module):
    """A network with a random layer that is switched on."""

    @nn.compact
    def __call__(self, features):
        return nn.Dropout(0.1, deterministic=False)(nn.Dense(4)(features))


def two(ratio, advantage):
    return -ratio * advantage


def branching(ratio, advantage, clip):
    return -ratio if advantage > 0 else ratio


def of_numpy(ratio, advantage, clip):
    return -np.minimum(ratio, advantage)


def averaged(value, old_value, target, clip):
    return ((value - target) ** 2).mean()


@functools.cache
def trained():
    return shoal.load("zoo:ppo/CartPole-v1")


def trained_result():
    return shoal.load_result("zoo:ppo/CartPole-v1")


def stepped(action, name="CartPole-v1"):
    env = shoal.make(name)
    return env.step(KEY, env.reset(KEY)[1], action)


NO_PARAMS = r"the call is {}, without params: constants are fields of the environment, as in shoal.make"
RESET = r"the call is obs, state = env.reset\(key\), with a random key such as shoal.make_key\(0\)"
BY_NAME = r"{0}.\w+ is {1}, not a number. .* by name, .* and the environment to train: shoal.train\({0}"
# What a user writes, the type of the error, and what it says.
MISTAKES = {
    # Names of other libraries and of other places.
    "train: a field as an argument": (
        lambda: train("ppo", "CartPole-v1", learning_rate=1e-3),
        TypeError,
        r"train\(\) has no argument 'learning_rate'. It is a field of the agent: write fields={'learning_rate': 0.001}",
    ),
    "train: SB3's total_timesteps": (
        lambda: train("ppo", "CartPole-v1", total_timesteps=1000),
        TypeError,
        r"no argument 'total_timesteps'. Did you mean steps=1000\?",
    ),
    "train: CleanRL's gamma": (
        lambda: train("dqn", "CartPole-v1", gamma=0.9),
        TypeError,
        r"shoal calls it discount, a field of the agent: write fields={'discount': 0.9}",
    ),
    "train: PureJaxRL's LR": (
        lambda: train("ppo", "CartPole-v1", LR=0.1),
        TypeError,
        "shoal calls it learning_rate, a field of the agent",
    ),
    "train: a field of the environment as an argument": (
        lambda: train("ppo", "CartPole-v1", gravity=5.0),
        TypeError,
        r"It is a field of the environment: write env_fields={'gravity': 5.0}",
    ),
    "train: gymnax's max_steps_in_episode": (
        lambda: train("ppo", "CartPole-v1", max_steps_in_episode=5),
        TypeError,
        r"shoal calls it max_steps, a field of the environment: write env_fields={'max_steps': 5}",
    ),
    "train: n_seeds": (lambda: train("ppo", "CartPole-v1", n_seeds=4), TypeError, r"Did you mean seeds=4\?"),
    "train: a misspelled argument": (
        lambda: train("ppo", "CartPole-v1", fieldz={}),
        TypeError,
        r"no argument 'fieldz'. Did you mean fields",
    ),
    "train_all: gamma": (
        lambda: shoal.train_all("ppo", ["CartPole-v1"], gamma=0.9),
        TypeError,
        r"train_all\(\) has no argument 'gamma'. shoal calls it discount, a field of the agent",
    ),
    "train_suite: num_timesteps": (
        lambda: shoal.train_suite("ppo", "classic", num_timesteps=9),
        TypeError,
        r"train_suite\(\) has no argument 'num_timesteps'. Did you mean steps=9\?",
    ),
    "PPO(lr=...)": (lambda: PPO(lr=1e-3), TypeError, r"PPO has no field 'lr'. Did you mean learning_rate\?"),
    "PPO(gamma=...)": (lambda: PPO(gamma=0.9), TypeError, r"PPO has no field 'gamma'. Did you mean discount\?"),
    "PPO(ent_coef=...)": (lambda: PPO(ent_coef=0.0), TypeError, r"Did you mean entropy_coef\?"),
    "PPO(batch_size=...)": (
        lambda: PPO(batch_size=64),
        TypeError,
        r"Did you mean num_minibatches\? A minibatch has num_envs x num_steps / num_minibatches samples\.$",
    ),
    "train: batch_size of SB3's PPO": (
        lambda: train("ppo", "CartPole-v1", batch_size=64),
        TypeError,
        r"calls it num_minibatches, a field of the agent, which is given in fields. A minibatch has [^6]*$",
    ),
    "train: eval_freq": (
        lambda: train("ppo", "CartPole-v1", eval_freq=1000),
        TypeError,
        r"Did you mean evaluations\? It is the number of evaluations in the whole run.$",
    ),
    "train: callback": (
        lambda: train("ppo", "CartPole-v1", callback=print),
        TypeError,
        r"no argument 'callback': sinks=\[...\] observes a run .*selector=... stops it or changes its members",
    ),
    "shoal.VecNormalize": (
        lambda: shoal.VecNormalize,
        AttributeError,
        r"has no 'VecNormalize': normalization is a field of ppo .* write PPO\(normalize_observation=True\)",
    ),
    "shoal.EvalCallback": (
        lambda: shoal.EvalCallback,
        AttributeError,
        "shoal.train evaluates by itself, as often as evaluations=N says, in eval_episodes=N episodes",
    ),
    "shoal.make_vec_env": (
        lambda: shoal.make_vec_env("CartPole-v1", n_envs=8),
        AttributeError,
        r"num_envs of the agent is the number of parallel environments, as in PPO\(num_envs=8\)",
    ),
    "shoal.A2C": (lambda: shoal.A2C(), AttributeError, r"a2c is PPO with other .* shoal.train\(\"a2c\", ...\)"),
    "result.plot()": (
        lambda: trained_result().plot(),
        AttributeError,
        r"Result has no 'plot': the figures are in result.folder / \"figures\", and `shoal plot RUN` draws others",
    ),
    "result.evaluate()": (lambda: trained_result().evaluate(), AttributeError, r"shoal.evaluate\(result.policy\(\)\)"),
    "PPO(**config) of PureJaxRL": (
        lambda: PPO(**{"LR": 1e-3, "NUM_ENVS": 4, "TOTAL_TIMESTEPS": 5e5, "ENV_NAME": "x", "ANNEAL_LR": 1, "DEBUG": 1}),
        TypeError,
        r"PPO has no fields LR \(here learning_rate\), NUM_ENVS \(here num_envs\), TOTAL_TIMESTEPS \(steps= of "
        r"shoal.train\), ENV_NAME \(env= of shoal.train\), ANNEAL_LR \(here anneal\), DEBUG.",
    ),
    "DQN(exploration_fraction=...)": (
        lambda: DQN(exploration_fraction=0.1),
        TypeError,
        r"DQN has no field 'exploration_fraction'. Did you mean exploration\?",
    ),
    "SAC(tau=...)": (lambda: SAC(tau=0.005), TypeError, r"SAC has no field 'tau'. Did you mean target_mix\?"),
    "SAC(ent_coef=...)": (lambda: SAC(ent_coef=0.1), TypeError, r"Did you mean alpha\?"),
    "fields={'gamma': ...}": (
        lambda: train("ppo", "CartPole-v1", fields={"gamma": 0.9}),
        TypeError,
        r"ppo has no field 'gamma'. Did you mean discount\?",
    ),
    "sweep={'lr': ...}": (
        lambda: train("ppo", "CartPole-v1", sweep={"lr": [0.1]}),
        (TypeError, ValueError),
        r"'?lr'?.*Did you mean learning_rate\?",
    ),
    "sweep of a field of the environment": (
        lambda: train("ppo", "CartPole-v1", sweep={"gravity": [5.0, 9.8]}),
        TypeError,
        r"gravity is a field of the environment: write env_sweep={'gravity': \[5.0, 9.8\]}",
    ),
    "env_fields with a field of the agent": (
        lambda: train(PPO(), CartPole(), env_fields={"clip": 0.1}),
        TypeError,
        "clip is a field of the agent: write fields={'clip': 0.1}",
    ),
    "env_sweep={'env.gravity': ...}": (
        lambda: train("ppo", CartPole(), env_sweep={"env.gravity": [5.0]}),
        TypeError,
        "env_sweep names fields of the environment as they are: write 'gravity', not 'env.gravity'",
    ),
    "sweep of a static field": (
        lambda: train("ppo", "CartPole-v1", sweep={"hidden": [(4,), (8,)]}),
        ValueError,
        r"hidden shapes the program, so its values \[\(4,\), \(8,\)\] need one run each: shoal.train_all",
    ),
    "sweep of a static field inside another": (
        lambda: train(PPO(network=MLP((4,), "tanh")), "CartPole-v1", sweep={"network.activation": ["relu"]}),
        ValueError,
        r"network.activation shapes the program, .* need one run each: shoal.train_all",
    ),
    "env_fields={'masscart': ...}": (
        lambda: train("ppo", "CartPole-v1", env_fields={"masscart": 1.0}),
        TypeError,
        r"no field 'masscart'. Did you mean mass_cart\?",
    ),
    "make(..., max_episode_steps=...)": (
        lambda: shoal.make("CartPole-v1", max_episode_steps=9),
        TypeError,
        r"Did you mean max_steps\?",
    ),
    "FrameStack(num_stack=...)": (
        lambda: FrameStack(shoal.make("CartPole-v1"), num_stack=4),
        TypeError,
        r"FrameStack has no field 'num_stack'. Did you mean n\?",
    ),
    "replace(lr=...)": (lambda: PPO().replace(lr=0.1), TypeError, r"Did you mean learning_rate\?"),
    # Values of the wrong kind.
    "train(PPO, ...)": (
        lambda: train(PPO, "CartPole-v1"),
        TypeError,
        r'agent=PPO is a class, not an agent: give "ppo", with its preset .* or a value, PPO\(\)',
    ),
    "train(..., CartPole)": (
        lambda: train("ppo", CartPole),
        TypeError,
        r'env=CartPole is a class, not an environment: give "CartPole-v1", .* CartPole\(\)',
    ),
    "train of a class of another kind": (
        lambda: train(PPOState, "CartPole-v1"),
        TypeError,
        r"agent=PPOState is a class, not an agent: give a value, PPOState\(\)",
    ),
    "a Gymnasium environment": (
        lambda: train("ppo", Gymnasium()),
        TypeError,
        r'env is a Gymnasium environment. .* give its name, "gymnasium/CartPole-v1" .* compiled one: "CartPole-v1"',
    ),
    "a gymnax environment": (lambda: train("ppo", Gymnax()), TypeError, "env is a gymnax environment"),
    "the arguments the other way round": (
        lambda: train("CartPole-v1", "ppo"),
        ValueError,
        "CartPole-v1 is an environment, not an agent",
    ),
    "values the other way round": (
        lambda: train(CartPole(), PPO()),
        TypeError,
        "agent is a value of CartPole, not an agent: give a name .* derives from shoal.Agent",
    ),
    "train without an environment": (lambda: train("ppo"), TypeError, "train needs an agent and an environment"),
    "one value to sweep": (
        lambda: train("ppo", "CartPole-v1", sweep={"learning_rate": 1e-3}),
        TypeError,
        r"needs a list of values, such as \[0.001\]. For one value write fields={'learning_rate': 0.001}",
    ),
    "one value to sweep in an environment": (
        lambda: train("ppo", "CartPole-v1", env_sweep={"gravity": 5.0}),
        TypeError,
        r"env_sweep={'gravity': 5.0} needs a list .* write env_fields={'gravity': 5.0}",
    ),
    "no value to sweep": (
        lambda: train("ppo", "CartPole-v1", sweep={"learning_rate": []}),
        ValueError,
        "learning_rate has no values to sweep over",
    ),
    "a file without its class": (
        lambda: train("ppo", __file__),
        ValueError,
        r"test_python_mistakes.py is a file: name the class in it",
    ),
    "a misspelled agent": (lambda: train("ppoo", "CartPole-v1"), ValueError, r"Did you mean ppo\?"),
    "a misspelled environment": (lambda: shoal.make("CartPol-v1"), ValueError, r"Did you mean CartPole-v1"),
    "a discount above one": (lambda: PPO(discount=1.5), ValueError, r"discount=1.5 is out of range"),
    "an agent that was not bound": (
        lambda: PPO().init(KEY, shoal.make("CartPole-v1")),
        (TypeError, ValueError),
        "bind",
    ),
    "fields as text": (
        lambda: train("ppo", "CartPole-v1", fields="clip=0.1"),
        TypeError,
        "fields='clip=0.1' is no dict",
    ),
    "sweep as a list": (
        lambda: train("ppo", "CartPole-v1", sweep=["discount"]),
        TypeError,
        r"is no dict: write names with values, as in sweep={'discount': \[0.9, 0.99\]}",
    ),
    "env_sweep as text": (lambda: train("ppo", "CartPole-v1", env_sweep="gravity"), TypeError, "is no dict"),
    "several environments": (
        lambda: train("ppo", ["CartPole-v1", "Acrobot-v1"]),
        TypeError,
        "train takes one environment: shoal.train_all takes a list",
    ),
    "one sink without a list": (lambda: train("ppo", "CartPole-v1", sinks=print), TypeError, "is no list of sinks"),
    "a function as a sink": (
        lambda: train("ppo", "CartPole-v1", sinks=[print]),
        TypeError,
        r"give values of a class that derives from shoal.Sink and receives events, as in sinks=\[MySink\(\)\]",
    ),
    "a class as a sink": (lambda: train("ppo", "CartPole-v1", sinks=[shoal.Sink]), TypeError, "is no list of sinks"),
    "a number as a selector": (
        lambda: train("ppo", "CartPole-v1", selector=3),
        TypeError,
        r"selector=3 is no selector: give a name \(`shoal selectors` lists them\) or a value of a class that derives",
    ),
    "a device by name": (
        lambda: train("ppo", "CartPole-v1", devices="gpu"),
        TypeError,
        "devices='gpu' is of type str: it must be a whole number",
    ),
    "a number for a folder": (lambda: train("ppo", "CartPole-v1", folder=3), TypeError, "folder=3 is of type int"),
    "make of a class": (lambda: shoal.make(CartPole), TypeError, "make needs the name .* not <class"),
    "make of a value": (
        lambda: shoal.make(CartPole()),
        TypeError,
        "make needs the name .* not CartPole",
    ),
    "a class of agents in other letters": (lambda: shoal.Ppo, AttributeError, r"Did you mean PPO\?"),
    "evaluate an agent": (
        lambda: shoal.evaluate(PPO(), "CartPole-v1"),
        TypeError,
        r"evaluate needs a policy, not PPO\(.*what shoal.load returns. An agent must be trained first",
    ),
    "evaluate nothing": (lambda: shoal.evaluate(None), TypeError, "evaluate needs a policy, not None"),
    "evaluate an environment": (
        lambda: shoal.evaluate("CartPole-v1"),
        FileNotFoundError,
        "it is an environment. `shoal train ppo CartPole-v1` makes a run",
    ),
    "evaluate for half an episode": (
        lambda: shoal.evaluate("zoo:ppo/CartPole-v1", episodes=1.5),
        ValueError,
        "episodes=1.5 must be a whole number",
    ),
    "throughput of one name": (
        lambda: next(shoal.throughput("CartPol-v1")),
        ValueError,
        "env 'CartPol-v1' is not registered. Did you mean CartPole-v1",
    ),
    # Habits from Gymnasium and Stable-Baselines3.
    "reset()": (lambda: reset(), TypeError, RESET),
    "reset(0)": (lambda: reset(0), TypeError, RESET),
    "reset(seed=0)": (lambda: reset(seed=0), TypeError, RESET),
    "reset(None)": (lambda: reset(None), TypeError, RESET),
    "reset of options": (lambda: reset(KEY, options={}), TypeError, RESET),
    "step(action)": (
        lambda: shoal.make("CartPole-v1").step(0),
        TypeError,
        r"info = env.step\(key, state, action\), with",
    ),
    "step with a seed": (
        lambda: shoal.make("CartPole-v1").step(0, reset(KEY)[1], 1),
        TypeError,
        r"env.step\(key, state, action\), with a random key",
    ),
    "learn": (
        lambda: PPO().learn(total_timesteps=1000),
        AttributeError,
        r"PPO has no 'learn': write result = shoal.train\(agent, \"CartPole-v1\", steps=100_000\).",
    ),
    "predict of an agent": (
        lambda: PPO().predict(0),
        AttributeError,
        r"PPO has no 'predict': a policy, from shoal.load\(folder\) .* is called: action = policy\(observation\)",
    ),
    "save of an agent": (lambda: PPO().save("x"), AttributeError, "'save': a run writes its weights into its folder"),
    "load of a class": (
        lambda: SAC.load("x"),
        AttributeError,
        r"SAC has no 'load': write policy = shoal.load\(folder\)",
    ),
    "load of an agent": (lambda: DQN().load("x"), AttributeError, r"DQN has no 'load': write policy = shoal.load"),
    "predict of a policy": (
        lambda: trained().predict(0),
        AttributeError,
        r"Policy has no 'predict': .* action = policy\(observation\)",
    ),
    "evaluate(n_eval_episodes=...)": (
        lambda: shoal.evaluate(trained(), n_eval_episodes=5),
        TypeError,
        r"evaluate\(\) has no argument 'n_eval_episodes'. Did you mean episodes=5\?",
    ),
    "evaluate(deterministic=...)": (
        lambda: shoal.evaluate(trained(), deterministic=True),
        TypeError,
        r"evaluate\(\) has no argument 'deterministic'. Did you mean greedy=True\?",
    ),
    "evaluate(gravity=...)": (
        lambda: shoal.evaluate(trained(), "CartPole-v1", gravity=5.0),
        TypeError,
        r"a field of the environment: write env_fields={'gravity': 5.0}",
    ),
    "evaluate in several environments": (
        lambda: shoal.evaluate(trained(), ["CartPole-v1", "CartPole-v0"]),
        TypeError,
        r"evaluate takes one environment: call it once for each",
    ),
    "evaluate in a Gymnasium environment": (
        lambda: shoal.evaluate(trained(), Gymnasium()),
        TypeError,
        r"evaluate takes environments of shoal's own kind, or names: give its name, \"gymnasium/CartPole-v1\" \(docs/",
    ),
    "rollout(n_steps=...)": (
        lambda: shoal.rollout(trained(), n_steps=5),
        TypeError,
        r"rollout\(\) has no argument 'n_steps'. Did you mean num_steps=5\?",
    ),
    "load(None)": (
        lambda: shoal.load(None),
        TypeError,
        r"None is no path: give the folder of a run, .* or zoo:AGENT/ENV",
    ),
    "load(PPO())": (lambda: shoal.load(PPO()), TypeError, r"^PPO\(.* is no path: give the folder of a run"),
    "render(None)": (
        lambda: shoal.render(None),
        TypeError,
        "render needs a run folder, a policy or an environment, not None",
    ),
    "render(CartPole)": (lambda: shoal.render(CartPole), TypeError, r"not the class CartPole: write CartPole\(\)"),
    "FrameStack of a name": (
        lambda: FrameStack("CartPole-v1", 4),
        TypeError,
        r"FrameStack wraps an environment of shoal, not a name: write FrameStack\(shoal.make\('CartPole-v1'\), ...\)",
    ),
    "FrameStack of a class": (
        lambda: FrameStack(CartPole, 4),
        TypeError,
        r"FrameStack wraps an environment of shoal, not a class: write FrameStack\(CartPole\(\), ...\)",
    ),
    "FrameStack of a Gymnasium environment": (
        lambda: FrameStack(env=Gymnasium()),
        TypeError,
        "FrameStack wraps an environment of shoal, not a value of Gymnasium",
    ),
    "PPO(env)": (lambda: PPO(CartPole()), TypeError, BY_NAME.format("PPO", "a value of CartPole")),
    "PPO('MlpPolicy', env)": (lambda: PPO("MlpPolicy", CartPole()), TypeError, BY_NAME.format("PPO", "'MlpPolicy'")),
    "SAC of a Gymnasium environment": (
        lambda: SAC(Gymnasium()),
        TypeError,
        BY_NAME.format("SAC", "a value of Gymnasium"),
    ),
    "a schedule": (
        lambda: PPO(learning_rate=lambda left: left * 1e-3),
        TypeError,
        r"PPO.learning_rate is a function: .* schedule as a text .*Further schedules of PPO are set by anneal, horizon",
    ),
    "a schedule where there is none": (
        lambda: SAC(learning_rate=lambda left: left * 1e-3),
        TypeError,
        r"SAC.learning_rate is a function: write a number, or a schedule as a text such as 'cosine.*\)'.$",
    ),
    "a schedule in fields": (
        lambda: train("dqn", "CartPole-v1", fields={"learning_rate": lambda left: left}),
        TypeError,
        r"Further schedules of DQN are set by epsilon_start, epsilon_end, exploration, horizon.",
    ),
    "a value that is no number": (
        lambda: CartPole(gravity=PPO()),
        TypeError,
        r"CartPole.gravity=PPO\(.* write a number",
    ),
    "policy(obs, key)": (
        lambda: trained()(np.zeros(4, np.float32), KEY),
        TypeError,
        r"the mask is a random key: policy\(observation\) needs none, and policy.sample\(observation, key\) samples",
    ),
    "policy(env.reset(key))": (
        lambda: trained()(reset(KEY)),
        TypeError,
        r"the observation is a tuple with a state: write obs, state = env.reset\(key\), and then policy\(obs\)",
    ),
    "policy(env.reset(key)) inside jit": (
        lambda: jax.jit(trained())(reset(KEY)),
        TypeError,
        r"the observation is a tuple with a state",
    ),
    # Habits from gymnax.
    "reset(key, params)": (lambda: reset(KEY, None), TypeError, NO_PARAMS.format(r"obs, state = env.reset\(key\)")),
    "reset(key, params=...)": (lambda: reset(KEY, params=None), TypeError, NO_PARAMS.format("obs, .*")),
    "step(key, state, action, params)": (
        lambda: shoal.make("CartPole-v1").step(KEY, reset(KEY)[1], 0, None),
        TypeError,
        NO_PARAMS.format(r".*, info = env.step\(key, state, action\)"),
    ),
    "action_space(params)": (
        lambda: shoal.make("CartPole-v1").action_space(None),
        TypeError,
        r"a space is not called: write env.action_space and env.observation_space, without \(params\)",
    ),
    "observation_space(params)": (
        lambda: shoal.make("CartPole-v1").observation_space(None).shape,
        TypeError,
        "a space is not called",
    ),
    "env, params = make(...)": (
        lambda: tuple(shoal.make("CartPole-v1")),
        TypeError,
        r"an environment is one value: write env = shoal.make\(...\), .* constants are fields of the environment",
    ),
    "default_params": (
        lambda: shoal.make("CartPole-v1").default_params,
        AttributeError,
        "CartPole has no 'default_params': constants are fields of the environment, as in shoal.make",
    ),
    "num_actions": (lambda: CartPole().num_actions, AttributeError, "write env.action_space.n"),
    "max_steps_in_episode": (lambda: CartPole().max_steps_in_episode, AttributeError, "write env.max_steps"),
    # Losses and networks of one's own.
    "PureJaxRL's ActorCritic": (
        lambda: shoal.train(PPO(network=Heads()), "CartPole-v1", **SILENT, steps=512),
        TypeError,
        r"network=Heads returned a tuple. A torso returns one hidden vector \[..., H\] .* adds the heads .*networks.md",
    ),
    "a random layer": (
        lambda: shoal.train(PPO(network=Dropout()), "CartPole-v1", **SILENT, steps=512),
        ValueError,
        r"network=Dropout: its layer Dropout_0 needs random numbers, but networks get no .* deterministic=True",
    ),
    "a loss of two arguments": (
        lambda: bound(surrogate=two),
        TypeError,
        r"^surrogate=two in .*test_python_mistakes.py:\d+: write surrogate\(ratio, advantage, clip\)",
    ),
    "a loss with if": (
        lambda: bound(surrogate=branching),
        TypeError,
        r"^surrogate=branching in .* use jnp.where .*Write surrogate\(ratio, advantage, clip\)",
    ),
    "a loss of NumPy": (lambda: bound(surrogate=of_numpy), TypeError, r"surrogate=of_numpy in .* use jnp in place of"),
    "an averaged loss": (
        lambda: bound(value_loss=averaged),
        ValueError,
        r"value_loss=averaged in .* returns one number .* value_loss\(value, old_value, target, clip\) returns one",
    ),
    "a loss that returns a matrix": (
        lambda: bound(value_loss=lambda value, old_value, target, clip: jax.numpy.outer(value, target)),
        ValueError,
        r"returns an array \[7, 7\]",
    ),
    # Acting.
    "gymnax's order of arguments": (
        lambda: shoal.make("CartPole-v1").step(shoal.make("CartPole-v1").reset(KEY)[1], 0, KEY),
        TypeError,
        r"the call is .* = env.step\(key, state, action\), with a random key such as shoal.make_key\(0\)",
    ),
    "an observation as state": (
        lambda: shoal.make("CartPole-v1").step(KEY, shoal.make("CartPole-v1").reset(KEY)[0], 0),
        TypeError,
        r"not a state of CartPole: .* reset returns \(observation, state\)",
    ),
    "an action out of bounds": (
        lambda: stepped(2),
        ValueError,
        r"action=2 is out of bounds. The action space of CartPole is Discrete",
    ),
    "a real number for a choice": (lambda: stepped(1.0), ValueError, "action is of type float"),
    "an action of the wrong shape": (lambda: stepped(np.zeros(2, int)), ValueError, r"shape \(2,\)"),
    "a number for a vector": (lambda: stepped(0.5, "Pendulum-v1"), ValueError, r"shape \(\)"),
    "an observation of the wrong shape": (
        lambda: shoal.load("zoo:ppo/CartPole-v1")(np.zeros(3)),
        ValueError,
        r"Give one observation of Box",
    ),
    "a batch inside jit": (
        lambda: jax.jit(shoal.load("zoo:ppo/CartPole-v1"))(np.zeros((2, 4), np.float32)),
        ValueError,
        "Inside jit give one observation; for a batch use jax.vmap",
    ),
    "evaluate for no episode": (
        lambda: shoal.evaluate("zoo:ppo/CartPole-v1", episodes=0),
        ValueError,
        "episodes=0 must be at least 1",
    ),
    "a run that is not there": (lambda: shoal.load("runs/nothing"), FileNotFoundError, "runs/nothing"),
}


@pytest.fixture
def _as_users_have_it():
    """No type checks, which only the tests install: they would raise their own errors for values of wrong kinds."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.usefixtures("_as_users_have_it")
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_ends_in_one_clear_message(mistake, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write, kind, message = MISTAKES[mistake]
    with pytest.raises(kind, match=message) as caught:
        write()
    assert "\n" not in str(caught.value)
    assert not [*tmp_path.iterdir()]  # no folder is left behind


@pytest.mark.parametrize(
    ("name", "action"),
    [
        ("CartPole-v1", 1),
        ("CartPole-v1", np.int64(1)),
        ("CartPole-v1", np.asarray(1, np.uint8)),
        ("Pendulum-v1", [0.5]),
        ("Pendulum-v1", np.asarray([0.5])),
    ],
)
def test_step_takes_plain_numbers(name, action):
    env = shoal.make(name)
    obs, state = env.reset(KEY)
    proper = jax.numpy.asarray(action, env.action_space.dtype)
    np.testing.assert_array_equal(env.step(KEY, state, action)[0], env.step(KEY, state, proper)[0])


def test_a_policy_acts_inside_jit_and_vmap_as_outside():
    policy = shoal.load("zoo:ppo/CartPole-v1")
    observations = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
    outside = policy(observations)
    np.testing.assert_array_equal(jax.jit(jax.vmap(policy))(observations), outside)
    np.testing.assert_array_equal(jax.jit(policy)(observations[0]), outside[0])
    assert len(set(outside.tolist())) == 2


def test_names_of_other_libraries_are_no_attributes():
    for value in (PPO, PPO(), DQN(), trained(), trained_result()):
        assert not any(hasattr(value, name) for name in ("learn", "predict", "save", "load"))
    assert not any(hasattr(CartPole(), name) for name in ("default_params", "num_actions", "max_steps_in_episode"))
    assert shoal.make("bsuite/bandit/0").num_actions == 11


def test_an_agent_may_have_a_method_called_as_in_another_library():
    class Saving(PPO):
        def save(self):
            return "saved"

    assert Saving().save() == "saved" and hasattr(Saving, "save") and not hasattr(Saving, "load")


@pytest.mark.usefixtures("_as_users_have_it")
def test_a_list_may_stand_for_a_tuple():
    assert PPO(hidden=[32, 32]).hidden == PPO().replace(hidden=[32, 32]).hidden == (32, 32)
    assert jax.tree.structure(PPO(hidden=[32, 32])) == jax.tree.structure(PPO(hidden=(32, 32)))


def test_what_looks_like_a_mistake_is_none():
    assert reset(key=KEY)[0].shape == reset(jax.random.PRNGKey(0))[0].shape == (4,)
    assert jax.vmap(shoal.make("CartPole-v1").reset)(jax.random.split(jax.random.PRNGKey(0)))[0].shape == (2, 4)
    assert PPO(1e-3).learning_rate == 1e-3
    assert trained()((0.0, 0.0, 0.0, 0.0)) in (0, 1)
    assert copy.copy(FrameStack(CartPole())).env.gravity == 9.8


def test_a_class_in_a_file_beside_is_named_with_its_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.py").write_text("class Tank(")
    (tmp_path / "tank.py").write_text("@struct\nclass Tank(Env):\n    pass\n")
    with pytest.raises(ValueError, match="env 'Tank' is not registered. Write tank.py:Tank"):
        shoal.make("Tank")
