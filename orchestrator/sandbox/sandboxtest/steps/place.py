import json as _json, locale as _locale, time as _time
_now = _locale.setlocale(_locale.LC_CTYPE)
try:
    _locale.setlocale(_locale.LC_CTYPE, _step["name"])
    _installed = True
except _locale.Error:
    _installed = False
_locale.setlocale(_locale.LC_CTYPE, _now)
print(_json.dumps({
    "offset": _time.strftime("%z", _time.localtime(1750000000)),
    "locale": _now,
    "installed": _installed,
}))
