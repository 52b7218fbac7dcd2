"""attention-nb audit: the same audit from a terminal."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch.nn as nn

from attention_checks.auditing import Expected, audit
from attention_checks.command.check_command import unusable, write
from attention_checks.command.loading import Unusable, load, restored_path
from attention_checks.outcomes import Misused, first_line
from attention_nb_command import parsed


def _made(target: str) -> tuple[nn.Module, Any, Expected]:
    "Return the model, its inputs and what is expected, as a function gives them."
    made = load(target)()
    parts = made if isinstance(made, tuple) else (made,)
    fits = len(parts) in (2, 3) and isinstance(parts[0], nn.Module)
    if not fits or not isinstance(parts[-1] if len(parts) == 3 else Expected(), Expected):
        kinds = ", ".join(type(part).__name__ for part in parts)
        raise Unusable(f"{target}: expected it to return a model and its inputs; got {kinds}")
    return parts if len(parts) == 3 else (*parts, Expected())


@restored_path()
def main(
    argv: Sequence[str] | None = None,  # arguments; default: those of this process
    prog: str = "attention-nb",  # how it was called, for its help and its errors
) -> int:  # exit status: 0 nothing is wrong, 1 there is a fault, 2 it could not be audited
    "Run `attention-nb audit`."
    args = parsed(sys.argv[1:] if argv is None else argv, prog, ["audit"])
    try:
        model, inputs, expected = _made(args.target)
        if args.causal is not None:
            expected = replace(expected, causal=args.causal)
        report = audit(model, inputs, expected, args.n, skip=args.skip)
    except (Unusable, Misused) as e:
        return unusable(prog, str(e))
    except Exception as e:
        return unusable(prog, f"{args.target}: {first_line(e)}")
    write(report.to_json() if args.format == "json" else str(report))
    return 0 if report.ok else 1
