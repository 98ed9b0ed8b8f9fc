"""The paper's theory, made checkable: assumptions, bounds, rates, angles and tests of dimension.

Every function's docstring opens with its statement in the paper. Numbers count each kind of
statement (theorem, lemma, proposition, definition) by itself, in the order of the source; the label
of the source is given where there is one, since the style file may number otherwise.

Three things hold throughout. ``c`` is the number of classes and ``k`` runs over them. The bounds
speak of f itself, not of its softmax. They hold for kernels of compact support alone, since they
use that no row beyond the bandwidth has weight.

``reading="stated"`` computes the formula as it is printed. ``reading="proved"`` computes what
follows when each step of the proof is made good; the docs list the differences.
"""

from ejop.theory.angles import Inequality, davis_kahan, principal_angles, weyl
from ejop.theory.assumptions import (
    boundary_mass,
    events,
    gradient_norm,
    mass_threshold,
    modulus,
    noise_constant,
)
from ejop.theory.bounds import (
    Constants,
    GradientTerms,
    concentration,
    eigenvalue_bound,
    gradient_bound,
    gradient_terms,
    main_bound,
    noise_factor,
    recovery_bounds,
    sin_theta_bound,
    sum_bound,
)
from ejop.theory.dimension import (
    ColumnTest,
    DirectionTest,
    SubspaceTest,
    column_test,
    direction_test,
    subspace_test,
)
from ejop.theory.rates import Rates, rates

__all__ = [
    "ColumnTest",
    "Constants",
    "DirectionTest",
    "GradientTerms",
    "Inequality",
    "Rates",
    "SubspaceTest",
    "boundary_mass",
    "column_test",
    "concentration",
    "davis_kahan",
    "direction_test",
    "eigenvalue_bound",
    "events",
    "gradient_bound",
    "gradient_norm",
    "gradient_terms",
    "main_bound",
    "mass_threshold",
    "modulus",
    "noise_constant",
    "noise_factor",
    "principal_angles",
    "rates",
    "recovery_bounds",
    "sin_theta_bound",
    "subspace_test",
    "sum_bound",
    "weyl",
]
