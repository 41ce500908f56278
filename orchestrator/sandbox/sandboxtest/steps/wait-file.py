import os as _os, time as _time
while not _os.path.exists(_step["name"]):
    _time.sleep(0.005)
