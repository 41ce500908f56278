"""JSON without the json package, and strings cut to fit.

json pulls in re and enum; its C half does the work alone. Everything that is
written here is valid UTF-8, whatever surrogates the strings held.
"""
try:
    from _json import make_scanner as _make_scanner, make_encoder as _make_encoder, encode_basestring as _quote

    class _Context:
        strict = True
        object_hook = object_pairs_hook = None
        parse_float = float
        parse_int = int
        parse_constant = float
        memo = {}

    _scan = _make_scanner(_Context())
    _fast = _make_encoder(None, None, _quote, None, ":", ",", False, False, True)
except ImportError:  # another implementation than CPython
    import json
    _scan = json.JSONDecoder().scan_once
    _quote = json.encoder.encode_basestring
    _fast = None


def loads(data):
    """Parses one JSON value; ValueError for anything else."""
    try:
        text = data.decode("utf-8").strip(" \t\r\n")
        value, end = _scan(text, 0)
    except (StopIteration, RecursionError, SystemError) as err:
        # SystemError: without json.decoder, some versions fail to say what is wrong.
        raise ValueError("not JSON") from err
    if end != len(text):
        raise ValueError("more than one JSON value")
    return value


def dumps(value):
    """Encodes None, bool, int, float, str, list, tuple and dict as UTF-8."""
    if _fast is not None:
        try:
            return "".join(_fast(value, 0)).encode("utf-8")
        except UnicodeEncodeError:
            pass  # a lone surrogate, which is spelt out below
    out = []
    _encode(value, out.append)
    return "".join(out).encode("utf-8", "backslashreplace")


def _encode(value, put):
    if value is None:
        put("null")
    elif value is True:
        put("true")
    elif value is False:
        put("false")
    elif isinstance(value, str):
        put(_quote(plain(value)))
    elif isinstance(value, (int, float)):
        put(repr(value))
    elif isinstance(value, dict):
        separator = "{"
        for key, item in value.items():
            put(separator)
            put(_quote(plain(key)))
            put(":")
            _encode(item, put)
            separator = ","
        put("}" if separator == "," else "{}")
    else:
        separator = "["
        for item in value:
            put(separator)
            _encode(item, put)
            separator = ","
        put("]" if separator == "," else "[]")


def plain(text):
    """The same text without lone surrogates, which UTF-8 cannot carry."""
    try:
        text.encode("utf-8")
        return text
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode("utf-8")


def cut(text, limit):
    """(text, False), or (its beginning of at most limit UTF-8 bytes, True)."""
    if len(text) * 4 <= limit:
        return plain(text), False
    data = text[:limit + 1].encode("utf-8", "backslashreplace")
    if len(data) <= limit:
        return data.decode("utf-8"), False
    return data[:limit].decode("utf-8", "ignore"), True
