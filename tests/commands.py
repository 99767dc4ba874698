"""Run a command line inside the test process, and return its status and output; the time that processes took."""

import resource

from shoal.cli.main import main

MY_ENV = '''
import jax.numpy as jnp

from shoal import Box, Discrete, Env, Number, State, struct


@struct
class MyEnv(Env):
    """A user environment."""

    bonus: Number = 1.0
    max_steps: Number | None = 5

    @property
    def observation_space(self):
        return Box(0.0, 1.0, (2,))

    @property
    def action_space(self):
        return Discrete(2)

    def init(self, key):
        return State(jnp.int32(0))

    def observe(self, state):
        return jnp.zeros((2,), jnp.float32)

    def transition(self, state, action, noise):
        return state, jnp.asarray(self.bonus, jnp.float32), jnp.bool_(False), {}
'''


def say(capsys, *words):
    """(status, standard output, standard error) of a command line."""
    status = main([str(word) for word in words])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def seconds_of_children():
    """Seconds of processors that ended children of this process have used: other programs do not change them."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def refused(capsys, *words):
    """The line that answers a mistake: one, on standard error, with status 2."""
    status, _, err = say(capsys, *words)
    assert status == 2 and err.startswith("shoal: ") and err.count("\n") == 1, err
    return err
