"""Drawing into uint8 arrays, on the host."""
