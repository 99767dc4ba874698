"""MiniGrid's environments: the ids, rules, missions and distributions of layouts of MiniGrid 3.2.0, step for step."""
