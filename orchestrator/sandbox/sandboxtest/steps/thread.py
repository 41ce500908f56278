import threading as _threading, time as _time

def _late(text):
    _time.sleep(0.2)
    print(text)

_threading.Thread(target=_late, args=(_step["text"],)).start()
