"""Each cell of the table in docs/agents.md: where it says yes the agent trains, elsewhere an error says why not."""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shoal
from shoal.core.errors import Unsuited
from shoal.core.keys import make_key
from shoal.core.registry import AGENTS, make
from shoal.rollouts.demonstrations import Demonstrations
from tiny import SILENT

DOCS = Path(__file__).parents[2] / "docs"
SMALL = {
    "num_envs": 16,
    "num_steps": 16,
    "hidden": (8,),
    "learning_starts": 64,
    "buffer_size": 1024,
    "batch_size": 8,
    "population_size": 4,
    "episode_steps": 20,
    "num_batches": 2,
}
OF_MEMORY = {"memory_size": 4, "sequence_length": 16}
MORE = {
    "PBT": {"selector": shoal.PBT(), "seeds": 4},
    "devices of a member": {"devices_per_member": 2},
}


@pytest.fixture(scope="module")
def page():
    sys.path.insert(0, str(DOCS))
    import abilities

    yield abilities
    sys.path.remove(str(DOCS))
    for name in ("abilities", "page_parts"):
        sys.modules.pop(name, None)


TITLES = (
    "discrete actions",
    "several at once",
    "real actions",
    "action masks",
    "Dict",
    "images",
    "memory",
    "PBT",
    "Gymnasium",
    "devices of a member",
)


def test_every_column_is_tested(page):
    assert tuple(column.title for column in page.COLUMNS) == TITLES


@pytest.mark.sampled(12)
@pytest.mark.parametrize("title", TITLES)
@pytest.mark.parametrize("name", sorted(AGENTS))
def test_an_agent_can_do_what_the_table_says(name, title, page, tmp_path):
    column = next(column for column in page.COLUMNS if column.title == title)
    env = column.wrap(make(column.env) if column.env else page.played(name))
    known = AGENTS[name].cls.__dataclass_fields__
    fields = {
        field: value
        for field, value in {**SMALL, **column.fields, **(OF_MEMORY if title == "memory" else {})}.items()
        if field in known
    }
    if name == "bc":
        fields["demonstrations"] = demonstrations(env)
    if title == "Gymnasium":
        env = "gymnasium/Pendulum-v1" if "Pendulum" in type(env).__name__ else "gymnasium/CartPole-v1"
    fields |= {field: value for field, value in column.fields.items() if field not in known}
    how = {"steps": 512, "records": 4, "evaluations": 4, "eval_episodes": 2, "eval_max_steps": 10, **SILENT}

    def train():
        with jax.numpy_dtype_promotion("standard"):
            agent = AGENTS[name].build(**fields)
            return shoal.train(agent, env, folder=tmp_path / "run", **{**how, **MORE.get(title, {})})

    if page.can(name, column):
        assert np.isfinite(train().curves["eval_return"][-1]).all()
    else:
        with pytest.raises(TypeError if title == "memory" else Unsuited):  # it has no such field, or cannot play
            train()
        assert not (tmp_path / "run").exists()


def demonstrations(env):
    """Steps with any observation and any action of an environment's spaces."""
    keys = jax.random.split(make_key(0), 16)
    obs, action = (jax.vmap(space.sample)(keys) for space in (env.observation_space, env.action_space))
    return Demonstrations(jax.tree.map(lambda x: jnp.where(jnp.isfinite(x), x, 0).astype(x.dtype), obs), action)
