"""Scoring graphs in ONNX, small enough to be written down as text; the numbers are added to them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from assent.models import IALS
from assent.support.arrays import Bools
from assent.support.errors import AssentError
from assent.support.runtime import one_thread

_LARGEST = 2**31 - 2**16
"""Bytes of an ONNX file: protobuf ends at 2 GB."""
_HEAD = '<ir_version: 8, opset_import: ["" : 17]>'
_SCORES = """
scores (int64[n] users) => (float[n, m] scores) {
  own = Gather<axis = 0>(user_vectors, users)
  scores = MatMul(own, item_vectors)
}
"""
_FOLD_IN = """
fold_in (int64[n] items) => (float[m] scores) {
  once = Unique<sorted = 1>(items)
  single = Gather<axis = 0>(rotated, once)
  theirs = Cast<to = 11>(single)
  across = Transpose<perm = [1, 0]>(theirs)
  length = Shape(once)
  count = Cast<to = 11>(length)
  more = Mul(count, l2)
  diagonal = Add(eigenvalues, more)
  rows = Constant<value_ints = [0]>()
  right = ReduceSum<keepdims = 0>(theirs, rows)
  start = Sub(right, right)
  way = Div(right, diagonal)
  size = MatMul(right, way)
  enough = Mul(size, tolerance)
  begin = Greater(size, enough)
  found, rest, last_way, last_size = Loop<body = step
    (int64 k, bool going, double[d] x, double[d] r, double[d] p, double e)
    => (bool go_on, double[d] next_x, double[d] next_r, double[d] next_p, double next_e) {
      by_item = MatMul(theirs, p)
      of_items = MatMul(across, by_item)
      of_ridge = Mul(diagonal, p)
      image = Add(of_items, of_ridge)
      bend = MatMul(p, image)
      far = Div(e, bend)
      move = Mul(far, p)
      next_x = Add(x, move)
      gone = Mul(far, image)
      next_r = Sub(r, gone)
      z = Div(next_r, diagonal)
      next_e = MatMul(next_r, z)
      turn = Div(next_e, e)
      kept = Mul(turn, p)
      next_p = Add(z, kept)
      go_on = Greater(next_e, enough)
    }>(most_steps, begin, start, right, way, size)
  zero = Constant<value = int64 {0}>()
  is_nobody = Equal(length, zero)
  person = Where(is_nobody, unknown, found)
  vector = Cast<to = 1>(person)
  products = MatMul(rotated, vector)
  scaled = Mul(products, a)
  scores = Add(scaled, b)
}
"""
Array = npt.NDArray[Any]


def scoring_graph(users: Array, items: Array) -> bytes:
    """Return the graph of the products of `users[n_users, d]`, by their places, with `items[n_items, d]`."""
    return _model(_SCORES, {"user_vectors": users, "item_vectors": np.ascontiguousarray(items.T)})


def fold_in_graph(model: IALS, shown: Bools) -> bytes:
    """Return the graph from the items that somebody discloses to the logits of the items `shown[n_items]`.

    The vector x of a person with the items' vectors H solves (G + ρ I + Σ h hᵀ) x = Σ h, where ρ grows with
    their number. In the basis of G's eigenvectors G + ρ I is diagonal, and conjugate gradients that are
    preconditioned by it need no more steps than there are items. They compute with 64 bits and stop at a
    squared residual of 10⁻²⁰ of the first.
    """
    items = model.item_table[:-1].detach().double().numpy()
    with one_thread():  # sums depend on the number of threads
        values, basis = np.linalg.eigh(model.alpha * items.T @ items)
    a, b = model.calibration.tolist()
    numbers = {
        "rotated": (items[shown] @ basis).astype(np.float32),
        "eigenvalues": np.maximum(values, 0) + model.l2 * model.alpha * len(items),
        "l2": np.array(model.l2),
        "tolerance": np.array(1e-20),
        "most_steps": np.array(2 * model.settings.dimension + 10),
        "unknown": model.user_table[-1].detach().double().numpy() @ basis,
        "a": np.array(a, dtype=np.float32),
        "b": np.array(b, dtype=np.float32),
    }
    return _model(_FOLD_IN, numbers)


def _model(text: str, numbers: Mapping[str, Array]) -> bytes:
    """Return the graph of the text, with these numbers as constants."""
    import onnx

    needed = sum(each.nbytes for each in numbers.values())
    if needed > _LARGEST:
        raise AssentError(
            f"onnx: the graph would have {needed / 10**9:.1f} GB; accepted: up to 2 GB, or other formats"
        )
    model = onnx.parser.parse_model(_HEAD + text)
    tensors = (onnx.numpy_helper.from_array(each, name) for name, each in numbers.items())
    model.graph.initializer.extend(tensors)
    onnx.checker.check_model(model)
    content: bytes = model.SerializeToString(deterministic=True)
    return content
