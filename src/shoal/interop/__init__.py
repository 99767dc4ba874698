"""Other people's environments in shoal, and shoal's environments in other people's programs."""
