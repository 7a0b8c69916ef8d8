"""As much of Hydra as docs/recipes/hydra.md uses: overrides of flat keys, without a configuration file."""
import json
import sys
from types import SimpleNamespace


def read(value):
    try:
        return json.loads(value)
    except ValueError:
        assert value[0] == value[-1] == "'" or not set("=,[]{}") & set(value), f"to be quoted: {value}"
        return value.strip("'")


def main(version_base, config_path, config_name):
    def decorate(program):
        overrides = (word.partition("=")[::2] for word in sys.argv[1:])
        return lambda: program(SimpleNamespace(**{name: read(value) for name, value in overrides}))

    return decorate
