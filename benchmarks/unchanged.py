"""A selector that changes nothing, for selector_cost.py: a run can only import selectors from files."""

import shoal


@shoal.struct
class Unchanged(shoal.Selector):
    """Leave every member in its slot."""

    def select(self, state, standing, key):
        del key
        return state, shoal.Turnover.none(standing)
