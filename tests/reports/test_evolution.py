"""The sections of an evolution: fitness over generations, and what was found."""

import shoal
from folders import write_evolution
from pages import Page


def test_an_evolution_shows_fitness_and_what_was_found(tmp_path):
    page = Page(shoal.report(write_evolution(tmp_path / "evolved")))
    # generation 1: (4 + 15) / 2, generation 2: (10 + 30) / 2
    assert "In 2 generations the mean fitness of the candidates went from 9.5 to 20." in page.text
    assert "The best single candidate had 30" in page.text and "2 candidates x 2 seeds" in page.text
    assert "learning_rate 0.002" in page.text and f"--found {tmp_path / 'evolved'} --seed 1" in page.text
    assert "without evaluations" not in page.text  # an evolution has none


def test_an_evolution_without_a_generation_and_with_nothing_found_says_so(tmp_path):
    folder = write_evolution(tmp_path / "evolved")
    (folder / "curves.npz").unlink()
    (folder / "found.json").write_text("{}")
    page = Page(shoal.report(folder))
    assert "No candidate has a fitness yet." in page.text
    assert not {"fitness", "found"} & {each["id"] for each in page.named("section")}
