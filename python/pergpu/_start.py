"""What the processes of an executor begin with: `python .../pergpu/_start.py _call FILE`, or `_worker QUEUE`.

A script is compiled each time, a module only once: so this is short.  The module comes without the rest
of the package, for until it has read the search path nothing but the standard library can be imported.
"""

import sys

if __name__ == "__main__":  # multiprocessing may read this file in a child, too
    here = sys.path[0]
    module = __import__(sys.argv.pop(1))
    sys.path.remove(here)
    module.main()
