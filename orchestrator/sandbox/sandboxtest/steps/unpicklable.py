globals()[_step["name"]] = (_i for _i in ())
