_step["n"]
