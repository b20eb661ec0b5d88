from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor

from assent.models import CDAE, CDAESettings, Draws
from assent.models.layers import noise_edge

from .cases import SIZES, evidence, made, pairs, weighted

ACTIVATIONS = {"identity": lambda x: x, "tanh": torch.tanh, "sigmoid": torch.sigmoid}


def cdae(**settings: Any) -> CDAE:
    model = made("cdae", **settings)
    assert isinstance(model, CDAE)
    return model


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_logits_and_penalties_agree_with_a_plain_loop(activation: str) -> None:
    model = cdae(
        activation=activation, strength=0.4, input_strength=0.3, tie=0.6, bias_prior=3, hidden_bias_decay=0.2
    )
    users, items = pairs(model)
    logits, penalties = model(users, items, model.prepare(evidence()))
    edge, shown = noise_edge(SIZES), evidence()
    for user in users.tolist():
        total = model.user_table[user] + model.input_bias
        of_user = 0.4 * edge * model.user_table[user].square().sum()
        for owner, item, weight in zip(shown.users, shown.items, shown.weights, strict=True):
            if owner == user:
                read = model.input_table[item]
                total = total + weight * read
                apart = (read - model.item_table[item]).square().sum()
                of_user = of_user + weight * edge * (0.3 * read.square().sum() + 0.6 * apart)
        z: Tensor = ACTIVATIONS[activation](total)
        for item in items[0].tolist():
            out, bias = model.item_table[item], model.item_bias[item]
            torch.testing.assert_close(logits[user, item], out @ z + bias)
            of_biases = 0.2 * model.input_bias.square().sum()
            of_biases = of_biases + 3 / (7 * 3) * model.item_bias[:-1].square().sum()
            expected = 0.5 * (of_user + 0.4 * edge * out.square().sum() + of_biases)
            torch.testing.assert_close(penalties[user, item], expected)


def test_the_input_is_corrupted_in_training_alone() -> None:
    """Each item is left out with probability q and counts 1/(1 − q) otherwise.

    Lots are drawn anew for every batch; the samples of a user in a batch share them.
    """
    model = cdae(activation="identity", corruption=0.6)
    with torch.no_grad():
        model.input_table.fill_(1)
    users = torch.zeros(3, dtype=torch.int64)
    prepared = model.prepare(weighted(evidence(), torch.ones(7, dtype=torch.float64)))

    def read() -> list[float]:
        found = model._hidden(users, prepared)[0] - model.user_table[0] - model.input_bias
        return [round(each, 9) for each in found[:, 0].tolist()]

    assert read() == [2.0, 2.0, 2.0]
    model.train()
    torch.manual_seed(0)
    batches = [read() for _ in range(3000)]
    assert all(len(set(batch)) == 1 for batch in batches)
    counts = Counter(batch[0] for batch in batches)
    shares = {value: count / len(batches) for value, count in counts.items()}
    assert shares == pytest.approx({0.0: 0.36, 2.5: 0.48, 5.0: 0.16}, abs=0.03)
    torch.manual_seed(0)
    assert [read() for _ in range(3)] == batches[:3]


def test_the_tables_start_tied() -> None:
    model = CDAE(SIZES, CDAESettings(dimension=3))
    model.initialise(Draws.numbered(model.sizes, 0))
    assert torch.equal(model.input_table, model.item_table[:-1])
    assert model.input_table.std() > 0


def test_unknown_users_and_items_get_the_means() -> None:
    model = cdae()
    for table in (model.user_table, model.item_table, model.item_bias):
        torch.testing.assert_close(table[-1], table[:-1].mean(0))
