"""Words of other libraries: everything that is suggested in their place exists."""

import dataclasses
import inspect
import re
from pathlib import Path

import pytest

import shoal
from shoal.cli import main, parser
from shoal.core import aliases
from shoal.core.registry import AGENTS, ENVS, SELECTORS
from shoal.specs.options import CommandOptions, RunOptions, StudyOptions
from shoal.training.jobs import ARGUMENTS

DOCS = Path(__file__).parents[2] / "docs"
PLACEHOLDERS = {"RUN", "N", "X"}
TABLES = [name for name in dir(aliases) if name.startswith(("OTHER_", "RESULT_", "GYMNAX_"))]
FUNCTIONS = (shoal.train, shoal.tune, shoal.evaluate, shoal.compare, shoal.load, shoal.export)


def all_options():
    """Every option that a command has, as `--steps`, and what its `add_argument` calls it."""
    found = set()
    for file in Path(parser.__file__).parent.glob("*.py"):
        found |= set(re.findall(r'"(--[a-z-]+)"', file.read_text()))
    declared = [f for cls in (RunOptions, StudyOptions, CommandOptions) for f in dataclasses.fields(cls)]
    flags = {
        f"--{'no-' * no}{field.name.replace('_', '-')}" for field in declared for no in (False, field.default is True)
    }
    return found | flags


def all_fields():
    classes = {entry.cls for registry in (AGENTS, ENVS, SELECTORS) for entry in registry.values()}
    classes |= {shoal.Slots, shoal.FrameStack, shoal.TimeLimit}
    return {field.name for cls in classes for field in dataclasses.fields(cls)}


def sentences():
    """Every text that a table holds, with the word for which it is."""
    for table in TABLES:
        content = getattr(aliases, table)
        for word, text in content.items() if isinstance(content, dict) else [("", content)]:
            yield pytest.param(text.about if hasattr(text, "about") else text, id=f"{table}-{word}")


def test_every_alias_has_a_target():
    known = {name for each in FUNCTIONS for name in inspect.signature(each).parameters} | {*ARGUMENTS} | all_fields()
    known |= {option.lstrip("-").replace("-", "_") for option in all_options()}
    assert not {*aliases.ALIASES} - known
    assert not {(word, meant) for word, meant in aliases.MEANINGS if word not in aliases.ALIASES[meant]}


def test_of_several_names_the_likeliest_is_meant():
    assert aliases.alias_of("n_steps", ["n_step", "num_steps"]) == "num_steps"
    assert aliases.alias_of("n_steps", ["n_step"]) == "n_step"


def test_no_word_of_another_library_hides_one_of_shoal():
    assert not set(aliases.OTHER_COMMANDS) & set(main.COMMANDS)
    assert not set(aliases.OTHER_AGENTS) & set(AGENTS)
    assert not set(aliases.OTHER_ARGUMENTS) & set(inspect.signature(shoal.train).parameters)
    assert not set(aliases.OTHER_NAMES) & set(dir(shoal))


@pytest.mark.parametrize("word", aliases.OTHER_COMMANDS)
def test_every_command_that_is_suggested_exists(word):
    assert aliases.OTHER_COMMANDS[word].split()[0] in main.COMMANDS


@pytest.mark.parametrize("text", [*sentences()])
def test_every_text_names_what_exists(text):
    for command in re.findall(r"`shoal ([a-z-]+)", text):
        assert command in main.COMMANDS
    for page in re.findall(r"docs/([\w-]+\.md)", text):
        assert (DOCS / page).is_file()
    for name in re.findall(r"shoal\.(\w+)", text):
        assert hasattr(shoal, name)
    for option in re.findall(r"--[a-z][a-z-]+", text):
        assert option in all_options() or option[2:].replace("-", "_") in all_fields()


@pytest.mark.parametrize("word", aliases.OTHER_AGENTS)
def test_what_is_suggested_for_an_agent_exists(word):
    text = aliases.OTHER_AGENTS[word]
    named = [name for name in AGENTS if re.search(rf"\b{name}\b", text)]
    assert named
    for field, value in re.findall(r'(\w+)=("?\w+"?)', text):
        AGENTS[named[0]].build(**{field: {"True": True}.get(value, value.strip('"'))})
    with pytest.raises(ValueError, match=re.escape(text)):
        AGENTS[word.upper()]


@pytest.mark.parametrize(
    ("there", "here"),
    [
        ("ALE/MsPacman-v5", "gymnasium/ALE/MsPacman-v5"),
        ("PongNoFrameskip-v4", "gymnasium/ALE/Pong-v5"),
        ("HalfCheetah-v5", "gymnasium/HalfCheetah-v5"),
        ("Ant", "gymnasium/Ant-v5"),
        ("LunarLander-v2", "gymnasium/LunarLander-v3"),
        ("BipedalWalkerHardcore-v3", "gymnasium/BipedalWalkerHardcore-v3"),
        ("Craftax-Symbolic-v1", "craftax/Craftax-Symbolic-v1"),
        ("Navix-Empty-5x5-v0", "navix/Navix-Empty-5x5-v0"),
        ("mujoco", "gymnasium/HalfCheetah-v5"),
    ],
)
def test_environments_of_other_libraries_are_named_as_shoal_trains_in_them(there, here, monkeypatch):
    for found, end in ((None, "It needs another package: pip install"), (object(), "")):
        monkeypatch.setattr(aliases, "find_spec", lambda package, found=found: found)
        text = aliases.instead_of("env", there)
        assert f"write {here}. {end}".strip() in text and ("pip" in text) == bool(end)
    with pytest.raises(ValueError, match=re.escape(f"write {here}.")):
        ENVS[there]
    assert not aliases.instead_of("env", "CartPole-v9")


def test_gymnasium_has_the_ids_that_are_suggested():
    registry = pytest.importorskip("gymnasium").registry
    for suite in ("MuJoCo", "Box2D"):
        pattern = aliases.OTHER_SUITES[suite].pattern
        ids = {name for name in registry if re.search(pattern, name)}
        assert (
            ids
            and {aliases.instead_of("env", name).split("gymnasium/")[1].split(". ")[0].rstrip(".") for name in ids}
            <= ids
        )
