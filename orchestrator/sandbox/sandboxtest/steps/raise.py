import builtins as _builtins
raise getattr(_builtins, _step["name"])(_step["text"])
