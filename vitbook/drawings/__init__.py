"""The book's drawings: one visual language, static, crisp at any size, in light and in dark.

A cell calls one function and shows what it returns; the cell's input is taken
out of the page by the tag "remove-input" (or folded by "hide-input"):

    from vitbook import drawings
    drawings.attention(q, k, v)

Each function returns a Drawing: .alt says what to see, .svg is a file that
shows anywhere. The page of the book gets it inline (pages/drawings_inline.py), so it
follows the page's theme and, on a phone, is laid out anew. A cell's metadata
may give it a number and a caption as for any figure: mystnb.figure.caption,
mystnb.figure.name.

The language. A kind of thing has its colour, and an edge or a mark besides:

    patch      gray, square, holds pixels     query      pink, solid edge
    token      blue, a column of features     key        ochre, dashed edge
    cls        orange, under a diamond        value      green, dash-dotted edge
    position   teal, dotted edge              weights    violet, a square of T x T
    norm       gray, a pill                   MLP        brown, a box that widens
    residual stream: a thick blue line, for tokens flow in it; logits: black bars

Arrows carry shapes in the letters of vitnb. To draw something new: a function
draw(wide) that fills a Sheet (matrix, token, image_patches, box, arrow, ...),
720 units wide if wide and else 344; no text below 10 units.
The boot in them is images.boot().
"""

from vitbook.drawings._sheet import Drawing, Sheet, in_page
from vitbook.drawings.attending import attention, simple_attention
from vitbook.drawings.cutting import patch_order, patch_projection
from vitbook.drawings.embedding import patch_to_token, position_heatmap
from vitbook.drawings.heads import heads, split
from vitbook.drawings.language import legend
from vitbook.drawings.map import PARTS, whole_model
from vitbook.drawings.norms import layer_norm
from vitbook.drawings.orders import two_orders
from vitbook.drawings.overview import overview
from vitbook.drawings.windows import windows
from vitbook.drawings.wiring import block, blocks, cls_way, data_parallel, training_loop

__all__ = [
    "PARTS",
    "Drawing",
    "Sheet",
    "attention",
    "block",
    "blocks",
    "cls_way",
    "data_parallel",
    "heads",
    "in_page",
    "layer_norm",
    "legend",
    "overview",
    "patch_order",
    "patch_projection",
    "patch_to_token",
    "position_heatmap",
    "simple_attention",
    "split",
    "training_loop",
    "two_orders",
    "whole_model",
    "windows",
]
