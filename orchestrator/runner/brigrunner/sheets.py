"""Reads one sheet of an XLSX workbook with nothing but the standard library."""
import datetime
import re
import zipfile
from xml.etree import ElementTree

from .formats import Unreadable

_MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_RELATIONS = "{http://schemas.openxmlformats.org/package/2006/relationships}"
_ID = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
_STRICT = (("http://purl.oclc.org/ooxml/spreadsheetml/main", "http://schemas.openxmlformats.org/spreadsheetml/2006/main"),
           ("http://purl.oclc.org/ooxml/officeDocument/relationships",
            "http://schemas.openxmlformats.org/officeDocument/2006/relationships"))

_DATES = frozenset(range(14, 23)) | frozenset(range(27, 37)) | frozenset(range(45, 48)) | frozenset(range(50, 59))
_NOT_DATE = re.compile(r'"[^"]*"|\\.|\[(?!h+\]|m+\]|s+\])[^\]]*\]')  # text, and colours or currencies


def read(path, choose):
    """The names of the columns, from the first row, and the rows below. choose takes
    the names of the sheets and returns one."""
    try:
        with zipfile.ZipFile(path) as archive:
            return _Book(archive).sheet(choose)
    except zipfile.BadZipFile:
        raise Unreadable("it is no XLSX workbook, or is damaged") from None
    except (KeyError, ElementTree.ParseError) as err:
        raise Unreadable("it is no XLSX workbook, or is damaged: %.200s" % err) from None


class _Book:
    def __init__(self, archive):
        self._archive = archive
        self._parts = {name.lower(): name for name in archive.namelist()}
        book = self._parse("xl/workbook.xml")
        links = {link.get("Id"): link.get("Target") for link in self._parse("xl/_rels/workbook.xml.rels").iter(_RELATIONS + "Relationship")}
        self._sheets = {sheet.get("name"): links.get(sheet.get(_ID), "") for sheet in book.iter(_MAIN + "sheet")}
        properties = book.find(_MAIN + "workbookPr")
        late = properties is not None and properties.get("date1904") in ("1", "true")
        self._epoch = datetime.datetime(1904, 1, 1) if late else datetime.datetime(1899, 12, 30)
        self._texts = self._shared() if "xl/sharedstrings.xml" in self._parts else []
        self._dates = self._date_styles() if "xl/styles.xml" in self._parts else []

    def _open(self, name):
        return self._archive.open(self._parts[name.lower()])

    def _parse(self, name):
        with self._open(name) as part:
            data = part.read()
        for strict, usual in _STRICT:
            data = data.replace(strict.encode(), usual.encode())
        return ElementTree.fromstring(data)

    def _shared(self):
        return [_text(item) for item in self._parse("xl/sharedStrings.xml").iter(_MAIN + "si")]

    def _date_styles(self):
        """Of every cell style whether it shows a date."""
        styles = self._parse("xl/styles.xml")
        formats = {int(form.get("numFmtId")): form.get("formatCode") or "" for form in styles.iter(_MAIN + "numFmt")}
        dates = []
        for style in styles.iterfind(_MAIN + "cellXfs/" + _MAIN + "xf"):
            number = int(style.get("numFmtId") or 0)
            code = _NOT_DATE.sub("", formats.get(number, "")).lower()
            dates.append(number in _DATES or any(sign in code for sign in "ymdhs") and "general" not in code)
        return dates

    def sheet(self, choose):
        target = self._sheets[choose(list(self._sheets))]
        name = target[1:] if target.startswith("/") else "xl/" + target
        rows, width = [], 0
        for row in self._parse(name).iter(_MAIN + "row"):
            at = int(row.get("r") or len(rows) + 1) - 1
            values = self._row(row)
            if not values:
                continue
            if at > len(rows) + 1_000_000:
                raise Unreadable("the sheet has too many empty rows")
            while len(rows) < at:
                rows.append([])
            width = max(width, len(values))
            rows.append(values)
        rows = [row + [None] * (width - len(row)) for row in rows]
        while rows and not any(value is not None for value in rows[0]):
            del rows[0]
        if not rows:
            return [], []
        return _columns(rows[0]), rows[1:]

    def _row(self, row):
        values = []
        for cell in row.iter(_MAIN + "c"):
            at = _column(cell.get("r")) if cell.get("r") else len(values)
            value = self._value(cell)
            if value is None or at > 16384:
                continue
            while len(values) < at:
                values.append(None)
            values.append(value)
        return values

    def _value(self, cell):
        kind = cell.get("t") or "n"
        if kind == "inlineStr":
            inline = cell.find(_MAIN + "is")
            return None if inline is None else _text(inline)
        node = cell.find(_MAIN + "v")
        text = None if node is None else node.text
        if text is None:
            return None
        if kind == "s":
            return self._texts[int(text)]
        if kind == "b":
            return text == "1"
        if kind == "e":
            return None  # such as #DIV/0!
        if kind != "n":
            return text
        number = float(text)
        style = int(cell.get("s") or 0)
        if style < len(self._dates) and self._dates[style]:
            return self._date(number)
        return int(number) if number.is_integer() and not any(sign in text for sign in ".eE") else number

    def _date(self, number):
        try:
            return self._epoch + datetime.timedelta(milliseconds=round(number * 86400000))
        except OverflowError:
            return number


def _text(item):
    """The text of an element, without that of phonetic hints."""
    parts = []
    for child in item:
        if child.tag == _MAIN + "t":
            parts.append(child.text or "")
        elif child.tag == _MAIN + "r":
            parts.extend(text.text or "" for text in child.iterfind(_MAIN + "t"))
    return "".join(parts)


def _column(reference):
    """The number of a column from a reference such as AB12."""
    number = 0
    for sign in reference:
        if not sign.isalpha():
            break
        number = number * 26 + ord(sign.upper()) - 64
    return number - 1


def _columns(values):
    """Names for the columns, each once, as pandas names them."""
    names, seen = [], set()
    for at, value in enumerate(values):
        base = name = "Unnamed: %d" % at if value is None else value if isinstance(value, str) else str(value)
        again = 0
        while name in seen:
            again += 1
            name = "%s.%d" % (base, again)
        seen.add(name)
        names.append(name)
    return names
