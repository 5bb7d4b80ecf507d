"""Formulas that people type: a grammar of our own, into JAX, Python, MathML and derivatives; never `eval`."""

from fokker.studio.formulas.parse import MAX_DEPTH, MAX_LENGTH, FormulaError, parse
from fokker.studio.formulas.tree import Node
from fokker.studio.formulas.values import function
from fokker.studio.formulas.write import python, text

__all__ = ["MAX_DEPTH", "MAX_LENGTH", "FormulaError", "Node", "function", "parse", "python", "text"]
