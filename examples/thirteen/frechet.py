"""The Fréchet distance of two normal distributions fitted to two sets of features.

Dowson, Landau 1982: |m1 - m2|^2 + trace(C1 + C2 - 2 (C1 C2)^(1/2)).  Heusel and others 2017 ("GANs
trained by a two time-scale update rule") made it the usual measure of generated images, FID.
"""

import numpy as np


def fit(features):
    """Mean and covariance of N x F features."""
    return features.mean(axis=0), np.cov(features, rowvar=False)


def root(matrix):
    """Square root of a symmetric matrix without negative eigenvalues."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(values.clip(min=0))) @ vectors.T


def distance(one, other):
    """The trace of (C1 C2)^(1/2) is that of (R C2 R)^(1/2) with R = C1^(1/2), which is symmetric:
    its eigenvalues are real, where the product's own would need a general square root."""
    (mean1, cov1), (mean2, cov2) = one, other
    root1 = root(cov1)
    overlap = np.linalg.eigvalsh(root1 @ cov2 @ root1).clip(min=0)
    spread = np.trace(cov1) + np.trace(cov2) - 2 * np.sqrt(overlap).sum()
    return float(((mean1 - mean2) ** 2).sum() + spread)
