"""Learning over populations: selectors, which copy, replace and stop the members of a run while it trains."""
