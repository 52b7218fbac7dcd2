"""What a measurement was made on, and how fast that machine can be at best."""

import datetime
import importlib.metadata
import json
import os
import platform
import re
from pathlib import Path

import torch
from benchmarks.measure import seconds

PEERS = ("torch", "transformers", "x-transformers", "llms-from-scratch")


def processor() -> str:
    "The name of the processor."
    info = Path("/proc/cpuinfo")
    named = re.search(r"model name\s*:\s*(.+)", info.read_text()) if info.exists() else None
    return named[1] if named else platform.processor() or platform.machine()


def versions() -> dict[str, str]:
    "The versions of the packages that are compared, of those that are installed."
    found = {}
    for name in PEERS:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def ceiling(width: int = 1536, tries: int = 9) -> float:
    "The most operations a second that a product of two large matrices reaches, float32."
    a, b = torch.randn(2, width, width)
    return 2 * width**3 / min(seconds(lambda: a @ b) for _ in range(tries))


def described() -> dict[str, object]:
    "The machine, the versions and the day."
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "system": platform.system(),
        "python": platform.python_version(),
        "versions": versions(),
        "date": datetime.date.today().isoformat(),
    }


def file(folder: Path, name: str) -> Path:
    "Where what was found on a machine of that name is kept."
    return folder / f"{re.sub('[^a-z0-9]+', '-', name.lower()).strip('-')}.json"


def keep(found: dict[str, object], folder: Path, name: str) -> Path:
    "Write what was found into a file of that name, beside the results of other machines."
    path = file(folder, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return path
