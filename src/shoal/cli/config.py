"""`shoal export-config`: write the hyperparameters of a run as a preset file."""

from shoal.cli.parser import Line, Parser, file_ending_in, read_member


def export_config_parser() -> Parser:
    """The options of `shoal export-config`."""
    parser = Parser("export-config", export_config, "RUN [options]")
    parser.add_argument("run", metavar="RUN", help="a run folder, or zoo:AGENT/ENV")
    parser.add_argument("--member", default="best", metavar="M", help="a number, or `best` (default)")
    about = "the file to write, ending in .toml (default: print it)"
    parser.add_argument("--out", type=file_ending_in(".toml"), metavar="FILE", help=about)
    return parser


def export_config(line: Line) -> None:
    """Write the hyperparameters of a run and its options as a preset file, which `shoal train --preset FILE` reads. Of
    a sweep it is the best setting, of a run with a selector the best member that is still trained, of an evolution what
    it has found.

      shoal export-config runs/ppo-CartPole-v1 --out best.toml
      shoal train ppo CartPole-v1 --preset best.toml
    """
    from shoal.training.export_config import export_config as write

    options = line.options
    text = write(options.run, options.out, read_member(options.member))
    print(options.out or text.rstrip())
