"""Tables as people have them: what columns are taken for, and the numbers they become."""

import datetime
import os
import warnings
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from ejop import EGOP, EJOP, EGOPRegressor, EJOPClassifier
from ejop.columns import ColumnPreparer, SparseReducer, read_column
from ejop.columns._parsing import date_format, number_format
from ejop.rules import RidgeRule
from ejop.scaling import MixedScaler, QuantileColumns, slopes

N = 60
RNG = np.random.default_rng(0)
TEXTS = np.array([f"w{i} and {i * 7} more" for i in range(N)])
DATA = os.environ.get("EJOP_DATA")


def mixed(n=N, seed=0):
    """A table with a column of every kind."""
    rng = np.random.default_rng(seed)
    age = rng.normal(40, 12, n).round()
    age[::7] = np.nan
    return pd.DataFrame(
        {
            "sex": rng.choice(["male", "female"], n),
            "age": age,
            "town": rng.choice(["Ulm", "Bonn", "Kiel", None], n),
            "fare": [f"{x:.2f}".replace(".", ",") for x in rng.gamma(2, 20, n)],
            "seen": pd.to_datetime("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"),
            "member": rng.random(n) > 0.5,
        }
    )


def target(table):
    """Depends on sex and age."""
    age = table["age"].fillna(40)
    return ((table["sex"] == "male") * 2 + (age - 40) / 12 > 1).astype(int).to_numpy()


def quiet_fit(table, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return ColumnPreparer(**parameters).fit(table)


@parametrize_with_checks([ColumnPreparer(), SparseReducer(3)])
@pytest.mark.filterwarnings("ignore:left out")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# what a column is -------------------------------------------------------------------------------

HALF = np.arange(N) % 2 == 0
KINDS = {
    "numbers": (RNG.normal(size=N), "number"),
    "whole numbers": (RNG.integers(0, 9, N), "number"),
    "numbers with gaps": (np.where(HALF, np.nan, RNG.normal(size=N)), "number"),
    "decimals": ([Decimal(i) / 7 for i in range(N)], "number"),
    "truth": (HALF, "flag"),
    "truth with gaps": ([True, False, None] * 20, "category"),
    "two words": (np.where(HALF, "yes", "no"), "flag"),
    "two words with gaps": (["a", "b", None] * 20, "category"),
    "one word with gaps": (["a", None] * 30, "category"),
    "one number with gaps": (np.where(HALF, 7.0, np.nan), "category"),
    "words": (np.array(["a", "b", "c"] * 20), "category"),
    "codes as text": (np.array(["10", "20", "31"] * 20), "category"),
    "codes with zeros": (np.array([f"{i % 7:03d}" for i in range(N)]), "category"),
    "numbers as text": (np.array([f"{i * 1.5}" for i in range(N)]), "number"),
    "amounts": (np.array([f"${i:,}.50" for i in range(1000, 1000 + N)]), "number"),
    "shares": (np.array([f"{i * i} %" for i in range(N)]), "number"),
    "numbers and NA": (np.array(["NA", *(f"{i}.5" for i in range(N - 1))]), "number"),
    "whole numbers and NA": (["1", "2", "NA"] * 20, "number"),
    "dates": (np.datetime64("2020-01-01") + np.arange(N) * 3, "date"),
    "dates of Python": ([datetime.date(2020, 1, 1 + i % 28) for i in range(N)], "date"),
    "dates as text": (np.array([f"2020-01-{1 + i % 28:02d}" for i in range(N)]), "date"),
    "spans": (pd.to_timedelta(RNG.normal(size=N), "h"), "number"),
    "grades": (
        pd.Categorical(["low", "mid", "top"] * 20, ["low", "mid", "top"], ordered=True),
        "grade",
    ),
    "categorical": (pd.Categorical(["a", "b", "c"] * 20), "category"),
    "words and numbers": ([*("a", 1) * 29, "b", 2.0], "category"),
    "text with gaps": (np.where(HALF, TEXTS, None), "presence"),
}
SKIPPED = {
    "constant": (np.ones(N), "it is always 1"),
    "one word": (["a"] * N, "it is always 'a'"),
    "empty": (np.full(N, np.nan), "it is empty"),
    "nothing": ([None] * N, "it is empty"),
    "text": (TEXTS, "it is free text: 60 different values"),
    "identifier": ([f"x{i}" for i in range(N)], "it is an identifier"),
    "customer_id": (RNG.permutation(N) * 17, "it is an identifier: every row has its own number"),
    "rows": (np.arange(N) + 5, "it counts the rows"),
    "mixed": ([*(f"{i}.5" for i in range(N - 2)), "low", "high"], "it mixes numbers and others"),
    "lists": ([[1, 2]] * N, "its values are neither numbers nor text: list"),
    "placeholders": (
        [datetime.date(9999, 12, 31)] * N,
        "no date of it can be used: 60 dates are before 1500",
    ),
    "one day": ([datetime.date(2020, 1, 1)] * N, "it is always the same date"),
}


@pytest.mark.parametrize("name", KINDS)
def test_columns_are_what_they_look_like(name):
    values, kind = KINDS[name]
    table = pd.DataFrame({"c": values, "other": RNG.normal(size=N)})
    found = quiet_fit(table)
    assert found.columns_[0].name == "c"
    assert found.columns_[0].kind == kind
    assert np.isfinite(found.transform(table)).all()


@pytest.mark.parametrize("name", SKIPPED)
def test_what_cannot_be_used_is_left_out_and_told(name):
    values, why = SKIPPED[name]
    table = pd.DataFrame({name: values, "other": RNG.normal(size=N)})
    with pytest.warns(UserWarning, match=f"left out 1 column: '{name}': {why}"):
        found = ColumnPreparer().fit(table)
    assert [column.name for column in found.columns_] == ["other"]
    assert found.skipped_[0].why.startswith(why)
    assert any(why in line for line in found.in_words())


def test_a_category_of_very_many_levels_is_free_text():
    n = 100_000
    table = pd.DataFrame({"c": [f"level {i}" for i in range(n)], "x": np.arange(n) % 7})
    with pytest.warns(
        UserWarning, match="free text: 100,000 different values; kinds={'c': 'keep'}"
    ):
        ColumnPreparer().fit(table)


def test_a_user_may_say_what_a_column_is():
    table = pd.DataFrame(
        {
            "n": np.arange(N),
            "zip": np.arange(N) % 5,
            "when": ["2020-01-01", "2021-05-05"] * 30,
            "t": TEXTS,
        }
    )
    kinds = {"n": "keep", "zip": "category", "when": "date", "t": "skip"}
    found = ColumnPreparer(kinds=kinds).fit(table)  # nothing is warned of: all was asked for
    assert [c.kind for c in found.columns_] == ["number", "category", "date"]
    with pytest.raises(
        ValueError, match="`kinds` names 'a', which is not a column of the table; the col"
    ):
        ColumnPreparer(kinds={"a": "skip"}).fit(table)
    with pytest.raises(ValueError, match="`kinds` has 'text' for 't'; use one of number, category"):
        ColumnPreparer(kinds={"t": "text"}).fit(table)
    with pytest.raises(ValueError, match="column 't' is to hold numbers and has 'w0 and 0 more'"):
        ColumnPreparer(kinds={"t": "number"}).fit(table)


def test_no_column_left_is_an_error_with_the_remedy():
    with pytest.raises(
        ValueError, match=r"no column to learn from \(n: it counts the rows\); kinds="
    ):
        ColumnPreparer().fit(pd.DataFrame({"n": np.arange(N)}))


# the numbers ------------------------------------------------------------------------------------


def slow_features(table, columns):
    """The features of a table, a value at a time."""
    out = {}
    for column in columns:
        values = [None if pd.isna(v) else v for v in table[column.name]]
        if column.kind == "number":
            read = [
                np.nan if v is None else float(v.replace(",", ".") if isinstance(v, str) else v)
                for v in values
            ]
            out[column.name] = [np.nanmedian(read) if np.isnan(v) else v for v in read]
            if None in values:
                out[f"{column.name}_missing"] = [float(v is None) for v in values]
        elif column.kind == "flag":
            one = sorted({str(v) for v in values})[1]
            name = column.name if one == "True" else f"{column.name}_{one}"
            out[name] = [float(str(v) == one) for v in values]
        elif column.kind == "category":
            for level in sorted({v for v in values if v is not None}):
                out[f"{column.name}_{level}"] = [float(v == level) for v in values]
            if None in values:
                out[f"{column.name}_missing"] = [float(v is None) for v in values]
        elif column.kind == "date":
            days = [(v - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1) for v in values]
            out[f"{column.name}_days"] = days
            for cycle, length in (("weekday", 7), ("season", 365.2425)):
                turns = [2 * np.pi * (d % length) / length for d in days]
                out[f"{column.name}_{cycle}_sin"] = np.sin(turns)
                out[f"{column.name}_{cycle}_cos"] = np.cos(turns)
    return pd.DataFrame(out)


def test_features_are_those_of_a_slow_obvious_twin():
    table = mixed()
    preparer = ColumnPreparer().fit(table)
    slow = slow_features(table, preparer.columns_)
    assert preparer.get_feature_names_out().tolist() == slow.columns.tolist()
    np.testing.assert_allclose(preparer.transform(table), slow.to_numpy(), atol=1e-9)
    np.testing.assert_array_equal(ColumnPreparer().fit_transform(table), preparer.transform(table))


def libraries(table):
    """The same table as every library holds it."""
    yield pl.from_pandas(table)
    yield pa.Table.from_pandas(table)
    yield pa.Table.from_pandas(table.astype({"town": "category"}))
    yield table.convert_dtypes()
    yield table.convert_dtypes(dtype_backend="pyarrow")
    yield table.astype({"sex": object, "town": object, "member": object})
    yield pl.from_pandas(table).with_columns(pl.col("town").cast(pl.Categorical))


def test_every_library_gives_the_same_numbers():
    table = mixed()
    there = ColumnPreparer().fit(table)
    for other in libraries(table):
        here = ColumnPreparer()
        np.testing.assert_array_equal(here.fit_transform(other), there.transform(table))
        np.testing.assert_array_equal(there.transform(other), there.transform(table))
        assert here.in_words() == there.in_words()


def test_a_category_counts_as_one_column():
    """Rows of different levels are as far apart as two rows of a standardised number."""
    table = pd.DataFrame(
        {"c": RNG.choice(list("abcdefgh"), 4000), "f": RNG.choice(["u", "v"], 4000)}
    )
    preparer = ColumnPreparer().fit(table)
    Z = MixedScaler("standard", preparer.factors_).fit_transform(preparer.transform(table))
    differ = table["c"].to_numpy()[:-1] != table["c"].to_numpy()[1:]
    steps = np.diff(Z, axis=0) ** 2
    np.testing.assert_allclose(steps[:, :8].sum(1), 2.0 * differ)
    np.testing.assert_allclose(
        steps[:, 8], 2.0 * (table["f"].to_numpy()[:-1] != table["f"].to_numpy()[1:])
    )
    standard = np.diff(RNG.normal(size=100_000)) ** 2
    assert standard.mean() == pytest.approx(2.0, abs=0.05)


def test_rare_levels_share_a_feature_and_frequent_ones_are_few():
    many = np.array(["a"] * 300 + ["b"] * 200 + [f"r{i}" for i in range(40)] * 2 + ["c"] * 20)
    preparer = ColumnPreparer(max_levels=2).fit(pd.DataFrame({"c": many}))
    assert preparer.get_feature_names_out().tolist() == ["c_a", "c_b", "c_rare"]
    np.testing.assert_array_equal(
        preparer.transform(pd.DataFrame({"c": many})).sum(0), [300, 200, 100]
    )
    assert "rare levels share one feature: c (41)" in preparer.in_words()
    some = ColumnPreparer().fit(pd.DataFrame({"c": many}))  # of ten rows and more
    assert some.get_feature_names_out().tolist() == ["c_a", "c_b", "c_c", "c_rare"]


def test_groups_sum_to_the_columns_of_the_table():
    table = mixed()
    with pytest.warns(UserWarning, match="left out"):
        preparer = ColumnPreparer().fit(table.assign(constant=1))
    values = RNG.normal(size=(3, len(preparer.groups_)))
    found = preparer.by_column(values)
    assert found.shape == (3, 7)
    names = preparer.get_feature_names_out()
    mine = [name.startswith("town_") for name in names]
    np.testing.assert_allclose(found[:, 2], values[:, mine].sum(1))
    np.testing.assert_array_equal(found[:, 6], 0)


def test_output_is_a_table_where_that_is_asked_for():
    table = mixed()
    for kind, frame in (("pandas", pd.DataFrame), ("polars", pl.DataFrame)):
        found = ColumnPreparer().set_output(transform=kind).fit_transform(table)
        assert isinstance(found, frame)
        assert list(found.columns)[:3] == ["sex_male", "age", "age_missing"]


# text that is read ------------------------------------------------------------------------------

WRITTEN = {
    "plain": (["1", "-2.5", "3e2"], [1, -2.5, 300]),
    "decimal commas": (["1,5", "2", "-3,25"], [1.5, 2, -3.25]),
    "thousands": (["1,234", "12,345,678"], [1234, 12345678]),
    "thousands and decimals": (["1,234.5", "7"], [1234.5, 7]),
    "points between thousands": (["1.234,5", "7"], [1234.5, 7]),
    "many points": (["1.234.567", "1.000.000"], [1234567, 1000000]),
    "spaces": (["1 234,5", "12 000"], [1234.5, 12000]),
    "apostrophes": (["1'234.5", "1'000"], [1234.5, 1000]),
    "dollars": (["$1,200", "-$5", "$ 7.25"], [1200, -5, 7.25]),
    "euros": (["1.200,50 €", "5 €"], [1200.5, 5]),
    "codes of currencies": (["USD 5", "12 USD"], [5, 12]),
    "per cent": (["5%", "12.5 %"], [5, 12.5]),
    "minus signs": (["−5", "+3"], [-5, 3]),
    "brackets": (["(1,234)", "5"], [-1234, 5]),
    "leading marks": ([".5", "1.25"], [0.5, 1.25]),
    "less than one": (["0,125", "0,250"], [0.125, 0.25]),
}
NO_NUMBERS = {
    "words": ["1", "two"],
    "two currencies": ["$5", "€6"],
    "some shares": ["5%", "6"],
    "marks everywhere": ["1,2,3", "4.5"],
    "versions": ["1.2.3", "1.10.0"],
    "ranges": ["1-2", "3-4"],
    "nothing": [],
    "underscores": ["1_000_", "2"],
}


@pytest.mark.parametrize("name", WRITTEN)
def test_numbers_as_people_write_them(name):
    texts, numbers = WRITTEN[name]
    np.testing.assert_allclose(number_format(texts).read(texts), numbers)


@pytest.mark.parametrize("name", NO_NUMBERS)
def test_what_is_no_number_stays_text(name):
    assert number_format(NO_NUMBERS[name]) is None


MOMENTS = {
    "ISO": ("2024-02-29", datetime.datetime(2024, 2, 29)),
    "ISO with time": ("2024-02-29T12:30:15", datetime.datetime(2024, 2, 29, 12, 30, 15)),
    "zone": ("2024-02-29 12:30:15+02:00", datetime.datetime(2024, 2, 29, 10, 30, 15)),
    "Z": ("2024-02-29 12:30Z", datetime.datetime(2024, 2, 29, 12, 30)),
    "slashes": ("2024/2/9", datetime.datetime(2024, 2, 9)),
    "day first": ("29.02.2024", datetime.datetime(2024, 2, 29)),
    "month first": ("2/29/2024 1:05 PM", datetime.datetime(2024, 2, 29, 13, 5)),
    "short year": ("29/02/24", datetime.datetime(2024, 2, 29)),
    "words": ("29 Feb 2024", datetime.datetime(2024, 2, 29)),
    "month in words first": ("February 29th, 2024", datetime.datetime(2024, 2, 29)),
}


@pytest.mark.parametrize("name", MOMENTS)
def test_dates_as_people_write_them(name):
    text, moment = MOMENTS[name]
    days = (moment - datetime.datetime(1970, 1, 1)) / datetime.timedelta(days=1)
    assert date_format([text]).read([text])[0] == pytest.approx(days, abs=1e-9)


def test_a_guess_of_day_or_month_is_told():
    table = pd.DataFrame({"d": ["03/04/2020", "05/06/2021"] * 20, "x": np.arange(40) % 3})
    told = ColumnPreparer().fit(table).columns_[0].told
    assert told == "taken to begin with the month, which no value shows"


def test_dates_that_are_none_are_missing_and_told():
    days = [f"2020-01-{1 + i % 28:02d}" for i in range(58)]
    table = pd.DataFrame({"d": [*days, "2020-02-30", "9999-12-31"], "x": np.arange(N) % 3})
    told = "1 value is no date, such as '2020-02-30' and 1 date is before 1500 or after 2300"
    with pytest.warns(UserWarning, match=f"look at 1 column: 'd': {told}, which count as missing"):
        column = ColumnPreparer().fit(table).columns_[0]
    assert column.missing == 2
    assert column.told.startswith(told)


def test_dates_of_which_none_is_one_are_left_out():
    table = pd.DataFrame({"d": ["2020-13-45", "2020-02-30"] * 20, "x": np.arange(40) % 3})
    with pytest.warns(UserWarning, match="40 values are no date, such as '2020-13-45'; mend them"):
        assert [column.name for column in ColumnPreparer().fit(table).columns_] == ["x"]


@pytest.mark.parametrize("values", [[1, "x", 2.5, None], ["1", "2", "3", "three"]])
def test_numbers_and_others_in_one_column_are_told(values):
    table = pd.DataFrame({"m": values * 15, "x": np.arange(60) % 7})
    with pytest.warns(UserWarning, match="look at 1 column: 'm': it mixes numbers and others"):
        found = ColumnPreparer().fit(table)
    assert found.columns_[0].kind == "category"
    assert any(line.startswith("m: it mixes numbers and others") for line in found.in_words())
    ColumnPreparer(kinds={"m": "category"}).fit(table)  # warns of nothing


def test_times_of_day_go_round():
    hours = pd.date_range("2020-01-01", periods=N, freq="5h")
    preparer = ColumnPreparer().fit(pd.DataFrame({"t": hours}))
    names = preparer.get_feature_names_out().tolist()
    assert names == ["t_days", "t_hour_sin", "t_hour_cos"]
    Z = preparer.transform(pd.DataFrame({"t": hours}))
    np.testing.assert_allclose(Z[:, 1], np.sin(2 * np.pi * hours.hour / 24), atol=1e-9)


# new rows ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted():
    return ColumnPreparer().fit(mixed())


def test_columns_are_found_by_name_and_extra_ones_are_left_alone(fitted):
    new = mixed(20, seed=1)
    there = fitted.transform(new)
    with pytest.warns(UserWarning, match="another order"):
        np.testing.assert_array_equal(fitted.transform(new[list(new.columns)[::-1]]), there)
    np.testing.assert_array_equal(fitted.transform(new.assign(more="x")), there)


def test_a_missing_column_is_named(fitted):
    with pytest.raises(
        ValueError, match="`X` lacks 2 columns that the model was fitted on: age, fare"
    ):
        fitted.transform(mixed(5).drop(columns=["age", "fare"]))


def test_new_levels_and_gaps_are_told_in_one_warning(fitted):
    new = mixed(20, seed=1)
    new.loc[0, "town"], new.loc[1, "sex"], new.loc[2, "fare"] = "Rom", None, None
    with pytest.warns(UserWarning, match="these rows hold what no training row did") as told:
        Z = fitted.transform(new)
    assert len(told) == 1
    words = str(told[0].message)
    assert "town has 1 new level, 'Rom', which count as none of its levels" in words
    assert "sex has 1 missing value, taken for the average of both levels" in words
    assert "fare has 1 missing value, filled with the median" in words
    names = fitted.get_feature_names_out().tolist()
    mine = [name.startswith("town_") for name in names]
    assert Z[0, mine].sum() == 0
    assert 0 < Z[1, names.index("sex_male")] < 1
    assert Z[2, names.index("fare")] == fitted.columns_[3].median


def test_other_spellings_of_the_same_are_followed(fitted):
    new = mixed(20, seed=1)
    there = fitted.transform(new)
    other = new.assign(
        member=new["member"].map({True: "yes", False: "no"}),
        fare=new["fare"].str.replace(",", ".").astype(float),
        seen=new["seen"].astype(str),
        sex="  " + new["sex"] + " ",
        age=new["age"].astype(str).replace("nan", "NA"),
        town=new["town"].str.upper(),
    )
    np.testing.assert_allclose(fitted.transform(other), there)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"age": ["forty"] * 5}, "column 'age' should hold numbers.*'forty' is not one"),
        ({"age": [np.inf] * 5}, "column 'age' holds 5 infinite values, the first in row 0"),
        ({"age": [[1]] * 5}, "column 'age' should hold numbers"),
        ({"seen": [3.0] * 5}, "column 'seen' should hold dates"),
    ],
)
def test_wrong_values_never_become_wrong_numbers(fitted, change, message):
    with pytest.raises(ValueError, match=message):
        fitted.transform(mixed(5).assign(**change))


def test_infinite_values_are_refused_by_the_name_of_their_column():
    table = mixed()
    table.loc[3, "age"] = -np.inf
    with pytest.raises(ValueError, match="column 'age' holds 1 infinite value, the first in row 3"):
        ColumnPreparer().fit(table)


def test_names_that_occur_twice_are_refused():
    for table in (
        pd.DataFrame(np.zeros((3, 2)), columns=["a", "a"]),
        pa.table([[1], [2]], names=["a", "a"]),
    ):
        for estimator in (ColumnPreparer(), EJOPClassifier(), EGOPRegressor()):
            with pytest.raises(ValueError, match="several columns called 'a'"):
                estimator.fit(table, [0, 1, 1][: len(table)])


def test_lazy_tables_name_the_remedy():
    with pytest.raises(TypeError, match=r"pass X.collect\(\)"):
        ColumnPreparer().fit(pl.LazyFrame({"a": [1, 2]}))


def test_columns_without_text_names_are_matched_by_place():
    rows = RNG.normal(size=(N, 3))
    preparer = ColumnPreparer().fit(pd.DataFrame(rows))
    np.testing.assert_array_equal(preparer.transform(rows), rows)
    assert preparer.names_ == ["0", "1", "2"]


def test_no_table_is_read_twice_and_none_is_changed():
    table = mixed()
    before = table.copy()
    ColumnPreparer().fit_transform(table)
    pd.testing.assert_frame_equal(table, before)


def test_cells_of_a_series_know_what_they_are():
    assert read_column(pd.Series([1, None])).kind == "number"
    assert read_column(pl.Series([True, None])).kind == "boolean"
    assert read_column(pd.Series([datetime.date(2020, 1, 1), None])).kind == "date"
    assert read_column(pd.Series(["b", "a", "b"])).levels == ["b", "a"]
    assert read_column(pl.Series([[1], [2]])).kind == "other"


# in the predictors ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model():
    table = mixed(300)
    return EJOPClassifier(random_state=0).fit(table, target(table))


def test_predictors_take_tables_as_they_are(model):
    new = mixed(200, seed=1)
    assert model.score(new, target(new)) > 0.85
    assert model.n_features_in_ == 6
    assert model.feature_names_in_.tolist() == list(new.columns)
    told = str(model.plan_)
    assert "missing values filled with the median, and marked: age (43)" in told
    assert "fare: read as numbers with decimal commas" in told


def test_pandas_polars_and_arrow_get_the_same_answers(model):
    table, new = mixed(300), mixed(50, seed=1)
    for other in (pl.from_pandas, pa.Table.from_pandas):
        twin = EJOPClassifier(random_state=0).fit(other(table), target(table))
        np.testing.assert_array_equal(twin.predict_proba(other(new)), model.predict_proba(new))
        np.testing.assert_array_equal(twin.feature_importances_, model.feature_importances_)


def test_importances_are_those_of_the_columns_of_the_table(model):
    found = model.feature_importances_
    assert found.shape == (6,)
    assert found.sum() == pytest.approx(1)
    assert set(np.argsort(-found)[:2]) == {0, 1}  # sex and age
    assert found[[0, 1]].sum() > 0.8
    levels = model.column_changes().by_feature()
    assert levels.shape == (len(model.preparer_.groups_),)
    np.testing.assert_allclose(model.preparer_.by_column(levels), found)


def test_changes_of_columns_are_those_of_a_slow_twin(model):
    function, groups = model.rule_.function_, model.preparer_.groups_
    rows, others = function.X_[:40], function.X_[40:80]
    parts = [np.flatnonzero(groups == j) for j in np.unique(groups)]
    for found, part in zip(function.changed(rows, others, parts), parts, strict=True):
        moved = rows.copy()
        moved[:, part] = others[:, part]
        np.testing.assert_allclose(found, function.model_values(moved), atol=1e-10)


def test_importances_of_neighbours_are_by_column_too():
    table = mixed(200)
    model = EJOPClassifier("knn", function="kernel", random_state=0).fit(table, target(table))
    assert model.feature_importances_.shape == (6,)
    assert model.feature_importances_.sum() == pytest.approx(1)
    with pytest.raises(ValueError, match="answers by near rows"):
        model.column_changes()


def test_explanations_are_sums_over_levels(model):
    new = mixed(20, seed=1)
    found, levels = model.explain(new), model.explain(new, levels=True)
    assert found.shape == (20, 6)
    np.testing.assert_allclose(found, model.preparer_.by_column(levels))


def test_metrics_are_those_of_prepared_rows(model):
    new = mixed(10, seed=1)
    prepared = model.preparer_.transform(new)
    pairs = np.stack([prepared[:5], prepared[5:]], axis=1)
    Z = model.transform(new)
    there = np.linalg.norm(Z[:5] - Z[5:], axis=1)
    np.testing.assert_allclose(model.pair_distance(pairs), there)
    M, apart = model.get_mahalanobis_matrix(), prepared[:5] - prepared[5:]
    np.testing.assert_allclose(np.sqrt(np.einsum("id,de,ie->i", apart, M, apart)), there)
    assert model.kneighbors(new)[1].shape == (10, 5)


def test_real_targets_of_tables():
    table, new = mixed(300), mixed(100, seed=1)
    y, y_new = (t["age"].fillna(40) / 12 + 2.0 * (t["sex"] == "male") for t in (table, new))
    model = EGOPRegressor(random_state=0).fit(table, y)
    assert model.score(new, y_new) > 0.9
    assert set(np.argsort(-model.feature_importances_)[:2]) == {0, 1}


def test_arrays_pass_through_untouched():
    X = RNG.normal(size=(80, 3))
    y = (X[:, 0] > 0).astype(int)
    model = EJOPClassifier(random_state=0).fit(X, y)
    assert model.preparer_ is None
    assert not isinstance(model.scaler_, MixedScaler)
    numbers = EJOPClassifier(columns="numbers", random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X), numbers.predict_proba(X))
    table = EJOPClassifier(random_state=0).fit(pd.DataFrame(X, columns=list("abc")), y)
    np.testing.assert_allclose(
        table.predict_proba(pd.DataFrame(X, columns=list("abc"))), model.predict_proba(X)
    )


def test_a_table_of_levels_alone_is_learned_from():
    table = pd.DataFrame({"a": ["u", "v", "w"] * 40, "b": np.tile(["x", "y"], 60)})
    y = (table["a"] == "u").to_numpy()
    model = EJOPClassifier(random_state=0).fit(table, y)
    assert model.score(table, y) == 1
    assert model.feature_importances_[0] > 0.9


def test_only_numbers_where_that_is_asked_for():
    table, y = mixed(), target(mixed())
    with pytest.raises(ValueError, match=r"column 'sex' of `X` holds .* use columns='auto'"):
        EJOPClassifier(columns="numbers").fit(table, y)
    times = pd.DataFrame({"a": np.arange(len(y)), "seen": pd.Timestamp("2024-01-01")})
    with pytest.raises(ValueError, match="column 'seen' of `X` holds datetime"):
        EJOPClassifier(columns="numbers").fit(times, y)


def test_a_preparer_with_settings_is_cloned_and_used():
    table = mixed(100)
    given = ColumnPreparer(kinds={"town": "skip"})
    model = EJOPClassifier(columns=given, random_state=0).fit(table, target(table))
    assert not hasattr(given, "columns_")
    assert "town" not in [c.name for c in model.preparer_.columns_]
    assert model.feature_importances_[2] == 0
    assert clone(model).columns.kinds == {"town": "skip"}
    assert model.get_params()["columns__max_levels"] == 30


def test_rows_of_weight_zero_are_no_rows_of_a_table():
    table = mixed(200)
    y, w = target(table), np.ones(200)
    table.loc[:9, "town"], w[:10] = "Rom", 0
    with pytest.warns(UserWarning, match="1 new level, 'Rom'"):
        there = EJOPClassifier(random_state=0).fit(table, y, sample_weight=w)
    assert "town_Rom" not in there.preparer_.get_feature_names_out()
    here = EJOPClassifier(random_state=0).fit(table[10:], y[10:])
    np.testing.assert_allclose(there.predict_proba(table[10:]), here.predict_proba(table[10:]))


def test_in_a_pipeline_before_any_model():
    table = mixed(200)
    steps = [ColumnPreparer(), StandardScaler(), LogisticRegression()]
    assert make_pipeline(*steps).fit(table, target(table)).score(table, target(table)) > 0.8
    pipe = make_pipeline(ColumnPreparer(), StandardScaler(), EJOP()).fit(table, target(table))
    assert pipe[-1].feature_importances_.shape == (len(pipe[0].groups_),)


def test_metrics_refuse_text_and_name_the_remedy():
    with pytest.raises(
        ValueError, match=r"column 'sex' of `X` holds string, and EJOP takes numbers"
    ):
        EJOP().fit(mixed(), target(mixed()))


# units ------------------------------------------------------------------------------------------


def test_metrics_warn_once_of_columns_in_other_units():
    X = RNG.normal(size=(60, 3)) * [1, 1, 1000]
    y = X[:, 0]
    with pytest.warns(
        UserWarning, match=r"from 0.\d+ to .*; put sklearn.*StandardScaler\(\)"
    ) as told:
        EGOP().fit(X, y)
    assert [one.filename for one in told] == [__file__]  # where fit was called
    EGOP().fit(X / [1, 1, 1000], y)
    pixels = np.maximum(RNG.normal(size=(60, 30)), 0) * np.logspace(-3, 1, 30)
    EGOP().fit(np.where(np.arange(60)[:, None] == 0, 0, pixels), y)  # all begin at zero


def test_importances_do_not_depend_on_units_or_on_one_to_one_changes():
    table = mixed(300)
    y = target(table)
    there = EJOPClassifier(random_state=0).fit(table, y).feature_importances_
    other = table.assign(age=table["age"] * 365.25 * 24)
    np.testing.assert_allclose(
        EJOPClassifier(random_state=0).fit(other, y).feature_importances_, there, atol=1e-6
    )


def test_a_long_tail_and_a_flag_get_what_they_deserve():
    """Sex 66, class 28, age 6 per cent of the variance of the answer; a long tail of nothing."""
    rng, n = np.random.default_rng(3), 800
    table = pd.DataFrame(
        {
            "sex": rng.choice(["m", "f"], n),
            "class": rng.choice([1, 2, 3], n),
            "age": rng.normal(30, 12, n),
            "tail": np.exp(2 * rng.normal(size=n)),
        }
    )
    parts = {"sex": table["sex"] == "f", "class": table["class"], "age": table["age"]}
    shares = {"sex": 66, "class": 28, "age": 6}
    y = sum(np.sqrt(shares[k]) * (v - v.mean()) / v.std() for k, v in parts.items())
    model = EGOPRegressor(random_state=0).fit(table, y + 3 * rng.normal(size=n))
    found = 100 * model.feature_importances_
    np.testing.assert_allclose(found, [66, 28, 6, 0], atol=6)
    assert model.column_changes().stderr().max() < 0.06


# sparse rows ------------------------------------------------------------------------------------


def texts(n, d, seed=0):
    """Rows of few words, of which the first ten decide."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    rows = np.repeat(np.arange(n), 8)
    words = np.c_[5 * y[:, None] + rng.integers(0, 5, (n, 3)), rng.integers(10, d, (n, 5))]
    return sparse.csr_array((np.ones(8 * n), (rows, words.ravel())), (n, d)), y


def test_sparse_rows_are_reduced_and_that_is_told():
    X, y = texts(400, 3000)
    model = EJOPClassifier(random_state=0).fit(X[:300], y[:300])
    assert model.score(X[300:], y[300:]) > 0.95
    assert "sparse rows of 3,000 columns were reduced to 200 directions" in str(model.plan_)
    found = model.feature_importances_
    assert found.shape == (3000,)
    assert found.sum() == pytest.approx(1)
    assert set(np.argsort(-found)[:10]) == set(range(10))


def test_sparse_rows_are_never_made_dense():
    X, y = texts(200, 10_000_000)  # 16 GB if dense
    model = EJOPClassifier(RidgeRule(1, kernels=["gaussian"]), random_state=0).fit(X, y)
    assert model.score(X, y) > 0.9


def test_few_sparse_columns_are_made_dense():
    X, y = texts(200, 50)
    model = EJOPClassifier(random_state=0).fit(X, y)
    dense = EJOPClassifier(random_state=0).fit(X.toarray(), y)
    np.testing.assert_allclose(model.predict_proba(X), dense.predict_proba(X.toarray()))
    assert "sparse rows of 50 columns were made dense" in str(model.plan_)


def test_metrics_name_the_reducer():
    with pytest.raises(TypeError, match=r"SparseReducer\(\)"):
        EJOP().fit(*texts(50, 20))


# scalers ----------------------------------------------------------------------------------------


def test_levels_keep_their_weight_and_their_values():
    X = np.c_[RNG.normal(5, 3, N), HALF, ~HALF].astype(float)
    scaler = MixedScaler("standard", np.array([np.nan, 2.0, 1.0])).fit(X)
    Z = scaler.transform(X)
    np.testing.assert_allclose(Z[:, 0].std(), 1)
    np.testing.assert_array_equal(Z[:, 1:], X[:, 1:] * [2, 1])
    np.testing.assert_allclose(slopes(scaler), [1 / X[:, 0].std(), 2, 1])
    ranks = QuantileColumns(np.array([False, True, True])).fit(X).transform(X)
    np.testing.assert_array_equal(ranks[:, 1:], X[:, 1:])
    assert np.ptp(ranks[:, 0]) == 6


# real tables ------------------------------------------------------------------------------------


@pytest.mark.skipif(DATA is None, reason="EJOP_DATA is not set")
def test_titanic_is_about_sex_and_class():
    table = pd.read_parquet(Path(DATA) / "mixed" / "titanic.parquet")
    with pytest.warns(UserWarning, match="left out 2 columns: 'name'.*'ticket'"):
        model = EJOPClassifier(random_state=0).fit(
            table.drop(columns="survived"), table["survived"]
        )
    shares = pd.Series(model.feature_importances_, model.feature_names_in_)
    assert shares.nlargest(1).index[0] == "sex"
    assert shares[["sex", "pclass", "age"]].sum() > 0.6
    assert model.best_score_ > 0.81
