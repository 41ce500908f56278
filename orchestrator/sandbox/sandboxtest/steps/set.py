globals()[_step["name"]] = _step["n"]
