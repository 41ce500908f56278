"""What stands for a table that cannot be read: its error comes where it is used."""


def unread(problem):
    """An object every use of which raises problem anew. Each has a class of its own: what
    Python does with an object it looks up in the class, and the class knows the problem."""
    kind, text = type(problem), str(problem)

    def use(self, *arguments, **named):
        raise kind(text)

    members = {name: use for name in _USES}
    members["__slots__"] = ()
    return type("Unread", (), members)()


# Not __class__, __init__ and what else makes and frees an object.
_USES = tuple("__%s__" % name for name in (
    "getattribute getattr setattr delattr repr str format bytes hash bool len length_hint iter next reversed contains "
    "getitem setitem delitem call dir enter exit aenter aexit await aiter anext lt le eq ne gt ge int float complex index "
    "round trunc floor ceil abs neg pos invert reduce reduce_ex fspath copy deepcopy "
    "add sub mul matmul truediv floordiv mod divmod pow lshift rshift and xor or "
    "radd rsub rmul rmatmul rtruediv rfloordiv rmod rdivmod rpow rlshift rrshift rand rxor ror "
    "iadd isub imul imatmul itruediv ifloordiv imod ipow ilshift irshift iand ixor ior"
).split())
