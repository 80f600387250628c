"""A report in a real browser: every chart is drawn, without errors and without network requests."""

from __future__ import annotations

import dataclasses
import io
import itertools
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread

import fedkin as fk
from fedkin.data.federated import FederatedData, Ragged
from fedkin.reporting.html.live import DeploymentLines, LivePage
from fedkin.reporting.html.live_server import LiveServer
from fedkin.reporting.method_styles import method_style
from tests.client_tables import with_clients
from tests.process.browser import COMMAND, Browser, browsing
from tests.reporting.written_runs import a_run, unfinished, wandering

pytestmark = pytest.mark.skipif(
    COMMAND is None, reason="there is no chromium here; install the Debian package chromium"
)

ALL = "document.documentElement.dataset.all !== undefined"
PLOTS = (
    "accuracy",
    "bottom",
    "clients",
    "clusters",
    "communication",
    "alluvial",
    "map",
    "similarity",
    "labels",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as one:
        yield one


def federation(clients: int, name: str = "made up") -> FederatedData:
    """Clients with 12 samples each of 4 classes; names that are no markup."""
    rng = np.random.default_rng(0)
    y = rng.integers(4, size=12 * clients)
    x = (rng.normal(size=(len(y), 3)) + y[:, None]).astype(np.float32)
    rows = np.arange(len(y)).reshape(clients, 12)
    names = tuple(f"<img src=x onerror=alert({i})> & <b>{i}</b>" for i in range(clients))
    return FederatedData(
        name=name,
        x=x,
        y=y,
        classes=4,
        train=Ragged.of(list(rows[:, :9])),
        test=Ragged.of(list(rows[:, 9:])),
        true_clusters=np.arange(clients) % 2,
        client_names=names,
    )


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of one method, with all pictures, marks and nasty names."""
    data = federation(30)
    rows = wandering(30, 12, share=0.1)
    rows[:4, :5] = -1
    runs = [
        a_run(rows, data=data.name, seed=s, moved=[30 if r == 6 else None for r in range(13)])
        for s in (0, 1)
    ]
    runs = [with_clients(run, run.clients.assign(accuracy=np.linspace(0.2, 1, 30))) for run in runs]
    target = tmp_path_factory.mktemp("page") / "report.html"
    return fk.report(
        fk.RepeatedRuns(tuple(runs)), target, similarity=True, data=data, model=fk.models.mclr(data)
    )


def seen(browser: Browser) -> np.ndarray:
    return imread(io.BytesIO(browser.screenshot()))[:, :, :3]


def quiet(browser: Browser, page: Path) -> None:
    """No complaint, and nothing asked for but the page itself."""
    assert browser.errors == []
    assert {
        url.split("#")[0]
        for url in browser.requests
        if not url.startswith(("data:", "blob:", "about:"))
    } == {page.as_uri()}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_every_chart_is_drawn(browser: Browser, page: Path, width: int, dark: bool) -> None:
    browser.open(page, width=width, height=900, dark=dark, fragment="#all")
    browser.wait(ALL)
    for plot in PLOTS:
        size = browser.evaluate(
            f"document.querySelector('#{plot} .main-svg').getBoundingClientRect().toJSON()"
        )
        assert 200 < size["width"] <= width and size["height"] > 150, plot
        box = browser.evaluate(
            f"document.querySelector('#{plot}').getBoundingClientRect().toJSON()"
        )
        assert abs(box["height"] - size["height"]) < 2, plot  # nothing hangs out of its frame
        assert (
            len(browser.evaluate(f"document.querySelector('#{plot}').getAttribute('aria-label')"))
            > 30
        )
        assert browser.evaluate(f"document.querySelectorAll('#f-{plot} table tr').length") > 1
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    picture = seen(browser)
    corner = float(picture[2, 2].mean())
    assert corner < 0.2 if dark else corner > 0.8
    # Not blank.
    assert len(np.unique((255 * picture[::3, ::3]).astype(np.uint8).reshape(-1, 3), axis=0)) > 100
    quiet(browser, page)


def test_axes_fit_the_curves_and_a_box_has_all_methods(browser: Browser, tmp_path: Path) -> None:
    rows = wandering(8, 4)
    run = a_run(rows, accuracy=[0.8, 0.82, 0.84, 0.86, 0.88])
    run = dataclasses.replace(
        run, against={"fedavg": a_run(0 * rows, "fedavg", accuracy=[0.79] * 5)}
    )
    page = fk.report(run, tmp_path / "report.html")
    browser.open(page, fragment="#all")
    browser.wait(ALL)
    low, high = browser.evaluate("document.querySelector('#accuracy')._fullLayout.yaxis.range")
    assert 0.7 < low < 0.79 and 0.88 < high < 0.95
    assert (
        browser.evaluate("document.querySelector('#accuracy')._fullLayout.hovermode") == "x unified"
    )
    quiet(browser, page)


def test_a_panel_where_nothing_happens_is_a_sentence(browser: Browser, tmp_path: Path) -> None:
    page = fk.report(a_run(np.tile([0, 0, 1], (5, 1))), tmp_path / "report.html")
    browser.open(page, fragment="#all")
    browser.wait(ALL)
    assert browser.evaluate("document.querySelector('#alluvial').offsetHeight") == 0
    note = browser.evaluate("document.querySelector('#f-alluvial .note').textContent")
    assert "cluster 0: 2, cluster 1: 1" in note and note.startswith("No migrations")
    quiet(browser, page)


def test_a_wide_table_is_a_list_on_a_phone(browser: Browser, page: Path) -> None:
    hidden = (
        "[...document.querySelectorAll('main > section > .table')].map((one) => one.scrollWidth - "
        "one.clientWidth)"
    )
    label = "getComputedStyle(document.querySelectorAll('table.list td')[1], '::before').content"
    browser.open(page, 390, 900)
    assert browser.evaluate(hidden) == [0] and browser.evaluate(label) == '"seeds"'
    browser.open(page, 1280, 900)
    assert browser.evaluate(hidden) == [0] and browser.evaluate(label) == "none"


def test_the_alluvial_chart_counts_migrations(browser: Browser, tmp_path: Path) -> None:
    rows = wandering(40, 90, share=0.05)
    rows[:7, :9] = -1  # newcomers change nothing by coming
    pairs = list(zip(rows, rows[1:], strict=False))
    true = sum(int(((a != b) & (a >= 0) & (b >= 0)).sum()) for a, b in pairs)
    page = fk.report(a_run(rows), tmp_path / "report.html")
    browser.open(page, fragment="#all")
    browser.wait(ALL)
    label = browser.evaluate("document.querySelector('#alluvial').getAttribute('aria-label')")
    note = browser.evaluate("document.querySelector('#f-alluvial .note').textContent")
    for text in (label, note):
        assert f"{true} migrations" in text and "net flows" in text
    assert browser.evaluate("document.querySelectorAll('#f-alluvial table tbody tr').length") == 12
    quiet(browser, page)


def test_migrants_are_of_the_chosen_run_and_the_index_may_be_negative(
    browser: Browser, tmp_path: Path
) -> None:
    first = np.array([[0, 0, 1], [0, 1, 1]])
    second = np.array([[0, 0, 1], [0, 0, 1]])
    runs = tuple(a_run(rows, seed=s, ari=[-0.4, 1.0]) for s, rows in enumerate((first, second)))
    page = fk.report(fk.RepeatedRuns(runs), tmp_path / "report.html")
    browser.open(page, fragment="#all")
    browser.wait(ALL)
    low, high = browser.evaluate("document.querySelector('#ari')._fullLayout.yaxis.range")
    assert -0.5 < low < -0.4 and 1 < high < 1.1
    assert "-0.40" in browser.evaluate("document.querySelector('#f-ari table').textContent")
    assert "cluster 0 to cluster 1" in browser.evaluate(
        "document.querySelector('#migrants table').textContent"
    )
    assert not browser.evaluate("document.querySelector('#migrants').hidden")
    choose = (
        "const one = document.querySelector('#run'); one.value = 1; one.dispatchEvent(new "
        "Event('change')); 0"
    )
    browser.evaluate(choose)
    assert browser.evaluate("document.querySelector('#migrants').hidden")
    quiet(browser, page)


def test_a_long_name_of_a_setting_hides_no_column(browser: Browser, tmp_path: Path) -> None:
    folder = tmp_path / "c"
    labels = [
        "two classes for each of the clients, and a third of them slow in every round",
        "as they come",
    ]
    settings = "".join(
        f'[[compare.data]]\nlabel = "{label}"\ndata = {{clients = {6 + i}}}\n'
        for i, label in enumerate(labels)
    )
    file = tmp_path / "study.toml"
    file.write_text(
        '[data]\nname = "digits"\n[model]\nname = "mclr"\n[local]\nepochs = 1\n'
        "[run]\nrounds = 1\ncohort = 3\n"
        '[compare]\nseeds = 3\nmethods = ["fedavg", {name = "ifca", clusters = 2}]\n' + settings
    )
    fk.compare(file, out=folder)
    page = fk.report(folder)
    browser.open(page, 1280, 900)
    browser.wait("document.documentElement.dataset.ready !== undefined")
    hidden = (
        "[...document.querySelectorAll('main > section > .table')].map((one) => one.scrollWidth - "
        "one.clientWidth)"
    )
    assert set(browser.evaluate(hidden)) == {0}
    assert browser.evaluate("document.querySelectorAll('main strong').length") >= 2
    quiet(browser, page)


def test_names_are_text_and_not_markup(browser: Browser, page: Path) -> None:
    browser.open(page, fragment="#all")
    browser.wait(ALL)
    assert browser.evaluate("document.querySelectorAll('img').length") == 0
    assert browser.evaluate(
        "document.querySelector('#f-map table').textContent.includes('<img src=x "
        "onerror=alert(0)>')"
    )
    quiet(browser, page)


def test_charts_below_the_fold_come_without_scrolling(browser: Browser, page: Path) -> None:
    """For a reader after those in view, one at a time; for a program that takes a picture of the
    page at once."""
    reader = browser.evaluate("navigator.userAgent").replace("Headless", "")
    for agent in (reader, ""):  # an empty one is the browser's own
        browser.ask("Network.setUserAgentOverride", userAgent=agent)
        browser.open(page, 1280, 700)
        browser.wait("document.documentElement.dataset.ready !== undefined")
        browser.wait(ALL)
        ready, last = (
            int(browser.evaluate(f"document.documentElement.dataset.{name}"))
            for name in ("ready", "all")
        )
        assert (ready < last) == bool(agent)
        quiet(browser, page)


def test_it_is_used_by_keyboard(browser: Browser, page: Path) -> None:
    browser.open(page, fragment="#all")
    browser.wait(ALL)
    browser.press("Tab", 9)
    assert browser.evaluate("document.activeElement.className") == "skip"
    names = [browser.evaluate("document.activeElement.id")]
    for _ in range(40):
        browser.press("Tab", 9)
        names.append(browser.evaluate("document.activeElement.id"))
        outline = browser.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none" or browser.evaluate("document.activeElement === document.body")
    assert {"run", "by-cluster", "by-true_cluster"} <= set(names)
    before = browser.evaluate("document.querySelector('#map').getAttribute('aria-label')")
    browser.evaluate("document.querySelector('#by-true_cluster').focus()")
    browser.press("Enter", 13, "\r")
    assert (
        browser.evaluate("document.querySelector('#by-true_cluster').getAttribute('aria-pressed')")
        == "true"
    )
    assert "coloured by true cluster" in browser.evaluate(
        "document.querySelector('#map').getAttribute('aria-label')"
    )
    assert before and "coloured by cluster" in before


def test_another_run_is_chosen(browser: Browser, page: Path) -> None:
    browser.open(page, fragment="#all")
    browser.wait(ALL)
    assert "seed = 0" in browser.evaluate("document.querySelector('#config').textContent")
    browser.evaluate(
        "(() => { const c = document.querySelector('#run'); c.value = 1; c.dispatchEvent(new "
        "Event('change')); })()"
    )
    assert "seed = 1" in browser.evaluate("document.querySelector('#config').textContent")
    assert browser.evaluate("document.querySelector('#config-of').textContent") == "IFCA, seed 1"
    quiet(browser, page)


def test_light_and_dark_may_change_while_it_is_open(browser: Browser, page: Path) -> None:
    browser.open(page, fragment="#all")
    browser.wait(ALL)
    ink = "document.querySelector('#accuracy .xtick text').style.fill"
    light = browser.evaluate(ink)
    browser.scheme("dark")
    browser.wait(f"{ink} !== '{light}'")
    quiet(browser, page)


def test_charts_that_cannot_be_shown_leave_no_hole(browser: Browser, tmp_path: Path) -> None:
    run = a_run(wandering(6, 3))
    folder = unfinished(run, tmp_path / "a")
    (folder / "migrations.jsonl").unlink()
    page = fk.report(folder, similarity=True)
    browser.open(page, fragment="#all")
    browser.wait(ALL)
    assert browser.evaluate("document.querySelector('#alluvial').offsetHeight") == 0
    assert len(browser.evaluate("document.querySelector('#f-alluvial .note').textContent")) > 20
    assert browser.evaluate("document.querySelector('#map')") is None
    assert browser.evaluate("document.querySelectorAll('aside.notes li').length") >= 2
    quiet(browser, page)


def test_a_thousand_clients_and_three_hundred_rounds_stay_small(
    browser: Browser, tmp_path: Path
) -> None:
    data = federation(1000)
    run = a_run(wandering(1000, 300, clusters=8), data=data.name)
    page = fk.report(
        run, tmp_path / "report.html", similarity=True, data=data, model=fk.models.mclr(data)
    )
    assert page.stat().st_size < 4_000_000
    browser.open(page, fragment="#all")
    browser.wait(ALL)
    assert "200 clients" in browser.evaluate(
        "document.querySelector('#map').getAttribute('aria-label')"
    )
    quiet(browser, page)


def test_a_live_page_follows_its_run(browser: Browser, run_folder: Path) -> None:
    lines = (run_folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    (run_folder / "metrics.jsonl").write_text("".join(lines[:2]))
    shown = DeploymentLines(
        [("site-0", "up", "<b>bold</b>")], ["fedkin site-1 is refused: <script>alert(1)</script>"]
    )
    with LiveServer(LivePage(run_folder, lambda: shown)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        browser.errors.clear()
        browser.ask("Page.navigate", url=server.address)
        text = "document.getElementById('runs').textContent"
        browser.wait(f"document.getElementById('runs') !== null && {text}.includes('1 of 2')")
        assert (
            browser.evaluate("document.getElementById('parts').textContent")
            == "site-0up<b>bold</b>"
        )
        assert "<script>" in browser.evaluate("document.getElementById('log').textContent")
        (run_folder / "metrics.jsonl").write_text("".join(lines))
        browser.wait(f"{text}.includes('2 of 2')")
        title = "document.getElementById('report').contentDocument?.querySelector('h1')"
        browser.wait(f"{title}?.textContent.length > 3")
        for width in (1400, 390):
            browser.ask(
                "Emulation.setDeviceMetricsOverride",
                width=width,
                height=900,
                deviceScaleFactor=1,
                mobile=width < 600,
            )
            assert browser.evaluate("document.documentElement.scrollWidth") <= width
            hidden = (
                "[...document.querySelectorAll('.table')].map((e) => e.scrollWidth - e.clientWidth)"
            )
            assert max(browser.evaluate(hidden)) <= 0
        server.shutdown()
        thread.join()
    browser.wait("document.getElementById('state').textContent.includes('has ended')")
    assert all(
        server.address in url or url.startswith(("data:", "about:", "blob:"))
        for url in browser.requests[-5:]
    )


def layout(browser: Browser, chart: str, path: str) -> Any:
    return browser.evaluate(f"document.querySelector('#{chart}')._fullLayout.{path}")


def test_axes_of_shares_end_with_100_per_cent(browser: Browser, tmp_path: Path) -> None:
    run = a_run(wandering(8, 4), accuracy=[0.1, 0.5, 0.8, 0.9, 0.93])
    run = with_clients(run, run.clients.assign(accuracy=np.linspace(0.2, 1, 8)))
    browser.open(fk.report(run, tmp_path / "report.html"), width=390, fragment="#all")
    browser.wait(ALL)
    for chart in ("accuracy", "clusters", "clients"):
        ticks = browser.evaluate(
            f"[...document.querySelectorAll('#{chart} .ytick text')].map((one) => one.textContent)"
        )
        assert ticks[0] in ("0%", "20%") and ticks[-1] == "100%", chart
    ticks = "[...document.querySelectorAll('#clients .xtick text')].map((one) => one.textContent)"
    assert browser.evaluate(ticks) == ["0%", "20%", "40%", "60%", "80%", "100%"]


def test_an_axis_of_forecasts_shows_errors_above_one(browser: Browser, tmp_path: Path) -> None:
    mase = "mean_absolute_scaled_error"
    errors = [2.5, 1.9, 1.7, 1.5, 1.4]
    scores: dict[str, Any] = {mase: errors, f"{mase}_worst_decile": errors}
    scores |= {f"{mase}_by_cluster": [[error] * 3 for error in errors]}
    run = a_run(wandering(8, 4), measure=[mase] * 5, **scores)
    browser.open(fk.report(run, tmp_path / "report.html"), fragment="#all")
    browser.wait(ALL)
    for chart in ("accuracy", "bottom", "clusters"):
        low, high = layout(browser, chart, "yaxis.range")
        assert low < 1.4 and 2.5 < high, chart


def test_a_method_has_the_same_colour_in_any_order(browser: Browser, tmp_path: Path) -> None:
    rows = wandering(8, 4)
    ifca = a_run(rows, "ifca")
    flexcfl = a_run(rows, "flexcfl")
    for dark in (False, True):
        for main, other in ((ifca, flexcfl), (flexcfl, ifca)):
            run = dataclasses.replace(main, against={other.config.method_name: other})
            browser.open(fk.report(run, tmp_path / "r.html"), dark=dark, fragment="#all")
            browser.wait(ALL)
            drawn = browser.evaluate(
                "document.querySelector('#accuracy').data.filter((one) => one.name === 'IFCA')"
                ".map((one) => one.line.color)"
            )
            style = method_style("ifca")
            assert drawn == [style.dark if dark else style.light]


def test_a_chart_of_one_point_is_a_sentence(browser: Browser, tmp_path: Path) -> None:
    run = a_run(np.tile([0, 0, 1], (1, 1)), accuracy=[0.25])
    browser.open(fk.report(run, tmp_path / "report.html"), fragment="#all")
    browser.wait(ALL)
    for chart, text in (
        ("accuracy", "Only round 0 was scored: IFCA 25.0%."),
        ("clusters", "Only round 0 was scored: cluster 0 25.0%, cluster 1 25.0%."),
    ):
        note = browser.evaluate(f"document.querySelector('#f-{chart} .note').textContent")
        assert note == text
        assert browser.evaluate(f"document.querySelector('#{chart}').offsetHeight") == 0


def test_one_cluster_of_several_is_named_in_the_singular(browser: Browser, tmp_path: Path) -> None:
    run = a_run(np.zeros((3, 4), np.int64), accuracy_by_cluster=[[0.5, 0.4]] * 3)
    browser.open(fk.report(run, tmp_path / "report.html"), fragment="#all")
    browser.wait(ALL)
    note = browser.evaluate("document.querySelector('#f-clusters .note').textContent")
    assert note == "The largest cluster; 1 other is omitted."


def test_the_settings_are_shown_whole(browser: Browser, page: Path) -> None:
    for width in (1400, 390):
        browser.open(page, width=width)
        shown = browser.evaluate("document.querySelector('#config').clientHeight")
        assert browser.evaluate("document.querySelector('#config').scrollHeight") <= shown


def test_nothing_is_printed_over_the_similarity_at_390_pixels(browser: Browser, page: Path) -> None:
    browser.open(page, width=390, fragment="#all")
    browser.wait(ALL)
    boxes = browser.evaluate(
        "[...document.querySelectorAll('#similarity text')].filter((one) => one.textContent)"
        ".map((one) => [one.textContent, one.getBoundingClientRect().toJSON()])"
    )
    assert len(boxes) > 4
    for text, box in boxes:
        assert box["left"] >= 0 and box["right"] <= 390, text
    for (text, a), (other, b) in itertools.combinations(boxes, 2):
        apart = (
            a["right"] <= b["left"] + 1
            or b["right"] <= a["left"] + 1
            or a["bottom"] <= b["top"] + 1
            or b["bottom"] <= a["top"] + 1
        )
        assert apart, f"{text} is printed over {other}"


def test_outliers_are_drawn_at_the_edge_of_the_map(browser: Browser, tmp_path: Path) -> None:
    data = federation(30)
    x = data.x.copy()
    x[36:48] *= 20  # the samples of client 3
    data = dataclasses.replace(data, x=x)
    run = a_run(wandering(30, 3), data=data.name)
    page = fk.report(
        run, tmp_path / "r.html", similarity=True, data=data, model=fk.models.mclr(data)
    )
    browser.open(page, fragment="#all")
    browser.wait(ALL)
    note = browser.evaluate("document.querySelector('#f-map .note').textContent")
    assert "1 client is far outside and drawn at the edge, with open symbols (client 3)" in note
    low, high = layout(browser, "map", "xaxis.range")
    drawn = browser.evaluate(
        "document.querySelector('#map').data.flatMap((one) => Array.from(one.x))"
    )
    assert low <= min(drawn) and max(drawn) <= high and len(drawn) == 30
