"""Memory against MiniGrid's: steps and layouts."""

import pytest

from parity.minigrid import harness, walker

pytestmark = pytest.mark.sampled

IDS = [f"MiniGrid-Memory{name}-v0" for name in ("S7", "S9", "S11", "S13", "S13Random", "S17Random")]


def task_of(s):
    x, y, mirrored = int(s.split_x), int(s.match_y), s.grid.shape[1] - 1 - int(s.match_y)
    return {"success_pos": (x, y), "failure_pos": (x, mirrored)}


FAMILY = harness.Family(
    task_of=task_of,
    fields_of=lambda env: dict(zip(("split_x", "match_y"), env.success_pos, strict=True)),
    scripts=(lambda env: walker.go_to(env, env.success_pos), lambda env: walker.go_to(env, env.failure_pos)),
    fails=True,
)


@pytest.mark.parametrize("env_id", IDS)
@harness.few_and_many
def test_steps_match_minigrid(env_id, steps):
    harness.assert_steps_match(env_id, FAMILY, steps)


def assert_same_generator(env_id, n, n_theirs):
    ours, theirs = (
        harness.layouts_of_ours(env_id, n),
        harness.layouts_of_reference(env_id, n_theirs, 0, FAMILY.fields_of),
    )

    def sides(layouts):
        return layouts.fields["split_x"] * 100 + layouts.fields["match_y"]

    statistics = [harness.whole, harness.cells, sides]
    for statistic in statistics:
        harness.assert_same_distribution(ours, theirs, statistic, tests=len(statistics) + 1)
    # Everything there is: where the hallway ends, the agent in it, what lies in the first room, which side is right.
    size = ours.grid.shape[1]
    ends = range(4, size - 2) if "Random" in env_id else [size - 3]
    probabilities = {
        (1000 * end + 10 * x) + 2 * is_key + is_up: 1 / len(ends) / end / 4
        for end in ends for x in range(1, end + 1) for is_key in (0, 1) for is_up in (0, 1)
    }  # fmt: skip
    is_key = ours.grid[:, 1, size // 2 - 1] & 15 == 5
    is_up = ours.fields["match_y"] < size // 2
    drawn = 1000 * (ours.fields["split_x"] - 1) + 10 * ours.x + 2 * is_key + is_up
    harness.assert_frequencies(drawn, probabilities, tests=len(statistics) + 1)
    assert set(harness.whole(theirs).tolist()) <= set(harness.whole(ours).tolist())


@pytest.mark.parametrize("env_id", IDS)
def test_layouts_come_from_minigrids_distribution(env_id):
    assert_same_generator(env_id, 4000, 1000)


@pytest.mark.long
@pytest.mark.parametrize("env_id", IDS)
def test_many_layouts_come_from_minigrids_distribution(env_id):
    assert_same_generator(env_id, 40_000, 10_000)
