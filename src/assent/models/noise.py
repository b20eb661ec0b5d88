"""How strong a penalty has to be for a log of this size: the unit of the models' L2 strengths."""

import math

from assent.models.base import Sizes


def noise_edge(sizes: Sizes) -> float:
    """The L2 coefficient at which matrix factorisation of pure noise collapses to zero.

    Near zero embeddings the loss pulls p_u and q_i together by ½ per positive, against c per sample. All is
    zero once c exceeds the largest singular value of the pulls, normalised by samples per user and per item;
    for positives placed at random that is

        ½ / (1 + negatives) · (1/√(rows per user) + 1/√(rows per item))

    What stands out of the noise survives a penalty somewhat below it. A fixed c would be weak on sparse logs
    and wipe out dense ones. Without rows there is nothing to penalise: 0.
    """
    if not sizes.rows:
        return 0.0
    per_user, per_item = sizes.rows / sizes.users, sizes.rows / sizes.items
    return 0.5 / (1 + sizes.negatives) * (1 / math.sqrt(per_user) + 1 / math.sqrt(per_item))


def prior(samples: float, sizes: Sizes) -> float:
    """The L2 coefficient, on a whole table, of a prior that weighs as much as so many samples of each row.

    The penalty c/2 · |table|² is in the loss of every sample, of which there are rows · (1 + negatives). An
    item that occurs much less than `samples` times then stays near 0, one that occurs much more is free. It
    suits what is known of popular items alone; an L2 penalty of each sample holds both back alike.
    """
    return samples / max(1, sizes.rows * (1 + sizes.negatives))
