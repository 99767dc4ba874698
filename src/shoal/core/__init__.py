"""What all packages use: structs, spaces, random keys, the base classes of environments and agents, the registry."""
