"""A table of mistakes in a user's environment file, and the one-line message for each: file, line and remedy.

Each case is an edit of one correct file. `shoal train` finds the mistake before it compiles a run.
"""

import re
from typing import NamedTuple

import jax
import pytest

from commands import refused, say
from tiny import FLAGS

GOOD = '''\
import random

import jax
import jax.numpy as jnp
import numpy as np
from shoal import Box, Discrete, Env, Number, State, static, struct


@struct
class DriftState(State):
    position: jax.Array


@struct
class Drift(Env):
    """Stay near 0 while the wind blows."""

    wind: Number = 0.1
    max_steps: Number | None = 20
    DAMPING = 0.5

    @property
    def observation_space(self):
        return Box(-2.0, 2.0, (1,))

    @property
    def action_space(self):
        return Discrete(3)

    def init(self, key):
        position = jax.random.uniform(key)
        return DriftState(time=jnp.int32(0), position=position)

    def noise(self, key):
        return jax.random.normal(key)

    def transition(self, state, action, noise):
        position = state.position + (action - 1).astype(jnp.float32) + self.wind * noise * self.DAMPING
        print("the position is", position)  # of a traced value: no mistake
        reward = 1.0 - jnp.abs(position)
        lost = jnp.abs(position) > 1.5
        state = state.replace(position=jnp.clip(position, -2.0, 2.0))
        return state, reward, lost, {"position": position}

    def observe(self, state):
        return state.position[None]

    def action_mask(self, state):
        return jnp.ones(3, bool)

    def render(self, state):
        return np.zeros((8, 8, 3), np.uint8)
'''


class Broken(NamedTuple):
    """One mistake: the correct code, its replacement, a part of the line that the message names, and the message."""

    old: str
    new: str
    line: str
    says: str
    name: str = "Drift"


OBSERVE, INIT, TRANSITION = "    def observe(", "    def init(", "    def transition("
RETURN = 'return state, reward, lost, {"position": position}'
BROKEN = {
    # Observations and spaces.
    "an observation of integers": Broken(
        "return state.position[None]",
        "return jnp.round(state.position)[None].astype(jnp.int32)",
        OBSERVE,
        "Drift.observe disagrees with observation_space: the observation is int32 with shape (1,), not float32",
    ),
    "an observation outside its Box": Broken(
        "return state.position[None]",
        "return 3 * state.position[None]",
        OBSERVE,
        "Drift.observe leaves observation_space",
    ),
    "an observation of the wrong shape": Broken(
        "return state.position[None]", "return state.position", OBSERVE, "float32 with shape (), not"
    ),
    "an observation that is NaN": Broken(
        "return state.position[None]",
        "return jnp.sqrt(state.position - 3)[None]",
        OBSERVE,
        "Drift.observe leaves observation_space at the start of an episode",
    ),
    "no return": Broken("return state.position[None]", "state.position[None]", OBSERVE, "Drift.observe"),
    "an action space that is none": Broken(
        "return Discrete(3)", "return 3", "    def action_space(", "Drift.action_space is 3, not a space"
    ),
    "a space that is a method": Broken(
        "    @property\n    def action_space",
        "    def action_space",
        "    def action_space(",
        "Drift.action_space is a method, not a property: write @property above it",
    ),
    "an observation space that depends on the state": Broken(
        "return Box(-2.0, 2.0, (1,))",
        "return Box(-2.0, self.state.position, (1,))",
        "self.state.position",
        "'Drift' object has no attribute 'state'",
    ),
    # Random numbers.
    "Python's random": Broken(
        "return jax.random.normal(key)",
        "return random.random()",
        "return random.random()",
        "Drift.noise uses random numbers of Python",
    ),
    "Python's random in a rare case": Broken(
        "reward = 1.0 - jnp.abs(position)",
        "reward = 1.0 - jnp.abs(position) * (random.uniform(0, 1) < 1e-6)",
        "random.uniform(0",
        "Drift.transition uses random numbers of Python or NumPy",
    ),
    "NumPy's random": Broken(
        "position = jax.random.uniform(key)",
        "position = jnp.float32(np.random.uniform())",
        INIT,
        "Drift.init uses random numbers of Python or NumPy",
    ),
    "a NumPy generator": Broken(
        "return jax.random.normal(key)",
        "return jnp.float32(np.random.default_rng().normal())",
        "    def noise(",
        "Drift.noise called twice with the same arguments gives two results",
    ),
    "a key used twice": Broken(
        "position = jax.random.uniform(key)",
        "position = jax.random.uniform(key) - jax.random.uniform(key)",
        INIT,
        "Drift.init uses a key twice: split it first",
    ),
    "a constant key": Broken(
        "jax.random.uniform(key)", "jax.random.uniform(jax.random.key(0))", INIT, "Drift.init makes a key of its own"
    ),
    "a constant key in a step": Broken(
        "self.wind * noise",
        "self.wind * jax.random.normal(jax.random.key(0))",
        TRANSITION,
        "Drift.transition makes a key of its own, so its random numbers are the same in every step",
    ),
    # Rewards, ends, infos, masks.
    "a reward of integers": Broken(
        "reward = 1.0 - jnp.abs(position)",
        "reward = 1",
        TRANSITION,
        "Drift.transition gives reward as int32[], not as a scalar float32",
    ),
    "a reward with an axis": Broken(
        "reward = 1.0 - jnp.abs(position)",
        "reward = 1.0 - jnp.abs(position)[None]",
        TRANSITION,
        "gives reward as float32[1]",
    ),
    "an infinite reward": Broken(
        "reward = 1.0 - jnp.abs(position)",
        "reward = 1.0 / (state.time - 1).astype(jnp.float32)",
        TRANSITION,
        "Drift.transition gives reward inf after 1 steps; it must be finite",
    ),
    "an end of integers": Broken(
        "lost = jnp.abs(position) > 1.5",
        "lost = jnp.int32(0)",
        TRANSITION,
        "gives terminated as int32[], not as a scalar bool",
    ),
    "Gymnasium's five results": Broken(
        RETURN,
        "return state, reward, lost, lost, {}",
        TRANSITION,
        "must give four things: (state, reward, terminated, info); it gives 5 things",
    ),
    "three results": Broken(RETURN, "return state, reward, lost", TRANSITION, "it gives 3 things"),
    "an info that is none": Broken(RETURN, "return state, reward, lost, None", TRANSITION, "gives a NoneType for info"),
    "an info of another structure when traced": Broken(
        RETURN,
        'return state, reward, lost, {"x": reward} if isinstance(reward, jax.core.Tracer) else {}',
        "class Drift(",
        "eager calls and jit disagree about the first step at its structure",
    ),
    "a mask that allows nothing": Broken(
        "return jnp.ones(3, bool)",
        "return jnp.zeros(3, bool)",
        "    def action_mask(",
        "Drift.action_mask allows no action at all",
    ),
    "a mask of the wrong shape": Broken(
        "return jnp.ones(3, bool)",
        "return jnp.ones(2, bool)",
        "    def action_mask(",
        "Drift.action_mask gives bool[2]; return bool[3]",
    ),
    "a picture of floats": Broken("np.uint8", "float", "    def render(", "Drift.render gives float64[8, 8, 3]"),
    # States.
    "a branch on a traced value": Broken(
        "reward = 1.0 - jnp.abs(position)",
        "reward = 1.0 if position > 0 else 0.0",
        "if position > 0",
        "Drift.transition needs the value of a traced number (in `if`",
    ),
    "a state that changes its dtype": Broken(
        "replace(position=jnp.clip(position, -2.0, 2.0))",
        "replace(position=jnp.round(position).astype(jnp.int32))",
        TRANSITION,
        "Drift.transition changes state.position from float32[], which init gives, to int32[]",
    ),
    "a state that changes its structure": Broken(
        "replace(position=jnp.clip(position, -2.0, 2.0))",
        "replace(position=(position, position))",
        TRANSITION,
        "Drift.transition gives another kind of state than init",
    ),
    "a state changed in place": Broken(
        "reward = 1.0 - jnp.abs(position)",
        "reward = state.position = 1.0 - jnp.abs(position)",
        "reward = state.position",
        "changes a value that cannot change (cannot assign to field 'position')",
    ),
    "an array changed in place": Broken(
        "reward = 1.0 - jnp.abs(position)",
        "reward = position[()] = 1.0",
        "position[()]",
        "immutable",
    ),
    "an attribute set in a hook": Broken(
        "reward = 1.0 - jnp.abs(position)",
        "reward = self.last = 1.0 - jnp.abs(position)",
        "self.last",
        "Drift.transition changes a value that cannot change (cannot assign to field 'last')",
    ),
    "a state without time": Broken(
        "DriftState(time=jnp.int32(0), ",
        "DriftState(",
        "return DriftState(",
        "missing 1 required positional argument: 'time'",
    ),
    "time that is changed": Broken(
        "state = state.replace(", "state = state.replace(time=state.time + 1, ", TRANSITION, "changes state.time"
    ),
    "a state without @struct": Broken(
        "@struct\nclass DriftState", "class DriftState", "return DriftState(", "write @struct above `class DriftState`"
    ),
    "a state that is no State": Broken(
        "class DriftState(State):",
        "class DriftState:\n    time: jax.Array",
        INIT,
        "Drift.init gives a DriftState; return a @struct class derived from State",
    ),
    "a field of the state without a type": Broken(
        "    position: jax.Array",
        "    position = 0.0",
        "return DriftState(",
        "DriftState.position has no type, so it is no field",
    ),
    # The class and its fields.
    "a field without a type": Broken(
        "wind: Number = 0.1", "wind = 0.1", "wind = 0.1", "Drift.wind has no type, so it is no field"
    ),
    "a time limit below zero": Broken("= 20", "= -20", "class Drift(", "Drift.max_steps=-20 is not a valid time limit"),
    "text in a field": Broken(
        "wind: Number = 0.1",
        'wind: Number = 0.1\n    kind: str = "easy"',
        "kind: str",
        "Drift.kind='easy' is not a number",
    ),
    "an environment without @struct": Broken(
        "@struct\nclass Drift(", "class Drift(", "class Drift(", "write @struct above `class Drift`"
    ),
    "a hook that is missing": Broken("def observe(", "def observ(", "class Drift(", "Drift has no observe: define it"),
    "a hook with an argument too few": Broken(
        "def transition(self, state, action, noise)",
        "def transition(self, state, action, noise, key)",
        TRANSITION,
        "key",
    ),
    # The file.
    "a syntax error": Broken(
        "def observe(self, state):", "def observe(self, state)", OBSERVE, "SyntaxError: expected ':'"
    ),
    "an import that fails": Broken("import random", "import randoom", "import randoom", "No module named 'randoom'"),
    "an error at import": Broken(
        "DAMPING = 0.5", "DAMPING = 1 / 0", "DAMPING =", "ZeroDivisionError: division by zero"
    ),
    "a class that is not there": Broken("", "", "", "has no class 'Drifter'. Did you mean Drift", "Drifter"),
    "a class of another kind": Broken("", "", "", "is no environment", "DriftState"),
}


@pytest.fixture(autouse=True)
def _work_in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module", autouse=True)
def _promotion_as_users_have_it():
    with jax.numpy_dtype_promotion("standard"):
        yield


def line_of(text, code):
    """The number of the line of the last row of `code` in a text."""
    return text[: text.index(code) + len(code.rstrip("\n"))].count("\n") + 1


@pytest.mark.sampled(8)
@pytest.mark.parametrize("mistake", BROKEN)
def test_a_broken_file_gives_one_line(tmp_path, capsys, mistake):
    old, new, line, says, name = BROKEN[mistake]
    assert old in GOOD
    text = GOOD.replace(old, new)
    (tmp_path / "drift.py").write_text(text)
    answer = refused(capsys, "train", "ppo", f"drift.py:{name}", "--dry-run")
    assert says in answer
    at = f"drift.py:{line_of(text, line)}: " if line else "drift.py"
    assert at in answer, answer


def test_the_good_file_passes_and_trains(tmp_path, capsys):
    (tmp_path / "drift.py").write_text(GOOD)
    status, out, err = say(capsys, "check", "drift.py:Drift", "--env.wind", "0.2")
    assert status == 0, err
    said = r"drift.py:Drift passes after 2,000 random steps, \d{2,} episodes: observation Box\(-2.0, 2.0, \(1,\)\)"
    assert re.search(said, out) and "action Discrete(3), at most 20 steps" in out
    status, _, err = say(capsys, "train", "ppo", "drift.py:Drift", *FLAGS, "--no-figures")
    assert status == 0, err
