"""Structure, counted by hand."""

import numpy as np

from assent.worth.shrinkage import features


def test_counts_of_a_small_log() -> None:
    """Users a: x, y; b: x, z, w; c: x. x is shared by three, the rest stand alone."""
    users = np.array([0, 0, 1, 1, 1, 2])
    items = np.array([0, 1, 0, 2, 3, 0])
    found = features(users, items)
    np.testing.assert_array_equal(found[:, 0], [1, 0, 1, 0, 0, 1])
    np.testing.assert_allclose(np.expm1(found[:, 1]), [2, 0, 2, 0, 0, 2], atol=1e-12)
    # From a's x: b's two further interactions and none of c's; from b's x one of a's; from c's x all three.
    np.testing.assert_allclose(np.expm1(found[:, 2]), [2, 0, 1, 0, 0, 3], atol=1e-12)
    # Because of their x, two others may come to a's y and to b's z and w.
    np.testing.assert_allclose(np.expm1(found[:, 3]), [0, 2, 0, 2, 2, 0], atol=1e-12)
