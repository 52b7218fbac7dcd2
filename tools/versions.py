"""Try the package at one end of what settings.ini allows: `make oldest`, `make newest`.

The lowest versions that it names, or today's newest, are put before those of .venv,
where the test tools stay.
"""

import os
import subprocess
import sys
from pathlib import Path

from places import ROOT, lacks, notebooks

RESOLUTION = {"oldest": "lowest-direct", "newest": "highest"}
# nbdev, which one of them asks for its configuration,
# works with fewer versions of fastcore than the package.
NOTEBOOKS = [
    path
    for path in notebooks()
    if "import get_config" not in path.read_text("utf-8") and not lacks(path)
]
TRIALS = [
    ["tests/smoke.py"],
    ["-m", "pytest", "tests/test_properties.py"],
    ["-m", "jupyter", "execute", "--timeout=600", *NOTEBOOKS],  # as Run All does; writes nothing
]


def install(end: str) -> Path:
    "The folder that holds the package's requirements, in the versions of that end."
    folder = ROOT / "_build" / end
    index = [f"--index={os.environ['TORCH_INDEX']}"] if os.environ.get("TORCH_INDEX") else []
    subprocess.run(
        [
            sys.executable,
            "-m",
            "uv",
            "pip",
            "install",
            "--requirements=setup.py",
            f"--target={folder}",
            f"--resolution={RESOLUTION[end]}",
            "--upgrade",
            *index,
        ],
        cwd=ROOT,
        check=True,
    )
    return folder


if __name__ == "__main__":
    env = os.environ | {"PYTHONPATH": str(install(sys.argv[1]))}
    for trial in TRIALS:
        subprocess.run([sys.executable, *trial], cwd=ROOT, env=env, check=True)
