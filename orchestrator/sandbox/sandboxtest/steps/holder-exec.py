import subprocess as _subprocess, sys as _sys
_child = _subprocess.Popen([_sys.executable, "-I", "-S", "-c", "import time; time.sleep(%r)" % (_step["n"] / 1000)])
