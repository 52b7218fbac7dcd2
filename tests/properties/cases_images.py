"""The cases of `images`: how to draw each function's arguments, and what is right."""

import math

import attention_nb as nb
import torch
from hypothesis import strategies as st
from tests.properties.cases_positions import right_angles, right_rotation
from tests.properties.common import (
    Case,
    args,
    bases,
    dtypes,
    floats,
    refuse,
    sizes,
    whole,
)

fours = st.integers(1, 3).map(lambda n: 4 * n)


def grid_of(images, size):
    "Rows and columns of patches."
    whole(size)
    refuse(isinstance(images, torch.Tensor) and images.ndim >= 3 and 0 not in images.shape)
    height, width = images.shape[-2:]
    refuse(height % size == 0 and width % size == 0)
    return height // size, width // size


def right_patches(images, size):
    "Cut out one after the other."
    rows, columns = grid_of(images, size)
    corners = [(r * size, c * size) for r in range(rows) for c in range(columns)]
    cut = [images[..., y : y + size, x : x + size].flatten(-3) for y, x in corners]
    return torch.stack(cut, dim=-2)


def right_image(patches, columns, channels=1):
    "Patches side by side, then such rows below each other."
    whole(columns, channels)
    refuse(isinstance(patches, torch.Tensor) and patches.ndim >= 2 and 0 not in patches.shape)
    n, d = patches.shape[-2:]
    side = math.isqrt(d // channels)
    refuse(n % columns == 0 and channels * side**2 == d)
    squares = [p.unflatten(-1, (channels, side, side)) for p in patches.unbind(-2)]
    rows = [torch.cat(squares[i : i + columns], dim=-1) for i in range(0, n, columns)]
    return torch.cat(rows, dim=-2)


def right_waves(rows, columns, d_model):
    whole(rows, columns, d_model)
    refuse(d_model % 4 == 0)
    half = d_model // 2

    def wave(place, j):
        return (math.sin, math.cos)[j % 2](place * 10000.0 ** (-(j - j % 2) / half))

    return torch.tensor(
        [
            [wave(place, j) for place in (row, column) for j in range(half)]
            for row in range(rows)
            for column in range(columns)
        ],
        dtype=torch.float64,
    )


def right_grid_rotary(d_head, columns, n_before=0, base=100.0):
    whole(d_head, columns)
    whole(n_before, least=0)
    refuse(d_head % 4 == 0 and type(base) in (int, float) and 1 < base < math.inf)
    return d_head, columns, n_before, base


def right_turned(self, x, positions=None):
    "Each token by itself."
    refuse(isinstance(x, torch.Tensor) and x.is_floating_point() and x.ndim >= 2)
    refuse(0 not in x.shape and x.shape[-1] == self.d_head)
    positions = torch.arange(x.shape[-2]) if positions is None else torch.as_tensor(positions)
    refuse(not positions.is_floating_point() and not positions.is_complex())
    refuse(positions.dtype != torch.bool and positions.ndim >= 1)
    # for every head
    positions = positions.unsqueeze(-2) if 1 < positions.ndim == x.ndim - 2 else positions
    refuse(positions.shape[-1] == x.shape[-2])
    refuse(torch.broadcast_shapes(positions.shape, x.shape[:-1]) == x.shape[:-1])
    places = [divmod(max(p - self.n_before, 0), self.columns) for p in positions.flatten().tolist()]
    axes = torch.tensor(places, dtype=torch.int64).view(*positions.shape, 2).unbind(-1)
    angles = [right_angles(axis, self.d_head // 2, self.base) for axis in axes]
    return right_rotation(x, torch.cat(angles, dim=-1))


def right_mrope(positions, d_head, sections, base=10000.0):
    whole(d_head)
    sections = torch.as_tensor(sections)
    refuse(sections.ndim == 1 and len(sections) and not sections.is_floating_point())
    refuse(not sections.is_complex() and sections.dtype != torch.bool and (sections >= 0).all())
    refuse(2 * int(sections.sum()) == d_head)
    refuse(isinstance(positions, torch.Tensor) and positions.ndim >= 2)
    refuse(len(positions) == len(sections))
    whose = [axis for axis, count in enumerate(sections.tolist()) for _ in range(count)]
    found = [right_angles(positions[axis], d_head, base)[..., i] for i, axis in enumerate(whose)]
    return torch.stack(found, dim=-1)


def right_windows(rows, columns, size, shift=0):
    "Borders at `shift`, and then after each `size`."
    whole(rows, columns, size)
    whole(shift, least=0)
    refuse(shift < size)
    borders = lambda n: [sum(b <= i for b in range(shift or size, n, size)) for i in range(n)]
    side = borders(columns)[-1] + 1
    return torch.tensor([r * side + c for r in borders(rows) for c in borders(columns)])


def right_cover(images, covered, size, grey=0.1):
    rows, columns = grid_of(images, size)
    refuse(images.is_floating_point() and covered.dtype == torch.bool)
    refuse(type(grey) in (int, float) and math.isfinite(grey))
    hidden = covered.expand(*images.shape[:-3], rows * columns).unflatten(-1, (rows, columns))
    hidden = hidden.repeat_interleave(size, -1).repeat_interleave(size, -2)
    return torch.where(hidden.unsqueeze(-3), torch.tensor(grey, dtype=images.dtype), images)


@st.composite
def pictures(draw, cover=False):
    size, rows, columns = draw(sizes), draw(sizes), draw(sizes)
    lead = draw(st.lists(sizes, max_size=2))
    shape = (*lead, draw(st.integers(1, 3)), rows * size, columns * size)
    drawn = {"images": draw(floats(shape, draw(dtypes))), "size": size}
    if not cover:
        return drawn
    rng = torch.Generator().manual_seed(draw(st.integers(0, 999)))
    hidden = torch.rand((*lead, rows * columns)[draw(st.integers(0, len(lead))) :], generator=rng)
    return drawn | {"covered": hidden < 0.5, "grey": draw(st.sampled_from([0.1, 1, -2.5]))}


@st.composite
def cut_pictures(draw):
    columns, channels, side = draw(sizes), draw(st.integers(1, 3)), draw(sizes)
    shape = (*draw(st.lists(sizes, max_size=2)), draw(sizes) * columns, channels * side * side)
    return {
        "patches": draw(floats(shape, draw(dtypes))),
        "columns": columns,
        "channels": channels,
    }


@st.composite
def turned(draw):
    n, lead, d = draw(sizes), draw(st.lists(sizes, max_size=2)), draw(fours)
    layer = nb.GridRotary(d, draw(sizes), draw(st.integers(0, 2)), draw(bases))
    own = torch.arange(n) + draw(st.integers(0, 20))
    x = draw(floats((*lead, n, d), draw(dtypes.filter(lambda t: t != torch.float64))))
    return {"self": layer, "x": x, "positions": draw(st.sampled_from([None, own]))}


@st.composite
def sections_of(draw):
    sections = draw(st.lists(st.integers(0, 3), min_size=1, max_size=3).filter(any))
    shape = (len(sections), *draw(st.lists(sizes, max_size=1)), draw(sizes))
    positions = torch.arange(math.prod(shape)).view(shape) * 3 - draw(st.integers(0, 9))
    base = draw(bases)
    return {
        "positions": positions,
        "d_head": 2 * sum(sections),
        "sections": sections,
        "base": base,
    }


CASES = {
    "to_patches": Case(
        nb.to_patches, pictures(), right_patches, "images", also={"size": "images"}, exact=True
    ),
    "from_patches": Case(
        nb.from_patches,
        cut_pictures(),
        right_image,
        "patches",
        also={"columns": "patches", "channels": "patches"},
        exact=True,
    ),
    "sinusoidal_grid": Case(
        nb.sinusoidal_grid, args(rows=sizes, columns=sizes, d_model=fours), right_waves
    ),
    "GridRotary": Case(
        lambda **a: tuple(
            getattr(nb.GridRotary(**a), name) for name in ("d_head", "columns", "n_before", "base")
        ),
        args(d_head=fours, columns=sizes, n_before=st.integers(0, 3), base=bases),
        right_grid_rotary,
    ),
    "GridRotary.forward": Case(
        nb.GridRotary.forward, turned(), right_turned, "x", fixed=("self",), single=True
    ),
    "mrope_angles": Case(
        nb.mrope_angles,
        sections_of(),
        right_mrope,
        also={"d_head": "sections", "positions": "sections", "sections": "positions"},
    ),
    "window_ids": Case(
        nb.window_ids,
        args(rows=sizes, columns=sizes, size=st.integers(2, 4), shift=st.integers(0, 1)),
        right_windows,
        also={"size": "shift"},
    ),
    "cover_patches": Case(
        nb.cover_patches,
        pictures(cover=True),
        right_cover,
        "images",
        also={"size": "images|covered", "images": "covered", "covered": "images"},
        exact=True,
    ),
}
