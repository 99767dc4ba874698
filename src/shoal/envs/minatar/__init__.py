"""MinAtar: five Atari games on ten by ten cells."""
