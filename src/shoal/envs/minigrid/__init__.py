"""MiniGrid's worlds, step for step: the ids, rules, missions and layouts of MiniGrid 3.2.0."""
