"""Studies: what they run, what they keep, and the tables they make."""

from __future__ import annotations

import csv
import json
import re

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import scopefe
from benchmarks.paper import merged
from scopefe.cli.main import cli
from scopefe.report.comparing import comparison
from scopefe.report.evidence import tables
from scopefe.report.publish import publish
from scopefe.report.study import StudyFacts
from scopefe.report.tables import Spread, p_value
from scopefe.run import studying
from scopefe.run.studying import run_study
from scopefe.spec.study import load_study

TABLE = "data: {source: t.csv, target: y, split: {train: 0.5, selection: 0.25, test: 0.25}}\n"
STUDY = """\
name: mine
datasets: {first: data.yaml}
variants: [base, openfe, scope-fe]
set: [baseline.max_trees=20, evaluation.seeds=2, evaluation.max_trees=20]
"""


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    a, b, c = rng.normal(size=(3, 200))
    frame = pd.DataFrame({"a": a, "b": b, "c": c, "y": a * b + 0.1 * c})
    frame.to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "data.yaml").write_text(TABLE)
    (tmp_path / "study.yaml").write_text(STUDY)
    return tmp_path


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    """Run the shipped smoke study once."""
    target = tmp_path_factory.mktemp("smoke")
    run = CliRunner().invoke(cli, ["study", "smoke", "-o", str(target), "--json"])
    assert run.exit_code == 0, run.stderr
    return target, StudyFacts.model_validate_json(run.stdout)


def rows_of(folder, name):
    with (folder / "tables" / f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


# --- the smoke study


def test_the_smoke_study_writes_every_table_in_every_format(smoke):
    target, facts = smoke
    names = {path.stem for path in (target / "tables").glob("*.md")}
    assert names == {table.name for table in tables(facts)}
    assert names >= {"datasets", "performance-inductive", "candidates", "runtime", "ablation", "margins",
                     "operators", "intra-inter", "enrichment", "controls", "recall", "gains", "matched",
                     "probe-seeds", "reduction-by-seed", "splits", "enrichment-by-operator",
                     "enrichment-by-cluster"}  # fmt: skip
    for name in names:
        assert rows_of(target, name)
        assert r"\begin{tabular}" in (target / "tables" / f"{name}.tex").read_text(encoding="utf-8")
    page = (target / "study.html").read_text(encoding="utf-8")
    assert all(f'id="{name}"' in page for name in names)
    assert page.count("<svg") == len(list((target / "plots").glob("*.svg"))) == 4
    assert not re.search(r"(src|href)=\"http", page)


def test_the_smoke_study_compares_what_its_runs_found(smoke):
    target, facts = smoke
    legs = {leg.variant: leg for leg in facts.legs if leg.split is None}
    assert list(legs) == ["base", "openfe", "fc-only", "op-only", "scope-fe", "hard-inter"]
    (row,) = [r for r in rows_of(target, "candidates") if r["dataset"] == "abalone"]
    assert int(row["openfe"]) == legs["openfe"].universe.raw == legs["openfe"].pool.raw
    assert int(row["scope-fe"]) == legs["scope-fe"].pool.raw
    audit = facts.audits["abalone"].enrichment
    assert audit.pool == legs["scope-fe"].pool.unique
    assert audit.enrichment == pytest.approx(audit.hits / audit.pool / (audit.pool / audit.universe))
    own = next(s for s in facts.probe_seeds["abalone"] if s.seed == 1)
    assert own.enrichment == audit.enrichment
    assert own.pool == legs["scope-fe"].pool
    assert set(own.operators) == set(legs["scope-fe"].operators)
    splits = [leg for leg in facts.legs if leg.split is not None]
    assert {(leg.variant, leg.split) for leg in splits} == {
        (v, s) for v in ("openfe", "scope-fe") for s in (1, 2)
    }
    assert len({leg.base.mean for leg in splits}) == 2, "other rows, another base"


def test_every_run_of_a_study_is_a_report(smoke):
    target, facts = smoke
    reports = [json.loads(p.read_text())["name"] for p in (target / "runs").glob("*-inductive-*.json")]
    assert len(reports) == len(facts.legs)
    assert set(reports) == {f"abalone {leg.variant}" for leg in facts.legs}


# --- running


def test_what_was_run_is_not_run_again(folder, monkeypatch):
    study = load_study(folder / "study.yaml")
    first = run_study(study, folder / "out")

    def never(*_, **__):
        raise AssertionError("it ran again")

    monkeypatch.setattr(studying, "execute", never)
    assert run_study(study, folder / "out") == first


def test_an_interrupted_study_goes_on_where_it_ended(folder, monkeypatch):
    study, runs = load_study(folder / "study.yaml"), []
    real = studying.execute

    def interrupted(spec, **others):
        if len(runs) == 1:
            raise KeyboardInterrupt
        runs.append(spec.name)
        return real(spec, **others)

    monkeypatch.setattr(studying, "execute", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_study(study, folder / "out")
    monkeypatch.setattr(studying, "execute", lambda spec, **o: runs.append(spec.name) or real(spec, **o))
    facts = run_study(study, folder / "out")
    assert runs == ["first base", "first openfe", "first scope-fe"]
    assert [leg.variant for leg in facts.legs] == ["base", "openfe", "scope-fe"]


def test_a_damaged_run_is_made_again(folder):
    study = load_study(folder / "study.yaml")
    first = run_study(study, folder / "out")
    for path in (folder / "out" / "runs").glob("first-base-*.json"):
        path.write_text("{")
    again = run_study(study, folder / "out")
    assert [leg.score for leg in again.legs] == [leg.score for leg in first.legs]


def test_a_change_of_data_is_a_change_of_runs(folder):
    study = load_study(folder / "study.yaml", overrides=["variants=[base]", "reference=base", "subject=base"])
    first = run_study(study, folder / "out")
    frame = pd.read_csv(folder / "t.csv")
    frame["y"] = 2 * frame["y"]
    frame.to_csv(folder / "t.csv", index=False)
    again = run_study(study, folder / "out")
    assert again.legs[0].base.mean == pytest.approx(2 * first.legs[0].base.mean, rel=1e-6)


def test_a_change_of_a_file_that_a_spec_names_is_a_change_of_runs(folder):
    split = pd.DataFrame({"split": ["train"] * 100 + ["val"] * 50 + ["test"] * 50})
    split.to_csv(folder / "split.csv", index=False)
    (folder / "data.yaml").write_text(
        "data: {source: t.csv, target: y, split: {by: column, path: split.csv}}\n"
    )
    other = "extends: openfe\nname: other\nscope: {operators: {gate: list, use: [abs]}}\n"
    (folder / "other.yaml").write_text(other)
    (folder / "drawn.yaml").write_text(
        "extends: openfe\nname: drawn\nscope: {operators: {gate: random-joint, match: other.yaml}}\n"
    )
    study = load_study(
        folder / "study.yaml",
        overrides=[
            f"variants={{base: base, drawn: {folder / 'drawn.yaml'}}}",
            "reference=base",
            "subject=drawn",
        ],
    )
    first = run_study(study, folder / "out")
    split[::-1].to_csv(folder / "split.csv", index=False)
    second = run_study(study, folder / "out")
    assert second.legs[0].base.mean != first.legs[0].base.mean
    (folder / "other.yaml").write_text(other.replace("[abs]", "[abs, '+']"))
    third = run_study(study, folder / "out")
    assert third.legs[0] == second.legs[0]
    assert third.legs[1].pool.raw > second.legs[1].pool.raw


def test_without_the_cache_every_run_is_made_again(folder, monkeypatch):
    made, real = [], studying.execute
    monkeypatch.setattr(studying, "execute", lambda spec, **o: made.append(spec.name) or real(spec, **o))
    command = ["study", str(folder / "study.yaml"), "-o", str(folder / "out"), "--set", "variants=[base]",
               "--set", "reference=base", "--set", "subject=base"]  # fmt: skip
    for more in ([], [], ["--no-cache"]):
        run = CliRunner().invoke(cli, [*command, *more])
        assert run.exit_code == 0, run.stderr
    assert made == ["first base"] * 2


def test_a_metric_of_scikit_learn_has_no_margins(folder):
    study = load_study(folder / "study.yaml", overrides=["set=[baseline.max_trees=20, evaluation.metric=r2]"])
    page = publish(run_study(study, folder / "out"), folder / "out")
    assert " r2 " in (page.parent / "study.md").read_text(encoding="utf-8")


def test_datasets_that_are_not_there_are_left_out_and_named(folder):
    (folder / "other.yaml").write_text("data: {source: gone.csv, target: y}\n")
    chosen = [
        "datasets={first: data.yaml, second: other.yaml}",
        "variants=[base]",
        "reference=base",
        "subject=base",
    ]
    (folder / "two.yaml").write_text(
        STUDY.replace("{first: data.yaml}", "{first: data.yaml, second: other.yaml}")
    )
    facts = run_study(load_study(folder / "two.yaml", overrides=chosen[1:]), folder / "out")
    assert facts.absent == {"second": "gone.csv"}
    assert [d.name for d in facts.datasets] == ["first"]
    text = publish(facts, folder / "out").read_text(encoding="utf-8")
    assert "gone.csv" in text
    (folder / "t.csv").unlink()
    with pytest.raises(scopefe.DataError, match=r"no dataset is there, first t\.csv of first"):
        run_study(load_study(folder / "two.yaml"), folder / "elsewhere")


def test_a_study_may_be_run_in_parts(folder):
    datasets = "datasets: {first: data.yaml, second: data.yaml}"
    (folder / "study.yaml").write_text(STUDY.replace("datasets: {first: data.yaml}", datasets))
    command = [
        "study",
        str(folder / "study.yaml"),
        "-o",
        str(folder / "out"),
        "--json",
    ]
    run = CliRunner().invoke(cli, [*command, "--dataset", "second"])
    assert run.exit_code == 0, run.stderr
    second = StudyFacts.model_validate_json(run.stdout)
    assert [d.name for d in second.datasets] == ["second"]
    assert {leg.dataset for leg in second.legs} == {"second"}
    whole = StudyFacts.model_validate_json(CliRunner().invoke(cli, command).stdout)
    first = whole.model_copy(
        update={"datasets": whole.datasets[:1], "legs": [x for x in whole.legs if x.dataset == "first"]}
    )
    both = merged(first, second)
    assert [d.name for d in both.datasets] == ["first", "second"]
    assert both.legs == whole.legs
    assert merged(both, second) == both
    run = CliRunner().invoke(cli, [*command, "--dataset", "secnd"])
    assert (run.exit_code, len(run.stderr.splitlines())) == (2, 1)
    assert "unknown dataset 'secnd'" in run.stderr and "second" in run.stderr


def test_a_run_without_evaluation_cannot_be_compared(folder):
    study = load_study(folder / "study.yaml", overrides=["set=[evaluation.seeds=0]"])
    with pytest.raises(scopefe.SpecError, match=r"first base: evaluation\.seeds is 0"):
        run_study(study, folder / "out")
    study = load_study(
        folder / "study.yaml", overrides=["set=['data.split={train: 0.8, selection: 0.2, test: 0}']"]
    )
    with pytest.raises(scopefe.DataError, match="there is no evaluation: no test rows"):
        run_study(study, folder / "out")


def test_a_p_value_too_small_to_be_computed_is_not_written_as_none():
    assert [p_value(p) for p in (0.25, 0.001, 2.5e-7, 0.0)] == ["0.250", "0.001", "2.5×10^-7", "<10^-300"]


def test_tables_in_latex_escape_what_latex_would_read():
    from scopefe.report.tables import Column, Table

    text = Table("t", "a_b at 5 %", [Column("c&d")], [["x_1 & {y}"]]).latex()
    assert r"\caption{a\_b at 5 \%}" in text
    assert r"c\&d" in text
    assert r"x\_1 \& \{y\}" in text


# --- audits of several variants


AUDITS = """\
name: gates
datasets: {first: data.yaml}
variants:
  quantised: {spec: openfe, set: ["scope.operators={gate: quantised, budget: 0.1}"]}
  fast: {spec: openfe, set: ["scope.pairs={gate: fast, budget: 1}"]}
set: [baseline.max_trees=20]
evaluations: []
reference: quantised
subject: quantised
audit: {controls: 20, fresh: true, variants: [fast]}
"""


def test_variants_are_audited_like_the_subject(folder, monkeypatch):
    monkeypatch.setattr(studying, "execute", lambda *_, **__: pytest.fail("there is nothing to run"))
    (folder / "gates.yaml").write_text(AUDITS)
    run = CliRunner().invoke(cli, ["study", str(folder / "gates.yaml"), "-o", str(folder / "out"), "--json"])
    assert run.exit_code == 0, run.stderr
    assert "gates: 0 runs and 2 audits on 1 datasets" in run.stderr
    facts = StudyFacts.model_validate_json(run.stdout)
    assert not facts.legs
    assert (facts.datasets[0].train, facts.datasets[0].test) == (100, 50)
    audits = {"quantised": facts.audits["first"], **facts.variant_audits["first"]}
    assert {v: a.name for v, a in audits.items()} == {"quantised": "first quantised", "fast": "first fast"}
    rows = rows_of(folder / "out", "gates")
    assert [(r["dataset"], r["gates"]) for r in rows] == [
        (place, v) for place in ("first", "mean") for v in audits
    ]
    for row, audit in zip(rows[:2], audits.values(), strict=True):
        assert float(row["enrichment, rows of the search"]) == audit.enrichment.enrichment
        assert float(row["enrichment, fresh rows"]) == audit.fresh.enrichment.enrichment
        assert float(row["best 10, fresh rows"]) == audit.fresh.recall[0].recall
    (fresh,) = rows_of(folder / "out", "enrichment-fresh")
    assert int(fresh["H"]) == audits["quantised"].fresh.enrichment.hits
    document = json.loads(run.stdout)
    del document["variant_audits"]
    assert StudyFacts.model_validate(document).audits == facts.audits


def test_means_of_gates_are_over_the_datasets_that_have_a_value(folder):
    (folder / "gates.yaml").write_text(AUDITS)
    facts = run_study(load_study(folder / "gates.yaml", overrides=["audit.fresh=false"]), folder / "out")
    other = facts.model_copy(
        update={
            "audits": {**facts.audits, "second": facts.audits["first"]},
            "variant_audits": {**facts.variant_audits, "second": facts.variant_audits["first"]},
        }
    )
    (table,) = [t for t in tables(other) if t.name == "gates"]
    assert [row[:2] for row in table.rows[-2:]] == [["mean", "quantised"], ["mean", "fast"]]
    assert [row[2:] for row in table.rows[-2:]] == [row[2:] for row in table.rows[:2]]
    assert table.rows[-1][4:] == [None, None, None, None, None]


def test_without_evaluations_a_study_has_audits_only(folder):
    for text in (AUDITS.replace("audit:", "# "), AUDITS + "splits: {count: 2}\n"):
        (folder / "gates.yaml").write_text(text)
        with pytest.raises(scopefe.SpecError, match="without evaluations there are audits only"):
            load_study(folder / "gates.yaml")
    (folder / "gates.yaml").write_text(AUDITS.replace("[fast]", "[fats]"))
    with pytest.raises(scopefe.SpecError, match=r"audit\.variants names 'fats'.*did you mean 'fast'"):
        load_study(folder / "gates.yaml")


# --- what is wrong with a study


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            ("name: mine", "nam: mine"),
            r"study\.yaml:1:1: .*unknown key 'nam' in the study.*did you mean 'name'",
        ),
        (("variants: [base, openfe, scope-fe]", "variants: []"), r"study\.yaml:3:11: .*variants"),
        (("scope-fe]", "scoop-fe]"), r"scope-fe"),
        (("variants: [base", "variants: [bass"), r"study\.yaml:3:12: .*no spec 'bass'.*did you mean 'base'"),
        (("data.yaml", "dat.yaml"), r"study\.yaml:2:19: .*no spec 'dat\.yaml'.*data\.yaml"),
        (("datasets: {first: data.yaml}", "datasets: [data.yaml, ./data.yaml]"), "same name"),
    ],
)
def test_a_mistake_is_told_with_its_place(folder, change, words):
    path = folder / "study.yaml"
    path.write_text(STUDY.replace(*change))
    with pytest.raises(scopefe.SpecError) as error:
        load_study(path)
    assert re.search(words, str(error.value)), str(error.value)


def test_an_unknown_study_is_one_line():
    run = CliRunner().invoke(cli, ["study", "nothing-like-it"])
    assert run.exit_code == 2
    assert "there is no study 'nothing-like-it'" in run.stderr
    assert len(run.stderr.splitlines()) == 1


def test_all_specs_are_loaded_before_any_is_run(folder, monkeypatch):
    monkeypatch.setattr(studying, "execute", lambda *_, **__: pytest.fail("it ran"))
    study = load_study(folder / "study.yaml", overrides=["set=[selection.kep=3]"])
    with pytest.raises(scopefe.SpecError, match="unknown key 'kep'"):
        run_study(study, folder / "out")


@pytest.mark.parametrize("name", ["paper", "paper-operators", "gates", "smoke", "template"])
def test_shipped_studies_are_sound(name, tmp_path, monkeypatch):
    monkeypatch.setenv("SCOPEFE_DATA", str(tmp_path))
    if name == "template":
        monkeypatch.chdir(tmp_path)
        text = (scopefe.spec.loader.shipped_specs() / "studies" / "template.yaml").read_text(encoding="utf-8")
        (tmp_path / "my-table.yaml").write_text("data: {source: t.csv, target: y}\n")
        (tmp_path / "template.yaml").write_text(text)
        study = load_study(tmp_path / "template.yaml")
    else:
        study = load_study(name)
    for dataset in study.datasets:
        for variant in study.variants:
            assert study.spec(dataset, variant).name == f"{dataset} {variant}"


# --- runs side by side


@pytest.fixture
def runs(folder):
    store, made = scopefe.Store(), []
    for name in ("openfe", "scope-fe", "base"):
        spec = scopefe.load_spec(
            name,
            fragments=[folder / "data.yaml"],
            overrides=["baseline.max_trees=20", "evaluation.seeds=2", f"execution.runs={folder / 'runs'}"],
        )
        made.append(scopefe.execute(spec, store=store))
    return made


def test_runs_are_compared_with_the_first(runs):
    run = CliRunner().invoke(cli, ["compare", *(str(r.folder) for r in runs), "--json"])
    assert run.exit_code == 0, run.stderr
    first, second, base = json.loads(run.stdout)
    assert first["run"] == "openfe"
    assert first["difference"] == "–"
    assert second["reduction"] == f"{100 * runs[1].report.space.reduction:.1f} %"
    assert second["features in common"] != "–"
    assert base["against the first"] == "loss"
    assert base["candidates"] == "0"
    told = [r.report.evaluation.difference for r in runs[:2]]
    assert [first["against base"], second["against base"]] == [d.verdict for d in told]
    assert base["against base"] == "–"


def test_what_wins_but_is_no_better_than_base_says_so(runs):
    reports = [run.report.model_copy(deep=True) for run in runs[:2]]
    for report, base, after in zip(reports, (1.0, 1.0), (1.2, 1.1), strict=True):
        facts = report.evaluation
        facts.base, facts.with_features = (
            score.model_copy(update={"mean": mean})
            for score, mean in ((facts.base, base), (facts.with_features, after))
        )
    assert reports[0].evaluation.metric == "rmse"
    assert comparison(reports).rows[1][9] == "win, but no better than base"
    reports[1].evaluation.base.mean = 1.3
    assert comparison(reports).rows[1][9] == "win"


def test_runs_of_one_name_are_told_apart_by_their_folders(runs):
    run = CliRunner().invoke(cli, ["compare", str(runs[0].folder), str(runs[0].folder), "--json"])
    assert {row["run"] for row in json.loads(run.stdout)} == {runs[0].folder.name}


@pytest.mark.parametrize(
    ("mean", "std", "text"),
    [
        (0.92345, 0.00123, "0.9234 ± 0.0012"),
        (19.3824, 0.0174, "19.382 ± 0.017"),
        (-151.449, 1.1823, "-151.45 ± 1.18"),
        (10682.13, 207.94, "10,682.1 ± 207.9"),
    ],
)
def test_a_deviation_has_the_decimals_of_its_mean(mean, std, text):
    assert str(Spread(mean, std)) == text


@pytest.mark.parametrize("suffix", ["md", "csv", "tex"])
def test_a_comparison_is_written(runs, tmp_path, suffix):
    target = tmp_path / f"out.{suffix}"
    run = CliRunner().invoke(cli, ["compare", str(runs[0].folder), str(runs[1].folder), "-o", str(target)])
    assert run.exit_code == 0, run.stderr
    assert "scope-fe" in target.read_text(encoding="utf-8")


def test_runs_on_other_data_have_no_difference(runs, folder):
    frame = pd.read_csv(folder / "t.csv").iloc[::-1]
    spec = scopefe.load_spec(
        {"name": "other", "data": {"target": "y"}},
        overrides=["evaluation.seeds=1", f"execution.runs={folder / 'r'}"],
    )
    other = scopefe.execute(spec, data=frame)
    run = CliRunner().invoke(cli, ["compare", str(runs[0].folder), str(other.folder), "--json"])
    assert json.loads(run.stdout)[1]["difference"] == "–"


@pytest.mark.parametrize(
    "changed",
    ["learner=linear", "learner={learner: lightgbm, num_leaves: 7}", "metric=r2", "protocol=benchmark"],
)
def test_scores_of_another_evaluation_have_no_difference(runs, folder, changed):
    spec = scopefe.load_spec(
        "scope-fe",
        fragments=[folder / "data.yaml"],
        overrides=["baseline.max_trees=20", "evaluation.seeds=1", f"execution.runs={folder / 'r'}",
                   f"evaluation.{changed}"],
    )  # fmt: skip
    other = scopefe.execute(spec)
    run = CliRunner().invoke(cli, ["compare", str(runs[0].folder), str(other.folder), "--json"])
    assert json.loads(run.stdout)[1]["difference"] == "–"
    run = CliRunner().invoke(cli, ["compare", str(other.folder), str(other.folder), "--json"])
    second = json.loads(run.stdout)[1]
    assert second["difference"] != "–"
    assert second["against the first"] == ("–" if changed == "metric=r2" else "tie")


def test_scores_on_other_test_rows_have_no_difference(runs, folder):
    frame = pd.read_csv(folder / "t.csv")
    test = scopefe.compile(
        scopefe.load_spec("base", fragments=[folder / "data.yaml"]), data=frame
    ).data.rows.test
    frame.loc[test, "y"] += 1
    frame.to_csv(folder / "t.csv", index=False)
    spec = scopefe.load_spec(
        "base",
        fragments=[folder / "data.yaml"],
        overrides=["evaluation.seeds=2", f"execution.runs={folder / 'r'}"],
    )
    other = scopefe.execute(spec)
    assert other.report.data.fingerprint == runs[0].report.data.fingerprint
    run = CliRunner().invoke(cli, ["compare", str(runs[0].folder), str(other.folder), "--json"])
    assert json.loads(run.stdout)[1]["difference"] == "–"


def test_comparing_nothing_is_one_line(tmp_path):
    run = CliRunner().invoke(cli, ["compare", str(tmp_path / "gone")])
    assert run.exit_code == 3
    assert len(run.stderr.splitlines()) == 1


def test_repeated_splits_alone_give_their_table(folder):
    (folder / "split.yaml").write_text(
        STUDY + "reference: base\nsplits: {count: 2, development: 120, own: false, variants: [openfe]}\n"
    )
    facts = run_study(load_study(folder / "split.yaml"), folder / "out")
    assert {leg.split for leg in facts.legs} == {1, 2}
    assert {(leg.train + leg.selection, leg.test) for leg in facts.legs} == {(120, 80)}
    found = {table.name: table for table in tables(facts)}
    assert [row[:3] for row in found["splits"].rows] == [["first", "scope-fe", 2], ["first", "openfe", 2]]
    by, error = found["splits"].rows[1][5:7]
    scores = {v: [leg.score.mean for leg in facts.legs if leg.variant == v] for v in ("base", "openfe")}
    lower = np.subtract(scores["base"], scores["openfe"])
    assert (by, error) == pytest.approx((lower.mean(), lower.std(ddof=1) / 2**0.5))
