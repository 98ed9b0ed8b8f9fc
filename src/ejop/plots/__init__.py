"""Pictures of a learned metric, in the manner of scikit-learn's displays.

``from_estimator`` reads a fitted estimator and draws, ``plot`` draws again on axes of your own,
``frame`` is the table behind the picture. Needs matplotlib: ``pip install 'ejop[plot]'``. Nothing
is shown on a screen and no setting of matplotlib is changed.
"""

from ejop.plots._answer import AnswerDisplay
from ejop.plots._contribution import ContributionDisplay
from ejop.plots._convergence import ConvergenceDisplay
from ejop.plots._effect import EffectDisplay
from ejop.plots._importance import ImportanceDisplay
from ejop.plots._metric import MetricDisplay
from ejop.plots._nearest import NeighborsDisplay
from ejop.plots._pair import PairDisplay
from ejop.plots._projection import ProjectionDisplay
from ejop.plots._spectrum import SpectrumDisplay
from ejop.plots._subspace import SubspaceDisplay

__all__ = [
    "AnswerDisplay",
    "ContributionDisplay",
    "ConvergenceDisplay",
    "EffectDisplay",
    "ImportanceDisplay",
    "MetricDisplay",
    "NeighborsDisplay",
    "PairDisplay",
    "ProjectionDisplay",
    "SpectrumDisplay",
    "SubspaceDisplay",
]
