"""`hydra/launcher=pergpu`: the jobs of a Hydra sweep as jobs of pergpu (docs/hydra.md).

Hydra imports all modules of `hydra_plugins` at each start of each of its programs, whatever their
launcher is.  So what costs time to import is in _launch.py, whose underscore keeps it away until
there is something to launch.  `hydra_plugins` belongs to all plugins: it has no __init__.py.
"""

__version__ = "0.2.0"
