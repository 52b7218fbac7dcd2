"""The cases of all public functions: one file for each chapter,
`cases_<chapter>.py`, with a table `CASES`.
"""

import importlib
from pathlib import Path

from tests.properties.common import Case

CASES: dict[str, Case] = {}
for path in sorted(Path(__file__).parent.glob("cases_*.py")):
    CASES |= importlib.import_module(f"tests.properties.{path.stem}").CASES
