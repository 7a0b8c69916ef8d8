"""docs/schema/*.json, and values held against them.

check("ps", value) fails with the path and the reason of everything that does not fit.
"""
import functools
import json
import os

from jsonschema import Draft202012Validator, RefResolver

from harness import read

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
FOLDER = ROOT + "/docs/schema"


@functools.cache
def schemas():
    """{name: schema} of all files."""
    names = sorted(file.removesuffix(".json") for file in os.listdir(FOLDER) if file.endswith(".json"))
    return {name: json.loads(read(f"{FOLDER}/{name}.json")) for name in names}


@functools.cache
def validator(name):
    schema = schemas()[name]
    known = {other["$id"]: other for other in schemas().values()}
    return Draft202012Validator(schema, resolver=RefResolver(schema["$id"], schema, known))


def mistakes(name, value):
    """["jobs/0/exit: 'x' is not of type 'integer'", …]; those of alternatives are all listed."""
    found, work = [], list(validator(name).iter_errors(value))
    while work:
        error = work.pop()
        work += error.context or []
        found.append(f"{'/'.join(map(str, error.absolute_path))}: {error.message[:500]}")
    return found


def check(name, value):
    found = mistakes(name, value)
    assert not found, f"{name}.json:\n" + "\n".join(found)
    return value
