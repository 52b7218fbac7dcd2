"""Package metadata, read from settings.ini, which nbdev and the site read too."""
from configparser import ConfigParser
from pathlib import Path

from setuptools import find_packages, setup

here = Path(__file__).parent
config = ConfigParser(delimiters=["="], interpolation=None)
config.read(here / "settings.ini", encoding="utf-8")
cfg = config["DEFAULT"]

plots, dev = (cfg[f"{name}_requirements"].split() for name in ("plots", "dev"))

setup(
    name=cfg["lib_name"],
    version=cfg["version"],
    description=cfg["description"],
    long_description=(here / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    author=cfg["author"],
    license="Apache-2.0",
    license_files=["LICENSE"],
    keywords=cfg["keywords"].split(),
    url=cfg["git_url"] or None,
    packages=find_packages(include=["attention_nb", "attention_nb.*"]),
    package_data={"attention_nb": ["py.typed"]},
    python_requires=f">={cfg['min_python']}",
    install_requires=cfg["requirements"].split(),
    extras_require={"plots": plots, "dev": dev},
    entry_points={
        "nbdev": ["attention_nb=attention_nb._modidx:d"],
        "console_scripts": ["attention-nb=attention_nb.command_line:main"],
    },
    classifiers=[
        "Development Status :: 3 - Alpha",
        "Intended Audience :: Developers",
        "Intended Audience :: Education",
        "Programming Language :: Python :: 3",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Typing :: Typed",
    ],
    zip_safe=False,
)
