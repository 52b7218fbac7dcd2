"""Audit five decoders in releases of transformers that let them see the future, and in others.

    .venv/bin/python -m tests.third_party.releases

It installs each into a temporary folder, and takes seven minutes. The five: RoFormer, BigBird,
RemBert, MegatronBert (huggingface/transformers#48745) and Doge (#48748), since 5.9.0, mended in
5.18.0.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

KINDS = ("roformer", "big_bird", "rembert", "megatron-bert", "doge")
LEAKS = {"mask.leaks", "cache.chunk_future"}  # Doge leaks where a chunk follows a cache
RELEASES = {"5.9.0": False, "5.17.0": False, "5.18.0": True}  # is it mended?
ROOT = Path(__file__).parents[2]
AUDIT = """
import json, logging, sys, warnings
logging.disable(logging.WARNING)
warnings.simplefilter("ignore")
from tests.third_party.decoders import row
print(json.dumps([row(kind) for kind in sys.argv[1:]]))
"""


def install(release: str, folder: Path) -> None:
    """Put a release of transformers into a folder, with the packages that it needs.

    Torch is not one of them.
    """
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-warn-conflicts"]
    command = [*pip, "--target", str(folder), f"transformers=={release}"]
    subprocess.run(command, check=True)


def rows(folder: Path) -> list[dict[str, Any]]:
    "Audit the five with the release of a folder, in a process of its own."
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}
    command = [sys.executable, "-c", AUDIT, *KINDS]
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True)
    found: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> int:
    "Print a line for each release and decoder; 1 if a verdict is not the expected one."
    wrong = 0
    for release, mended in RELEASES.items():
        with tempfile.TemporaryDirectory() as folder:
            install(release, Path(folder))
            for found in rows(Path(folder)):
                codes = found.get("codes", [])
                as_expected = found["verdict"] == "sound" if mended else bool(LEAKS & set(codes))
                wrong += not as_expected
                remark = "" if as_expected else "not as expected"
                print(release, found["kind"], found["verdict"], codes, remark, flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
