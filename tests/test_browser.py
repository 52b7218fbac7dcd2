"""Every page of the built site, in a browser."""
import pytest
from browser import PAGES


@pytest.mark.parametrize("path", PAGES)
def test_first(visit, path):
    for w in (1280, 390):
        for s in ("light", "dark"):
            v = visit(path, w, s).see_all()
            print(path, w, s, len(v.requests), v.page.locator("figure.drawn").count(), v.said, v.page.evaluate("document.documentElement.scrollWidth"))
            assert not v.said
