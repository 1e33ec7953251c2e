"""The pages in a browser: nothing is loaded or fails, tables sort, narrow and dark screens work."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from test_report_html import MAKERS, NASTY

from scopefe.audit.model import (
    AuditFacts,
    ControlFacts,
    EnrichmentFacts,
    FreshFacts,
    GainFacts,
    LostFacts,
    MatchedFacts,
    PartFacts,
    RecallFacts,
)
from scopefe.report import audited
from scopefe.report.html import render

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
BROWSER = next(filter(None, map(shutil.which, BROWSERS)), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason=f"none of {', '.join(BROWSERS)} is installed")
READABLE = 4.5  # WCAG 2.2, 1.4.3: contrast of text
WATCH = """
<meta http-equiv="Content-Security-Policy"
      content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<script>
  var met = [];
  addEventListener("error", (e) => met.push(e.message));
  addEventListener("securitypolicyviolation", (e) => met.push("loads " + e.blockedURI));
  for (const level of ["error", "warn"]) console[level] = (...said) => met.push(said.join(" "));
</script>
"""
MEASURE = """
const page = frame.contentWindow, body = page.document.documentElement;
const style = page.getComputedStyle(body), colour = (name) => style.getPropertyValue("--" + name).trim();
const value = (row, column) => row.cells[column].dataset.v ?? row.cells[column].textContent.trim();
const less = (a, b) => a !== "" && b !== "" && (isNaN(a - b) ? a.localeCompare(b) < 0 : a - b < 0);
const follows = {ascending: (a, b) => !less(b, a), descending: (a, b) => !less(a, b)};
const sorted = [...page.document.querySelectorAll("table[data-sort]")].map((table) => {
  const heads = [...table.tHead.rows[0].cells].filter((head) => head.querySelector("button"));
  return heads.map((head) => ["descending", "ascending"].map((order) => {
    head.querySelector("button").click();
    const values = [...table.tBodies[0].rows].map((row) => value(row, head.cellIndex));
    const known = values.filter((v) => v !== "");
    return head.getAttribute("aria-sort") === order
      && values.slice(0, known.length).every((v, i) => v === known[i])
      && known.every((v, i) => i === 0 || follows[order](known[i - 1], v));
  }));
});
const wide = [...page.document.querySelectorAll("main *")].filter(
  (element) => element.getBoundingClientRect().left + element.scrollWidth > page.innerWidth);
const found = {
  met: page.met, sorted, colours: Object.fromEntries(["paper", "panel", "ink", "soft", "link", "bad"].map(
    (name) => [name, colour(name)])),
  loaded: page.performance.getEntriesByType("resource").map((entry) => entry.name),
  importance: [...page.document.querySelectorAll("thead th")]
    .filter((head) => head.textContent.trim() === "Importance")
    .map((head) => [...head.closest("table").rows].map(
      (row) => row.cells[head.cellIndex].getBoundingClientRect().right)),
  width: page.innerWidth, needed: body.scrollWidth, wide: wide.map((element) => element.outerHTML),
};
"""


def in_browser(folder: Path, *pages: tuple[str, int], dark: bool = False) -> list[dict[str, Any]]:
    """Show pages in frames of these widths, and return what each says of itself."""
    frames = []
    for page, width in pages:
        watched = page.replace('<meta charset="utf-8">', f'<meta charset="utf-8">{WATCH}', 1)
        assert watched != page
        style = f"width: {width}px; height: 9in; border: 0"
        frames.append(f'<iframe srcdoc="{html.escape(watched)}" style="{style}"></iframe>')
    outer = folder / "outer.html"
    outer.write_text(
        f'<!doctype html><meta charset="utf-8"><pre id="all"></pre>{"".join(frames)}'
        f"<script>onload = () => {{ const all = [...document.querySelectorAll('iframe')].map((frame) => {{"
        f"{MEASURE} return found; }});"
        f"document.querySelector('#all').textContent = JSON.stringify(all); }};</script>",
        encoding="utf-8",
    )
    assert BROWSER is not None
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}"]
    options += ["--virtual-time-budget=10000", f"--blink-settings=preferredColorScheme={0 if dark else 1}"]
    told = subprocess.run(
        [BROWSER, *options, "--dump-dom", outer.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env={**os.environ, "HOME": str(folder)},
    )
    match = re.search(r'<pre id="all">(.+?)</pre>', told.stdout, re.DOTALL)
    assert match, told.stderr
    return list(json.loads(html.unescape(match[1])))


def audit() -> AuditFacts:
    """Return an audit with long names, and all that an audit may have."""
    name = NASTY + "x" * 200
    enriched = EnrichmentFacts(
        universe=9000, pool=100, hits=30, coverage=0.3, expected_coverage=1 / 90, enrichment=27.0, p=1e-40
    )
    gains = GainFacts(
        candidates=50, positive=9, quantiles={"0": -1e-9, "0.5": 0, "1": 3.5}, counts=[40, 0, 10]
    )
    parts = [
        PartFacts(part=f"{name}{i}", universe=9 + i, pool=i, best=3, hits=1, enrichment=i) for i in range(9)
    ]
    recall = [RecallFacts(best=10, found=7, recall=0.7)]
    lost = LostFacts(rank=1, formula=name, gain=None, gain_rank=8, in_pool=False, lost_by="pairs")
    return AuditFacts(
        scopefe="1",
        name=name,
        dataset=name,
        fingerprint="f" * 32,
        protocol="cross-fitted",
        train_rows=80,
        selection_rows=20,
        failed=1,
        enrichment=enriched,
        inside=gains,
        outside=gains,
        gain_range=(-1.0, 2.0),
        operators=parts,
        clusters=parts,
        recall=recall,
        selected=[lost, lost.model_copy(update={"gain": 2.0, "in_pool": True, "lost_by": None})],
        controls=[ControlFacts(control="random-pair", seeds=9, median_difference=-0.5, p=0.25)],
        matched=[
            MatchedFacts(
                against=name, budget=9, enrichment=1, range=(0.5, 1.5), other=2, other_range=(1.5, 2.5)
            )
        ],
        fresh=FreshFacts(rows=40, folds=5, agreement=0.5, enrichment=enriched, tenth=3.0, recall=recall),
        seconds={},
    )


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two colours (WCAG 2.2)."""

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_pages_fit_load_nothing_and_sort(tmp_path):
    texts = [*(render(build()) for build in MAKERS.values()), audited.render([audit()])]
    pages = [(text, width) for text in texts for width in (1280, 390)]
    for (page, width), found in zip(pages, in_browser(tmp_path, *pages), strict=True):
        assert (found["width"], found["met"], found["loaded"]) == (width, [], [])
        assert found["needed"] <= width, found["wide"][-1][:500]
        assert all(right <= width for column in found["importance"] for right in column), found["importance"]
        assert all(all(orders) for table in found["sorted"] for orders in table)
        assert bool(found["importance"]) == (">Importance<" in page)
        assert bool(found["sorted"]) == ("data-sort" in page.partition("<script>")[0])


def test_the_colours_of_text_stand_out_from_light_and_dark(tmp_path):
    page = render(MAKERS["bare"]()), 1280
    light, dark = (in_browser(tmp_path, page, dark=dark)[0]["colours"] for dark in (False, True))
    assert contrast(light["paper"], "#000000") > contrast(dark["paper"], "#000000")
    for colours in (light, dark):
        for text in ("ink", "soft", "link", "bad"):
            assert contrast(colours[text], colours["paper"]) >= READABLE, (text, colours)


def test_what_is_loaded_fails_or_is_too_wide_is_noticed(tmp_path):
    page = render(MAKERS["bare"]()).replace(
        "</main>",
        "<img src=https://example.org/x.png><script>nothing()</script>"
        "<p style='width: 999px'>wide</p></main>",
    )
    (found,) = in_browser(tmp_path, (page, 390))
    assert any("nothing is not defined" in m for m in found["met"])
    assert any("example.org" in m for m in found["met"])
    assert found["needed"] > 390
