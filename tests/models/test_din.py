from typing import Any

import pytest
import torch
from torch import Tensor

from assent.models import DIN, DINSettings, Draws, Evidence, Sizes
from assent.models.layers import Histories, noise_edge

from .cases import SIZES, evidence, made, pairs, weighted, without


def din(**settings: Any) -> DIN:
    model = made("din", **settings)
    assert isinstance(model, DIN)
    return model


def score(model: DIN, shown: Evidence, user: int, item: int) -> tuple[Tensor, Tensor]:
    """Logit and Σ_j o_j |e_j|² by a loop over the history, with the attention's input written out."""
    target = model.item_table[item]
    interest, squares = torch.zeros_like(target), torch.zeros((), dtype=target.dtype)
    for owner, other, weight in zip(shown.users.tolist(), shown.items.tolist(), shown.weights, strict=True):
        if owner != user:
            continue
        past = model.item_table[other]
        squares = squares + weight * past.square().sum()
        if other != item:
            inputs = torch.cat([past, target, past - target, past * target])
            interest = interest + weight * model.attention(inputs) * past
    logit: Tensor = model.scorer(torch.cat([interest, target, interest * target]))
    return logit.squeeze() + model.item_bias[item], squares


def test_logits_and_penalties_agree_with_a_plain_loop() -> None:
    model = din(strength=0.4, decay=0.2, attention_decay=0.3, bias_prior=3)
    users, items = pairs(model)
    logits, penalties = model(users, items, model.prepare(evidence()))
    layers = 0.3 * model.attention.drift() + 0.2 * model.scorer.drift()
    dense = layers + 3 / (7 * 3) * model.item_bias[:-1].square().sum()
    for user in users.tolist():
        for item in items[0].tolist():
            logit, squares = score(model, evidence(), user, item)
            torch.testing.assert_close(logits[user, item], logit)
            lengths = model.item_table[item].square().sum() + squares
            torch.testing.assert_close(
                penalties[user, item], 0.5 * (0.4 * noise_edge(SIZES) * lengths + dense)
            )


def test_an_item_does_not_speak_for_itself() -> None:
    model = din()
    user, item = torch.tensor([0]), torch.tensor([[1]])
    found = model(user, item, model.prepare(evidence()))[0]
    torch.testing.assert_close(found, model(user, item, model.prepare(without(evidence(), 1)))[0])
    assert not torch.equal(found, model(user, item, model.prepare(without(evidence(), 0)))[0])


def test_it_starts_as_a_product_of_embeddings() -> None:
    kind = DIN(SIZES, DINSettings(dimension=4, layer_scale=0.0))
    kind.initialise(Draws.numbered(kind.sizes, 0))
    shown = weighted(evidence(), torch.ones(7))
    logit = kind(torch.tensor([0]), torch.tensor([[3]]), kind.prepare(shown))[0]
    torch.testing.assert_close(logit[0, 0], (kind.item_table[0] + kind.item_table[1]) @ kind.item_table[3])


@pytest.mark.parametrize(("latest", "kept"), [(1, [3]), (2, [2, 3]), (3, [0, 1, 2, 3]), (4, [0, 1, 2, 3])])
def test_only_the_latest_rows_are_read_and_those_of_weight_0_take_no_place(
    latest: int, kept: list[int]
) -> None:
    """User 1 has items 0, 1, 2, 3 in this order; item 1 has weight 0."""
    weights = torch.tensor([1.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0])
    histories = Histories.of(weighted(evidence(), weights), 4, latest=latest)
    places, items, shown = histories.of_users(torch.tensor([3, 1, 4, 2]))
    assert places.tolist() == [1] * len(kept) + [3]
    assert items.tolist() == [*kept, 3]
    assert shown.tolist() == [0.0 if item == 1 else 1.0 for item in kept] + [1.0]


def test_a_history_that_is_too_long_is_cut() -> None:
    shown = evidence()
    short = din(history=2)
    users, _ = pairs(short)
    found = short.score_all(users, short.prepare(shown))
    expected = short.score_all(users, short.prepare(without(without(shown, 2), 2)))
    torch.testing.assert_close(found, expected)
    long = din(history=3)
    assert not torch.equal(found, long.score_all(users, long.prepare(shown)))


def test_items_are_scored_in_parts() -> None:
    """With 256 numbers per item, 5 users and 7 rows of evidence, a block has room for 1,365 items."""
    model = din(sizes=Sizes(users=4, items=3000, rows=7, negatives=2), dimension=256)
    users, items = pairs(model)
    prepared = model.prepare(evidence())
    found = model.score_all(users, prepared)
    torch.testing.assert_close(model(users, items, prepared)[0], found)
    some = torch.tensor([1, 1500, 2999, 3000])
    torch.testing.assert_close(model(users, some.expand(5, -1), prepared)[0], found[:, some])


def test_an_unknown_item_has_the_mean_embedding_and_an_unknown_user_no_history() -> None:
    model = din()
    for table in (model.item_table, model.item_bias):
        torch.testing.assert_close(table[-1], table[:-1].mean(0))
    scores = model.score_all(torch.tensor([3, 4]), model.prepare(evidence()))
    assert torch.equal(scores[0], scores[1])
