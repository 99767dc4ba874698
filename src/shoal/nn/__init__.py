"""Networks, initialisers and distributions."""
