"""`shoal verify`: execute parts of a run again, and compare every bit with its files."""

from shoal.cli.parser import Line, Parser, real_number, whole_number


def verify_parser() -> Parser:
    """The options of the command."""
    parser = Parser("verify", verify, "RUN [options]", opens_run=True)
    parser.add_argument("run", metavar="RUN", help="a run folder")
    minutes = "train again for at most so long, without compilation (default 5); 0: only compare files"
    parser.add_argument("--at-most", type=real_number, default=5.0, metavar="MINUTES", help=minutes)
    parser.add_argument("--seed", type=whole_number, default=0, metavar="N", help="chooses members and records")
    return parser


def verify(line: Line) -> int:
    """Check that a run is what its folder says: compare its files with each other, train random members again from the
    spec and from its checkpoints, and compare every bit. No code of the folder is run. The result is also written to
    verified.json, which `shoal report` shows. The exit status is 1 if the run is not what its folder says.

      shoal verify runs/ppo-CartPole-v1
      shoal verify runs/ppo-CartPole-v1 --at-most 30
      shoal train ppo CartPole-v1 --keep-checkpoints 2       more places at which a later check can begin
    """
    from shoal.cli.table import table
    from shoal.training import verification

    options = line.options
    found = verification.verify(
        options.run, at_most=options.at_most, seed=options.seed, trust_source=options.trust_source
    )
    print(table(("outcome", "compared", "note"), [[check.outcome, check.what, check.note] for check in found.checks]))
    print(found.headline)
    return 0 if found.outcome in (verification.VERIFIED, verification.AGREES) else 1
