"""Small grid worlds from articles about reinforcement learning in JAX: a grid with a goal, and a wall with gaps."""
