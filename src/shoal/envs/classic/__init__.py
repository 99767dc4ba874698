"""The five classic-control problems. Their steps are tested to equal Gymnasium's."""
