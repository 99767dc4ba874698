"""`python -m shoal` is the command `shoal`."""

import sys

from shoal.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
