import time as _time
_time.sleep(_step["n"] / 1000)
