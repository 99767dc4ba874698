"""Building blocks for grid environments such as MiniGrid: packed cells, actions, the agent's view, level layouts."""
