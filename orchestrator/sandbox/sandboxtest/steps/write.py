import hashlib as _hashlib, os as _os

def _chunks(fill, size):
    # The same bytes as Fill.Reader makes in Go, 64 KiB at a time.
    index, block, done = 0, 64 << 10, 0
    while done < size:
        if fill == "random":
            first = index * (block // 32)
            data = b"".join(_hashlib.sha256(b"%d" % i).digest() for i in range(first, first + block // 32))
        else:
            data = b"%015d," % index + b"x" * (block - 16)
        index += 1
        data = data[: size - done]
        done += len(data)
        yield data

for _data in _chunks(_step["fill"], _step["n"]):
    _view = memoryview(_data)
    while _view:
        # A pipe may take less than it was given.
        _view = _view[_os.write(2 if _step["to"] == "stderr" else 1, _view):]
