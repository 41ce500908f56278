with open(_step["name"], encoding="utf-8") as _file:
    print(_file.read())
