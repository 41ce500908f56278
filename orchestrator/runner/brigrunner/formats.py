"""Reads the files of datasets: by pandas where it is there, by the standard library where not."""
import os

from .own import trusted


class Unreadable(Exception):
    """The file cannot be read; the text says why."""


def read(path, form, table):
    """The content as a data frame, or as a list of dicts without pandas."""
    reader = _READERS.get(form)
    if reader is None:
        raise Unreadable("the format %.40r is not known" % form)
    return reader(path, table, pandas())


def pandas():
    """The library, or None where it is not installed."""
    try:
        return trusted("pandas")
    except ModuleNotFoundError as err:
        if err.name == "pandas":
            return None
        raise


def reason(err):
    """An exception in one line."""
    if isinstance(err, OSError) and err.strerror:
        return err.strerror.lower()
    try:
        text = " ".join(str(err).split())
    except Exception:
        text = ""
    return "%s: %.500s" % (type(err).__name__, text) if text else type(err).__name__


# Text.

def _encoding(path):
    """How the text is encoded; most is UTF-8, and what is not says so or is from Windows."""
    with open(path, "rb") as file:
        start = file.read(4)
        if start.startswith((b"\xff\xfe", b"\xfe\xff")):
            return "utf-16"
        decoder = trusted("codecs").getincrementaldecoder("utf-8")()
        file.seek(0)
        while True:
            piece = file.read(1 << 20)
            try:
                decoder.decode(piece, not piece)
            except UnicodeDecodeError:
                return "cp1252"
            if not piece:
                return "utf-8-sig"


def _separator(path, encoding):
    """What stands between the columns of the first line: a comma unless there is none."""
    with open(path, encoding=encoding, newline="") as file:
        line = file.readline(1 << 16)
        while line and not line.strip():
            line = file.readline(1 << 16)
    parts = line.split('"')[::2]  # what is not quoted
    counts = [(sum(part.count(sign) for part in parts), sign) for sign in ",;\t|"]
    if counts[0][0]:
        return ","
    most = max(counts, key=lambda count: count[0])
    return most[1] if most[0] else ","


def _csv(path, table, pd, separator=None):
    encoding = _encoding(path)
    if not os.path.getsize(path):
        raise Unreadable("the file is empty")
    separator = separator or _separator(path, encoding)
    if pd is not None:
        return pd.read_csv(path, sep=separator, encoding=encoding)
    csv = trusted("csv")
    csv.field_size_limit(1 << 30)
    with open(path, encoding=encoding, newline="") as file:
        return [dict(row) for row in csv.DictReader(file, delimiter=separator)]


def _tsv(path, table, pd):
    return _csv(path, table, pd, "\t")


def _json(path, table, pd):
    with open(path, encoding=_encoding(path)) as file:
        value = trusted("json").load(file)
    rows = _rows(value)
    return rows if pd is None else pd.DataFrame(rows)


def _rows(value):
    """Rows of dicts, whichever way JSON tells them."""
    if isinstance(value, list):
        return [_row(item) for item in value]
    if not isinstance(value, dict):
        return [{"value": value}]
    columns = list(value.values())
    if columns and all(isinstance(column, list) for column in columns):
        length = len(columns[0])
        if all(len(column) == length for column in columns):
            return [dict(zip(value, row)) for row in zip(*columns)]
    if columns and all(isinstance(column, dict) for column in columns):
        keys = list(columns[0])
        if keys and all(key.isdigit() for key in keys) and all(list(column) == keys for column in columns):
            return [{name: column[key] for name, column in value.items()} for key in keys]  # as pandas writes it
        return [dict({"index": key}, **column) for key, column in value.items()]
    return [value]


def _row(item):
    if isinstance(item, dict):
        return item
    if isinstance(item, list):
        return dict(enumerate(item))
    return {"value": item}


def _jsonl(path, table, pd):
    loads, rows = trusted("json").loads, []
    with open(path, encoding=_encoding(path)) as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                rows.append(_row(loads(line)))
            except ValueError as err:
                raise Unreadable("line %d is not JSON: %.200s" % (number, err)) from None
    return rows if pd is None else pd.DataFrame(rows)


# Columns.

def _arrow(name, form):
    try:
        return trusted(name)
    except ModuleNotFoundError as err:
        if err.name.partition(".")[0] != "pyarrow":
            raise
        raise Unreadable("%s files need the Python package pyarrow, which is not installed here" % form) from None


def _parquet(path, table, pd):
    parquet = _arrow("pyarrow.parquet", "Parquet")
    return parquet.read_table(path).to_pylist() if pd is None else pd.read_parquet(path)


def _feather(path, table, pd):
    feather = _arrow("pyarrow.feather", "Feather")
    return feather.read_table(path).to_pylist() if pd is None else pd.read_feather(path)


# Sheets and databases.

def _xlsx(path, table, pd):
    if pd is not None:
        try:
            trusted("openpyxl")
        except ModuleNotFoundError:
            pass
        else:
            with pd.ExcelFile(path, engine="openpyxl") as book:
                return book.parse(_one_of(table, book.sheet_names, "sheet"))
    columns, rows = trusted(__package__ + ".sheets").read(path, lambda names: _one_of(table, names, "sheet"))
    if pd is not None:
        return pd.DataFrame(rows, columns=columns)
    return [dict(zip(columns, row)) for row in rows]


def _one_of(wanted, names, what):
    """The one that was asked for, or the first."""
    names = list(names)
    if not names:
        raise Unreadable("there is no %s in it" % what)
    if not wanted:
        return names[0]
    if wanted not in names:
        raise Unreadable("there is no %s %.80r in it; there is: %.400s" % (what, wanted, ", ".join(map(repr, names))))
    return wanted


def connect(path):
    """A connection that cannot write."""
    quoted = trusted("urllib.parse").quote(os.fsencode(path).replace(b"\\", b"/"), safe="/:")
    sqlite3 = trusted("sqlite3")
    connection = sqlite3.connect("file:%s?mode=ro" % quoted, uri=True)
    connection.row_factory = sqlite3.Row
    return connection


def _sqlite(path, table, pd):
    try:
        connection = connect(path)
    except ModuleNotFoundError as err:
        raise Unreadable("this Python has no %s" % err.name) from None
    try:
        found = connection.execute(
            "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY rowid")
        name = _one_of(table, [row[0] for row in found], "table")
        cursor = connection.execute('SELECT * FROM "%s"' % name.replace('"', '""'))
        columns = [column[0] for column in cursor.description]
        if pd is not None:
            return pd.DataFrame([tuple(row) for row in cursor], columns=columns)
        return [dict(zip(columns, row)) for row in cursor]
    finally:
        connection.close()


_READERS = {
    "csv": _csv, "tsv": _tsv, "json": _json, "jsonl": _jsonl, "parquet": _parquet, "feather": _feather,
    "xlsx": _xlsx, "sqlite": _sqlite,
}
