"""Write attention_nb/catalogue.json: what `attention-nb explain` and `attention-nb check --help`
say, which must not wait for PyTorch.

The bugs are those of attention_checks.catalogue; what kinds there are, and which chapter says how
it should be, stands on the page that lists them, nbs/lookup/codes.ipynb.
"""

import inspect
import json
import re
from configparser import ConfigParser
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE, CATALOGUE = ROOT / "nbs/lookup/codes.ipynb", ROOT / "attention_nb/catalogue.json"
CHAPTER = re.compile(r"\]\(\.\./(\w+)\.ipynb(#[^)]*)?\)")


def kinds() -> dict[str, dict[str, str]]:
    """The first half of each code:
    what such codes are about, and the chapter that says how it should be.
    """
    cells = json.loads(PAGE.read_text(encoding="utf-8"))["cells"]
    contents = next("".join(cell["source"]) for cell in cells if cell["id"] == "question")
    found = {}
    for text in ("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"):
        title = re.match(r"## (.+)", text)
        entries = contents.splitlines() if title else []
        line = next((one for one in entries if one.startswith(f"- [{title[1]}]")), "")
        chapter = CHAPTER.search(line)
        for kind, about in re.findall(
            r"`(\w+)\.\*`, ((?:[^;.]|\.(?!\s|$))+)", text.partition("Codes: ")[2]
        ):
            found[kind] = {
                "codes": f"{kind}.*",
                "about": about,
                "chapter": f"{chapter[1]}.html{chapter[2] or ''}" if chapter else "",
            }
    return found


def options() -> dict[str, dict[str, Any]]:
    """The arguments of the checks: what each means, its type, the longest of several,
    and the kinds of subjects that it is for.
    """
    from attention_checks.command.check_command import CHECKS, TAKES

    found: dict[str, dict[str, Any]] = {}
    for kind, takes in TAKES.items():
        rows = (inspect.getdoc(CHECKS[kind]) or "").replace("\n        ", " ").splitlines()
        for name, parameter in takes.items():
            row = next(row for row in rows if row.startswith(f"    {name}: "))
            new = {"kinds": [], "type": "", "says": row.partition(": ")[2].strip()}
            option = found.setdefault(name, new)
            option["kinds"].append(kind)
            option["type"] = max(option["type"], str(parameter.annotation), key=len)
    return found


def text() -> str:
    "The file."
    from attention_checks.catalogue import CATALOGUE as BUGS

    config = ConfigParser(delimiters=["="], interpolation=None)
    config.read(ROOT / "settings.ini", encoding="utf-8")
    host = config["DEFAULT"]["doc_host"]
    catalogue: dict[str, Any] = {
        "site": host + config["DEFAULT"]["doc_baseurl"] if host else "docs/",
        "kinds": kinds(),
        "options": options(),
        "bugs": {code: {"says": bug.says, "declare": bug.declare} for code, bug in BUGS.items()},
    }
    return json.dumps(catalogue, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    CATALOGUE.write_text(text(), encoding="utf-8", newline="\n")
