if _step["name"] not in globals():
    raise NameError("name %r is not defined" % _step["name"])
print(globals()[_step["name"]])
