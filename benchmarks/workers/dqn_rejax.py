"""The peer: rejax's DQN, as published, with its settings for CartPole except for a larger buffer.

rejax 0.1.3 expects gymnax's older step with five return values, which an adapter provides. Its evaluations and the time
to allocate the buffer are left out. The buffer need not be full: the time of a sample depends only on its size.
"""

import argparse

import measure

parser = argparse.ArgumentParser()
parser.add_argument("--total-steps", type=int, default=300)
parser.add_argument("--seeds", type=int, default=32)
parser.add_argument("--buffer", type=int, default=1_000_000)
args = parser.parse_args()

import gymnax  # noqa: E402
import jax  # noqa: E402
import rejax  # noqa: E402

import_s = measure.seconds_since_start()

env, params = gymnax.make("CartPole-v1")


class FiveValues:
    """gymnax's CartPole with a step of five return values, as rejax expects."""

    default_params = params

    def __getattr__(self, name):
        return getattr(env, name)

    def step(self, key, state, action, params):
        obs, state, reward, terminated, truncated, info = env.step(key, state, action, params)
        return obs, state, reward, terminated | truncated, info


algorithm = (
    rejax.get_algo("dqn")
    .create(
        env=FiveValues(),
        env_params=params,
        agent="DuelingQNetwork",
        agent_kwargs={"activation": "swish"},
        num_envs=10,
        num_epochs=5,
        buffer_size=args.buffer,
        fill_buffer=0,
        batch_size=100,
        max_grad_norm=10,
        learning_rate=0.001,
        polyak=0.98,
        exploration_fraction=0.5,
        total_timesteps=args.total_steps,
        eval_freq=args.total_steps,
        skip_initial_evaluation=True,
    )
    .replace(eval_callback=lambda algorithm, state, key: ())
)


def main():
    keys = jax.random.split(jax.random.PRNGKey(0), args.seeds)
    states = jax.block_until_ready(jax.jit(jax.vmap(algorithm.init_state))(keys))
    program, phases = measure.compile_phases(jax.vmap(lambda state: algorithm.train(train_state=state)), states)
    begin = measure.seconds_since_start()
    jax.block_until_ready(program(states))
    run_s = measure.seconds_since_start() - begin
    measure.report(steps=args.seeds * args.total_steps, import_s=import_s, run_s=run_s, **phases)


if __name__ == "__main__":
    main()
