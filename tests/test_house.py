"""How the rooms of the library open into one another: by public names, each of one thing."""

import ast
from collections import Counter
from pathlib import Path

import ejop

ROOT = Path(ejop.__file__).parent


def modules():
    """Name and tree of every module of the library."""
    for path in sorted(ROOT.rglob("*.py")):
        name = ".".join(path.relative_to(ROOT.parent).with_suffix("").parts)
        yield name.removesuffix(".__init__"), ast.parse(path.read_text(encoding="utf-8"))


def imported(tree):
    """(module, name) of every import, at the top or inside a function; no name for a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from ((node.module, alias.name) for alias in node.names)


def is_private(name):
    return name.startswith("_") and not name.startswith("__")


def is_module(name):
    place = ROOT.parent.joinpath(*name.split("."))
    return place.is_dir() or place.with_suffix(".py").is_file()


def reaches_in(user, module, name):
    """Whether ``user`` may not see a name: private to another module, or in another's package."""
    parts = [*module.split("."), *([] if name is None else [name])]
    for i, part in enumerate(parts):
        owner = ".".join(parts[:i])
        inside = f"{user}.".startswith(f"{owner}.")
        if is_private(part) and not (inside and is_module(f"{owner}.{part}")):
            return True
    return False


def test_what_counts_as_reaching_in():
    assert reaches_in("ejop.cli.fit", "ejop.learners._lmnn", "LMNN")
    assert not reaches_in("ejop.learners._mlr", "ejop.learners._learner", "MetricLearner")
    assert reaches_in("ejop.learners._mlr", "ejop.learners._lmnn", "_stalled")
    assert not reaches_in("ejop.learners._mlr", "ejop._sklearn", "Interval")
    assert not reaches_in("ejop.learners", "ejop.learners", "_mlr")
    assert reaches_in("ejop.theory", "ejop.learners", "_mlr")
    assert not reaches_in("ejop.cli.fit", "ejop", "__version__")


def test_no_module_uses_a_private_name_of_another():
    found = {
        (user, module)
        for user, tree in modules()
        for module, name in imported(tree)
        if module.partition(".")[0] == "ejop" and reaches_in(user, module, name)
    }
    assert found == set()


def private_members(tree):
    """Private names that the classes of a module define: methods, values, what is set on self."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for part in node.body:
                if isinstance(part, ast.FunctionDef):
                    yield part.name
                elif isinstance(part, ast.AnnAssign):
                    yield ast.unparse(part.target)
                elif isinstance(part, ast.Assign):
                    yield from map(ast.unparse, part.targets)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def reached(tree):
    """Private attributes of anything but self, cls and super()."""
    for node in ast.walk(tree):
        read = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
        if read and is_private(node.attr):
            if ast.unparse(node.value) in {"self", "cls", "super()"}:
                continue
            yield node.attr


def test_what_counts_as_a_private_attribute():
    used = ast.parse("a._b + self._c + cls._d + super()._e + a.__class__ + a.b._f")
    assert set(reached(used)) == {"_b", "_f"}
    defined = ast.parse("class A:\n    _a: int\n    _b = 1\n    def _c(self): self._d = 2")
    assert set(private_members(defined)) == {"_a", "_b", "_c", "_d"}


#: the cluster walks the steps of the local predictor of the same name, whose class it extends
TWINS = {
    ("ejop.executors.dask.predictors", "_votes"),
    ("ejop.executors.dask.predictors", "_decide"),
}


def test_no_module_uses_a_private_attribute_of_the_objects_of_another():
    trees = dict(modules())
    members = {
        name: {m for m in private_members(tree) if is_private(m)} for name, tree in trees.items()
    }
    everyone = set().union(*members.values())
    found = {
        (name, attribute)
        for name, tree in trees.items()
        for attribute in reached(tree)
        if attribute in everyone - members[name]
    }
    assert found == TWINS


def test_private_names_of_scikit_learn_are_imported_in_one_module():
    found = {
        user
        for user, tree in modules()
        for module, name in imported(tree)
        if module.partition(".")[0] == "sklearn"
        and any(map(is_private, [*module.split("."), name or ""]))
    }
    assert found == {"ejop._sklearn"}


def test_a_class_has_a_name_of_its_own():
    names = Counter(
        node.name
        for _, tree in modules()
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not is_private(node.name)
    )
    assert [name for name, count in names.items() if count > 1] == []
