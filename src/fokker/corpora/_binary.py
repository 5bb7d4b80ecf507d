"""Recognise files that are not text, by their first bytes."""

_MAGIC = (
    (b"%PDF", "a PDF file (pdftotext extracts its text)"),
    (b"{\\rtf", "an RTF file (save it as plain text)"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Microsoft Office file (save it as plain text or CSV)"),
    (b"SQLite format 3\0", "an SQLite database (export the column of the text as CSV)"),
    (b"\xff\xfe", "UTF-16 text (convert it with iconv -f UTF-16 -t UTF-8)"),
    (b"\xfe\xff", "UTF-16 text (convert it with iconv -f UTF-16 -t UTF-8)"),
    (b"\x89PNG", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"GIF8", "a GIF picture"),
    (b"\x89HDF", "an HDF5 file (export the column of the text as CSV)"),
    (b"ARROW1", "an Arrow file (write it as Parquet)"),
    (b"Obj\x01", "an Avro file (write it as Parquet)"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive (extract it)"),
    (b"Rar!", "a RAR archive (extract it)"),
    (b"\x7fELF", "a program"),
    (b"MZ\x90\0", "a program"),
)
_TAR = (257, b"ustar")
_ZIP = b"PK\x03\x04"
_ZIPPED = (
    (b"[Content_Types].xml", "a Microsoft Office file (save it as plain text or CSV)"),
    (b"mimetypeapplication/vnd.oasis", "an OpenDocument file (save it as plain text or CSV)"),
    (b"mimetypeapplication/epub", "an EPUB file (convert it to plain text)"),
)
_PARQUET = b"PAR1"
# A text has no zero bytes; this many are enough to know.
_SEARCHED = 1 << 13


def binary_kind(contents: bytes) -> str:
    """What the contents are, with what to do, if they are not text; else an empty string."""
    for magic, kind in _MAGIC:
        if contents.startswith(magic):
            return kind
    if contents[_TAR[0] :].startswith(_TAR[1]):
        return "a tar archive (extract it, and give the folder)"
    if contents.startswith(_ZIP):
        first = contents[:_SEARCHED]
        return next((kind for mark, kind in _ZIPPED if mark in first), "a zip archive (extract it)")
    if is_parquet(contents):
        return "a Parquet file (format='parquet')"
    return "binary, with zero bytes" if b"\0" in contents[:_SEARCHED] else ""


def is_arrays(contents: bytes) -> bool:
    """Whether the contents are a .npz file: a zip archive that begins with an array."""
    return contents.startswith(_ZIP) and b".npy" in contents[:_SEARCHED]


def is_parquet(contents: bytes) -> bool:
    """Whether the contents are a Parquet file."""
    return contents.startswith(_PARQUET)
