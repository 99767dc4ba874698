"""One run: its plan, population, loop and run folder; and what is done with trained policies."""
