"""Live figures: what the chapters show in words and tensors, to be touched.

Each is an anywidget whose JavaScript needs neither Python nor a network: the
same object works in JupyterLab, in Colab and in the page of the book.
"""

from vitnb.figures.attention_explorer import AttentionExplorer
from vitnb.figures.block_diagram import BlockDiagram
from vitnb.figures.cost_explorer import CostExplorer
from vitnb.figures.live_vit import LiveViT
from vitnb.figures.patch_explorer import PatchExplorer
from vitnb.figures.pool_explorer import PoolExplorer
from vitnb.figures.position_explorer import PositionExplorer
from vitnb.figures.quiz import Question, Quiz
from vitnb.figures.recipe_explorer import RecipeExplorer
from vitnb.figures.train_race import TrainRace

__all__ = [
    "AttentionExplorer",
    "BlockDiagram",
    "CostExplorer",
    "LiveViT",
    "PatchExplorer",
    "PoolExplorer",
    "PositionExplorer",
    "Question",
    "Quiz",
    "RecipeExplorer",
    "TrainRace",
]
