"""`attention-nb`: explain a bug, check attention, audit a model, translate, continue a text.

It stands outside of the package, as the plugin for pytest does: help and explanations need no
PyTorch, and no seconds.
"""

from __future__ import annotations

import argparse
import difflib
import json
import re
import sys
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import cache, partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_ABOUT = "Say what is wrong with an attention layer or function, and what the bug probably is."
_COMMANDS = {
    "check": "check a layer or a function; check --help lists the options",
    "audit": "audit a whole model, layer by layer; audit --help lists the options",
    "explain": "say what a code such as scale.missing means, and what to do about it",
    "translate": "write numbers in English words as digits, with the small trained model of"
    " chapter 8",
    "generate": "continue a text with a published model, token by token: a folder with config.json,"
    " safetensors and tokenizer.json",
}
_AROUND = {  # command → what its help says above the options, and below
    "check": (
        _ABOUT,
        "Exit status: 0 all is sound, 1 there is a bug, 2 something was not compared or could not"
        " be checked. Example: %(prog)s mylib.layers:CausalAttention --d-model 64 --n-heads 4"
        " --causal",
    ),
    "audit": (
        "Audit a whole model: what may see what, in each layer; each fault is named with its"
        " layer.",
        "Exit status: 0 nothing is wrong, 1 there is a fault, 2 it could not be audited.",
    ),
}
_FORMAT = {"choices": ["text", "json"], "default": "text", "help": "how to write it"}
_ARGUMENTS: dict[str, dict[str, dict[str, Any]]] = {  # command → its arguments
    "check": {
        "target": {
            "nargs": "?",
            "help": "package.module:name or folder/file.py:name of a layer, its class, a function"
            " that makes one, or a function of (q, k, v), (x, dim) or (scores, mask);"
            " default: all that pyproject.toml lists",
        },
    },
    "audit": {
        "target": {
            "metavar": "MODULE:FUNCTION",
            "help": "package.module:function or folder/file.py:function, which takes nothing and"
            " returns the model and its inputs, such as (model, {'input_ids': ids}); a third part"
            " may say what is expected",
        },
        "--causal": {
            "action": argparse.BooleanOptionalAction,
            "help": "it hides the future (default: as the function says, else it does)",
        },
        "--n": {"type": int, "metavar": "NUMBER", "help": "tokens to try it with"},
        "--skip": {
            "action": "append",
            "default": [],
            "metavar": "CODE",
            "help": "no fault here; may be repeated",
        },
        "--format": _FORMAT,
    },
    "explain": {"code": {"help": "as a report names it, such as scale.missing"}},
    "translate": {
        "text": {
            "nargs": "+",
            "help": "a number in words, up to 999 999, in quotes: 'four hundred and two'",
        },
    },
    "generate": {
        "directory": {
            "help": "a folder with a checkpoint, or a name on the hub, such as"
            " openai-community/gpt2",
        },
        "text": {"help": "what to continue, in quotes"},
        "--tokens": {
            "type": int,
            "default": 60,
            "metavar": "N",
            "help": "tokens to generate at most; default 60",
        },
        "--temperature": {
            "type": float,
            "default": 0.0,
            "help": "0, the default, takes the most probable token; 1 draws from the model's own",
        },
        "--seed": {"type": int, "help": "of the random numbers"},
    },
}


@cache
def _catalogue() -> dict[str, Any]:
    "Return bugs by their codes, and what checks take, as `make export` writes it from the checks."
    package = find_spec("attention_nb")
    assert package and package.origin
    file = Path(package.origin).parent / "catalogue.json"
    catalogue: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return catalogue


def options() -> dict[str, dict[str, Any]]:
    "Return what the checks take: what each argument means, its type, and what it is for."
    taken: dict[str, dict[str, Any]] = _catalogue()["options"]
    return taken


_Load = Callable[[str], Any]
_SWITCHES = {"true": True, "false": False}
_METAVARS = {
    "Mapping": "NAME=VALUE",
    "Callable": "TARGET",
    "(int|float|Collection.(int|float))": "NUMBER",
    "": "NAME",
}


def _value(annotation: str, load: _Load, text: str) -> Any:
    "Read what an option is given as the annotation of its argument says."
    if "bool" in annotation and text.lower() in _SWITCHES:
        return _SWITCHES[text.lower()]
    target = re.search("Callable|Order", annotation)
    if target and (":" in text or target.start() == 0):
        return load(text)
    for kind, read in (("int", int), ("float", float)):
        if kind in annotation:
            with suppress(ValueError):
                return read(text)
    if not re.search("str|Mapping", annotation):
        raise argparse.ArgumentTypeError(f"expected a number; got {text!r}")
    name, equals, meaning = text.partition("=")
    is_pair = equals and "tuple" in annotation and "Mapping" not in annotation
    return (name, meaning) if is_pair else text


def _as_words(says: str) -> str:
    'Write what Python takes as a command line takes it: {"q": "to_q"} is q=to_q.'
    pairs = re.sub(r'\{"(\w+)": "([\w.]+)"\}', r"\1=\2", says)
    several = re.sub(r'\{"(\w+)": \("(\w+)", "(\w+)"\)\}', r"\1=\2,\3", pairs)
    return re.sub(r'\("(\w+)", "(\w+)"\)', r"\1=\2", several).replace('"', "")


def _option(name: str, load: _Load) -> dict[str, Any]:
    "Return an argument of the checks as an option, as argparse takes it."
    row = options()[name]
    annotation, text = row["type"], f"{_as_words(row['says'])} [{', '.join(row['kinds'])}]"
    option: dict[str, Any] = {"default": None, "help": text.replace("%", "%%")}
    if annotation in ("bool", "bool | None"):
        return {**option, "action": argparse.BooleanOptionalAction}
    option["metavar"] = next(m for of, m in _METAVARS.items() if re.match(of, annotation))
    if re.search("Mapping|Collection", annotation):
        option["action"] = "append"
    if "bool" in annotation:
        option["help"] += f"; or --no-{name}"
    if annotation.startswith("bool"):
        option |= {"nargs": "?", "const": True}
    return {**option, "type": partial(_value, annotation, load)}


def _arguments_of(command: str, load: _Load) -> dict[str, dict[str, Any]]:
    "Return the arguments of a command, as argparse takes them."
    if command != "check":
        return _ARGUMENTS[command]
    taken = {f"--{name.replace('_', '-')}": _option(name, load) for name in options()}
    kinds = list(dict.fromkeys(kind for row in options().values() for kind in row["kinds"]))
    setting = {"action": "append", "default": [], "metavar": "NAME=VALUE"}
    return {
        **_ARGUMENTS[command],
        **taken,
        "--as": {"dest": "kind", "choices": kinds, "help": "what it is (default: find out)"},
        "--set": {**setting, "help": "an argument of the class; may be repeated"},
        "--format": _FORMAT,
    }


def _bare() -> dict[str, str]:
    "Return options of `check` that may go without a value, or with no- → the value that they mean."
    return {
        f"--{no}{name}": f"--{name}={not no}"
        for name, row in options().items()
        for no in ("", "no-")
        if "nargs" in _option(name, str) or no and "| bool" in row["type"]
    }


def parsed(
    words: Sequence[str],  # of the command line
    prog: str,  # how the command was called
    names: Collection[str] = _COMMANDS,  # of the commands that it may be
    load: _Load = str,  # what finds a function that an option names; default: it stays a name
) -> argparse.Namespace:
    "Read a command line; SystemExit for help and for errors, when argparse has written them."
    parser = argparse.ArgumentParser(prog=prog, description=_ABOUT)
    named = f"attention-nb {version('attention_nb')}"
    parser.add_argument("--version", action="version", version=named)
    metavar = f"{{{','.join(names)}}}"
    commands = parser.add_subparsers(dest="command", required=True, metavar=metavar)
    for name in names:
        about, end = _AROUND.get(name, (_COMMANDS[name], None))
        command = commands.add_parser(name, help=_COMMANDS[name], description=about, epilog=end)
        for argument, given in _arguments_of(name, load).items():
            command.add_argument(argument, **given)
    bare = _bare() if words[:1] == ["check"] else {}
    return parser.parse_args([bare.get(word, word) for word in words])


def _explained(code: str, prog: str) -> int:
    "Print what the catalogue says of a bug, in a few lines; 2 if it knows none."
    catalogue = _catalogue()
    bugs, site = catalogue["bugs"], catalogue["site"]
    if code not in bugs:
        near = difflib.get_close_matches(code, bugs, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else f"see {site}lookup/codes.html"
        print(f"{prog}: no bug has the code {code}; {hint}", file=sys.stderr)
        return 2
    bug, kind = bugs[code], catalogue["kinds"][code.partition(".")[0]]
    print(f"{code}: {bug['says']}\n")
    if "{" in bug["says"]:
        print("In braces stands what a check finds out.")
    if bug["declare"]:
        print(f"If it is meant, declare it: {bug['declare']}")
    print(f"Codes {kind['codes']} are about: {kind['about']}")
    if kind["chapter"]:
        print(f"How it should be: {site}{kind['chapter']}")
    print(f"All such bugs: {site}lookup/codes.html#{code}")
    return 0


def _translate(texts: Sequence[str], prog: str) -> int:
    "Print the digits of each text; 2 if one of them could not be translated."
    from attention_nb.translation import translate  # PyTorch takes a second

    status = 0
    for text in texts:
        try:
            print(translate(text), flush=True)
        except ValueError as e:
            print(f"{prog}: {text!r}: {e}", file=sys.stderr)
            status = 2
    return status


def _generate(args: argparse.Namespace, prog: str) -> int:
    "Print a text and what follows, as it is generated; 2 if the model cannot be run."
    from attention_nb.hybrid_models import HYBRIDS  # PyTorch takes a second
    from attention_nb.real_models import FAMILIES, stream_text

    how = args.tokens, args.temperature, args.seed, {**FAMILIES, **HYBRIDS}
    try:
        pieces = stream_text(args.directory, args.text, *how)
        print(args.text + next(pieces, ""), end="", flush=True)
        for piece in pieces:
            print(piece, end="", flush=True)
        print()
    except (ImportError, OSError, TypeError, ValueError) as e:
        print(f"{prog}: {e}", file=sys.stderr)
        return 2
    return 0


def main(
    argv: Sequence[str] | None = None,  # arguments; default: those of this process
    prog: str = "attention-nb",  # how it was called, for its help and its errors
) -> int:  # exit status: 0 all is well, 1 there is a bug or a fault, 2 it cannot be done
    "Run `attention-nb`."
    words = list(sys.argv[1:] if argv is None else argv)
    args = parsed(words, prog)  # help and errors come before PyTorch
    if args.command == "check":
        from attention_checks.command.check_command import main as check

        return check(words, prog)
    if args.command == "audit":
        from attention_checks.command.audit_command import main as audit

        return audit(words, prog)
    if args.command == "translate":
        return _translate(args.text, prog)
    if args.command == "generate":
        return _generate(args, prog)
    return _explained(args.code, prog)


if __name__ == "__main__":
    sys.exit(main(prog="python -m attention_nb_command"))
