"""A kit for tile worlds: packed cells, what an agent does to them and sees of them, how levels are laid out."""
