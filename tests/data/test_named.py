import gzip
import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from assent.data.interactions import NO_ITEMS, Interactions
from assent.data.named import NAMED, cut, read_named
from assent.errors import AssentError

PAIRS = [(f"u{user}", f"i{user}-{item % 6}", 10 * user + item) for user in range(3) for item in range(7)]
"""Three users with six items each, one of them twice."""


def as_atomic(folder: Path) -> None:
    lines = [f"{user}\t{item}\t{time}" for user, item, time in PAIRS]
    (folder / f"{folder.name}.inter").write_text(
        "\n".join(["session_id:token\titem_id:token\ttimestamp:float", *lines])
    )


def as_views(folder: Path) -> None:
    lines = [f"{user};NA;{item};{time};2016-05-09" for user, item, time in PAIRS]
    (folder / "train-item-views.csv").write_text(
        "\n".join(["sessionId;userId;itemId;timeframe;eventdate", *lines])
    )


def as_ratings(folder: Path) -> None:
    (folder / "ratings_Video_Games.csv").write_text(
        "\n".join(f"{user},{item},5.0,{time}" for user, item, time in PAIRS)
    )


def as_reviews(folder: Path) -> None:
    rows = [
        json.dumps({"reviewerID": user, "asin": item, "unixReviewTime": time}) for user, item, time in PAIRS
    ]
    (folder / "reviews_Video_Games_5.json.gz").write_bytes(gzip.compress("\n".join(rows).encode()))


def as_games(folder: Path) -> None:
    rows = [
        repr({"username": user, "product_id": item, "date": f"2017-12-{time + 1:02}"})
        for user, item, time in PAIRS
    ]
    (folder / "steam_reviews.json.gz").write_bytes(gzip.compress("\n".join(rows).encode()))


@pytest.mark.parametrize(
    ("name", "folder", "write"),
    [
        ("diginetica", "diginetica", as_atomic),
        ("diginetica", "Diginetica", as_views),
        ("diginetica", ".", as_views),
        ("steam", "steam", as_atomic),
        ("steam", "steam", as_games),
        ("amazon-video-games", "Amazon_Video_Games", as_atomic),
        ("amazon-video-games", "amazon-video-games", as_ratings),
        ("amazon-video-games", "amazon_video_games", as_reviews),
    ],
)
def test_each_format_gives_the_same_log(
    name: str, folder: str, write: Callable[[Path], None], tmp_path: Path
) -> None:
    place = tmp_path / folder
    place.mkdir(exist_ok=True)
    write(place)
    log = read_named(name, tmp_path)
    assert log.name == name
    assert log.table.height == 18
    first = log.table.filter(pl.col("user") == "u1").sort("time")
    assert first["item"].to_list() == [f"i1-{item}" for item in range(6)]


def test_the_cut_goes_on_until_both_ends_hold() -> None:
    # Without the popular item, "short" has four interactions left; without her, "rare" items vanish.
    rows = [("long", f"a{n}") for n in range(25)]
    rows += [("short", "popular")] + [("short", f"b{n}") for n in range(4)]
    rows += [(f"fan{n}", item) for n in range(3) for item in ("popular", *(f"c{n}-{k}" for k in range(5)))]
    table = pl.DataFrame(rows, schema=["user", "item"], orient="row").with_columns(time=pl.lit(0.0))
    found = cut(Interactions("log", table, NO_ITEMS), 3).table
    assert set(found["user"]) == {"fan0", "fan1", "fan2"}
    assert found.height == 15


def test_a_missing_data_set_says_where_to_get_it_and_how_to_lay_it_out(tmp_path: Path) -> None:
    for name, wanted in NAMED.items():
        for folder in (None, tmp_path, tmp_path / "nowhere"):
            with pytest.raises(AssentError) as error:
                read_named(name, folder)
            for part in (name, wanted.home, *wanted.originals, "--data-dir or ASSENT_DATA"):
                assert part in str(error.value)


def test_another_data_sets_folder_is_not_taken_for_it(tmp_path: Path) -> None:
    place = tmp_path / "diginetica"
    place.mkdir()
    as_atomic(place)
    with pytest.raises(AssentError, match="steam: not in"):
        read_named("steam", place)


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    (tmp_path / "steam_reviews.json.gz").write_bytes(gzip.compress(b"{'username': 'a'\n"))
    with pytest.raises(AssentError, match="line 1 is no record"):
        read_named("steam", tmp_path)


def test_too_little_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ratings_Video_Games.csv").write_text("a,b,5.0,1\n")
    with pytest.raises(AssentError, match="nobody has 5 to 20"):
        read_named("amazon-video-games", tmp_path)
