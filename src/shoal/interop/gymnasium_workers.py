"""Environments of Gymnasium that worker processes step, behind one `gymnasium.vector.AsyncVectorEnv`.

Each worker has several environments, which it steps one after the other: environment e belongs to worker e modulo W.
Observations come back in shared memory. Workers end when the pipe to the process that started them closes, so that none
is left, however that process ends.
"""

import atexit
import contextlib
import multiprocessing
import pickle
import signal
import traceback
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import gymnasium
import jax
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode
from gymnasium.vector.async_vector_env import _async_worker
from gymnasium.vector.utils import CloudpickleWrapper

from shoal.core.host_env import OneByOne, Simulator
from shoal.core.user_code import in_short, line_raised

# A server that has imported what workers need forks them in tenths of a second; with "spawn" each takes seconds.
CONTEXT = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
IGNORED = ("SIGINT", "SIGTERM", "SIGHUP")  # which a terminal and a scheduler send to all processes of a run
ERROR, TRACEBACK = "error", "traceback"  # in the `info` of a worker
_OPEN: "weakref.WeakSet[Workers]" = weakref.WeakSet()


class EnvsOfWorker(gymnasium.Env):
    """The environments of one worker, as one environment of `AsyncVectorEnv`. They start at the first reset.

    Observations are the leaves of (observations, masks), actions are (whether each environment takes a step, leaves of
    actions), all [K, ...]. An error is returned in `info`: Gymnasium passes on only those that can be pickled.
    """

    def __init__(self, open_one: Callable[[], Simulator], count: int, slots: int, seen: Any, action: Any) -> None:
        """Have `count` of K = `slots` environments. `seen` is an (observation, mask), `action` an action of one."""
        self._open_all = partial(_opened, open_one, count)
        self._envs: OneByOne | None = None
        self._structure = jax.tree.structure(action)
        self._seen = [np.zeros((slots, *x.shape), x.dtype) for x in jax.tree.leaves(seen)]
        actions = [np.zeros((slots, *x.shape), x.dtype) for x in jax.tree.leaves(action)]
        self.observation_space = spaces.Tuple([_space_like(x) for x in self._seen])
        self.action_space = spaces.Tuple([_space_like(x) for x in (np.zeros(slots, bool), *actions)])

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Begin the episodes of the environments whose seed, of the K in `seed`, is not None."""
        del options
        which = [k for k, of_env in enumerate(seed) if of_env is not None]
        info: dict[str, Any] = {}
        if which:
            with _noted(info):
                self._envs = self._envs or self._open_all()
                self._write(which, *self._envs.reset(np.asarray(which), [seed[k] for k in which]))
        return tuple(self._seen), info

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Take a step of some environments. The results [K] of the others are zero."""
        is_stepped, *leaves = action
        which = np.flatnonzero(is_stepped)
        reward, terminated, truncated = (np.zeros(len(is_stepped), dtype) for dtype in (np.float64, bool, bool))
        info: dict[str, Any] = {}
        if which.size:
            with _noted(info):
                assert self._envs is not None
                actions = jax.tree.unflatten(self._structure, [x[which] for x in leaves])
                obs, mask, reward[which], terminated[which], truncated[which] = self._envs.step(which, actions)
                self._write(which, obs, mask)
        return tuple(self._seen), reward, terminated, truncated, info

    def close(self) -> None:
        """Close the environments."""
        if self._envs is not None:
            self._envs.close()

    def _write(self, which: Any, obs: Any, mask: Any) -> None:
        for rows, value in zip(self._seen, jax.tree.leaves((obs, mask)), strict=True):
            rows[which] = value


class Workers:
    """E environments in W worker processes. See `shoal.core.host_env.Simulators`.

    An error of an environment, and the end of a worker, raise RuntimeError. Then all workers are ended.
    """

    def __init__(self, label: str, open_one: partial[Any], count: int, workers: int, seen: Any, action: Any) -> None:
        """Start the workers. `seen` and `action` are as in `EnvsOfWorker`; `label` is the name in messages.

        Raises TypeError if `open_one` cannot be sent to another process.
        """
        self.label, self.workers, self.slots = label, workers, -(-count // workers)
        self._structure = jax.tree.structure(seen)
        self._actions = [np.zeros((workers, self.slots, *x.shape), x.dtype) for x in jax.tree.leaves(action)]
        of_worker = [
            partial(EnvsOfWorker, open_one, len(range(w, count, workers)), self.slots, seen, action)
            for w in range(workers)
        ]
        try:
            pickle.dumps(CloudpickleWrapper(of_worker[0]))
        except Exception as error:  # of any kind: pickling calls the code of what it pickles
            raise TypeError(
                f"{label} cannot be sent to worker processes: {in_short(error)}. Register it in a module, and write "
                f"gymnasium/MODULE:ID; or leave out workers."
            ) from error
        multiprocessing.get_context(CONTEXT).set_forkserver_preload([__name__, open_one.func.__module__])
        with self._checked():
            self._envs = AsyncVectorEnv(
                of_worker, copy=False, context=CONTEXT, worker=_work, autoreset_mode=AutoresetMode.DISABLED
            )
        _OPEN.add(self)

    def reset(self, which: np.ndarray, seeds: Sequence[int]) -> tuple[Any, Any]:
        """Begin episodes. See `Simulators`."""
        rows: list[list[int | None]] = [[None] * self.slots for _ in range(self.workers)]
        for e, seed in zip(which.tolist(), seeds, strict=True):
            rows[e % self.workers][e // self.workers] = seed
        with self._checked():
            seen, info = self._envs.reset(seed=rows)  # type: ignore[arg-type]  # each is sent to its worker as it is
            self._raise_error(info)
        return self._of(seen, which)

    def step(self, which: np.ndarray, actions: Any) -> tuple[Any, Any, np.ndarray, np.ndarray, np.ndarray]:
        """Take a step. See `Simulators`."""
        at = which % self.workers, which // self.workers
        is_stepped = np.zeros((self.workers, self.slots), bool)
        is_stepped[at] = True
        for rows, leaf in zip(self._actions, jax.tree.leaves(actions), strict=True):
            rows[at] = leaf
        with self._checked():
            seen, reward, terminated, truncated, info = self._envs.step((is_stepped, *self._actions))
            self._raise_error(info)
        obs, mask = self._of(seen, which)
        return obs, mask, reward[at], terminated[at], truncated[at]

    def close(self) -> None:
        """Close the environments, and end the workers. A second call does nothing."""
        if not self._envs.closed:
            with self._checked():
                self._envs.close()

    def _of(self, seen: Any, which: np.ndarray) -> tuple[Any, Any]:
        """The (observations, masks) [N] of the environments `which`: a copy of the shared memory."""
        at = which % self.workers, which // self.workers
        return jax.tree.unflatten(self._structure, [x[at] for x in seen])

    @contextlib.contextmanager
    def _checked(self) -> Any:
        """End all workers after an error or a KeyboardInterrupt in the block, which leaves their pipes in disorder."""
        try:
            yield
        except (EOFError, ConnectionError) as error:
            codes = self._end()
            raise RuntimeError(
                f"a worker process of {self.label} has ended by itself (exit codes {codes}); what it printed is above. "
                f'A script that trains needs `if __name__ == "__main__":` around that, because workers import it.'
            ) from error
        except BaseException:
            self._end()
            raise

    def _end(self) -> list[int | None]:
        """Kill the workers. Returns the exit codes of those that had ended before."""
        envs = getattr(self, "_envs", None)
        if envs is None:  # it failed to start, and its pipes are closed
            return []
        envs.closed = True
        codes = [process.exitcode for process in envs.processes if process.exitcode is not None]
        for process in envs.processes:
            process.kill()
            process.join()
        return codes

    def _raise_error(self, info: dict[str, Any]) -> None:
        """Raise the first error that a worker returned, with its traceback as a note."""
        for text, trace in zip(info.get(ERROR, ()), info.get(TRACEBACK, ()), strict=True):
            if text is not None:
                error = RuntimeError(f"{self.label}: an environment failed in a worker process: {text}")
                error.add_note(trace)
                raise error


def _opened(open_one: Callable[[], Simulator], count: int) -> OneByOne:
    return OneByOne([open_one() for _ in range(count)])


def _space_like(x: np.ndarray) -> spaces.Box:
    """A space with the shape and dtype of an array. Its bounds are not meant: nobody compares them with elements."""
    return spaces.Box(0, 1, x.shape, x.dtype.type)


@contextlib.contextmanager
def _noted(info: dict[str, Any]) -> Any:
    """Write an error of the block into `info`, in words."""
    try:
        yield
    except Exception as error:
        info[ERROR] = ": ".join(filter(None, (line_raised(error), in_short(error))))
        info[TRACEBACK] = traceback.format_exc()


def _work(*arguments: Any) -> None:
    """Run Gymnasium's loop of a worker until its pipe closes. The main process answers the signals."""
    for name in IGNORED:
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    with contextlib.suppress(EOFError, ConnectionError):
        _async_worker(*arguments)  # type: ignore[call-arg]  # as many as Gymnasium gives


@atexit.register
def _end_all() -> None:
    """End the workers that nobody closed. Without this, multiprocessing would wait for them, which ignore SIGTERM."""
    for workers in list(_OPEN):
        if not workers._envs.closed:
            workers._end()
