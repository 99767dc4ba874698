"""Small worlds in a plane: an arm that reaches, a swimmer among urchins, Pong in pixels."""
