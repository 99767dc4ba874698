"""The section of a report about the network of a policy."""

from shoal.reports.facts import Facts
from shoal.reports.markup import Cell, code, table
from shoal.reports.page import Section


def network_section(facts: Facts) -> Section | None:
    """Return the table of layers with the shapes of their arrays; None without a checkpoint."""
    if not facts.layers:
        return None
    rows = [
        [code(layer.name or "policy"), layer.arrays, Cell(f"{layer.numbers:,}", layer.numbers)]
        for layer in facts.layers
    ]
    total = sum(layer.numbers for layer in facts.layers)
    title = f"Network: {total:,} numbers in each member's policy"
    return Section("network", title, [table(("layer", "arrays", "numbers"), rows)])
