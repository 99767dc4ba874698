"""The process of one worker of a study. It calls `shoal.tune` with the arguments that are its only word, as JSON.

It imports no JAX at its top: threads and caches are set before JAX starts.
"""

import json
import os
import signal
import sys
from collections.abc import Sequence

from shoal.core.errors import printable
from shoal.training.host import check_platform, prepare
from shoal.training.stopping import Stopped

MISTAKE = 2  # the exit status where a file, the storage or an argument is the reason


def main(words: Sequence[str]) -> int:
    """Run the worker; return its exit status: 128 plus the number of the signal that asked it to stop, or `MISTAKE`."""
    arguments = json.loads(words[0])
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # as SIGTERM: before and after training it ends the process at once
    prepare(cache=arguments["cache"])
    try:
        check_platform()
        from shoal.studies.tune import tune

        tune(**arguments)
    except Stopped as stopped:
        print(f"shoal: {printable(str(stopped))}", file=sys.stderr)
        return 128 + stopped.signal
    except (ValueError, OSError) as error:
        print(f"shoal: {printable(str(error))}", file=sys.stderr)
        return MISTAKE
    return 0


if __name__ == "__main__":
    status = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(status)  # without waiting for programs that still run or compile
