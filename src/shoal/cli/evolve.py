"""`shoal evolve`: search for hyperparameters and learned losses with an evolution strategy over training runs."""

import argparse
from typing import Any

from shoal.cli.options import add_agent, add_env, add_options, given
from shoal.cli.parser import COMMAS_OUTSIDE, Line, Named, Parser, full_path, real_number, whole_number
from shoal.cli.tracking import add_tracking, tracking_in

OF_RUN = ("preset", "seed", "found", "block", "root")
OF_STRATEGY = ("strategy", "fitness", "optimizer", "shaping", "sigma", "sigma_decay", "segments", "rate", "minimize")
OF_ENVS = ("held_out", "test_seeds")
NEW = ("agent", "env", "vary", "name", "envs", *OF_ENVS)  # with those above, what --resume refuses
COMMON = ("figures", "progress", "devices", "memory_limit_gb", "trust_source")


def evolve_parser() -> Parser:
    """The options of the command; the fields of agent and environment are flags too."""
    usage = "EXPERIMENT | AGENT ENV --vary PATHS | AGENT --envs ENV,ENV --vary PATHS [options] [hyperparameters]"
    parser = Parser("evolve", evolve, usage, named=_named, opens_run=True)
    add_agent(parser, "or an experiment")
    add_env(parser)
    what = parser.add_argument_group("what evolves")
    what.add_argument(
        "--vary",
        action="append",
        metavar="PATH[=START]",
        help="a hyperparameter (PATH, PATH=LOW..HIGH or PATH=log(LOW,HIGH)), or a field for a struct, with the name of "
        "the struct to start from (value_loss=residual); separated by commas, or repeated",
    )
    what.add_argument("--generations", type=whole_number, metavar="N", help="default 100")
    what.add_argument("--candidates", type=whole_number, metavar="N", help="of each generation (default 32)")
    steps = "environment steps of each training run"
    about = "start from what another evolution has found"
    add_options(what, seeds="members of each candidate (default 2)", steps=steps, found=about)
    what.add_argument("--fitness", choices=("whole", "final"), help="mean return over the whole training or at its end")
    what.add_argument("--minimize", action="store_const", const=True, help="search for the smallest return")
    several = parser.add_argument_group("several environments")
    about = "in the place of ENV: train every candidate in each of these; its fitness is the mean of normalized returns"
    several.add_argument("--envs", type=_names, metavar="ENV,ENV", help=about)
    about = "environments in which only what was found is tested, beside the values of the start"
    several.add_argument("--held-out", type=_names, metavar="ENV,ENV", help=about)
    about = "of each run of this test, in all of these environments (default 8; 0: no test)"
    several.add_argument("--test-seeds", type=whole_number, metavar="N", help=about)
    how = parser.add_argument_group("the strategy")
    how.add_argument("--strategy", metavar="NAME", help="a strategy of evosax (default Open_ES)")
    how.add_argument("--sigma", type=real_number, metavar="X", help="standard deviation of the candidates")
    how.add_argument("--sigma-decay", type=real_number, metavar="X", help="factor of sigma after each generation")
    how.add_argument("--rate", type=real_number, metavar="X", help="learning rate of the strategy's optimizer")
    how.add_argument("--optimizer", metavar="NAME", help="adam or sgd, for strategies that have one")
    how.add_argument("--shaping", metavar="NAME", help="how fitness is transformed: ranks, z-score or none")
    about = "generations of a training run, for PersistentES"
    how.add_argument("--segments", type=whole_number, metavar="N", help=about)
    run = parser.add_argument_group("the run")
    add_options(run, seed="", records="records of each training run (default 5)", preset="", name="", root="")
    add_options(run, resume="continue the evolution in this folder, bit for bit", figures="", progress="")
    add_options(parser.add_argument_group("how to run it"), block="", devices="", distributed="", memory_limit_gb="")
    add_tracking(parser)
    return parser


def evolve(line: Line) -> None:
    """Evolve hyperparameters and learned losses. In each generation every candidate is trained from the beginning; its
    fitness is the mean return during training. All candidates train in one program.

      shoal evolve value-loss                                      an experiment; `shoal evolve` lists them
      shoal evolve value-loss --generations 20 --candidates 16 --name small
      shoal evolve ppo CartPole-v1 --vary value_loss=residual,learning_rate,value_coef --steps 50_000
      shoal evolve ppo CartPole-v1 --vary "learning_rate=log(1e-4,1e-1)" --fitness final --strategy CMA_ES
      shoal evolve ppo --envs CartPole-v1,Acrobot-v1 --held-out MountainCar-v0 --vary value_loss=residual
      shoal evolve --resume runs/value-loss
      shoal train ppo Acrobot-v1 --found runs/value-loss           train with what was found
    """
    from shoal.population.experiments import SIZES, experiments
    from shoal.studies.evolution import evolve as run

    options = line.options
    common = {**given(options, *COMMON), "track": tracking_in(options)}
    if options.resume:
        for name, value in given(options, *NEW, *OF_RUN, *SIZES, *OF_STRATEGY).items():
            if value != "":
                raise ValueError(f"--resume continues {options.resume} as it is: leave {name.replace('_', '-')} out.")
        _print(run(resume=options.resume, **common))
        return
    if not options.agent:
        from shoal.cli.table import table

        rows = [(found.name, found.agent, found.env, found.about) for found in experiments().values()]
        print(table(("experiment", "agent", "environment", "about"), rows))
        return
    if line.agent.sweep or line.env.sweep:
        raise ValueError("evolve takes one value for each hyperparameter: name those that evolve with --vary.")
    strategy = given(options, *OF_STRATEGY)
    if "rate" in strategy:
        strategy["learning_rate"] = strategy.pop("rate")
    if strategy.pop("minimize", False):
        strategy["maximize"] = False
    result = run(
        options.agent,
        options.env or None,
        _vary(options.vary),
        fields=line.agent.fixed,
        env_fields=line.env.fixed,
        options=strategy,
        name=options.name or ("" if options.env or options.envs else options.agent),
        **given(options, "envs", *OF_ENVS, *SIZES, *OF_RUN),
        **common,
    )
    _print(result)


def _print(result: Any) -> None:
    """Print the report of an evolution in process 0, which has its folder."""
    from shoal.training.processes import group

    if not group().number:
        print(_report(result))


def _named(options: argparse.Namespace) -> Named:
    """The agent and the environment whose fields are flags: those on the line, or those of the experiment."""
    from shoal.population.experiments import experiments

    if options.resume or not options.agent:
        return {}
    if not options.env and options.agent in experiments():
        experiment = experiments()[options.agent]
        return {"agent": experiment.agent, "env": "" if options.envs else experiment.env}
    return {"agent": options.agent, "env": options.env} if options.env or options.envs else {}


def _names(text: str) -> list[str]:
    """Return names that are separated by commas."""
    return [full_path(name) for name in filter(None, text.split(","))]


def _vary(texts: list[str] | None) -> dict[str, Any] | None:
    """Return `--vary` as the argument of `shoal.evolve`: ranges as tuples, names of structs as they are."""
    from shoal.cli.search import read_search

    if texts is None:
        return None
    vary: dict[str, Any] = {}
    for item in filter(None, COMMAS_OUTSIDE.split(",".join(texts))):
        path, _, start = (part.strip() for part in item.partition("="))
        is_range = ".." in start or "(" in start
        vary[path.replace("-", "_")] = next(iter(read_search([item]).values())) if is_range else start or None
    return vary


def _report(result: Any) -> str:
    """The fitness of the first, the best and the last generation, what was found, and how to use it.

    Candidates without a fitness, and generations in which no candidate has one, are left out.
    """
    import numpy as np

    from shoal.cli.table import table
    from shoal.core.struct import Struct
    from shoal.training.generations import fitness_of_generations
    from shoal.training.transfer import TRANSFER, TRANSFER_HEAD, cells_of, references_of

    scored = {
        g: row[np.isfinite(row)] for g, row in enumerate(fitness_of_generations(result)) if np.isfinite(row).any()
    }
    head = ("generation", "fitness mean", "min", "max")
    best_of = max if result.spec.selector.fields["maximize"] else min
    chosen = [min(scored), best_of(scored, key=lambda g: scored[g].mean()), max(scored)] if scored else []
    rows = [
        (g + 1, *(f"{x:.4g}" for x in (scored[g].mean(), scored[g].min(), scored[g].max())))
        for g in dict.fromkeys(chosen)
    ]
    found = ", ".join(
        f"{path} ({type(value).__name__})" if isinstance(value, Struct) else f"{path}={float(value):.4g}"
        for path, value in result.found.items()
    )
    none = "no candidate has finished an episode in training, so none has a fitness: train for more --steps"
    lines = [
        table(head, rows) if rows else none,
        f"found: {found}",
        f"to train with it: shoal train ... --found {result.folder}",
    ]
    if rows := result.summary.get("transfer"):
        lines += ["", TRANSFER, table(TRANSFER_HEAD, [*cells_of(rows)]), *references_of(rows), ""]
    return "\n".join([*lines, f"{result.folder}"])
