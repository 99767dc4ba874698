"""Error messages: they name the given value, the nearest valid names, and the remedy."""

import pytest

from shoal.core.errors import UnknownNameError, did_you_mean, need, unknown_field, unknown_name


def test_the_nearest_names_come_first_whatever_the_case():
    assert did_you_mean("cartpole-v1", ["Pendulum-v1", "CartPole-v1"]) == " Did you mean CartPole-v1?"
    assert did_you_mean("CartPole-v2", ["CartPole-v0", "CartPole-v1"]).count(" or ") == 1
    assert did_you_mean("zzz", ["CartPole-v1"]) == ""


def test_initials_suggest_the_full_name():
    assert did_you_mean("--lr", ["--root", "--learning-rate"]) == " Did you mean --learning-rate?"


def test_names_much_less_similar_than_the_nearest_are_not_suggested():
    assert did_you_mean("env.gravty", ["env.gravity", "env.tau", "env.integrator"]) == " Did you mean env.gravity?"


def test_an_unknown_name_is_a_value_error_with_a_hint():
    error = unknown_name("env", "CartPole-v2", ["CartPole-v1"], "`shoal envs` lists every name.")
    assert isinstance(error, UnknownNameError) and isinstance(error, ValueError)
    assert str(error) == (
        "env 'CartPole-v2' is not registered. Did you mean CartPole-v1? `shoal envs` lists every name."
    )


def test_an_unknown_field_has_the_nearest_names_or_all():
    def said(name):
        return str(unknown_field("CartPole", name, ["gravity", "tau"]))

    assert said("gravty") == "CartPole has no field 'gravty'. Did you mean gravity?"
    assert said("mass") == "CartPole has no field 'mass'. Its fields are: gravity, tau."


def test_a_name_in_another_case_gives_one_suggestion():
    known = ["CartPole-v0", "CartPole-v1"]
    assert did_you_mean("cartpole_V1", known) == " Did you mean CartPole-v1?"
    assert did_you_mean("CartPole", known) == " Did you mean CartPole-v1 or CartPole-v0?"


def test_a_missing_package_names_the_extra_that_installs_it():
    with pytest.raises(ImportError, match=r"Studies needs the package 'optuna_absent'.*pip install 'shoal\[studies\]'"):
        need("optuna_absent", "studies", "Studies")


def test_a_present_package_is_imported():
    import json

    assert need("json", "none", "This test") is json


def test_an_import_error_inside_an_installed_package_is_not_reported_as_missing(tmp_path, monkeypatch):
    (tmp_path / "half_installed.py").write_text("import something_it_lacks\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="something_it_lacks"):
        need("half_installed", "extra", "This")
