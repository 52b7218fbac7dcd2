"""Build the site in docs/, and README.md, from the notebooks.

    python site/build.py [--out DIR] [--readme FILE]

Nothing is executed here: the outputs that are saved in the notebooks are shown. The same notebooks give the same
bytes. What was there before is replaced only when everything has succeeded.
"""
import argparse
import shutil
import sys
import time
import zlib
from pathlib import Path
from tempfile import TemporaryDirectory

SITE = Path(__file__).resolve().parent
ROOT = SITE.parent
sys.path.insert(0, str(ROOT))  # the reference describes the package of this checkout, not one installed elsewhere

import vl_convert
from sphinx.cmd.build import build_main

from charts import VEGA_LITE
from notebooks import BadNotebook, book, readme

# The bundle would leave hundreds of one-letter globals in the page, so it is put into a function.
VEGA = "(() => {\n%s\n})();\n"


def stored(inventory: bytes) -> bytes:
    "objects.inv without compression, which differs between builds of zlib; readers do not mind."
    *head, packed = inventory.split(b"\n", 4)
    return b"\n".join([*head, zlib.compress(zlib.decompress(packed), 0)])


def replace(old: Path, new: Path) -> None:
    "Put the folder `new` in the place of `old`. It is complete and beside it before anything is removed."
    old.parent.mkdir(parents=True, exist_ok=True)
    beside = old.with_name(f"{old.name}.new")
    shutil.rmtree(beside, ignore_errors=True)
    shutil.move(new, beside)
    shutil.rmtree(old, ignore_errors=True)
    beside.rename(old)


def sphinx(scratch: Path, html: Path) -> int:
    "Render the sources in `scratch` into `html`; a warning is a failure."
    static = [SITE / "static", scratch / "static"]
    return build_main([
        "-b", "html", "-q", "-n", "-W", "--keep-going", "-c", str(SITE), "-d", str(scratch / "doctrees"),
        "-D", f"html_static_path={','.join(map(str, static))}", "-D", f"html_extra_path={scratch / 'extra'}",
        str(scratch / "src"), str(html)])


def build(out: Path, readme_file: Path) -> int:
    "Build everything; the exit status."
    began = time.perf_counter()
    (ROOT / "_build").mkdir(exist_ok=True)
    with TemporaryDirectory(dir=ROOT / "_build") as name:
        scratch = Path(name)
        try:
            pages = book(ROOT, scratch / "src", scratch / "extra")
            home = readme(ROOT)
        except BadNotebook as e:
            print(f"{e}\nThe site was not built; {out} is as it was.", file=sys.stderr)
            return 1
        print(f"[1/2] {len(pages)} pages prepared", flush=True)
        vega = scratch / "static" / "vega.js"
        vega.parent.mkdir()
        bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=VEGA_LITE)
        vega.write_text(VEGA % bundle, encoding="utf-8", newline="\n")

        html = scratch / "html"
        if status := sphinx(scratch, html):
            print(f"The site was not built; {out} is as it was. The messages above say why.\n"
                  "There, line 416 of a notebook means line 16 of its 4th cell.", file=sys.stderr)
            return status
        (html / ".buildinfo").unlink()  # holds a hash of paths, and serves only a second build in place
        (html / ".nojekyll").touch()  # or GitHub Pages would leave out every folder that begins with _
        inventory = html / "objects.inv"
        inventory.write_bytes(stored(inventory.read_bytes()))

        replace(out, html)
        readme_file.write_text(home, encoding="utf-8", newline="\n")
    print(f"[2/2] {out} and {readme_file} written in {time.perf_counter() - began:.0f} s")
    return 0


def main() -> int:
    "The command line."
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "docs", help="where the site goes (default: docs/)")
    parser.add_argument("--readme", type=Path, default=ROOT / "README.md", help="where README.md goes")
    args = parser.parse_args()
    if args.out.exists() and any(args.out.iterdir()) and not (args.out / "searchindex.js").exists():
        parser.error(f"{args.out} holds something that is not a built site; it would be replaced")
    return build(args.out, args.readme)


if __name__ == "__main__":
    sys.exit(main())
