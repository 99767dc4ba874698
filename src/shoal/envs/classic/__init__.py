"""The five classic-control problems, exact against Gymnasium's."""
