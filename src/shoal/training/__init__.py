"""One run: its spec, plan, roster, population, loop and run folder; and what is done with trained policies."""
