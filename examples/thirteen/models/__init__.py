"""The generative models of this example.  Each is a module with two functions:

    loss(image, label) -> scalar to minimize, for a batch of images (N x 64, in [-1, 1])
    sample(label)      -> images (N x 64) of the given classes
"""

from .consistency import Consistency
from .ddpm import Ddpm
from .edm import Edm
from .flow import Flow
from .score import Score
from .vae import Vae

METHODS = {
    "ddpm": Ddpm,
    "edm": Edm,
    "flow": Flow,
    "score": Score,
    "consistency": Consistency,
    "vae": Vae,
}


def build(method, hyper_parameters):
    """The model called `method`; an unknown hyper-parameter is a TypeError."""
    if method not in METHODS:
        raise ValueError(f"method is '{method}', expected one of {', '.join(METHODS)}")
    return METHODS[method](**hyper_parameters)
