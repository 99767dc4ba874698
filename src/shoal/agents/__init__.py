"""Learning algorithms: one file for each, registered by the decorator `@agent`."""
