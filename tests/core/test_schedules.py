"""Schedules of hyperparameters: their texts, and their numbers against optax and sums done by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from shoal import PPO, SAC, make
from shoal.core.schedules import Scheduled, canonical, is_written, lifted, peak_of, with_peaks
from shoal.core.struct import Struct, static, struct

STEPS = 1000  # of the schedules of optax, whose progress is a number of steps
POINTS = (0.0, 0.01, 0.049, 0.05, 0.2, 0.35, 0.5, 0.75, 0.99, 1.0, 1.5)
OF_OPTAX = {
    "constant(3e-4)": optax.constant_schedule(3e-4),
    "linear(3e-4, 3e-5)": optax.linear_schedule(3e-4, 3e-5, STEPS),
    "linear(0.1, 0.9)": optax.linear_schedule(0.1, 0.9, STEPS),
    "linear(3e-4, 0, warmup=0.05)": optax.warmup_exponential_decay_schedule(0, 3e-4, 50, 1, 1.0),  # replaced below
    "cosine(3e-4, 3e-5)": optax.cosine_decay_schedule(3e-4, STEPS, 0.1),
    "cosine(3e-4, 3e-5, warmup=0.05)": optax.warmup_cosine_decay_schedule(0, 3e-4, 50, STEPS, 3e-5),
    "steps(8, 4 @ 0.5, 1 @ 0.75)": optax.piecewise_constant_schedule(8.0, {499: 0.5, 749: 0.25}),
}
OF_OPTAX["linear(3e-4, 0, warmup=0.05)"] = optax.join_schedules(
    [optax.linear_schedule(0, 3e-4, 50), optax.linear_schedule(3e-4, 0, STEPS - 50)], [50]
)


@pytest.mark.parametrize("text", OF_OPTAX)
def test_the_numbers_are_those_of_optax(text):
    ours = jax.vmap(Scheduled.of(text).at)(jnp.asarray(POINTS, jnp.float32))
    theirs = [float(OF_OPTAX[text](point * STEPS)) for point in POINTS]
    np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=1e-9)


def test_steps_without_points_of_progress_have_parts_of_equal_length():
    schedule = Scheduled.of("steps(1, 2, 3, 4)")
    numbers = [float(schedule.at(jnp.float32(p))) for p in (0, 0.24, 0.25, 0.49, 0.5, 0.74, 0.75, 1, 3)]
    assert numbers == [1, 1, 2, 2, 3, 3, 4, 4, 4]


def test_a_warm_up_multiplies_steps():
    schedule = Scheduled.of("steps(1, 2 @ 0.1, warmup=0.2)")
    numbers = [float(schedule.at(jnp.float32(p))) for p in (0, 0.05, 0.15, 0.2)]
    np.testing.assert_allclose(numbers, [0, 1 * 0.25, 2 * 0.75, 2], rtol=1e-6)


def test_progress_follows_the_horizon_of_the_schedule_then_that_of_the_agent():
    steps = jnp.float32(250)
    assert float(Scheduled.of("linear(1, 0, horizon=500)").after(steps, 1000.0)) == 0.5
    assert float(Scheduled.of("linear(1, 0)").after(steps, 1000.0)) == 0.75
    assert float(Scheduled.of("linear(1, 0, warmup=0.5)").after(steps, 0.0)) == 1  # unknown: the start after warm-up


@pytest.mark.parametrize(
    "text",
    [
        "constant(0.0003)",
        "linear(0.0003, 0.0)",
        "cosine(0.0003, 3e-05, warmup=0.05)",
        "steps(0.001, 0.0003 @ 0.5, 0.0001 @ 0.8, horizon=1000000.0)",
        "steps(1.0, 2.0, 3.0)",
        "linear(0.1, 0.3, warmup=0.1, horizon=123456789.0)",
    ],
)
def test_a_text_is_written_again_as_it_was(text):
    assert Scheduled.of(text).written() == text == canonical(text.replace(" ", "").replace("0.0003", "3e-4"))
    in_32_bits = jax.tree.map(lambda x: np.asarray(x).astype(np.float32), Scheduled.of(text))
    assert in_32_bits.written() == text or "123456789" in text
    assert repr(Scheduled.of(text)) == repr(text) and str(Scheduled.of(text)) == text


def test_the_lowest_valid_number_stays_valid_in_32_bits():
    agent = PPO(adam_eps="linear(1e-12, 1e-5)")
    jax.tree.map(lambda x: np.asarray(x).astype(np.float32), agent).replace(clip=0.1)


def test_a_number_among_schedules_stays_a_number():
    constant, number = lifted([Scheduled.of("constant(0.1)"), 0.25])
    assert (constant.written(), number.written()) == ("constant(0.1)", 0.25)
    assert float(number.at(jnp.float32(0.7))) == 0.25
    assert lifted([0.1, 0.25]) == [0.1, 0.25]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cosin(1, 2)", "Did you mean cosine"),
        ("number(1)", "is no schedule"),
        ("cosine(1)", "has 1 number, and cosine needs two"),
        ("linear(1, 2, 3)", "has 3 numbers, and linear needs two"),
        ("constant()", "has 0 numbers, and constant needs one"),
        ("steps(1)", "needs 2 to 8 numbers"),
        ("steps(1,2,3,4,5,6,7,8,9)", "needs 2 to 8 numbers"),
        ("linear(1, x)", "'x' where a finite number"),
        ("linear(1, nan)", "'nan' where a finite number"),
        ("linear(1, inf)", "'inf' where a finite number"),
        ("linear(1, 2 @ 0.5)", "which only steps has"),
        ("steps(1, 2 @ 0.5, 3)", "is not in order"),
        ("steps(1, 2 @ 0.5, 3 @ 0.5)", "is not in order"),
        ("steps(1 @ 0, 2 @ 0.5)", "is not in order"),
        ("steps(1, 2 @ 1)", "is not in order"),
        ("cosine(1, 2, warmup=1)", "from 0 to below 1"),
        ("cosine(1, 2, warmup=-0.1)", "from 0 to below 1"),
        ("cosine(1, 2, horizon=0)", "above 0"),
        ("cosine(1, 2, warm=0.1)", "Did you mean warmup"),
        ("cosine(1, 2, warmup=0.1, warmup=0.2)", "has 'warmup' twice"),
    ],
)
def test_a_wrong_text_is_refused_in_words(text, words):
    with pytest.raises(ValueError, match="PPO.learning_rate: .*" + words):
        PPO(learning_rate=text)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"learning_rate": "cosine(3, 1e-4)"}, "is 3 at progress 0, which is out of range"),
        ({"discount": "linear(0.9, 1.1)"}, "is 1.1 at progress 1"),
        ({"clip": "steps(0.1, 0.2, -1)"}, "is -1 at progress 0.666667"),
        ({"adam_eps": "constant(1e-5, warmup=0.1)"}, "is 0 at progress 0, where the warm-up begins"),
        ({"horizon": "linear(1, 2)"}, "it is the length of schedules itself"),
        ({"anneal": "linear(1, 0)"}, "give learning_rate a schedule"),
        ({"log_std_init": "linear(1, 0)"}, "only a member that begins reads it"),
    ],
)
def test_a_schedule_that_no_member_can_follow_is_refused_in_words(fields, words):
    with pytest.raises(ValueError, match=words):
        PPO(**fields)


@struct
class Sizes(Struct):
    size: int = static(4)
    is_shared: bool = static(False)


@pytest.mark.parametrize("fields", [{"size": "linear(4, 8)"}, {"is_shared": "steps(0, 1)"}])
def test_a_field_that_shapes_the_program_has_no_schedule(fields):
    with pytest.raises(ValueError, match="shapes the program, so it cannot change in a run"):
        Sizes(**fields)


def test_a_choice_and_a_field_of_an_environment_have_no_schedule():
    with pytest.raises(ValueError, match="choice of one of tuned, fixed"):
        SAC(temperature="linear(0, 1)")
    with pytest.raises(ValueError, match="only hyperparameters of agents"):
        make("CartPole-v1", gravity="linear(5, 15)")
    with pytest.raises(TypeError, match="or a schedule as a text"):
        PPO(learning_rate=lambda step: 1e-3)


def test_a_field_that_only_a_new_member_reads_with_other_fields_is_refused_when_the_agent_is_bound():
    pendulum = make("Pendulum-v1")
    with pytest.raises(ValueError, match="only a member that begins reads it here"):
        SAC(alpha="linear(1, 0.1)").bind(pendulum)
    SAC(alpha="linear(1, 0.1)", temperature="fixed").bind(pendulum)


def test_the_peak_of_a_schedule_stands_for_it_and_scales_it():
    schedules = [Scheduled.of(text) for text in ("linear(0.2, 0.1)", "steps(-4, 2)", "constant(0)")]
    several = jax.tree.map(lambda *xs: np.stack(xs), *schedules)
    assert (
        [float(peak_of(s)) for s in schedules] == [0.2, -4, 0] and peak_of("linear(1, 3)") == 3 and peak_of(0.5) == 0.5
    )
    np.testing.assert_array_equal(several.peak, [0.2, -4, 0])
    scaled = with_peaks(several, np.asarray([0.4, -2.0, 1.0]), np.asarray([True, True, True]))
    np.testing.assert_allclose(scaled.levels[:, :2], [[0.4, 0.2], [-2, 1], [0, 0]])
    kept = with_peaks(several, np.asarray([0.4, -2.0, 1.0]), np.asarray([False, False, False]))
    np.testing.assert_array_equal(kept.levels, several.levels)
    np.testing.assert_array_equal(with_peaks(np.asarray([1.0, 2.0]), [3.0, 4.0], [True, False]), [3, 2])


def test_only_a_call_with_parentheses_is_taken_for_a_schedule():
    assert is_written("cosine(1, 2)") and is_written(" no_such(1)")
    assert not any(map(is_written, ("cosine", "3e-4", "(1, 2)", 3e-4, None)))
    assert canonical("a text (with a word)") == "a text (with a word)" and canonical("log(1, 2)") == "log(1, 2)"
