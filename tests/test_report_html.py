"""The HTML report: one page, escaped, honest about worse results, and whole for empty and large reports."""

from __future__ import annotations

import math
from hashlib import blake2b
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scopefe.report import html
from scopefe.report.figures import cards, heat_map
from scopefe.report.model import (
    AssociationFacts,
    BaselineFacts,
    ChoiceFacts,
    ClusterCount,
    Count,
    DataFacts,
    DifferenceFacts,
    EvaluationFacts,
    FailureFacts,
    FeatureFacts,
    GroupFacts,
    HistogramFacts,
    OperatorCount,
    ProbeFacts,
    Report,
    RoundFacts,
    Score,
    SelectedFacts,
    SelectionFacts,
    ShapeFacts,
    SizeFacts,
    SpaceFacts,
    StepFacts,
    StepTime,
    Volatile,
    WorthFacts,
)
from scopefe.report.numbers import GLUE
from scopefe.report.verdicts import instead

NASTY = "a,b (c)-\"d\"<script>alert('1')</script>"
HOUSING = ["MedInc", "HouseAge", "AveRooms", "AveBedrms", "Population", "AveOccup", "Latitude", "Longitude"]
OPERATORS = {
    "freq": ("ANY → NUM", 1, 8, 8),
    "abs": ("NUM → NUM", 1, 8, 0),
    "log": ("NUM → NUM", 1, 8, 0),
    "round": ("NUM → NUM", 1, 8, 0),
    "residual": ("NUM → NUM", 1, 8, 8),
    "min": ("NUM, NUM → NUM", 2, 28, 21),
    "max": ("NUM, NUM → NUM", 2, 28, 0),
    "+": ("NUM, NUM → NUM", 2, 28, 21),
    "-": ("NUM, NUM → NUM", 2, 28, 21),
    "*": ("NUM, NUM → NUM", 2, 28, 0),
    "/": ("NUM, NUM → NUM", 2, 28, 21),
    "GroupByThenMean": ("NUM, CAT → NUM", 2, 7, 0),
    "GroupByThenRank": ("NUM, CAT → NUM", 2, 7, 0),
}


def score(*values: float) -> Score:
    mean = sum(values) / len(values)
    return Score(
        mean=mean, std=math.sqrt(sum((v - mean) ** 2 for v in values) / len(values)), values=list(values)
    )


BASE = score(0.4351, 0.4312, 0.4338, 0.4296, 0.4361, 0.4327, 0.4309, 0.4345, 0.4318, 0.4343)
LOWER = score(0.4214, 0.4198, 0.4225, 0.4207, 0.4191, 0.4219, 0.4232, 0.4203, 0.4211, 0.4200)
LIKE = score(0.4341, 0.4302, 0.4338, 0.4306, 0.4351, 0.4331, 0.4319, 0.4335, 0.4318, 0.4333)


def evaluated(
    base: Score = BASE, after: Score | None = LOWER, error: float = 0.002, **changes: Any
) -> EvaluationFacts:
    facts: dict[str, Any] = {
        "metric": "rmse",
        "larger_is_better": False,
        "protocol": "inductive",
        "seeds": len(base.values),
        "base": base,
        "with_features": after,
        "stopping": "rmse",
    }
    facts |= changes
    if after is not None:
        mean, sign = after.mean - base.mean, 1 if facts["larger_is_better"] else -1
        sure = abs(mean) > 2 * error
        facts["difference"] = DifferenceFacts(
            mean=mean, error=error, low=mean - 2 * error, high=mean + 2 * error, units=3303, unit="test rows",
            spread=0.001, verdict=("better" if sign * mean > 0 else "worse") if sure else "no difference",
        )  # fmt: skip
    return EvaluationFacts(**facts)


def chosen(rank: int, left: str, operator: str, right: str) -> SelectedFacts:
    formula = f"({left}{operator}{right})"
    return SelectedFacts(
        rank=rank,
        name=formula,
        formula=formula,
        key=f'["{operator}","{left}","{right}"]',
        operator=operator,
        inputs=[left, right],
        gain=0.0213 / rank**1.3,
        importance=4180.5 / rank,
        words=f"{left} and {right}.",
        shape=shape_of([[2.1], [1.8], [2.9]]),
    )


def shape_of(targets: list[list[float]], **changes: Any) -> ShapeFacts:
    groups = [GroupFacts(low=i, high=i + 0.5, rows=100 - i, target=t) for i, t in enumerate(targets)]
    facts: dict[str, Any] = {
        "missing": 3,
        "missing_target": targets[0],
        "histogram": HistogramFacts(low=-1.5, high=3, counts=[0, 7, 180, 33]),
        "groups": groups,
    }
    return ShapeFacts(**facts | changes)


def round_of(rows: int, candidates: int, kept: int, **changes: Any) -> RoundFacts:
    facts: dict[str, Any] = {
        "train_rows": rows,
        "selection_rows": rows // 4,
        "candidates": candidates,
        "failed": 0,
        "same_gain": 0,
        "kept": kept,
        "best_gain": 0.02134,
        "median_gain": 0.00081,
        "positive": kept,
        "gains": HistogramFacts(low=-0.001, high=0.02, counts=[40, 12, 3]),
    }
    return RoundFacts(**facts | changes)


def steps() -> list[StepFacts]:
    parts: dict[str, tuple[str, list[str], dict[str, Any]]] = {
        "source": ("parquet", [], {}),
        "kinds": ("openfe-rule", ["source"], {"ordinal_max_unique": 100, "drop": [], "missing_as": None}),
        "universe": ("enumeration", ["kinds"], {"operators": list(OPERATORS), "directions": "one"}),
        "clusters": ("clusters", ["universe"], {"target_cluster_size": 16, "linkage": "average"}),
        "pairs": ("pair gate", ["universe", "clusters"], {"gate": "hard-intra"}),
        "probe": ("probe", ["universe"], {"ratio": 0.2, "candidates": 20, "top_k": 5, "folds": 3, "seed": 1}),
        "operators": ("operator gate", ["pairs", "probe"], {"gate": "probe", "keep": 7}),
        "pool": ("scope", ["operators"], {}),
        "baseline": ("out-of-fold", ["kinds"], {"boosting": True, "folds": 5, "learning_rate": 0.1}),
        "halving": ("kernel", ["pool", "baseline"], {"data_blocks": 8, "min_candidates": 2000}),
        "attribution": ("gain", ["halving", "baseline"], {}),
        "selection": ("best", ["attribution"], {"keep": 10}),
        "recipe": ("recipe", ["selection", "kinds"], {}),
        "evaluation": ("inductive", ["recipe"], {"seeds": 10, "learner": {"num_leaves": 31}}),
    }
    return [
        StepFacts(
            name=n,
            component=c,
            key=blake2b(n.encode(), digest_size=16).hexdigest(),
            inputs=inputs,
            parameters=p,
        )
        for n, (c, inputs, p) in parts.items()
    ]


def space() -> SpaceFacts:
    operators = [
        OperatorCount(
            operator=name,
            signature=signature,
            arity=arity,
            universe=Count(raw=universe, unique=universe - (name == "min")),
            pool=Count(raw=pool, unique=pool - (name == "min")),
        )
        for name, (signature, arity, universe, pool) in OPERATORS.items()
    ]
    universe = sum(o.universe.raw for o in operators)
    pool = sum(o.pool.raw for o in operators)
    return SpaceFacts(
        universe=Count(raw=universe, unique=universe - 1),
        pool=Count(raw=pool, unique=pool - 1),
        reduction=1 - pool / universe,
        operators=operators,
        clusters=[
            ClusterCount(cluster=0, features=HOUSING[:7], candidates=84),
            ClusterCount(cluster=1, features=HOUSING[7:], candidates=0),
        ],
        across_clusters=0,
    )


def selection(pool: int) -> SelectionFacts:
    pairs = [
        ("Latitude", "-", "Longitude"),
        ("AveOccup", "/", "MedInc"),
        ("AveRooms", "/", "AveBedrms"),
        ("Population", "/", "AveOccup"),
        ("Latitude", "+", "Longitude"),
    ]
    ranking = [chosen(i, *pair) for i, pair in enumerate(pairs * 4, start=1)]
    failure = FailureFacts(
        candidate=31, formula="log(HouseAge)", stage="halving", error="FloatingPointError: overflow in log"
    )
    return SelectionFacts(
        engine="native",
        rounds=[
            round_of(1651, pool, 98, failed=1, same_gain=1, median_gain=-0.00012),
            round_of(13209, 98, 58, median_gain=0.00004),
        ],
        survivors=58,
        attribution="gain",
        attribution_trees=412,
        ranking=ranking,
        selected=ranking[:10],
        failures=[failure],
    )


def data() -> DataFacts:
    return DataFacts(
        source="california_housing.parquet",
        fingerprint="7be1c0f3a9d24c5588d0f6e2b1a43c97",
        rows={"train": 13209, "selection": 3303, "test": 4128},
        split={"by": "fractions", "train": 0.64, "selection": 0.16, "test": 0.2, "seed": 1, "note": ""},
        target="MedHouseVal",
        task="regression",
        classes=[],
        features=[
            FeatureFacts(
                name=n,
                kind="ordinal" if n == "HouseAge" else "numerical",
                missing=207 * (n == "AveBedrms"),
                distinct=52 if n == "HouseAge" else 900 + 1311 * i,
            )
            for i, n in enumerate(HOUSING)
        ],
        left_out={"id": "dropped by the spec", "country": "constant on the development rows"},
    )


def volatile() -> Volatile:
    times = {
        "data": 0.21,
        "pairs": 0.043,
        "operators": 3.9,
        "pool": 0.0004,
        "baseline": 6.2,
        "halving": 7.43,
        "attribution": 1.2,
        "recipe": 0.02,
        "evaluation": 41.7,
    }
    return Volatile(
        started="2025-03-04 15:12:09 UTC",
        seconds=61.3,
        run_seconds=18.8,
        times=[
            StepTime(step=s, seconds=t, in_run=s != "evaluation", reused=s == "operators")
            for s, t in times.items()
        ],
        jobs=8,
        machine="Linux 6.8, x86_64, 8 cores, 31 GB",
        python="3.12.4",
        folder="runs/scope-fe-2025-03-04",
        paths={"data.source.path": "/data/california_housing.parquet"},
    )


def make(**changes: Any) -> Report:
    counted = space()
    probe = [
        ProbeFacts(
            operator=o,
            score=None if o == "abs" else 0.006 - 0.0007 * i,
            best=None if o == "abs" else 0.011 - 0.0006 * i,
            candidates=min(20, OPERATORS[o][2]),
            kept=bool(OPERATORS[o][3]),
        )
        for i, o in enumerate(OPERATORS)
    ]
    facts: dict[str, Any] = {
        "scopefe": "0.1.0",
        "name": "scope-fe",
        "description": "Hard-intra pair gate and operator probing on California Housing.",
        "spec": {
            "version": 1,
            "name": "scope-fe",
            "seed": 1,
            "data": {"target": {"column": "MedHouseVal", "positive": None}},
            "operators": {"use": [{"operator": "default"}], "modules": []},
            "selection": {"keep": 10, "metric": "auto"},
        },
        "seed": 1,
        "versions": {"scopefe": "0.1.0", "lightgbm": "4.7.0", "numpy": "2.4.1", "pandas": "3.1.0"},
        "data": data(),
        "graph": steps(),
        "space": counted,
        "probe": probe,
        "baseline": BaselineFacts(metric="rmse", initial=0.45112, trees=[812, 1021, 774, 903, 866]),
        "selection": selection(counted.pool.raw),
        "evaluation": evaluated(),
        "notes": [
            "1 candidate failed in halving: see the failures below.",
            "Column 'country' is constant on the development rows and was left out.",
        ],
        "volatile": volatile(),
    }
    return Report(**facts | changes)


def nothing_selected(**changes: Any) -> SelectionFacts:
    facts: dict[str, Any] = {
        "engine": "native",
        "rounds": [],
        "survivors": 0,
        "attribution": "gain",
        "attribution_trees": 0,
        "ranking": [],
        "selected": [],
        "failures": [],
    }
    return SelectionFacts(**facts | changes)


def bare() -> Report:
    """Everything that may be empty or None is."""
    return make(
        description="",
        spec={},
        versions={},
        data=data().model_copy(update={"features": [], "left_out": {}, "rows": {}, "split": {}}),
        graph=[],
        space=SpaceFacts(
            universe=Count(raw=0, unique=0),
            pool=Count(raw=0, unique=0),
            reduction=0.0,
            operators=[],
            clusters=None,
        ),
        probe=None,
        baseline=None,
        selection=nothing_selected(),
        evaluation=None,
        notes=[],
        volatile=volatile().model_copy(update={"times": [], "paths": {}, "run_seconds": 0.0}),
    )


def empty_pool() -> Report:
    counted = space()
    operators = [o.model_copy(update={"pool": Count(raw=0, unique=0)}) for o in counted.operators]
    nothing = Count(raw=0, unique=0)
    return make(
        space=counted.model_copy(update={"pool": nothing, "operators": operators, "reduction": 1.0}),
        selection=nothing_selected(),
        evaluation=evaluated(after=None),
    )


def nasty() -> Report:
    """A name that would break out of text and attributes, wherever a text goes."""
    selected = chosen(1, NASTY, "/", "x" * 300)
    failure = FailureFacts(candidate=1, formula=NASTY, stage=NASTY, error=NASTY)
    operator = OperatorCount(
        operator=NASTY, signature=NASTY, arity=1, universe=Count(raw=2, unique=2), pool=Count(raw=1, unique=1)
    )
    facts = data()
    return make(
        name=NASTY,
        description=NASTY,
        spec={NASTY: NASTY},
        versions={NASTY: NASTY},
        data=facts.model_copy(
            update={
                "source": NASTY,
                "target": NASTY,
                "classes": [NASTY] * 30,
                "split": {NASTY: NASTY},
                "rows": {NASTY: 1, "train": 2},
                "features": [FeatureFacts(name=NASTY, kind="categorical", missing=0, distinct=3)],
                "left_out": {NASTY: NASTY},
            }
        ),
        graph=[
            StepFacts(
                name=NASTY, component=NASTY, key=NASTY, inputs=["absent"], parameters={NASTY: [NASTY] * 9}
            )
        ],
        space=space().model_copy(
            update={
                "operators": [operator],
                "clusters": [ClusterCount(cluster=0, features=[NASTY] * 40, candidates=3)],
            }
        ),
        probe=[ProbeFacts(operator=NASTY, score=-0.1, best=None, candidates=1, kept=True)],
        selection=selection(84).model_copy(
            update={
                "engine": NASTY,
                "attribution": NASTY,
                "selected": [selected, selected.model_copy(update={"name": NASTY, "importance": -1.0})],
                "ranking": [selected],
                "failures": [failure] * 3,
            }
        ),
        evaluation=evaluated(metric=NASTY),
        notes=[NASTY],
        volatile=volatile().model_copy(
            update={"machine": NASTY, "folder": NASTY, "paths": {NASTY: NASTY}, "started": NASTY}
        ),
    )


def large() -> Report:
    """A thousand features, a hundred operators, twelve million candidates."""
    names = [f"sensor_{i:04d}_mean_of_the_last_hour" for i in range(1000)]
    operators = [
        OperatorCount(
            operator=f"operator_{i:03d}",
            signature="NUM, NUM → NUM",
            arity=2,
            universe=Count(raw=123_456 - 701 * i, unique=120_000 - 701 * i),
            pool=Count(raw=1234 - 11 * i, unique=1200 - 11 * i),
        )
        for i in range(100)
    ]
    universe, pool = (sum(getattr(o, side).raw for o in operators) for side in ("universe", "pool"))
    failures = [
        FailureFacts(candidate=i, formula=f"log({n})", stage="halving", error=f"ValueError: {i % 30}")
        for i, n in enumerate(names)
    ]
    ranking = [chosen(i + 1, names[i], "/", names[-i]) for i in range(100)]
    return make(
        name="large",
        data=data().model_copy(
            update={
                "features": [FeatureFacts(name=n, kind="numerical", missing=0, distinct=9) for n in names],
                "left_out": {f"text_{i}": "free text" for i in range(60)},
            }
        ),
        space=SpaceFacts(
            universe=Count(raw=universe, unique=universe),
            pool=Count(raw=pool, unique=pool),
            reduction=1 - pool / universe,
            operators=operators,
            clusters=[
                ClusterCount(cluster=i, features=names[i * 16 : i * 16 + 16], candidates=100 + i)
                for i in range(63)
            ],
            across_clusters=0,
        ),
        probe=[
            ProbeFacts(operator=o.operator, score=0.1 - 0.002 * i, best=0.2, candidates=20, kept=i < 7)
            for i, o in enumerate(operators)
        ],
        selection=SelectionFacts(
            engine="native",
            rounds=[round_of(1000 * 2**i, pool // 2**i, pool // 2 ** (i + 1)) for i in range(4)],
            survivors=pool // 16,
            attribution="permutation",
            attribution_trees=1000,
            ranking=ranking,
            selected=ranking[:50],
            failures=failures,
        ),
    )


class Page(HTMLParser):
    """Checks nesting, and collects tags, text and references."""

    VOID = {"meta", "br", "wbr", "link", "img", "input", "hr"}
    ALONE = {"rect", "path", "line", "circle"}

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        assert len(dict(attrs)) == len(attrs), f"an attribute twice: {tag} {attrs}"
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in self.ALONE
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "script"):
            self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [a for t, a in self.tags if t == tag]


MAKERS = {"usual": make, "bare": bare, "empty pool": empty_pool, "nasty": nasty, "large": large}


@pytest.fixture(params=MAKERS, scope="module")
def page(request: pytest.FixtureRequest) -> Page:
    return Page(html.render(MAKERS[request.param]()))


def plain(text: str) -> str:
    return text.replace(GLUE, " ")


def words(report: Report) -> str:
    return " ".join(Page(html.render(report)).text.split())


def test_a_page_is_whole_and_loads_nothing(page: Page) -> None:
    ids = [a["id"] for _, a in page.tags if "id" in a]
    assert len(ids) == len(set(ids))
    assert {a["href"] for a in page.all("a")} <= {f"#{i}" for i in ids}
    assert not any("src" in a for _, a in page.tags)
    assert not {"link", "img", "iframe"} & {t for t, _ in page.tags}
    assert len(page.all("h1")) == len(page.all("main")) == len(page.all("script")) == 1


def test_a_page_is_accessible(page: Page) -> None:
    assert page.all("html")[0]["lang"] == "en"
    assert len(page.all("caption")) == len(page.all("table"))
    assert all(a.get("scope") in ("row", "col") for a in page.all("th"))
    assert all(
        a["role"] == "img" and (a.get("aria-label") or a.get("aria-labelledby")) for a in page.all("svg")
    )
    levels = [int(t[1]) for t, _ in page.tags if t in ("h1", "h2", "h3", "h4")]
    assert all(b <= a + 1 for a, b in pairwise(levels))


def test_numbers_of_svg_are_finite() -> None:
    for build in MAKERS.values():
        text = html.render(build())
        assert not any(f'"{bad}' in text for bad in ("nan", "inf", "-inf"))


def test_texts_are_escaped() -> None:
    text = html.render(nasty())
    assert "<script>alert" not in text
    page = Page(text)
    assert page.text.count(NASTY) > 25
    assert len(page.all("script")) == 1


def test_equal_reports_give_equal_pages() -> None:
    assert html.render(make()) == html.render(make())


def test_the_headline() -> None:
    text = words(make())
    assert "10 features selected" in text
    assert "100 of 222 candidates were in the pool: 55% left out by the gates" in text
    assert "RMSE 0.4330 → 0.4210" in text
    assert (
        "Better: RMSE is lower by 0.0120 (2.8%) (95 % interval over 3,303 test rows: −0.0160 to −0.0080)."
        in text
    )
    assert "smaller is better" in text


@pytest.mark.parametrize(
    ("facts", "tone", "sentence"),
    [
        (evaluated(), "better", "Better: RMSE is lower by 0.0120 (2.8%) (95 % interval over 3,303 test rows: "
         "−0.0160 to −0.0080)."),
        (evaluated(LOWER, BASE), "worse", "Worse: RMSE is higher by 0.0120 (2.9%) (95 % interval over 3,303 "
         "test rows: +0.0080 to +0.0160). The new features do not help this model."),
        (evaluated(after=LIKE), "level", "No difference that these 3,303 test rows can show: RMSE is lower "
         "by 0.0003 (< 0.1%) (95 % interval over 3,303 test rows: −0.0043 to +0.0037)."),
        (evaluated(score(0.8), score(0.9), larger_is_better=True, metric="auc"), "better", "Better: ROC-AUC "
         "is higher by 0.1000 (95 % interval over 3,303 test rows: +0.0960 to +0.1040)."),
        (evaluated(after=None), "none", "No feature was selected: there is nothing to compare."),
        (None, "none", "The evaluation was left out."),
    ],
)  # fmt: skip
def test_the_verdict(facts: EvaluationFacts | None, tone: str, sentence: str) -> None:
    report = make(evaluation=facts)
    verdict = html.verdict(report)
    assert (verdict.tone, plain(verdict.sentence)) == (tone, sentence)
    assert sentence in words(report)


def test_the_learner_is_named() -> None:
    assert "ROC-AUC" not in words(make())
    assert "of a downstream LightGBM on" in words(make())
    assert "of a downstream random forest on" in words(make(evaluation=evaluated(learner="random-forest")))


@pytest.mark.parametrize("build", MAKERS.values(), ids=MAKERS)
def test_a_notebook_shows_what_was_found(build) -> None:
    report = build()
    piece = html.brief(report)
    shown = " ".join(plain(Page(piece).text).split())
    assert plain(html.verdict(report).sentence) in shown
    for feature in report.selection.selected:
        assert feature.formula in Page(piece).text
    assert not {"script", "style", "html"} & {tag for tag, _ in Page(piece).tags}


def test_where_nothing_is_selected_it_is_said_what_came_nearest_and_what_to_change() -> None:
    tried = [SizeFacts(features=n, decrease=d, clipped=d, error=0.01) for n, d in ((1, -0.01), (5, 0.012))]
    choice = ChoiceFacts(rows=2000, sizes=tried, p=0.21, kept=0)
    nearly = nothing_selected(survivors=3, choice=choice, ranking=[chosen(1, "a", "+", "b")])
    report = make(selection=nearly, spec={"selection": {"keep": "auto"}})
    lines = [plain(line) for line in instead(report)]
    assert lines[0].startswith(
        "Nearest: with 5 features the loss of a row is lower by 0.012 ± 0.01 on 2,000 "
    )
    assert "(p = 0.21; below 0.05 would be kept)" in lines[0]
    assert lines[1] == "Best candidates by gain: (a+b) (0.021)."
    left_out, unique = report.space.never_tried, report.space.universe.unique
    assert lines[2].startswith(f"Never tried: {left_out} of {unique} candidates; scope.operators=all")
    assert lines[3].startswith("To keep the best all the same, set selection.keep=10")
    shown = words(report)
    assert all(line in shown for line in lines)
    assert [*instead(make())] == [*instead(bare())] == []
    keeps_none = make(selection=nothing_selected(survivors=3), spec={"selection": {"keep": 0}})
    assert [*instead(keeps_none)][-1] == "Set selection.keep=auto to keep what helps, or a number."
    failed = make(selection=nothing_selected())
    assert [*instead(failed)][-1].startswith("The failures in the report say why")


def test_the_worth_of_features_is_shown_once_for_those_that_stand_for_each_other() -> None:
    one, two, three = (chosen(n, "a", "+", name) for n, name in enumerate("bcd", 1))
    one.worth = WorthFacts(mean=0.01, error=0.002, together=[three.name])
    two.worth = WorthFacts(mean=0.03, error=None)
    three.worth = WorthFacts(mean=0.01, error=0.002, together=[one.name])
    facts = make().selection.model_copy(update={"selected": [one, two, three]})
    report = make(selection=facts)
    assert html.worths(facts.selected) == [
        (["(a+c)"], 0.03, None), (["(a+b)", "(a+d)"], 0.01, 0.002)
    ]  # fmt: skip
    assert "What they are worth on unseen rows" in words(report)
    assert "What they are worth on unseen rows" not in words(make())


def test_an_evaluation_says_what_models_stopped_by_and_how_sure_it_is() -> None:
    base, after = (
        BASE.model_copy(update={"trees": [310, 290]}),
        LOWER.model_copy(update={"trees": [407, 399]}),
    )
    facts = evaluated(base, after)
    assert dict(html.evaluation_facts(facts)) == {
        "Models stop by": "RMSE",
        "Trees by seed, original features": "310 · 290",
        "Trees by seed, new features too": "407 · 399",
        "Difference": "−0.012 ± 0.0020",
        "95 % interval": "−0.016 to −0.008, over 3,303 test rows",
        "Spread over seeds": "0.0010",
    }
    assert "310 · 290" in words(make(evaluation=facts))


def test_a_report_of_before_does_not_say_how_sure_it_is() -> None:
    facts = evaluated().model_copy(update={"difference": None})
    verdict = html.verdict(make(evaluation=facts))
    assert (verdict.tone, verdict.sentence) == (
        "level",
        "This report does not say how sure the difference is.",
    )


def test_no_test_rows() -> None:
    report = make(
        evaluation=None, data=data().model_copy(update={"rows": {"train": 8, "selection": 2, "test": 0}})
    )
    assert html.verdict(report).sentence == "The data has no test rows."


def test_what_was_found_is_said_as_it_is() -> None:
    usual = make()
    facts = usual.selection
    flat = facts.model_copy(update={"rounds": [round_of(100, 100, 100, positive=0)]})
    part = facts.selected[0].model_copy(update={"gain": -1.0})
    some = facts.model_copy(update={"selected": [part, *facts.selected[1:]]})
    assert html.found(usual) == "The first by rank of 58 survivors."
    assert html.found(empty_pool()).startswith("The pool is empty")
    assert html.found(bare()).startswith("The universe is empty")
    assert html.found(make(selection=nothing_selected())) == "No candidate of the pool could be scored."
    assert html.found(make(selection=nothing_selected(survivors=3))) == "None of the 3 survivors was kept."
    assert "keeps no feature" in html.found(
        make(selection=nothing_selected(survivors=3), spec={"selection": {"keep": 0}})
    )
    assert html.found(make(selection=flat)).startswith("No candidate had a gain above 0")
    assert html.found(make(selection=some)) == "The first by rank of 58 survivors; 1 without a gain above 0."


def test_every_dropped_candidate_is_accounted_for() -> None:
    for report in (make(), empty_pool(), large()):
        dropped = sum(loss.candidates for loss in html.losses(report))
        assert dropped == report.space.universe.raw - len(report.selection.selected)


def test_features_are_drawn_with_their_values_and_the_target() -> None:
    page = Page(html.render(make()))
    figures = [a["aria-label"] for tag, a in page.tags if tag == "svg" and "aria-label" in a]
    first = make().selection.selected[0]
    assert f"Distribution of {first.formula}" in figures
    assert any(label.startswith("Mean of MedHouseVal by tenth of the rows: from 1.8") for label in figures)
    assert "Distribution of gains in round 1" in figures
    assert first.words in words(make())
    assert "3 missing" in words(make())


def test_lines_stand_for_the_largest_classes() -> None:
    shares = [[0.1, 0.2, 0.05, 0.3, 0.35], [0.3, 0.2, 0.05, 0.3, 0.15]]
    feature = chosen(1, "a", "+", "b").model_copy(update={"shape": shape_of(shares)})
    (card,) = cards([feature], "multiclass", "y", ["p", "q", "r", "s", "t"])
    assert [line.name for line in card.lines] == ["s", "t", "q", "p"]
    assert (card.measure, card.low, card.high, card.overall) == ("Share of classes", 0.1, 0.35, None)
    (two,) = cards([chosen(1, "a", "+", "b")], "binary", "y", ["no", "yes"])
    assert (two.measure, two.grouped, two.lines[0].name) == ("Share of yes", "tenth of the rows", "yes")


def test_categories_are_drawn_largest_first_and_what_has_no_value_is_not() -> None:
    bare = chosen(1, "a", "+", "b")
    counted = bare.model_copy(update={"shape": shape_of([[1.0], [2.0]], histogram=None)})
    nothing = bare.model_copy(update={"shape": shape_of([[1.0]], groups=[], histogram=None)})
    (card,) = cards([counted, nothing, bare.model_copy(update={"shape": None})], "regression", "y", [])
    assert card.grouped == "category, the largest first"
    assert card.bars.facts.counts == [100, 99]


def test_associations_are_a_heat_map() -> None:
    names = [f"<{i}>" for i in range(3)]
    values = [[1.0, 0.82, 0.04], [0.82, 1.0, 0.11], [0.04, 0.11, 1.0]]
    facts = AssociationFacts(features=names, bounds=[2], values=values)
    drawn = heat_map(facts)
    assert [level for level, _ in drawn.paths] == [0.1, 0.8, 1.0]
    assert drawn.strongest[0] == ("<1>", "<0>", 0.82)
    page = Page(html.render(make(associations=facts)))
    assert "Associations of features, by cluster" in page.text
    assert "<1>" in page.text
    between = AssociationFacts(features=None, bounds=[], values=[[0.5, 0.1], [0.1, 0.7]])
    assert "cluster 1" in Page(html.render(make(associations=between))).text
    assert heat_map(AssociationFacts(features=["a"], bounds=[], values=[[1.0]])) is None


def test_parts_that_are_none_have_no_section() -> None:
    page = Page(html.render(bare()))
    assert not {"probe", "baseline", "evaluation", "notes"} & {a.get("id") for a in page.all("section")}


def test_no_column_stands_empty_without_features() -> None:
    text = words(empty_pool())
    assert "With the new features" not in text
    assert "Only the original features were evaluated" in text


def test_scores_that_are_none() -> None:
    assert "not scored" in words(make())


def test_large_reports_stay_readable() -> None:
    text = html.render(large())
    assert len(text) < 2_000_000
    assert "1,000 failed candidates, the first 500 shown" in text
    assert "on a logarithmic scale" in text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.43296, "0.433"),
        (1234567.8, "1,234,568"),
        (-0.5, "−0.5"),
        (1.2e-7, "1.2 × 10⁻⁷"),
        (float("nan"), "–"),
        (float("-inf"), "−∞"),
        (None, "–"),
    ],
)
def test_numbers(value: float | None, text: str) -> None:
    assert plain(html.number(value)) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 s"),
        (0.0004, "< 1 ms"),
        (0.043, "0.043 s"),
        (18.84, "18.8 s"),
        (99.99, "1 min 40 s"),
        (3725, "1 h 02 min"),
    ],
)
def test_seconds(value: float, text: str) -> None:
    assert plain(html.seconds(value)) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0, "0%"),
        (1e-5, "< 0.1%"),
        (0.021, "2.1%"),
        (0.52, "52%"),
        (0.9994, "> 99.9%"),
        (1, "100%"),
        (2.5, "250%"),
    ],
)
def test_percent(share: float, text: str) -> None:
    assert plain(html.percent(share)) == text


def test_a_column_of_numbers_has_the_same_decimals() -> None:
    assert html.aligned([0.0213, 0.0044, 0.0, None, 3e-7]) == [
        "0.02130",
        "0.00440",
        "0",
        "–",
        f"3{GLUE}×{GLUE}10⁻⁷",
    ]
    assert html.aligned([12345.6, 210.4]) == ["12,346", "210"]


def test_scales() -> None:
    plain = html.Scale.of([-1.0, 3.0, None, math.nan])
    assert plain.span(3.0) == (25.0, 75.0)
    assert plain.span(-1.0) == (0.0, 25.0)
    assert plain.span(0) is plain.span(None) is plain.span(math.nan) is None
    assert html.Scale.of([10, 12_000_000], adaptive=True).logarithmic
    assert not html.Scale.of([10, 275], adaptive=True).logarithmic
    assert html.Scale.of([]).span(1.0) is not None


def test_the_graph_goes_from_left_to_right_without_overlap() -> None:
    picture = html.draw(steps())
    boxes = {b.step.name: b for b in picture.boxes}
    for step in steps():
        assert all(boxes[i].x + html.BOX < boxes[step.name].x for i in step.inputs)
    corners = sorted((b.x, b.y) for b in picture.boxes)
    for (x0, y0), (x1, y1) in pairwise(corners):
        assert x0 != x1 or y1 - y0 >= html.HEIGHT
    assert all(b.x >= 0 and b.x + html.BOX <= picture.width for b in picture.boxes)
    assert all(b.y >= 0 and b.y + html.HEIGHT <= picture.height for b in picture.boxes)


finite = st.floats(-1e12, 1e12)


@given(st.lists(finite, min_size=1, max_size=5), st.lists(finite, min_size=1, max_size=5), st.booleans())
@example([0.0], [5e-324], False)
def test_any_metric_can_be_shown(before: list[float], after: list[float], larger: bool) -> None:
    facts = evaluated(score(*before), score(*after), larger_is_better=larger)
    report = make(evaluation=facts)
    assert html.verdict(report).tone in ("better", "worse", "level")
    strip = html.strip(facts)
    assert strip is not None
    assert all(0 <= x <= 100 for track in strip.tracks for x in (track.mean, *track.band, *track.dots))
    assert len(strip.ticks) < 12


@given(st.floats())
def test_any_number_has_a_text(value: float) -> None:
    assert html.number(value)
    assert html.percent(value)
    assert html.aligned([value])
