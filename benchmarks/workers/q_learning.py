"""Tabular Q-learning on an 8 x 12 grid as in Ryan Pegoud's article "Vectorize and Parallelize RL Environments with JAX:
Q-learning at the Speed of Light" (RPegoud/jym), rewritten so that it compiles once; its notebook compiles again for
each call.

Everything that determines its speed is kept: threefry keys split in every step; a policy that samples a random action
and one of the best actions by `jax.random.choice`; a reset by `cond` inside the environment's step; the table of every
step written to one array; agents by `vmap` on the last axis; and its update, which bootstraps beyond the end of an
episode. With `--last-only` only the last table is kept, which is faster; the better of the two forms counts.
"""

import argparse
import time

import measure

parser = argparse.ArgumentParser()
parser.add_argument("--agents", type=int, default=1)
parser.add_argument("--steps", type=int, default=100_000, help="of each agent")
parser.add_argument("--last-only", action="store_true")
parser.add_argument("--repeats", type=int, default=3)
args = parser.parse_args()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

ROWS, COLUMNS = 8, 12
GOAL = jnp.array([0, 0])
START = jnp.array([ROWS - 1, COLUMNS - 1])
MOVES = jnp.array([[0, 1], [1, 0], [0, -1], [-1, 0]])
ACTIONS = jnp.arange(4)
DISCOUNT, STEP_SIZE, EPSILON = 0.9, 0.1, 0.1


def act(key, table, position):
    """An epsilon-greedy action with ties broken at random: (action, next key)."""
    k_coin, k_choice = jax.random.split(key)
    values = table[position[0], position[1]]
    best = values == values.max()

    def explore(k):
        return jax.random.choice(k, ACTIONS)

    def exploit(k):
        return jax.random.choice(k, ACTIONS, p=best / best.sum())

    return jax.lax.cond(jax.random.uniform(k_coin) < EPSILON, explore, exploit, k_choice), k_choice


def move(key, position, action):
    """One step, and a new episode after the goal: (position, reward, done, key)."""
    arrived = jnp.clip(position + MOVES[action], 0, START)
    done = jnp.all(arrived == GOAL)
    position, key = jax.lax.cond(done, lambda k: (START, k), lambda k: (arrived, jax.random.split(k)[1]), key)
    return position, jnp.int32(done), done, key


def learn(table, before, action, reward, after):
    """The table after one step."""
    old = table[before[0], before[1], action]
    target = reward + DISCOUNT * table[after[0], after[1]].max()
    return table.at[before[0], before[1], action].add(STEP_SIZE * (target - old))


def one_step(key, position, table):
    """One step of one agent."""
    action, key = act(key, table, position)
    after, reward, done, key = move(key, position, action)
    return key, after, learn(table, position, action, reward, after), (position, action, reward, done)


every_step = jax.vmap(one_step, (0, 0, -1), (0, 0, -1, 0)) if args.agents > 1 else one_step


def train(keys, positions, tables, history, seen):
    """All steps of all agents."""

    def body(t, loop):
        keys, positions, tables, history, seen = loop
        if history is not None:
            tables = history[t]
        keys, positions, tables, row = every_step(keys, positions, tables)
        seen = jax.tree.map(lambda column, x: column.at[t].set(x), seen, row)
        if history is not None:
            history = history.at[t + 1].set(tables)
        return keys, positions, tables, history, seen

    return jax.lax.fori_loop(0, args.steps, body, (keys, positions, tables, history, seen))


def start():
    """The first (keys, positions, tables, tables of every step, trajectory)."""
    many = (args.agents,) if args.agents > 1 else ()
    key = jax.random.PRNGKey(2)
    keys = jax.random.split(key, args.agents) if many else key
    tables = jnp.zeros((ROWS, COLUMNS, 4, *many))
    history = None if args.last_only else jnp.zeros((args.steps + 1, *tables.shape))
    seen = tuple(jnp.zeros((args.steps, *many, *shape), kind) for shape, kind in (((2,), int), ((), int), ((), int)))
    return keys, jnp.broadcast_to(START, (*many, 2)), tables, history, (*seen, jnp.zeros((args.steps, *many), bool))


inputs = start()
begin = time.perf_counter()
program = jax.jit(train, donate_argnums=(3, 4)).lower(*inputs).compile()
compile_s = time.perf_counter() - begin
walls, goals, tables = [], 0, jnp.zeros((ROWS, COLUMNS, 4))
for _ in range(args.repeats + 1):  # the first is not counted
    inputs = jax.block_until_ready(start())
    begin = time.perf_counter()
    result = jax.block_until_ready(program(*inputs))
    walls.append(time.perf_counter() - begin)
    goals, tables = int(result[-1][-1].sum()), result[2]
    del inputs, result
values = tables.reshape(ROWS, COLUMNS, 4, args.agents).max(2)  # the largest Q-value of each cell and agent
measure.report(
    steps=args.agents * args.steps,
    wall_s=walls[1:],
    goals=goals / args.agents,  # of each agent
    values=values.mean(-1).tolist(),  # [rows, columns], the mean over agents
    beside_goal=float(jnp.maximum(values[0, 1], values[1, 0]).mean()),
    compile_s=compile_s,
)
