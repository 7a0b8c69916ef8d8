"""As much of JAX as docs/recipes/jax.md uses."""
import os

assert os.environ["JAX_PLATFORMS"] == "cpu" and os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"


def devices():
    return ["cpu"]


def jit(function):
    return function


def value_and_grad(function, h=1e-6):
    return lambda x: (function(x), (function(x + h) - function(x - h)) / (2 * h))
