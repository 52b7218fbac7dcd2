"""A chart as an SVG picture, stored beside its data:
GitHub and other viewers that draw no Vega-Lite show the picture.

The site and JupyterLab draw the chart itself. A picture says which data it was drawn from, so a
stale one is found without drawing it again: letters differ in width from machine to machine, and so
the same data need not give the same bytes.
"""

import json
import re
from hashlib import sha256
from typing import Any
from xml.etree import ElementTree

from nbformat import NotebookNode

CHART, PICTURE = "application/vnd.vegalite.v5+json", "image/svg+xml"
SVG = "{http://www.w3.org/2000/svg}"
# They change nothing that is seen.
SILENT = re.compile(r"aria-.*|role|class|pointer-events|cursor|font-family|stroke-miterlimit|style")
LONG = re.compile(r"(\.\d\d)\d+")  # numbers with more than two decimals


def key(spec: dict[str, Any]) -> str:
    "Return what a picture says of the data that it was drawn from."
    return sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:16]


def picture(spec: dict[str, Any]) -> str:
    "Draw a chart in its first state, in black on white."
    import vl_convert

    quiet = {**spec, "background": "white", "config": {**spec.get("config", {}), "aria": False}}
    root = ElementTree.fromstring(vl_convert.vegalite_to_svg(quiet))
    lighten(root)
    root.attrib |= {"font-family": "sans-serif", "data-chart": key(spec)}
    title = ElementTree.Element(f"{SVG}title")
    title.text = spec.get("description", "")
    root.insert(0, title)
    ElementTree.register_namespace("", SVG.strip("{}"))
    return ElementTree.tostring(root, encoding="unicode")


def lighten(node: ElementTree.Element) -> None:
    "Take off what is not seen, which is half of what Vega writes."
    for child in list(node):
        lighten(child)
        if child.get("opacity") == "0" or child.tag == f"{SVG}g" and not len(child):
            node.remove(child)
    for name, value in list(node.attrib.items()):
        if SILENT.fullmatch(name) or (name, value) == ("opacity", "1"):
            del node.attrib[name]
        else:
            node.set(name, LONG.sub(r"\1", value).replace("currentColor", "black"))


def add_pictures(outputs: list[NotebookNode]) -> bool:
    """Draw the charts among a cell's outputs whose picture is missing or stale;
    whether there was one.
    """
    stale = [out.data for out in outputs if CHART in out.get("data", {}) and not is_fresh(out.data)]
    for data in stale:
        data[PICTURE] = picture(data[CHART])
    return bool(stale)


def is_fresh(data: dict[str, Any]) -> bool:
    "Whether a chart has the picture that was drawn from it."
    return f'data-chart="{key(data[CHART])}"' in "".join(data.get(PICTURE, ""))
