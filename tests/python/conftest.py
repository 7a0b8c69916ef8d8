"""The package as it lies in the repository."""
import os
import sys

PYTHON = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../python")
sys.path.insert(0, PYTHON)
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [PYTHON, os.environ.get("PYTHONPATH")]))
