"""Build the site in docs/, and README.md, from the notebooks.

    python website/build.py [--out DIR] [--readme FILE] [--fresh]
    python website/build.py --epub FILE

Nothing is executed here: the outputs that are saved in the notebooks are shown. The same notebooks
give the same bytes. Only pages that have changed since the last build are rendered; `--fresh`
renders all. What was there before is replaced only when everything has succeeded.
"""

import argparse
import gc
import os
import shutil
import sys
import zlib
from calendar import timegm
from pathlib import Path
from tempfile import TemporaryDirectory

SITE = Path(__file__).resolve().parent
ROOT = SITE.parent
# The reference describes the package of this checkout, not one installed elsewhere.
sys.path.insert(0, str(ROOT))

from filelock import FileLock, Timeout
from sphinx.cmd.build import build_main

import kept
from notebooks import WITHIN, BadNotebook, book, figures, readme, settings


def stored(inventory: bytes) -> bytes:
    "objects.inv without compression, which differs between builds of zlib; readers do not mind."
    *head, packed = inventory.split(b"\n", 4)
    return b"\n".join([*head, zlib.compress(zlib.decompress(packed), 0)])


def replace(old: Path, new: Path) -> None:
    """Put the folder `new` in the place of `old`.

    It is complete and beside it before anything is removed.
    """
    old.parent.mkdir(parents=True, exist_ok=True)
    beside = old.with_name(f"{old.name}.new")
    shutil.rmtree(beside, ignore_errors=True)
    shutil.move(new, beside)
    shutil.rmtree(old, ignore_errors=True)
    beside.rename(old)


def sphinx(kind: str, scratch: Path, into: Path, static: list[Path], *more: str) -> int:
    "Render the sources in `scratch` into the folder `into`; a warning is a failure."
    return build_main(
        [
            "-b",
            kind,
            "-t",
            kind,
            "-q",
            "-n",
            "-W",
            "--keep-going",
            "-c",
            str(SITE),
            "-d",
            str(scratch / "doctrees"),
            "-D",
            f"html_static_path={','.join(map(str, static))}",
            *more,
            str(scratch / "src"),
            str(into),
        ]
    )


def styles() -> list[Path]:
    "The styles of figures, which lie in the package."
    return sorted(figures(ROOT).glob("*.css"))


def explain(out: Path) -> None:
    "What to make of Sphinx's messages."
    print(
        f"Nothing was built; {out} is as it was. The messages above say why.\n"
        "There, line 416 of a notebook means line 16 of its 4th cell.",
        file=sys.stderr,
    )


def prepare(scratch: Path) -> str:
    """Lay out what Sphinx reads: pages, files beside them, and the package,
    which then has the dates of its last changes.
    """
    new, package = scratch / "new", settings(ROOT)["lib_path"]
    shutil.rmtree(new, ignore_errors=True)
    pages = book(ROOT, new / "src", new / "extra", WITHIN)
    shutil.copytree(ROOT / package, new / "package" / package)
    sys.path.insert(0, str(scratch / "package"))
    print(f"[1/2] {len(pages)} pages prepared", flush=True)
    return kept.begin(scratch)


def finish(html: Path, whole: Path) -> Path:
    "The site without what is only for the next build."
    shutil.rmtree(whole, ignore_errors=True)
    shutil.copytree(html, whole, ignore=shutil.ignore_patterns(".buildinfo"))
    (whole / ".nojekyll").touch()  # or GitHub Pages would leave out every folder that begins with _
    inventory = whole / "objects.inv"
    inventory.write_bytes(stored(inventory.read_bytes()))
    return whole


def build_site(scratch: Path, out: Path, readme_file: Path) -> int:
    """Build the site and README.md, with what an earlier build has left in `scratch`;
    the exit status.
    """
    home = readme(ROOT)
    key = prepare(scratch)
    extra = ["-D", f"html_extra_path={scratch / 'extra'}"]
    if status := sphinx("html", scratch, scratch / "html", [SITE / "static", *styles()], *extra):
        explain(out)
        return status
    kept.end(scratch, key)
    replace(out, finish(scratch / "html", scratch / "whole"))
    readme_file.write_text(home, encoding="utf-8", newline="\n")
    print(f"[2/2] {out} and {readme_file} written")
    return 0


def build_epub(scratch: Path, out: Path) -> int:
    "Build the book as one file; the exit status."
    pages = book(ROOT, scratch / "src", scratch / "extra", {})
    print(f"[1/2] {len(pages)} pages prepared", flush=True)
    # The date in the file is the year of the edition, not the hour of the build,
    # unless somebody says another.
    os.environ.setdefault(
        "SOURCE_DATE_EPOCH", str(timegm((int(settings(ROOT)["copyright"][:4]), 1, 1, 0, 0, 0)))
    )
    name = ["-D", "epub_basename=book"]
    if status := sphinx(
        "epub", scratch, scratch / "epub", [SITE / "epub_static", *styles()], *name
    ):
        explain(out)
        return status
    out.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(scratch / "epub" / "book.epub", out)
    print(f"[2/2] {out} written, {out.stat().st_size / 1e6:.1f} MB")
    return 0


def main() -> int:
    "The command line."
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--out", type=Path, default=ROOT / "docs", help="where the site goes (default: docs/)"
    )
    parser.add_argument(
        "--readme", type=Path, default=ROOT / "README.md", help="where README.md goes"
    )
    parser.add_argument(
        "--epub", type=Path, metavar="FILE", help="make the book as one EPUB file, and nothing else"
    )
    parser.add_argument(
        "--fresh", action="store_true", help="render every page, whether it has changed or not"
    )
    args = parser.parse_args()
    if args.out.exists() and any(args.out.iterdir()) and not (args.out / "search.html").exists():
        parser.error(f"{args.out} holds something that is not a built site; it would be replaced")
    # Trees of pages are large and soon done with: looking through them costs a seventh of the time.
    gc.disable()
    (ROOT / "_build").mkdir(exist_ok=True)
    try:
        with TemporaryDirectory(dir=ROOT / "_build") as name:
            if args.epub:
                return build_epub(Path(name), args.epub)
            with FileLock(ROOT / "_build/lock", blocking=False):
                return build_site(
                    Path(name) if args.fresh else ROOT / "_build/site", args.out, args.readme
                )
    except Timeout:
        why = "Another build of the site is at work in this folder: try again when it has ended."
    except BadNotebook as e:
        why = str(e)
    print(f"{why}\nNothing was built; {args.epub or args.out} is as it was.", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
