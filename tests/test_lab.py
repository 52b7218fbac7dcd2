"""The notebooks in a real JupyterLab, opened as `make lab` does:
what a learner sees, and what git sees of it.

If it fails: The name of the test says what fails in JupyterLab;
tools/jupyter holds what `make lab` sets.
"""

import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import urlopen

import nbformat
import pytest
from browser import HANGS, Visit, no_longer_than
from conftest import ROOT, fail_if, sh
from playwright.sync_api import Browser, Locator, Page, TimeoutError, expect

pytestmark = pytest.mark.ci

ANSWERS, FIGURES = "01_naive_attention.ipynb", "02_softmax.ipynb"
# A busy machine may need them to start a Lab or to run a chapter; a quiet one waits for none.
SECONDS = 400
PATIENT = {"timeout": SECONDS * 1000}


def git(folder: Path, *args: str) -> str:
    return sh("git", "-c", "user.name=test", "-c", "user.email=test@localhost", *args, cwd=folder)


def wait_for(lab: subprocess.Popen, address: str, log: Path) -> None:
    "Until the server answers."
    for _ in range(10 * SECONDS):
        try:
            return urlopen(address).close()
        except OSError:
            assert lab.poll() is None, log.read_text()
            time.sleep(0.1)
    raise AssertionError(log.read_text())


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    "A copy of the notebooks, as git knows them."
    folder = tmp_path_factory.mktemp("lab")
    shutil.copytree(ROOT / "nbs", folder / "nbs", ignore=shutil.ignore_patterns(".*"))
    shutil.copy(ROOT / ".gitignore", folder)
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message=start")
    return folder


@pytest.fixture(scope="module")
def lab(folder, tmp_path_factory) -> Iterator[str]:
    """The address of a JupyterLab that `make lab` started,
    in a home where nobody has changed a setting.
    """
    home, token = tmp_path_factory.mktemp("home"), secrets.token_hex(16)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = (
        f"--no-browser --expose-app-in-browser --port={port} --ServerApp.port_retries=0 "
        f"--IdentityProvider.token={token}"
    )
    command = [
        "make",
        "--assume-old=.venv/.ready",
        f"BIN={Path(sys.executable).parent}",
        "lab",
        f"NBS={folder / 'nbs'}",
        f"LAB={options}",
    ]
    with (home / "log").open("w") as log:
        server = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "HOME": str(home)},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        wait_for(server, f"http://127.0.0.1:{port}/api?token={token}", home / "log")
        yield f"http://127.0.0.1:{port}/lab?token={token}"
    finally:
        os.killpg(server.pid, signal.SIGTERM)  # its kernels end with it
        server.wait(SECONDS)


PANEL = "[...jupyterapp.shell.widgets('main')].find((panel) => panel.context?.path === path)"
# A kernel that has just begun can lose what it is asked, and then says nothing for ever. So it is
# asked for nothing first: when that has been answered, both ways to it are open. Where it is not,
# there is another kernel: a connection that is made anew to the same one loses more. And the
# command is told which notebook it is for: by itself it takes the one in front.
RUN_ALL = """async ([path, anew]) => {
  const { commands } = jupyterapp;
  const panel = await commands.execute("docmanager:open", { path }), context = panel.sessionContext;
  await Promise.all([panel.context.ready, context.ready]);
  const asked = () => context.session.kernel.requestExecute({ code: "", silent: true }).done;
  const answered = () => Promise.race([
    asked().then(() => true, () => false),
    new Promise((later) => setTimeout(later, 30000, false))]);
  for (let n = 0; anew || !(await answered()); n++) {
    const { status } = context.session.kernel;
    if (n === 10) throw new Error(`no kernel of ${path} answers; the last is ${status}`);
    anew = false;
    await context.changeKernel({ name: context.session.kernel.name });
  }
  await commands.execute("notebook:clear-all-cell-outputs", { semanticWidget: panel.id });
  commands.execute("notebook:run-all-cells", { semanticWidget: panel.id });
}"""
TO_RUN = f"""(path) => [...{PANEL}.content.model.cells]
  .filter((cell) => cell.type === "code" && cell.sharedModel.getSource().trim())
  .filter((cell) => cell.executionCount === null).map((cell) => cell.id)"""
FAILED = f"""(path) => [...{PANEL}.content.model.cells]
  .flatMap((cell) => cell.outputs?.toJSON() ?? [])
  .filter((output) => output.output_type === "error")
  .map((output) => `${{output.ename}}: ${{output.evalue}}`.slice(0, 200))"""


def run_whole(page: Page, path: str) -> None:
    """Open a notebook and run all of its cells, if need be twice, in another kernel.

    If they do not end: which have not run, and what others said.
    """
    for anew in (False, True):
        page.evaluate(RUN_ALL, [path, anew])
        try:
            return page.wait_for_function(
                f"(path) => !({TO_RUN})(path).length", arg=path, timeout=SECONDS * 1000 / 2
            )
        except TimeoutError:
            status = page.evaluate(f"path => {PANEL}.sessionContext.session.kernel.status", path)
    left = [*page.evaluate(TO_RUN, path), *page.evaluate(FAILED, path)]
    fail_if(left, f"{path}: the kernel is {status}, and these have not run, or say:")


@pytest.fixture(scope="module")
def desk(browsers: Callable[..., Browser], lab: str) -> Iterator[Visit]:
    "A page on which two chapters were opened and run whole, the one with figures in front."
    context = browsers().new_context(viewport={"width": 1280, "height": 1000})
    context.set_default_timeout(SECONDS * 1000)
    visited = Visit(context.new_page())
    with no_longer_than(HANGS):
        visited.page.goto(lab)
        visited.page.wait_for_function("window.jupyterapp?.restored.then(() => true)")
        for path in (ANSWERS, FIGURES):
            run_whole(visited.page, path)
    yield visited
    context.close()


def do(desk: Visit, command: str, **args: str) -> None:
    "One of JupyterLab's commands, as its menus give them."
    desk.page.evaluate(
        "async ([command, args]) => { await jupyterapp.commands.execute(command, args); }",
        [command, args],
    )


def turn_to(desk: Visit, path: str) -> Locator:
    "Bring an open notebook to the front, where the next command is for it."
    do(desk, "docmanager:open", path=path)
    desk.page.wait_for_function(f"path => jupyterapp.shell.currentWidget === {PANEL}", arg=path)
    return desk.page.locator(".jp-NotebookPanel:visible")


def cells(desk: Visit, path: str) -> dict[str, dict]:
    "The cells of an open notebook by their ids, as they are now."
    nb = nbformat.from_dict(desk.page.evaluate(f"path => {PANEL}.content.model.toJSON()", path))
    return {cell.id: cell for cell in nb.cells}


def cell(desk: Visit, path: str, name: str) -> Locator:
    "A cell on the screen."
    index = list(cells(desk, path)).index(name)
    return turn_to(desk, path).locator(f".jp-Cell[data-windowed-list-index='{index}']")


def figure(desk: Visit) -> Locator:
    "The output that holds the slider, scrolled into view."
    found = turn_to(desk, FIGURES).locator(
        ".vega-embed", has=desk.page.locator("input[type=range]")
    )
    found.scroll_into_view_if_needed()
    return found


@pytest.mark.parametrize("path", [ANSWERS, FIGURES])
def test_run_all_goes_to_the_end(desk, path):
    "What fails is stubs alone, and they stop nothing."
    ran = {name: c for name, c in cells(desk, path).items() if c.cell_type == "code" and c.source}
    failed = [
        name for name, c in ran.items() if any(out.output_type == "error" for out in c.outputs)
    ]
    assert failed == [name for name in ran if name.endswith("-stub")]
    assert not [name for name, c in ran.items() if c.execution_count is None]


def test_charts_are_drawn(desk):
    panel = turn_to(desk, FIGURES)
    charts = [
        name
        for name, c in cells(desk, FIGURES).items()
        if any("vegalite" in kind for out in c.get("outputs", []) for kind in out.get("data", {}))
    ]
    assert charts
    drawn = panel.locator(".vega-embed svg.marks")
    expect(drawn).to_have_count(len(charts), **PATIENT)
    for svg in drawn.all():
        svg.scroll_into_view_if_needed()
        assert (
            svg.bounding_box()["width"] > 50
            and svg.locator(".mark-text text, .mark-group path").count() > 5
        )


def test_solutions_stay_shut_until_they_are_opened(desk):
    "A failed exercise must not stand above a report that all is well."
    panel = turn_to(desk, ANSWERS)
    names = [name for name in cells(desk, ANSWERS) if name.endswith("-solution")]
    cell(desk, ANSWERS, "solutions").scroll_into_view_if_needed()
    for name in names:
        expect(cell(desk, ANSWERS, name)).to_be_hidden()
    panel.get_by_role("button", name=f"{len(names)} cells hidden").click()
    first = cell(desk, ANSWERS, names[0])
    expect(first.get_by_text("properties hold")).to_be_visible()
    expect(first.locator(".jp-InputArea-editor")).to_be_hidden()  # one opens them one by one


def test_arrow_keys_move_the_slider(desk):
    slider, figure_now = figure(desk).locator("input"), figure(desk).locator("svg.marks")
    at, drawn = int(slider.input_value()), figure_now.text_content()
    slider.focus()
    for key, step in {
        "ArrowLeft": -1,
        "ArrowRight": 0,
        "ArrowUp": 1,
        "ArrowDown": 0,
        "ArrowRight ": 1,
    }.items():
        desk.page.keyboard.press(key.strip())
        expect(slider).to_have_value(str(at + step))
        expect(slider).to_be_focused()
    expect(figure_now).not_to_have_text(drawn)


# The lowest contrast of what is written on the page itself, not on a mark that has its own colour.
CONTRAST = """(chart) => {
  const rgb = (colour) => colour.match(/[\\d.]+/g).slice(0, 3).map(Number);
  const linear = (v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = (colour) => rgb(colour).map((v) => linear(v / 255))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const page = light(getComputedStyle(chart.closest(".jp-Notebook")).backgroundColor);
  const texts = [...chart.querySelectorAll("svg text")].filter((text) => text.textContent);
  return Math.min(...texts.map((text) => {
    const both = [light(getComputedStyle(text).fill), page].sort((a, b) => a - b);
    return (both[1] + 0.05) / (both[0] + 0.05);
  }));
}"""


def test_charts_are_readable_after_a_change_of_theme(desk):
    "Nothing is run again: what was drawn in the light must be readable in the dark, and back."
    for theme, light in (("JupyterLab Dark", "false"), ("JupyterLab Light", "true")):
        do(desk, "apputils:change-theme", theme=theme)
        desk.page.locator(f"body[data-jp-theme-light={light}]").wait_for(state="attached")
        chart = figure(desk).element_handle()
        desk.page.wait_for_function(f"chart => ({CONTRAST})(chart) > 4.5", arg=chart)


MODEL = f"[...{PANEL}.content.model.cells].find((cell) => cell.id === name)"


def answer(desk: Visit, name: str, source: str) -> Locator:
    "Put `source` into a cell, run it with the keyboard, and see what it says when it has run."
    place, page, before = (
        cell(desk, ANSWERS, name),
        desk.page,
        cells(desk, ANSWERS)[name].execution_count,
    )
    place.locator(".cm-content").click()
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.insert_text(source)
    page.wait_for_function(
        f"([path, name, source]) => {MODEL}.sharedModel.getSource() === source",
        arg=[ANSWERS, name, source],
    )
    page.keyboard.press("Control+Enter")
    page.wait_for_function(
        f"([path, name, before]) => ![null, before].includes({MODEL}.executionCount)",
        arg=[ANSWERS, name, before],
    )
    return place.locator(".jp-OutputArea-output")


def right_answer(desk: Visit) -> str:
    "What fills in the stub of the second exercise."
    return cells(desk, ANSWERS)["exercise-2-solution"].source.split("\n", 2)[2]


def test_a_wrong_and_a_right_answer(desk):
    right = right_answer(desk)
    said = answer(desk, "exercise-2-stub", right.replace("dim=-1", "dim=-2"))
    expect(said).to_contain_text(
        re.compile(r"CheckFailed.*likely bug.*(axis|dim)", re.S), **PATIENT
    )
    said = answer(desk, "exercise-2-stub", right)
    expect(said).to_contain_text(re.compile(r"(\d+) of \1 properties hold"), **PATIENT)
    expect(said).not_to_contain_text("CheckFailed")


# JupyterLab saves by itself, too, and then may leave out a save that is asked for meanwhile.
SAVED = f"""async (path) => {{
  const {{ context }} = {PANEL};
  await context.save();
  return !context.model.dirty;
}}"""


def test_git_sees_what_a_person_changed_and_no_more(desk, folder):
    "Both chapters were run and are saved; in one of them somebody has answered an exercise."
    answer(desk, "exercise-2-stub", "#| eval: false\n" + right_answer(desk))
    for path in (FIGURES, ANSWERS):
        desk.page.wait_for_function(SAVED, arg=path)
    assert git(folder, "status", "--porcelain") == f" M nbs/{ANSWERS}\n"
    changed = [
        line for line in git(folder, "diff", "--unified=0").splitlines() if re.match(r"[-+] ", line)
    ]
    assert [line.strip("-+ ,") for line in changed] == [
        r'"    ...\n"',
        r'"    return torch.softmax(q @ k.mT, dim=-1) @ v\n"',
    ]


def test_console_is_silent(desk):
    """But for what JupyterLab says of itself: of its speed on a slow machine, of a connection
    to a kernel that it makes anew.

    On a quick one it says that its splash is taken away twice; none of ours stands in between.
    """
    own = re.compile(
        r"Plugin @jupyterlab/\S+ .*activate|Item with index \d+ did not appear within \d+ ms|"
        r"Connection lost, reconnecting in|WebSocket connection to 'ws:|"
        r"Canceled future for \w+ message|History was unable to be retrieved|"
        r"Failed to execute 'removeChild' on 'Node'[^\n]*\n +at \S+/static/lab/jlab_core[^\n]*$"
    )
    fail_if([line for line in desk.said if not own.search(line)], "The console says:")
