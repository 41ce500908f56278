class _Shown:
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/plain": "shown", _step["name"]: "0123456789abcdef" * (_step["n"] // 16)}

display(_Shown())
