import os as _os
for _byte in _step["text"].encode("utf-8"):
    _os.write(2 if _step["to"] == "stderr" else 1, bytes([_byte]))
