_unflushed = open(_step["name"], "w", encoding="utf-8")
_unflushed.write(_step["text"])
