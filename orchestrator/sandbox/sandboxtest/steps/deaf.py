import signal as _signal, time as _time
_signal.signal(_signal.SIGINT, _signal.SIG_IGN)
print("deaf")
while True:
    try:
        _time.sleep(3600)
    except KeyboardInterrupt:
        pass
