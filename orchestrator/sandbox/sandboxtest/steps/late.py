import os as _os, time as _time
if _os.fork() == 0:
    try:
        for _i in range(6000):
            if _os.path.exists(_step["name"]):
                _os.write(2 if _step["to"] == "stderr" else 1, _step["text"].encode("utf-8"))
                open(_step["name"] + ".done", "w").close()
                break
            _time.sleep(0.01)
    finally:
        _os._exit(0)
