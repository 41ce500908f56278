_blocks, _held = [], 0
while _held < _step["n"]:
    # Written to, so that every page is really there.
    _blocks.append(bytearray(b"\x01") * (4 << 20))
    _held += 4 << 20
print("held", _held)
