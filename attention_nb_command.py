"""`attention-nb`: explain a bug, check attention, audit a model, translate, continue a text.

It stands outside of the package, as the plugin for pytest does: help and explanations need no
PyTorch, and no seconds.
"""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from collections.abc import Sequence
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
_ARGUMENTS: dict[str, dict[str, dict[str, Any]]] = {  # command → its arguments
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


def _parser(prog: str) -> argparse.ArgumentParser:
    "Return the parser of the command; that of `check` stands with the checks."
    parser = argparse.ArgumentParser(prog=prog, description=_ABOUT)
    said = f"attention-nb {version('attention_nb')}"
    parser.add_argument("--version", action="version", version=said)
    names = f"{{{','.join(_COMMANDS)}}}"
    commands = parser.add_subparsers(dest="command", required=True, metavar=names)
    for name, about in _COMMANDS.items():
        command = commands.add_parser(name, help=about, description=about)
        for argument, options in _ARGUMENTS.get(name, {}).items():
            command.add_argument(argument, **options)
    return parser


def _catalogue() -> dict[str, Any]:
    "Return every bug by its code, as `make export` writes it from the catalogue."
    package = find_spec("attention_nb")
    assert package and package.origin
    file = Path(package.origin).parent / "catalogue.json"
    catalogue: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return catalogue


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
    from attention_nb.real_models import stream_text  # PyTorch takes a second

    try:
        pieces = stream_text(args.directory, args.text, args.tokens, args.temperature, args.seed)
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
    if words[:1] == ["check"]:
        from attention_checks.check_command import main as check

        return check(words, prog)
    if words[:1] == ["audit"]:
        from attention_checks.auditing.audit_command import main as audit

        return audit(words[1:], prog)
    args = _parser(prog).parse_args(words)
    if args.command == "translate":
        return _translate(args.text, prog)
    if args.command == "generate":
        return _generate(args, prog)
    return _explained(args.code, prog)


if __name__ == "__main__":
    sys.exit(main(prog="python -m attention_nb_command"))
