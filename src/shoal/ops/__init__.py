"""Pure functions that agents share: returns, losses, replay buffers, running statistics, shuffles."""
