"""`hydra/launcher=pergpu`: runs the jobs of a Hydra sweep as jobs of pergpu (docs/hydra.md).

Hydra imports all modules of `hydra_plugins` at every start of every Hydra program, with any launcher.  So
the code that is slow to import is in _launch.py, which Hydra skips because of its underscore.
`hydra_plugins` belongs to all plugins: it has no __init__.py.
"""

__version__ = "0.2.0"
