"""Choose the newest versions that work together on every supported Python,
and write constraints.txt.

torch stays at the version named here: the book's printed numbers were made with it, and an unpinned
torch can bring gigabytes of CUDA packages. Those packages are left out of the file: torch names its
own.
"""

import re
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

TORCH = "torch==2.13.0"
CUDA = re.compile(r"^(nvidia|cuda|triton|torch)\b")
HEADER = """\
# The exact versions the book was built with; written by `make constraints`.
# One set for Python {} to {}, so the site is the same bytes everywhere.
"""


def resolve(root: Path, oldest: str) -> list[str]:
    "The pinned requirements of the project with its dev extra, as lines."
    cmd = [
        sys.executable,
        "-m",
        "uv",
        "pip",
        "compile",
        "setup.py",
        "--extra=dev",
        "--universal",
        f"--python-version={oldest}",
        "--no-python-downloads",
        "--fork-strategy=fewest",
        "--upgrade",
        "--quiet",
        "--no-header",
        "--no-annotate",
        "--constraint=-",
    ]
    out = subprocess.run(cmd, cwd=root, input=TORCH, text=True, check=True, stdout=subprocess.PIPE)
    return [line for line in out.stdout.splitlines() if not CUDA.match(line)]


if __name__ == "__main__":
    root = Path(__file__).resolve().parents[1]
    config = ConfigParser(interpolation=None)
    config.read(root / "settings.ini", encoding="utf-8")
    oldest, *_, newest = config["DEFAULT"]["python_versions"].split()
    lines = sorted([TORCH, *resolve(root, oldest)])
    (root / "constraints.txt").write_text(
        HEADER.format(oldest, newest) + "\n".join(lines) + "\n", encoding="utf-8"
    )
    print(f"constraints.txt: {len(lines)} packages")
