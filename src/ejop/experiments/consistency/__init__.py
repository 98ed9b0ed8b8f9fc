"""Consistency, recovery and level on synthetic models with known answers: ``ejop theory``.

The models are in ``known_models``, EJOP and other ways to find a subspace in ``rivals``, the
scenarios of the permutation tests in ``levels``. ``runs`` lists and computes runs, which are kept
in a results file like those of the paper's tables, and ``pages`` turns them into tables and
pictures. The maths that the runs check is in :mod:`ejop.theory`; this is apart from it, so that
the theory can be used without the models.
"""
