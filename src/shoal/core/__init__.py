"""The base of all packages: structs, spaces, random keys, the base classes of environments and agents, the registry."""
