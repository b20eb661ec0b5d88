import math
from typing import Any

import pytest
import torch
from torch import Tensor

from assent.models import Draws, NeuMF, NeuMFSettings, Sizes
from assent.models.layers import noise_edge

from .cases import SIZES, made, pairs


def silu(x: float) -> float:
    return x / (1 + math.exp(-x))


def layered(x: list[float], model: NeuMF) -> float:
    """The perceptron's output by plain loops."""
    weights, biases = list(model.perceptron.weights), list(model.perceptron.biases)
    for depth, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        if depth:
            x = [silu(value) for value in x]
        rows = zip(weight.tolist(), bias.tolist(), strict=True)
        x = [sum(a * b for a, b in zip(row, x, strict=True)) + offset for row, offset in rows]
    return x[0]


def neumf(**settings: Any) -> NeuMF:
    model = made("neumf", **settings)
    assert isinstance(model, NeuMF)
    return model


def squared(x: Tensor) -> float:
    return float(sum(value * value for value in x.flatten().tolist()))


def test_logits_and_penalties_agree_with_a_plain_loop() -> None:
    model = neumf(strength=0.4, perceptron_prior=3, decay=0.2)
    users, items = pairs(model)
    logits, penalties = model(users, items)
    edge = noise_edge(SIZES)
    drift = squared(model.product_weights - 1) + sum(map(squared, model.perceptron.parameters()))
    deep = squared(model.perceptron_user_table[:-1]) + squared(model.perceptron_item_table[:-1])
    for user in users.tolist():
        for item in items[0].tolist():
            p, q = model.user_table[user], model.item_table[item]
            deep_p, deep_q = model.perceptron_user_table[user], model.perceptron_item_table[item]
            terms = zip(model.product_weights.tolist(), p.tolist(), q.tolist(), strict=True)
            expected = sum(h * a * b for h, a, b in terms)
            expected += layered(deep_p.tolist() + deep_q.tolist(), model)
            assert logits[user, item].item() == pytest.approx(expected, rel=1e-10)
            penalty = 0.4 * edge * (squared(p) + squared(q)) + 0.2 * drift
            penalty += 3 / (7 * 3) * deep
            assert penalties[user, item].item() == pytest.approx(penalty / 2, rel=1e-10)


def test_unknown_users_and_items_get_the_mean_embeddings() -> None:
    model = neumf()
    for name in ("user_table", "item_table", "perceptron_user_table", "perceptron_item_table"):
        table = model.get_parameter(name)
        torch.testing.assert_close(table[-1], table[:-1].mean(0))


def test_it_starts_as_matrix_factorisation() -> None:
    """The perceptron's embeddings are small, so what it adds is."""
    model = NeuMF(SIZES, NeuMFSettings(layer_scale=0.1))
    model.initialise(Draws.numbered(model.sizes, 0))
    users, items = pairs(model)
    product = model.user_table @ model.item_table.T
    assert (model(users, items)[0] - product).abs().max() < 0.3 * product.abs().max()


def test_all_items_are_scored_in_parts() -> None:
    """32 hidden units of 200,000 items do not fit into one block with more than two users."""
    sizes = Sizes(users=4, items=200_000, rows=7, negatives=2)
    model = made("neumf", sizes=sizes, hidden=(32, 2))
    users, some = torch.arange(5), torch.tensor([0, 7, 199_999, 200_000])
    found = model.score_all(users, None)[:, some]
    torch.testing.assert_close(found, model(users, some.expand(5, -1), None)[0])
