"""Package metadata, read from settings.ini, which nbdev and the site read too."""

import re
from configparser import ConfigParser
from pathlib import Path

from setuptools import find_packages, setup

here = Path(__file__).parent
config = ConfigParser(delimiters=["="], interpolation=None)
config.read(here / "settings.ini", encoding="utf-8")
cfg = config["DEFAULT"]

plots, train, models, gpu, dev = (
    cfg[f"{name}_requirements"].split() for name in ("plots", "train", "models", "gpu", "dev")
)
code, site = cfg["git_url"], cfg["doc_host"] and cfg["doc_host"] + cfg["doc_baseurl"]
urls = {
    "Documentation": site,
    "Source": code,
    "Changelog": code and f"{code}/blob/{cfg['branch']}/CHANGELOG.md",
}


def absolute(link: re.Match) -> str:
    """A link of the README for a page that has no repository around it;
    its text alone while nothing has an address.
    """
    text, target = link.groups()
    if "://" in target:
        return link[0]
    within = target if target.startswith("#") else f"/blob/{cfg['branch']}/{target}"
    return f"[{text}]({code}{within})" if code else text


readme = (here / "README.md").read_text(encoding="utf-8")
setup(
    name=cfg["lib_name"],
    version=cfg["version"],
    description=cfg["description"],
    long_description=re.sub(r"\[([^][]+)\]\(([^() ]+)\)", absolute, readme),
    long_description_content_type="text/markdown",
    author=cfg["author"],
    license="Apache-2.0",
    license_files=["LICENSE"],
    keywords=cfg["keywords"].split(),
    project_urls={name: url for name, url in urls.items() if url},
    packages=find_packages(
        include=["attention_nb", "attention_nb.*", "attention_checks", "attention_checks.*"]
    ),
    py_modules=["attention_nb_command", "pytest_attention_nb"],
    package_data={
        "attention_checks": ["py.typed"],
        "attention_nb": ["py.typed", "catalogue.json", "trained/*"],
        "attention_nb.figures": ["*.css", "*.js"],
    },
    python_requires=f">={cfg['min_python']}",
    install_requires=cfg["requirements"].split(),
    extras_require={"plots": plots, "train": train, "models": models, "gpu": gpu, "dev": dev},
    entry_points={
        "nbdev": ["attention_nb=attention_nb._modidx:d"],
        "console_scripts": ["attention-nb=attention_nb_command:main"],
        "pytest11": ["attention_nb=pytest_attention_nb"],
    },
    classifiers=[
        "Development Status :: 3 - Alpha",
        "Intended Audience :: Developers",
        "Intended Audience :: Education",
        "Programming Language :: Python :: 3",
        *(
            f"Programming Language :: Python :: {version}"
            for version in cfg["python_versions"].split()
        ),
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Typing :: Typed",
    ],
    zip_safe=False,
)
