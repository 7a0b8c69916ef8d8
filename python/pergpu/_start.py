"""The first code in the processes of an executor: `python .../pergpu/_start.py _call FILE`, or `_worker QUEUE`.

A script is compiled each time, a module only once: so this is short.  The module is loaded without the rest
of the package: until it has read the search path, only the standard library can be imported.
"""

import sys

if __name__ == "__main__":  # multiprocessing may read this file in a child, too
    here = sys.path[0]
    module = __import__(sys.argv.pop(1))
    sys.path.remove(here)
    module.main()
