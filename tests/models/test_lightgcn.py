import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from assent.models import Evidence, LightGCN
from assent.models.layers import noise_edge

from .cases import SIZES, evidence, made, pairs, weighted


def lightgcn(**settings: Any) -> LightGCN:
    model = made("lightgcn", **settings)
    assert isinstance(model, LightGCN)
    return model


def propagated(model: LightGCN, shown: Evidence) -> tuple[Tensor, Tensor]:
    """The formula with a dense adjacency matrix, filled edge by edge."""
    nodes = model.n_users + model.n_items
    degrees = [0.0] * nodes
    rows = list(zip(shown.users.tolist(), shown.items.tolist(), shown.weights.tolist(), strict=True))
    for user, item, weight in rows:
        degrees[user] += weight
        degrees[model.n_users + item] += weight
    adjacency = torch.zeros(nodes, nodes, dtype=torch.float64)
    for user, item, weight in rows:
        node = model.n_users + item
        value = weight / math.sqrt(max(1, degrees[user]) * max(1, degrees[node]))
        adjacency[user, node] += value
        adjacency[node, user] += value
    base = torch.cat([model.user_table[:-1], model.item_table[:-1]])
    layers = [base]
    for _ in range(model.settings.layers):
        layers.append(adjacency @ layers[-1])
    mean = sum(layers, torch.zeros_like(base)) / len(layers)
    users, items = mean[: model.n_users], mean[model.n_users :]
    return torch.cat([users, users.mean(0, True)]), torch.cat([items, items.mean(0, True)])


@pytest.mark.parametrize("layers", [0, 1, 3])
@pytest.mark.parametrize("training", [False, True])
def test_scores_and_penalties_agree_with_the_dense_formula(layers: int, training: bool) -> None:
    model = lightgcn(layers=layers, strength=0.3)
    model.train(training)
    users, items = pairs(model)
    e_users, e_items = propagated(model, evidence())
    logits, penalties = model(users, items, model.prepare(evidence()))
    torch.testing.assert_close(logits, e_users @ e_items.T)
    squares = model.user_table.square().sum(1)[:, None] + model.item_table.square().sum(1)
    torch.testing.assert_close(penalties, 0.5 * 0.3 * noise_edge(SIZES) * squares)


def test_disclosed_graphs_have_the_normalisation_of_the_paper() -> None:
    """With weights of 1 every node with an edge has a degree of at least 1."""
    model = lightgcn(layers=1)
    shown = weighted(evidence(), torch.ones(7, dtype=torch.float64))
    users = model.prepare(shown).users
    # User 2 has item 3 alone, which user 1 has as well.
    expected = (model.user_table[2] + model.item_table[3] / math.sqrt(1 * 2)) / 2
    torch.testing.assert_close(users[2], expected)


def test_an_only_edge_enters_in_proportion_to_its_weight() -> None:
    model = lightgcn(layers=1)
    shown = Evidence(torch.tensor([3]), torch.tensor([4]), torch.zeros(1, dtype=torch.float64))
    weights = shown.weights.clone().requires_grad_()
    slope = torch.autograd.grad(model.prepare(replace(shown, weights=weights)).users[3].sum(), weights)[0]
    torch.testing.assert_close(slope[0], model.item_table[4].sum() / 2)


def test_the_sparse_products_have_the_gradients_of_the_edges() -> None:
    """Of first and second order, in training mode, where the weights are constants."""
    model = lightgcn(layers=2)
    users, items = pairs(model)
    parameters = list(model.parameters())

    def derivatives() -> tuple[Tensor, ...]:
        loss = model.losses(users, items, model.prepare(evidence())).sum()
        first = torch.autograd.grad(loss, parameters, create_graph=True)
        second = torch.autograd.grad(torch.cat([x.flatten() for x in first]).square().sum(), parameters)
        return (*first, *second)

    for by_edge, by_matrix in zip(derivatives(), (model.train(), derivatives())[1], strict=True):
        torch.testing.assert_close(by_edge, by_matrix)


def test_the_kept_graph_is_made_anew_when_weights_or_precision_change() -> None:
    model = lightgcn()
    model.train()
    shown = evidence()
    model.prepare(shown)
    shown.weights[0] = 0.25
    fresh = lightgcn()
    torch.testing.assert_close(model.prepare(shown).users, fresh.prepare(shown).users)
    assert model.float().prepare(shown).users.dtype == torch.float32
