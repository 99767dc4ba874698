"""`shoal trials`: list the trials of a study, also while it runs."""

from shoal.cli.parser import Line, Parser, file_ending_in, whole_number


def trials_parser() -> Parser:
    """The options of `shoal trials`."""
    parser = Parser("trials", trials, "STUDY [options]")
    parser.add_argument("study", metavar="STUDY", help="the folder of a study")
    about = "how many to list (default 10); 0: all"
    parser.add_argument("--best", type=whole_number, default=10, metavar="N", help=about)
    about = "a column to sort by, the smallest first (default: the score, the best first)"
    parser.add_argument("--sort", default="", metavar="COLUMN", help=about)
    about = "write all trials to this file instead"
    parser.add_argument("--csv", type=file_ending_in(".csv"), metavar="FILE", help=about)
    about = "print this trial as a preset file, for `shoal train --preset FILE`"
    parser.add_argument("--preset", type=whole_number, metavar="TRIAL", help=about)
    return parser


def trials(line: Line) -> None:
    """List the trials of a study, the best first, with their scores and hyperparameters. The study may be running.

    shoal trials runs/study
    shoal trials runs/study --best 0 --sort learning_rate
    shoal trials runs/study --csv trials.csv
    shoal trials runs/study --preset 12 > chosen.toml
    """
    from pathlib import Path

    from shoal.cli.table import table
    from shoal.studies.results import sorted_rows, trial_columns, trial_counts, trial_preset, write_trials
    from shoal.studies.study import open_trials

    options = line.options
    study = open_trials(options.study)
    if options.csv:
        print(write_trials(study, Path(options.csv)))
        return
    if options.preset is not None:
        print(trial_preset(study, Path(options.study), options.preset).rstrip())
        return
    columns = {_plain(column): column for column in trial_columns(study)}
    rows = sorted_rows(study, columns.get(_plain(options.sort)) or options.sort)
    shown = rows[: options.best or None]
    print(table(trial_columns(study), shown))
    counts = ", ".join(f"{count} {state}" for state, count in trial_counts(study).items())
    print(f"{len(shown)} of {len(rows)} trials shown ({counts or 'none yet'})")


def _plain(column: str) -> str:
    """A column as flags are written too: `learning-rate` is `learning_rate`."""
    return column.replace("-", "_")
