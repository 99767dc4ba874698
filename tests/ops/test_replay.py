"""The replay buffer (a ring) against a plain Python list of all steps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from shoal.core.keys import make_key
from shoal.ops.replay import Replay, Steps, rows_for

ENVS, AT_ONCE, LIMIT = 3, 4, 5  # a time limit of 5 steps, in rollouts of 4
FINALS = 1  # at most one time limit of an environment in 4 steps


class History:
    """A record of steps of three environments: observations count up by 1, and by 100 at the end of an episode."""

    def __init__(self, seed=0):
        self.random = np.random.default_rng(seed)
        self.seen = np.arange(ENVS) * 10_000
        self.age = np.zeros(ENVS, int)
        self.rows_so_far = []  # (seen, action, reward, terminated, truncated, true successor), each [E]

    def rollout(self):
        """The next rows in the form in which they are added to the ring."""
        rows, finals = [], np.zeros((FINALS, ENVS), np.int32)
        slots, cuts = [], np.zeros(ENVS, np.int32)
        for _ in range(AT_ONCE):
            self.age += 1
            terminated = self.random.random(ENVS) < 0.15
            truncated = self.age >= LIMIT
            cut = truncated & ~terminated
            after = self.seen + 1
            action = self.random.integers(0, 9, ENVS)
            reward = self.random.normal(size=ENVS).astype(np.float32)
            row = (self.seen, action, reward, terminated, truncated, after)
            rows.append(row)
            slots.append(cuts.copy())
            for e in np.flatnonzero(cut):
                finals[cuts[e], e] = after[e]
            cuts += cut
            done = terminated | truncated
            self.seen = np.where(done, self.seen + 100, after)
            self.age[done] = 0
        self.rows_so_far += rows
        seen, action, reward, terminated, truncated, _ = map(np.stack, zip(*rows, strict=True))
        columns = (seen.astype(np.int32), action.astype(np.int32), reward, terminated, truncated)
        carry = jnp.asarray(seen[0] * 2, jnp.int32)  # a carry that says where the rollout began
        return Steps(*map(jnp.asarray, columns), jnp.asarray(finals), jnp.asarray(np.stack(slots)), carry)


def filled(rollouts, size=ENVS * 24, seed=0, carry=None):
    """(the history, the ring after so many rollouts, the clock of the last one)."""
    history, final_rows = History(seed), -(-rows_for(size, ENVS, AT_ONCE) // LIMIT)
    example = jnp.int32(0)
    sizes = {"num_envs": ENVS, "num_steps": AT_ONCE, "size": size, "final_rows": final_rows}
    replay = Replay.empty(example, example, **sizes, carry=carry)
    add = jax.jit(Replay.add)
    for clock in range(rollouts):
        steps = history.rollout()
        replay = add(replay, steps if carry is not None else steps.replace(carry=None), jnp.int32(clock))
    return history, replay, jnp.int32(rollouts - 1)


def expected(history, row, env, n_step, discount):
    """n-step reward, bootstrap and successor, by a loop over the history."""
    total, factor = 0.0, 1.0
    for _, _, reward, terminated, truncated, after in history.rows_so_far[row : row + n_step]:
        total += factor * reward[env]
        factor *= discount
        if terminated[env]:
            return total, 0.0, None
        if truncated[env]:
            return total, factor, after[env]
    return total, factor, after[env]


@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("rollouts", [2, 6, 17])  # nearly empty, just full, overwritten twice
def test_samples_equal_the_recorded_steps(n_step, rollouts):
    history, replay, clock = filled(rollouts)
    newest, usable = replay.newest(clock), replay.usable(clock, n_step)
    index = replay.uniform(make_key(0), 400, newest, usable, n_step)
    batch = replay.take(index, 0.9, n_step)
    last = len(history.rows_so_far) - 1
    ends = {"terminated": 0, "truncated": 0}
    for i, flat in enumerate(np.asarray(index)):
        behind, env = (int(newest) - flat // ENVS) % replay.rows, flat % ENVS
        row = last - behind
        seen, action, _, terminated, truncated, _ = history.rows_so_far[row]
        assert (batch.observed[i], batch.action[i]) == (seen[env], action[env])
        reward, bootstrap, after = expected(history, row, env, n_step, 0.9)
        np.testing.assert_allclose(batch.reward[i], reward, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(batch.bootstrap[i], bootstrap, rtol=1e-6)
        if after is not None:
            assert batch.next_observed[i] == after
        ends["terminated"] += terminated[env]
        ends["truncated"] += truncated[env] & ~terminated[env]
    assert min(ends.values()) > 5  # both kinds were among them


@pytest.mark.parametrize(("burn_in", "length", "n_step"), [(0, 4, 1), (3, 8, 1), (5, 4, 3)])
@pytest.mark.parametrize("rollouts", [4, 6, 17])
def test_sequences_equal_the_recorded_steps(burn_in, length, n_step, rollouts):
    history, replay, clock = filled(rollouts, carry=jnp.int32(0))
    rows, last = history.rows_so_far, len(history.rows_so_far) - 1
    # Starts of rollouts, still in the ring of 24 rows, from which the whole sequence and its successor are recorded.
    starts = [
        row for row in range(0, last + 1, AT_ONCE) if row > last - 24 and row + burn_in + length + n_step <= last + 1
    ]
    incomplete = -(-(burn_in + length + n_step) // AT_ONCE) - 1
    usable = int(replay.usable(clock, incomplete))
    assert usable == len(starts)
    drawn = replay.uniform(make_key(0), 200, replay.newest(clock), jnp.int32(usable), incomplete)
    behind, env = np.meshgrid(np.arange(incomplete, incomplete + usable)[::-1], np.arange(ENVS), indexing="ij")
    index = replay.index(replay.newest(clock), jnp.asarray(behind.ravel()), jnp.asarray(env.ravel()))
    assert set(np.asarray(drawn).tolist()) == set(np.asarray(index).tolist())

    batch = jax.jit(Replay.take_sequences, static_argnums=(3, 4, 5))(replay, index, 0.9, n_step, burn_in, length)
    read, resets = batch.history, 0
    assert read.observed.shape == (burn_in + length + n_step - 1, len(index))
    for b, (start, env) in enumerate((start, env) for start in starts for env in range(ENVS)):
        assert read.carry[b] == 2 * rows[start][0][env]
        for i in range(read.observed.shape[0]):
            seen, _, _, terminated, truncated, _ = rows[start + i - 1] if i else rows[start]
            assert read.observed[i, b] == rows[start + i][0][env]
            assert read.is_first[i, b] == (i > 0 and (terminated[env] or truncated[env]))
            resets += int(read.is_first[i, b])
        for t in range(length):
            row, sample = start + burn_in + t, t * len(index) + b
            reward, bootstrap, after = expected(history, row, env, n_step, 0.9)
            assert (batch.observed[sample], batch.action[sample]) == (rows[row][0][env], rows[row][1][env])
            np.testing.assert_allclose(batch.reward[sample], reward, rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(batch.bootstrap[sample], bootstrap, rtol=1e-6)
            done = [rows[row + k][3][env] or rows[row + k][4][env] for k in range(n_step)]
            joined = done.index(True) if any(done) else n_step - 1
            assert read.last[sample] == burn_in + t + joined
            if after is not None:
                assert batch.next_observed[sample] == after
    assert resets > 3


def test_a_limit_below_the_capacity_counts_whole_rollouts_of_sequences():
    _, replay, clock = filled(9, carry=jnp.int32(0))
    assert (replay.stride, replay.starts) == (AT_ONCE, 6)
    assert replay.usable(clock, 2, 47.0) == 2  # 47 steps are 16 rows of 3 environments, 4 rollouts; 2 are incomplete
    assert replay.usable(clock, 2, 45.0) == 1  # 15 rows hold 3 whole rollouts
    assert replay.usable(jnp.int32(3), 2) == 2  # a member in its fourth update


def test_no_final_observation_is_read_for_a_termination_at_the_time_limit():
    # No final observation was stored: a slot that was never written must not be read as one.
    example = {"obs": jnp.int32(0), "mask": jnp.ones(2, bool)}
    replay = Replay.empty(example, jnp.int32(0), num_envs=1, num_steps=2, size=4, final_rows=2)
    both = jnp.asarray([[True], [False]])
    seen = {"obs": jnp.asarray([[5], [6]], jnp.int32), "mask": jnp.ones((2, 1, 2), bool)}
    finals = jax.tree.map(lambda x: jnp.zeros_like(x[:1]), seen)
    slots = jnp.zeros((2, 1), jnp.int32)
    replay = replay.add(Steps(seen, slots, jnp.zeros((2, 1)), both, both, finals, slots), jnp.int32(0))
    batch = replay.take(jnp.asarray([0], jnp.int32), 0.9)
    assert (batch.bootstrap[0], batch.next_observed["obs"][0]) == (0, 6)
    assert batch.next_observed["mask"].all()


def test_every_usable_sample_is_taken_equally_often():
    _, replay, clock = filled(5)  # 20 of 24 rows
    draws = 200_000
    index = replay.uniform(make_key(1), draws, replay.newest(clock), replay.usable(clock))
    counts = np.bincount(np.asarray(index), minlength=replay.rows * ENVS).reshape(replay.rows, ENVS)
    assert counts[:19].min() > 0 and counts[19:].sum() == 0  # the newest has no successor yet
    assert stats.chisquare(counts[:19].ravel()).pvalue > 1e-3


def test_a_member_that_enters_late_samples_only_its_own_rows():
    _, replay, clock = filled(9)
    usable = replay.usable(jnp.int32(1))  # its second update, in a ring that others have filled
    index = replay.uniform(make_key(2), 1000, replay.newest(clock), usable)
    behind = (int(replay.newest(clock)) - np.asarray(index) // ENVS) % replay.rows
    assert behind.min() == 1 and behind.max() == 2 * AT_ONCE - 1


def test_a_limit_below_the_capacity_counts_samples():
    _, replay, clock = filled(9)
    assert replay.usable(clock, 1, 30.0) == 30 // ENVS - 1
    assert replay.stored(clock, 1e9) == replay.rows


def test_sizes_are_whole_rollouts_and_two_at_least():
    assert rows_for(1000, 4, 10) == 250
    assert rows_for(1001, 4, 10) == 260
    assert rows_for(1, 4, 10) == 20
