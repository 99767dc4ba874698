"""Networks, weight initialisers and action distributions."""
