"""Draw a GIF of every environment that has pictures, for the pages of environments: docs/images/environments/.

    python docs/pictures.py [FAMILY/CLASS ...]

Each GIF shows episodes of one id of a class: with the greedy policy of the zoo if it has one for this class, otherwise
with random actions. All random numbers come from one fixed key, so the same code draws the same pictures. What each
picture shows is written to `pictures.json`, which `docs/generate.py` reads. An environment whose data are not on this
machine (MNIST) keeps the picture that it has, if any.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
from page_parts import families

import shoal
from shoal.core.keys import make_key
from shoal.core.registry import ENVS, Entry
from shoal.core.struct import to_arrays
from shoal.rollouts.evaluate import record_episode
from shoal.training.folder import ZOO_PREFIX, zoo
from shoal.training.policy import Policy, RandomPolicy
from shoal.viz.animation import fit
from shoal.viz.gif import write_gif
from shoal.viz.videos import has_picture

PICTURES = Path(__file__).parent / "images" / "environments"
INDEX = PICTURES / "pictures.json"
SIZE = 240  # of the longer side, in pixels, about
FRAMES, EPISODES = 40, 8  # at most
SPAN = {True: 120, False: 40}  # steps of an episode: with a trained policy, with random actions
SMOOTH = ("classic", "planar", "meta/PointRobot", "bsuite/BsuiteCartpole", "bsuite/Cartpole", "bsuite/BsuiteMountain")


def pictured() -> Iterator[tuple[str, list[Entry]]]:
    """(`family/Class`, its entries) of every class with pictures, except the probes."""
    classes: dict[str, list[Entry]] = {}
    for family, listed in families().items():
        for name in listed.names:
            classes.setdefault(f"{family}/{ENVS[name].cls.__name__}", []).append(ENVS[name])
    yield from ((title, entries) for title, entries in classes.items() if has_picture(entries[0].build()))


def policy_for(entries: list[Entry]) -> tuple[str, str, Policy]:
    """The id to show, the name of the policy ("" for random actions), and the policy."""
    for entry in entries:
        trained = sorted((name for name in zoo() if name.partition("/")[2] == entry.name), key=lambda n: n[:3] != "ppo")
        if trained:
            return entry.name, f"{ZOO_PREFIX}{trained[0]}", shoal.load(f"{ZOO_PREFIX}{trained[0]}")
    env = entries[0].build()
    return entries[0].name, "", Policy(RandomPolicy(env.action_space), None, to_arrays(env), "random actions")


def frames(policy: Policy, is_trained: bool, is_smooth: bool) -> list[Any]:
    """The pictures of an episode; if it is short, also those of further episodes. Episodes that end come first."""
    span = SPAN[is_trained or is_smooth]

    @jax.jit
    def record(weights: Any, key: Any) -> Any:
        return record_episode(policy.actor, weights, policy.env, key, span, greedy=is_trained)

    episodes = [jax.tree.map(np.asarray, record(policy.weights, k)) for k in jax.random.split(make_key(0), EPISODES)]
    found: list[Any] = []
    for episode in sorted(episodes, key=lambda episode: bool(episode.valid.all())):
        last = int(episode.valid.sum())
        shown = sorted({*range(0, last + 1, -(-(last + 1) // FRAMES)), last})
        found += [np.asarray(policy.env.render(jax.tree.map(lambda x, i=i: x[i], episode.state))) for i in shown]
        if len(found) >= FRAMES // 2:
            break
    return [fit(frame, SIZE) for frame in found[:FRAMES]]


def draw(title: str, entries: list[Entry]) -> dict[str, str]:
    """Draw the GIF of a class. Returns what it shows."""
    name, trained, policy = policy_for(entries)
    is_smooth = title.startswith(SMOOTH)
    file = f"{title.replace('/', '-').lower()}.gif"
    write_gif(frames(policy, bool(trained), is_smooth), PICTURES / file, fps=20 if is_smooth else 5)
    return {"file": file, "env": name, "policy": trained}


if __name__ == "__main__":
    index = json.loads(INDEX.read_text()) if INDEX.exists() else {}
    for title, entries in pictured():
        if sys.argv[1:] and title not in sys.argv[1:]:
            continue
        try:
            index[title] = draw(title, entries)
        except (FileNotFoundError, ValueError) as error:
            print(f"{title}: not drawn: {error}")
            continue
        size = (PICTURES / index[title]["file"]).stat().st_size
        print(f"{title}: {size / 1000:.0f} kB, {index[title]['env']} {index[title]['policy']}", flush=True)
        INDEX.write_text(json.dumps(dict(sorted(index.items())), indent=1) + "\n")
