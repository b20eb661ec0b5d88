import math
import os
import re
import warnings
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logit
from scipy.stats import kstest

from assent.data.door import assign
from assent.data.draws import draw_features, simulated
from assent.data.interactions import NO_ITEMS, Interactions
from assent.data.problem import make_problem
from assent.data.readers import read_interactions
from assent.data.unwillingness import REGISTRY, SOURCES, for_the_record, in_words
from assent.support.errors import AssentError

pytestmark = pytest.mark.filterwarnings("ignore:.*nothing but 0 and 1")
GAMES = pl.DataFrame(
    {
        "item": ["chess", "doom", "portal", "tetris"],
        "title": [None, None, None, None],
        "category": [["Strategy"], ["Action"], ["Strategy", "Action"], []],
    },
    schema=NO_ITEMS.schema,
)


def log(pairs: list[tuple[str, str]], items: pl.DataFrame = GAMES) -> Interactions:
    table = pl.DataFrame(pairs, schema={"user": pl.String, "item": pl.String}, orient="row")
    return Interactions("games", table.with_columns(time=pl.lit(None, pl.Float64)), items)


ANN_AND_BOB = log([("bob", "doom"), ("ann", "chess"), ("ann", "portal"), ("bob", "chess")])


def values(
    interactions: Interactions,
    source: str,
    seed: int = 0,
    *,
    allow_unmatched: bool = False,
    scale: str = "0-1",
) -> list[float]:
    """The unwillingness of each row, also of those that are sealed."""
    assigned = assign(interactions, source, seed, allow_unmatched=allow_unmatched, scale=scale)
    pairs = ["user", "item"]
    kept = interactions.table.join(assigned.sealed, on=pairs, how="anti", maintain_order="left")
    assert assigned.table.select("user", "item", "time").equals(kept.select("user", "item", "time"))
    said = pl.concat(each.select(*pairs, "unwillingness") for each in (assigned.table, assigned.sealed))
    rows = interactions.table.select(pairs).join(said, on=pairs, how="left", maintain_order="left")
    return rows["unwillingness"].to_list()


def grid(users: int, items: int) -> Interactions:
    return log([(f"u{user}", f"i{item}") for user in range(users) for item in range(items)], NO_ITEMS)


def test_nobodys_consent_is_invented() -> None:
    with pytest.raises(AssentError, match=r"games: no unwillingness is given; accepted: .*random") as caught:
        make_problem(ANN_AND_BOB, "full")
    assert SOURCES in str(caught.value)
    with pytest.raises(AssentError, match=r"games: no unwillingness is given; accepted: a column") as caught:
        assign(ANN_AND_BOB, "column", 0)
    assert SOURCES in str(caught.value)
    with_column = ANN_AND_BOB.with_unwillingness(pl.Series([0.0, 0.25, 0.5, 0.75]))
    assert values(with_column, "column") == [0.0, 0.25, 0.5, 0.75]


SCALES: dict[str, tuple[str, list[str], list[float]]] = {
    "percent": ("a percentage from 0 (use freely) to 100 (never)", ["80%", "25"], [0.8, 0.25]),
    "five": ("a whole number from 1 (use freely) to 5 (never)", ["5", "2"], [1.0, 0.25]),
    "flag": ("0, false or no (use freely), or 1, true or yes (never)", ["yes", "0"], [1.0, 0.0]),
}


@pytest.mark.parametrize("kind", ["text", "r.yaml", "r.csv", "r.json", "file"])
@pytest.mark.parametrize("scale", SCALES)
def test_rules_and_wishes_are_read_by_the_scale(scale: str, kind: str, tmp_path: Path) -> None:
    _, (ann, bob), (of_ann, of_bob) = SCALES[scale]
    path = tmp_path / ("wishes.csv" if kind == "file" else kind)
    pairs = [("ann", "chess", ann), ("ann", "portal", ann), ("bob", "doom", bob), ("bob", "chess", bob)]
    written = {
        "text": "",
        "r.yaml": f"ann: {ann}\nbob: {bob}\n",
        "r.csv": f"user,unwillingness\nann,{ann}\nbob,{bob}\n",
        "r.json": f'{{"ann": "{ann}", "bob": {bob}}}',
        "file": "user,item,unwillingness\n" + "".join(",".join(pair) + "\n" for pair in pairs),
    }
    path.write_text(written[kind])
    source = {"text": f"user:ann={ann},bob={bob}", "file": f"file:{path}"}.get(kind, f"user:{path}")
    assert values(ANN_AND_BOB, source, scale=scale) == [of_bob, of_ann, of_ann, of_bob]


@pytest.mark.parametrize("scale", SCALES)
def test_other_rules_and_constants_are_read_by_the_scale_too(scale: str) -> None:
    accepted, (ann, bob), (of_ann, of_bob) = SCALES[scale]
    assert values(ANN_AND_BOB, f"constant:{ann}", scale=scale) == [of_ann] * 4
    categories = f"category:Strategy={ann},*={bob}"
    assert values(ANN_AND_BOB, categories, scale=scale) == [of_bob, of_ann, of_ann, of_ann]
    for wrong in ("user:ann=-1,*=0", "constant:101", "category:*=x", "user:*=\udc80", "constant:\u0661"):
        with pytest.raises(AssentError) as caught:
            values(ANN_AND_BOB, wrong, scale=scale)
        assert str(caught.value).endswith(f"; accepted: {accepted}")


@pytest.mark.parametrize("source", ["random", "random-category", "simulated", "column"])
def test_a_scale_on_which_nothing_is_written_is_refused(source: str, tmp_path: Path) -> None:
    minded = ANN_AND_BOB.with_unwillingness(pl.Series([0.1, 0.2, 0.3, 0.4]))
    refused = r"^scale=percent: nothing is written on it, .*; accepted: 0-1$"
    with pytest.raises(AssentError, match=refused):
        assign(minded, source, scale="percent")
    path = tmp_path / "log.csv"
    path.write_text("user,item,category\nann,chess,Strategy\n")
    with pytest.raises(AssentError, match="no unwillingness is given" if source == "column" else refused):
        read_interactions(path, unwillingness=source, scale="percent")
    with pytest.raises(AssentError, match="no unwillingness is given"):
        read_interactions(path, scale="percent")
    # The log's own column says what is never, whatever the source.
    path.write_text("user,item,category,unwillingness\nann,chess,Strategy,100\nann,doom,Action,40\n")
    read = read_interactions(path, unwillingness=source, scale="percent")
    assert read.sealed["item"].to_list() == ["chess"]


def test_constant() -> None:
    assert values(ANN_AND_BOB, "constant:0.3") == [0.3] * 4


@pytest.mark.parametrize(
    "source",
    [
        "", "nonsense", "random:3", "column:x", "constant", "constant:1.1", "constant:nan", "constant:x",
        "constant:0_1", "simulated:0_1,1,1",
        "file:", "category:", "category:Action", "category:Action=2", "user:", "simulated:1",
        "simulated:1,2,x", "simulated:2,1,1", "simulated:-1,1,1", "simulated:0,1,-1", "simulated:0,1,inf",
    ],
)  # fmt: skip
def test_refuses_other_sources(source: str) -> None:
    with pytest.raises(AssentError, match="accepted: "):
        assign(ANN_AND_BOB, source, 0)


def test_every_source_is_known_by_its_forms_and_says_what_it_is() -> None:
    assert ", ".join(form for source in REGISTRY.values() for form in source.forms) == SOURCES
    for name, source in REGISTRY.items():
        assert all(form.partition(":")[0] == name for form in source.forms)
        assert source.help
        assert "\n" not in source.help


def test_exactly_the_rows_at_one_are_sealed() -> None:
    log = ANN_AND_BOB.with_unwillingness(pl.Series([1.0, math.nextafter(1, 0), 0.0, 1.0]))
    assert log.table["item"].to_list() == ["chess", "portal"]
    assert log.sealed.select("user", "item", "reason").rows() == [
        ("bob", "doom", "never"),
        ("bob", "chess", "never"),
    ]
    # What was sealed is not brought back by another source.
    assert assign(log, "constant:0.3", 0).sealed.equals(log.sealed)


def test_rows_above_the_limit_are_sealed_unread() -> None:
    log = ANN_AND_BOB.with_unwillingness(pl.Series([0.8, 0.81, 0.0, 1.0]))
    closed = assign(log, "column", closed=0.8)
    assert closed.table["unwillingness"].to_list() == [0.8, 0.0]
    assert sorted(closed.sealed["reason"]) == ["closed", "never"]
    for wrong in (-0.1, 1.1, math.nan):
        with pytest.raises(AssentError, match=r"closed=.*: accepted: a number from 0 to 1"):
            assign(log, "column", closed=wrong)


def test_means_are_of_the_rows_that_may_be_read() -> None:
    log = ANN_AND_BOB.with_unwillingness(pl.Series([0.9, 0.2, None, 1.0], dtype=pl.Float64))
    for rest in ("mean", "own-mean"):
        filled = assign(log, "column", 0, rest, closed=0.8).table
        assert filled.filter(item="portal")["unwillingness"].to_list() == [pytest.approx(0.2)]
        assert filled["source"].to_list() == ["column", f"rest:{rest}"]
    alike = assign(log, "column", 0, "0.9", closed=0.8)
    assert alike.sealed.filter(item="portal").select("source", "reason").rows() == [("rest:0.9", "closed")]


# --- draws


@settings(deadline=None)
@given(st.permutations(range(12)), st.integers(0, 2**64))
def test_random_does_not_depend_on_the_order_or_presence_of_rows(order: list[int], seed: int) -> None:
    whole = grid(3, 4)
    mixed = Interactions(whole.name, whole.table[order][:7], whole.items)
    for source in ("random", "simulated"):
        expected = assign(whole, source, seed).table
        found = assign(mixed, source, seed).table.join(expected, on=["user", "item"], how="left")
        assert (found["unwillingness"] == found["unwillingness_right"]).all()


def test_random_is_the_same_on_every_machine() -> None:
    expected = [0.13528513201721915, 0.39879688583992234, 0.41180453799347794, 0.23352377628062893]
    assert values(ANN_AND_BOB, "random", 7) == expected


def test_random_is_uniform_and_independent_between_seeds_users_and_items() -> None:
    first, second = (np.array(values(grid(150, 150), "random", seed)) for seed in (0, 1))
    assert kstest(first, "uniform").pvalue > 0.01
    assert 0 < first.min() < first.max() < 1
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.02
    table = first.reshape(150, 150)
    for means in (table.mean(axis=0), table.mean(axis=1)):
        assert means.std() == pytest.approx(math.sqrt(1 / 12 / 150), rel=0.2)


def test_random_category_is_shared_within_a_users_category() -> None:
    pairs = [
        (user, item) for user in ("ann", "bob") for item in ("chess", "portal", "doom", "tetris", "myst")
    ]
    ann, bob = np.array(values(log(pairs), "random-category")).reshape(2, 5)
    for chess, portal, *others in (ann, bob):
        assert chess == portal
        assert len({chess, *others}) == 4
    assert not set(ann) & set(bob)


def test_random_category_needs_categories() -> None:
    with pytest.raises(AssentError, match="games: no item has a category"):
        assign(log([("ann", "tetris"), ("ann", "myst")]), "random-category", 0)


def test_simulated_is_the_logistic_of_one_layer_on_the_features() -> None:
    whole = grid(40, 40)
    pairs = whole.table["user"], whole.table["item"]
    beta = simulated(*pairs, 3, sensitivity=(1, 1, 0), features=4).to_numpy()
    users = draw_features(whole.table["user"], "user", 3, 4)
    items = draw_features(whole.table["item"], "item", 3, 4)
    inputs = np.column_stack([users, items, np.ones(len(whole))])
    layer, *_ = np.linalg.lstsq(inputs, logit(beta))
    np.testing.assert_allclose(inputs @ layer, logit(beta), atol=1e-9)
    assert np.abs(layer).min() > 1e-3


def test_simulated_sensitivity_scales_and_shifts_by_user() -> None:
    whole = grid(400, 5)

    def logits(*sensitivity: float) -> np.ndarray:
        a1, a2, a3 = sensitivity
        pairs = whole.table["user"], whole.table["item"]
        return logit(simulated(*pairs, 0, sensitivity=(a1, a2, a3)).to_numpy()).reshape(400, 5)

    plain = logits(1, 1, 0)
    scale = logits(0.5, 2, 0) / plain
    np.testing.assert_allclose(scale, scale[:, :1].repeat(5, axis=1))
    assert kstest(scale[:, 0], "uniform", (0.5, 1.5)).pvalue > 0.01
    level = logits(0, 0, 3)
    np.testing.assert_allclose(level, level[:, :1].repeat(5, axis=1))
    assert kstest(level[:, 0], "norm", (0, 3)).pvalue > 0.01
    np.testing.assert_allclose(logits(0.5, 2, 3), scale * plain + level, atol=1e-9)


def test_simulated_never_says_never() -> None:
    pairs = grid(50, 50).table
    beta = simulated(pairs["user"], pairs["item"], 0, sensitivity=(1e3, 1e3, 1e3))
    assert beta.max() == math.nextafter(1, 0)


def test_simulated_alone_takes_the_papers_sensitivity() -> None:
    assert values(ANN_AND_BOB, "simulated", 5) == values(ANN_AND_BOB, "simulated:0.5,1,1", 5)
    assert values(ANN_AND_BOB, "simulated", 5) != values(ANN_AND_BOB, "simulated:0.5,2,1", 5)


# --- rules


def test_an_item_takes_the_largest_of_its_categories() -> None:
    assert values(ANN_AND_BOB, "category:Action=0.9,Strategy=0.1") == [0.9, 0.1, 0.9, 0.1]


def test_categories_without_a_rule_take_the_default() -> None:
    pairs = [("ann", "portal"), ("ann", "tetris"), ("ann", "myst"), ("ann", "doom")]
    assert values(log(pairs), "category:Action=0.1,*=0.4") == [0.4, 0.4, 0.4, 0.1]


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("chess", "item 'chess' has category 'Strategy', which has no rule"),
        ("tetris", "item 'tetris' has no category"),
        ("myst", "item 'myst' has no category"),
    ],
)
def test_an_item_without_a_rule_is_named(item: str, message: str) -> None:
    with pytest.raises(AssentError, match=message):
        assign(log([("ann", "doom"), ("ann", item)]), "category:Action=0.1", 0)


def test_users() -> None:
    assert values(ANN_AND_BOB, "user:bob=1,ann=0") == [1, 0, 0, 1]
    assert values(ANN_AND_BOB, "user:bob=1,*=0.5") == [1, 0.5, 0.5, 1]
    with pytest.raises(AssentError, match="no rule for 1 users of games, first 'ann'"):
        assign(ANN_AND_BOB, "user:bob=1", 0)


def test_a_rule_for_nothing_in_the_log_is_refused_unless_it_is_allowed() -> None:
    rules = "user:Bob=1,eve=1,*=0.5"
    with pytest.raises(AssentError, match=r"'Bob'.*allow_unmatched=True"):
        assign(ANN_AND_BOB, rules, 0)
    with pytest.warns(UserWarning, match="'Bob'"):
        assert values(ANN_AND_BOB, rules, allow_unmatched=True) == [0.5] * 4


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(["Action", "Strategy", "Puzzle"]), st.floats(0, 1)), st.floats(0, 1))
def test_category_rules_agree_with_a_plain_loop(rules: dict[str, float], otherwise: float) -> None:
    pairs = [("ann", item) for item in ("tetris", "portal", "doom", "chess", "myst")]
    known = dict(GAMES.select("item", "category").iter_rows())
    expected = [
        max((rules.get(category, otherwise) for category in known.get(item) or [""]), default=otherwise)
        for _, item in pairs
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        text = ",".join(f"{name}={value!r}" for name, value in {**rules, "*": otherwise}.items())
        assert values(log(pairs), f"category:{text}", allow_unmatched=True) == expected


# --- side files


def side_file(folder: Path, rows: str) -> Path:
    path = folder / "side.csv"
    path.write_text(f"user,item,unwillingness\n{rows}")
    return path


def test_file_is_matched_by_pair_not_by_order(tmp_path: Path) -> None:
    path = side_file(tmp_path, "ann,chess,0.1\nann,portal,0.2\nbob,chess,0.3\nbob,doom,1\n")
    assert values(ANN_AND_BOB, f"file:{path}") == [1, 0.1, 0.2, 0.3]
    parquet = tmp_path / "side.parquet"
    pl.read_csv(path).write_parquet(parquet)
    assert values(ANN_AND_BOB, f"file:{parquet}") == [1, 0.1, 0.2, 0.3]


def test_file_with_a_row_for_all_other_pairs(tmp_path: Path) -> None:
    path = side_file(tmp_path, "*,*,0.5\nann,chess,0\n")
    assert values(ANN_AND_BOB, f"file:{path}") == [0.5, 0, 0.5, 0.5]


def test_file_that_lacks_pairs_names_the_first(tmp_path: Path) -> None:
    path = side_file(tmp_path, "bob,doom,1\nann,chess,0\n")
    with pytest.raises(AssentError, match="for 2 of the 4 rows of games, first user 'ann', item 'portal'"):
        assign(ANN_AND_BOB, f"file:{path}", 0)


def test_file_with_pairs_that_are_not_in_the_log_is_refused_unless_it_is_allowed(tmp_path: Path) -> None:
    path = side_file(tmp_path, "bob,tetris,1\nbob,myst,1\n*,*,0\n")
    about = "2 pairs not in games, first user 'bob', item 'tetris'"
    with pytest.raises(AssentError, match=f"{about}; accepted: pairs of the log, or allow_unmatched=True"):
        assign(ANN_AND_BOB, f"file:{path}", 0)
    with pytest.warns(UserWarning, match=f"ignored {about}"):
        assert values(ANN_AND_BOB, f"file:{path}", allow_unmatched=True) == [0] * 4


def test_file_that_contradicts_itself_is_refused(tmp_path: Path) -> None:
    path = side_file(tmp_path, "bob,doom,1\n*,*,0\nbob,doom,0.5\n")
    message = r"rows 1 and 3 say 1.0 and 0.5 about user 'bob' and item 'doom'; accepted: one value for each"
    with pytest.raises(AssentError, match=message):
        assign(ANN_AND_BOB, f"file:{path}", 0)


def test_file_of_willingness_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "side.csv"
    path.write_text("user,item,Willingness\nbob,doom,1\n*,*,0\n")
    with pytest.raises(AssentError, match=r"column 'Willingness' seems to say the reverse of unwillingness"):
        assign(ANN_AND_BOB, f"file:{path}", 0)


@pytest.mark.parametrize("value", ["", "nan", "-0.1", "1.01", "often"])
def test_file_with_a_wrong_value_names_the_row(value: str, tmp_path: Path) -> None:
    path = side_file(tmp_path, f"bob,doom,1\nann,chess,{value}\n*,*,0\n")
    with pytest.raises(AssentError, match=r"row 2, column 'unwillingness' is .*; accepted: a number from 0"):
        assign(ANN_AND_BOB, f"file:{path}", 0)


def test_file_without_the_column_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "side.csv"
    path.write_text("user,item\nann,chess\n")
    with pytest.raises(AssentError, match=r"side.csv: no column 'unwillingness'"):
        assign(ANN_AND_BOB, f"file:{path}", 0)


def test_what_was_filled_in_is_remembered() -> None:
    told = assign(ANN_AND_BOB, "user:ann=0.2", seed=0, rest="0.7")
    assert (told.table["source"] == "rest:0.7").to_list() == (told.table["user"] == "bob").to_list()
    assert set(assign(told, "random", seed=0).table["source"]) == {"random"}
    assert assign(told, "column").table.equals(told.table)


def test_wishes_are_as_old_as_the_file_says_or_as_the_file_is(tmp_path: Path) -> None:
    path = side_file(tmp_path, "ann,chess,0.1\n*,*,0.2\n")
    os.utime(path, (0, 86400))
    said = assign(ANN_AND_BOB, f"file:{path}").table
    assert set(said["said"]) == {"1970-01-02T00:00:00Z"}
    assert set(said["source"]) == {"file:side.csv", "rest:0.2"}
    path.write_text("user,item,unwillingness,time\nann,chess,0.1,2026-03-01T10:00Z\n*,*,0.2,2026-01-01\n")
    dated = assign(ANN_AND_BOB, f"file:{path}").table.filter(pl.col("item") == "chess").sort("user")
    assert dated["said"].to_list() == ["2026-03-01T10:00:00Z", "2026-01-01T00:00:00Z"]
    path.write_text("user,item,unwillingness,time\n*,*,0.2,-5\n")
    with pytest.raises(AssentError, match=r"side.csv: a time is not after 1970; accepted: dates, or seconds"):
        assign(ANN_AND_BOB, f"file:{path}")


def test_rules_of_a_file_are_as_old_as_the_file_and_draws_have_no_time(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text("ann: 0.2\nbob: 0.4\n")
    os.utime(path, (0, 86400))
    assert set(assign(ANN_AND_BOB, f"user:{path}").table["said"]) == {"1970-01-02T00:00:00Z"}
    for source in ("user:ann=0.2,bob=0.4", "random", "constant:0.3", "category:Action=0.1,*=0.4"):
        assert set(assign(ANN_AND_BOB, source).table["said"]) == {None}


# --- the record of a run


@pytest.mark.parametrize(
    ("source", "kept"),
    [
        ("column", "column"),
        ("simulated:0.5,1,1", "simulated:0.5,1,1"),
        ("category:Health=0.9,*=0.1", "category:Health=0.9,*=0.1"),
        ("category:/home/ann/rules.yaml", "category:rules.yaml"),
        ("user:secret/wishes.CSV", "user:wishes.CSV"),
        ("file:/home/ann/wishes", "file:wishes"),
    ],
)
def test_the_record_of_a_source_names_no_folder(source: str, kept: str) -> None:
    assert for_the_record(source) == kept


def test_the_record_of_rules_by_user_names_nobody() -> None:
    kept = for_the_record("user:ann=1,ben=0.5,*=0")
    assert re.fullmatch(r"user: 3 rules \([0-9a-f]{8}\)", kept)
    assert kept != for_the_record("user:ann=1,eve=0.5,*=0")
    assert for_the_record("user:ann=1").startswith("user: 1 rule (")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("column", ""),
        ("file:wishes.csv", "as wishes.csv says"),
        ("category:Health=0.9,*=0.1", "by its category: Health=0.9,*=0.1"),
        ("user: 3 rules (abcd)", "by rules for people: 3 rules (abcd)"),
        ("constant:0.3", "the same for all"),
        ("random", "drawn at random"),
        ("simulated:0.5,1,1", "simulated"),
    ],
)
def test_a_source_in_words(source: str, words: str) -> None:
    assert in_words(source) == words
