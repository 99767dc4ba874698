"""What `shoal.train` does around a run."""

import jax
import pytest

import shoal
from shoal.training.stopping import Stopped


@pytest.mark.parametrize(
    ("settings", "cache", "expected"),
    [
        ({"jax_compilation_cache_dir": None}, True, "own"),
        ({"jax_compilation_cache_dir": None}, False, None),
        ({"jax_compilation_cache_dir": "/elsewhere"}, True, "/elsewhere"),
        ({"jax_compilation_cache_dir": None, "jax_enable_compilation_cache": False}, True, None),
    ],
)
def test_training_caches_compiled_programs_by_default(settings, cache, expected, tmp_path, monkeypatch):

    from shoal.studies import runs

    kept = ("jax_compilation_cache_dir", "jax_enable_compilation_cache", "jax_persistent_cache_min_compile_time_secs")
    before = {name: jax.config.values[name] for name in kept}
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    seen = []

    def run_nothing(*given, **options):
        seen.append(jax.config.values["jax_compilation_cache_dir"])
        raise Stopped

    monkeypatch.setattr(runs, "run_job", run_nothing)
    try:
        for name, value in settings.items():
            jax.config.update(name, value)
        with pytest.raises(Stopped):
            shoal.train("ppo", "CartPole-v1", cache=cache, root=tmp_path)
    finally:
        for name, value in before.items():
            jax.config.update(name, value)
    assert seen == [str(tmp_path / "shoal" / "programs") if expected == "own" else expected]
