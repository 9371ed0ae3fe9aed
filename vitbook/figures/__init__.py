"""Live figures: what the chapters show in words and tensors, to be touched.

Each is an anywidget whose JavaScript needs neither Python nor a network: the
same object works in JupyterLab, in Colab and in the page of the book.
"""

from vitbook.figures.attention_explorer import AttentionExplorer
from vitbook.figures.block_diagram import BlockDiagram
from vitbook.figures.clinic import Clinic
from vitbook.figures.cost_explorer import CostExplorer
from vitbook.figures.likeness_explorer import LikenessExplorer
from vitbook.figures.live_vit import LiveViT
from vitbook.figures.patch_explorer import PatchExplorer
from vitbook.figures.pool_explorer import PoolExplorer
from vitbook.figures.position_explorer import PositionExplorer
from vitbook.figures.push_explorer import PushExplorer
from vitbook.figures.qkv_explorer import QKVExplorer
from vitbook.figures.quiz import Question, Quiz
from vitbook.figures.recipe_explorer import RecipeExplorer
from vitbook.figures.rounds_explorer import RoundsExplorer
from vitbook.figures.six_race import SixRace
from vitbook.figures.split_explorer import SplitExplorer
from vitbook.figures.train_race import TrainRace

__all__ = [
    "AttentionExplorer",
    "BlockDiagram",
    "Clinic",
    "CostExplorer",
    "LikenessExplorer",
    "LiveViT",
    "PatchExplorer",
    "PoolExplorer",
    "PositionExplorer",
    "PushExplorer",
    "QKVExplorer",
    "Question",
    "Quiz",
    "RecipeExplorer",
    "RoundsExplorer",
    "SixRace",
    "SplitExplorer",
    "TrainRace",
]
