"""Small worlds of articles about learning in JAX: a grid with a goal, and a wall with doors."""
