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
