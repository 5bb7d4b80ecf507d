"""Rows of data: tables from files."""
