"""`python -m shoal` is the command `shoal`."""

import os
import sys

if __name__ == "__main__":
    if not sys.flags.safe_path and sys.path[:1] == [os.getcwd()]:
        del sys.path[0]  # Python put the working folder there; files in it must not replace modules, nor be plug-ins
    from shoal.cli.main import main

    sys.exit(main())
