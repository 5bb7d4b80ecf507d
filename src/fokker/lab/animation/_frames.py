"""Frames: a figure drawn once, and what moves drawn on it for each; they are written as GIF and MP4."""

import shutil
import subprocess
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from matplotlib.artist import Artist
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image
from scipy.spatial import cKDTree

# Colours of an animation, and how many of them are the most common ones, unchanged.
COLOURS, _EXACT = 96, 24
# Okabe and Ito's colours, each in the palette unchanged.
OKABE_ITO = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8A7A00", "#333333")
_OWN = np.array([list(bytes.fromhex(colour[1:])) for colour in OKABE_ITO], np.uint8)
# Frames that the palette is taken from.
_SAMPLED_FRAMES = 4
# Bits per channel by which a colour is looked up.
_BITS = 5

Frame = np.ndarray


class Stage:
    """A figure whose static part is drawn once; each frame draws only the artists named.

    Redrawing a figure of four panels takes Matplotlib 60 ms, drawing what moves on a copy of it a few.
    """

    def __init__(self, figure: Figure, moving: Sequence[Artist]) -> None:
        self.figure, self.moving = figure, list(moving)
        self.canvas = FigureCanvasAgg(figure)
        for artist in self.moving:
            artist.set_animated(True)
        self.canvas.draw()
        # The layout is settled: solving it again for each frame would cost more than drawing.
        figure.set_layout_engine("none")
        self._still = self.canvas.copy_from_bbox(figure.bbox)

    def stamp(self, artists: Iterable[Artist]) -> None:
        """Draw artists into the static part for good: dots that stay are drawn once each."""
        self.canvas.restore_region(self._still)
        for artist in artists:
            artist.draw(self.canvas.get_renderer())
        self._still = self.canvas.copy_from_bbox(self.figure.bbox)

    def frame(self) -> Frame:
        """The current picture: height × width × 3."""
        self.canvas.restore_region(self._still)
        renderer = self.canvas.get_renderer()
        for artist in self.moving:
            if artist.get_visible():
                artist.draw(renderer)
        return np.asarray(self.canvas.buffer_rgba())[..., :3].copy()


@lru_cache(maxsize=1)
def _cells() -> np.ndarray:
    """The middle of every cell of the cube of colours."""
    side = (np.arange(2**_BITS) + 0.5) * 2 ** (8 - _BITS)
    return np.stack(np.meshgrid(side, side, side, indexing="ij"), axis=-1).reshape(-1, 3)


def indexed(frames: Sequence[Frame], colours: int = COLOURS) -> tuple[list[np.ndarray], bytes]:
    """The index of every pixel in one palette for all frames, and that palette."""
    sampled = [frames[i] for i in np.linspace(0, len(frames) - 1, _SAMPLED_FRAMES).astype(int)]
    montage = Image.fromarray(np.concatenate(sampled))
    common = np.concatenate([_most_common(np.asarray(montage), _EXACT), _OWN])
    rest = colours - len(common)
    palette = montage.quantize(rest, method=Image.Quantize.MEDIANCUT).getpalette() or []
    table = np.concatenate([common, np.array(palette[: 3 * rest], np.uint8).reshape(-1, 3)])
    nearest = cKDTree(table).query(_cells())[1].astype(np.uint8)
    # Large areas keep their exact colours: a slightly different grey looks wrong.
    nearest[_cell(common)[::-1]] = np.arange(len(common), dtype=np.uint8)[::-1]
    return [nearest[_cell(frame)] for frame in frames], table.tobytes()


def _cell(colours: np.ndarray) -> np.ndarray:
    """The number of the cell of the cube that a colour lies in."""
    coarse = (colours >> (8 - _BITS)).astype(np.uint16)
    return (coarse[..., 0] << 2 * _BITS) | (coarse[..., 1] << _BITS) | coarse[..., 2]


def _most_common(picture: np.ndarray, number: int) -> np.ndarray:
    wide = picture.astype(np.uint32)
    codes, counts = np.unique((wide[..., 0] << 16) | (wide[..., 1] << 8) | wide[..., 2], return_counts=True)
    most = codes[np.argsort(-counts)[:number]]
    return np.stack([most >> 16, (most >> 8) & 255, most & 255], axis=-1).astype(np.uint8)


def write_gif(frames: Sequence[Frame], path: Path, milliseconds: int = 80, last: int = 2500) -> Path:
    """The frames as a GIF that repeats; the last one stays for `last` milliseconds.

    Pillow joins equal neighbours into one frame that stays longer.
    """
    places, palette = indexed(frames)
    images = []
    for each in places:
        image = Image.fromarray(each, "P")
        image.putpalette(palette)
        images.append(image)
    durations = [milliseconds] * (len(images) - 1) + [last]
    images[0].save(
        path, save_all=True, append_images=images[1:], duration=durations, loop=0, optimize=False, disposal=1
    )
    return path


def ffmpeg() -> str | None:
    """The path of ffmpeg, or None."""
    return shutil.which("ffmpeg")


def write_mp4(frames: Sequence[Frame], path: Path, milliseconds: int = 80, last: int = 2500) -> Path | None:
    """The frames as an MP4 that every browser plays, or None where there is no ffmpeg."""
    program = ffmpeg()
    if program is None:
        return None
    height, width = frames[0].shape[:2]
    options = f"-y -v error -f rawvideo -pix_fmt rgb24 -s {width}x{height} -r {1000 / milliseconds:g} -i -"
    # Even sides, as the pixel format wants them; the last frame stays.
    filters = f"pad=ceil(iw/2)*2:ceil(ih/2)*2,tpad=stop_mode=clone:stop_duration={last / 1000:g}"
    encode = f"-c:v libx264 -preset ultrafast -crf 24 -threads 1 -vf {filters}"
    command = [program, *options.split(), *encode.split(), "-pix_fmt", "yuv420p", str(path)]
    raw = np.ascontiguousarray(frames).tobytes()
    done = subprocess.run(command, input=raw, capture_output=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"ffmpeg could not write {path}: {done.stderr.decode(errors='replace')[-500:]}")
    return path


def write_animations(
    frames: Sequence[Frame], stem: Path, milliseconds: int = 80, mp4: bool = True
) -> list[str]:
    """`stem`.gif, and `stem`.mp4 if asked for and ffmpeg is installed; return the names of the files."""
    written = [write_gif(frames, stem.with_name(stem.name + ".gif"), milliseconds)]
    animation = write_mp4(frames, stem.with_name(stem.name + ".mp4"), milliseconds) if mp4 else None
    return [path.name for path in written + ([animation] if animation else [])]
