with open(_step["name"], "w", encoding="utf-8") as _file:
    _file.write(_step["text"])
