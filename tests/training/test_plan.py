"""Plans, made before anything is compiled: sizes, memory, rounded steps, and refused values."""

import numpy as np
import pytest

from environments import DialedHorizon
from shoal.agents.learned_losses import LearnedValueLoss
from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.core.spaces import Box
from shoal.core.struct import Number, struct
from shoal.envs.bounds import highest
from shoal.specs.spec import RunSpec
from shoal.training.plan import make_plan
from tiny import SPEC


def test_more_devices_than_there_are_is_refused():
    with pytest.raises(ValueError, match="devices=64 were asked for, but this process has"):
        make_plan(RunSpec(**SPEC), devices=64)


def test_steps_are_rounded_up_to_whole_updates_and_horizons_follow():
    plan = make_plan(RunSpec(**{**SPEC, "steps": 33}))
    assert (plan.updates, plan.steps) == (2, 64) and plan.agent.horizon == 64.0
    assert make_plan(RunSpec(**{**SPEC, "steps": 10**10})).steps == 10**10


@struct
class Dial(DialedHorizon):
    """A dial with a field that its action space follows from."""

    reach: Number = 1.0

    @property
    def action_space(self):
        return Box(-highest(self.reach), highest(self.reach), (1,))


def test_a_sweep_over_a_field_that_determines_the_action_space_is_refused():
    # Seeds of one setting share its space, and so do settings that only bounds of observations tell apart.
    def members(env, **env_sweep):
        return make_plan(RunSpec(**{**SPEC, "env": "", "seeds": 2}, env_sweep=env_sweep), env=env).members

    said = r"env.reach=1.0 and env.reach=2.0 have different action spaces, Box\(-1.0, 1.0, .* and Box\(-2.0, 2.0, "
    with pytest.raises(ValueError, match=said):
        members(Dial(), reach=[1.0, 1.0, 2.0])
    assert members(Dial(), reach=[2.0], max_steps=[3, 4]) == 4
    assert members(make("CartPole-v1"), x_threshold=[2.4, 5.0]) == 4


def test_rollout_sizes_hold_for_all_time_limits_of_a_sweep():
    plan = make_plan(RunSpec(**SPEC, env_sweep={"max_steps": [500, 8]}))
    assert plan.agent.rollout.final_slots == 2 and plan.batched().env.max_steps.tolist() == [500, 8]


def test_a_record_holds_no_more_steps_than_32_bits_count():
    # Sizes alone: nothing of this is compiled.
    plan = make_plan(RunSpec(**{**SPEC, "steps": 2**36, "fields": {"num_envs": 256, "num_steps": 256}}))
    ends = [plan.boundary(record) for record in range(plan.records)]
    assert plan.updates == ends[-1] == 2**20
    assert np.diff([0, *ends]).max() * 2**16 < 2**31


def test_more_updates_than_32_bits_count_are_refused():
    with pytest.raises(ValueError, match="at most 2,147,483,647 updates can be counted: use more steps per update"):
        make_plan(RunSpec(**{**SPEC, "steps": 2**36, "fields": {"num_envs": 4, "num_steps": 8}}))


def test_fields_without_effect_are_refused_anywhere_in_a_sweep():
    with pytest.raises(ValueError, match="noise_correlation=.* changes nothing where actions are discrete"):
        make_plan(RunSpec(**SPEC, sweep={"noise_correlation": [0.0, 0.5]}))


def test_settings_may_have_losses_of_their_own_where_the_agent_has_the_name_of_one():
    losses = [LearnedValueLoss.init(make_key(seed), hidden=(3,)) for seed in (0, 1)]
    plan = make_plan(RunSpec(**{**SPEC, "seeds": 2}, sweep={"value_loss": losses}))
    kernels = plan.batched().agent.value_loss.layers[0]["kernel"]
    assert kernels.shape == (4, 1, 3)
    np.testing.assert_array_equal(kernels[2], losses[1].layers[0]["kernel"])
    with pytest.raises(ValueError, match="value_loss shapes the program"):
        make_plan(RunSpec(**SPEC, sweep={"value_loss": ["squared", losses[0]]}))
