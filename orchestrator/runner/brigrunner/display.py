"""Results and displays: one thing in several representations, as MIME bundles."""
import sys

from . import text, verdict
from .failure import brief
from .own import trusted

MAX_TEXT = 256 << 10  # of text/plain; a longer repr is cut

_METHODS = (
    ("text/html", "_repr_html_"), ("text/markdown", "_repr_markdown_"), ("text/latex", "_repr_latex_"),
    ("image/svg+xml", "_repr_svg_"), ("image/png", "_repr_png_"), ("image/jpeg", "_repr_jpeg_"),
    ("application/json", "_repr_json_"), ("application/javascript", "_repr_javascript_"),
    ("application/pdf", "_repr_pdf_"),
)


class Displays:
    def __init__(self, channel, bound):
        self._channel = channel
        self._bound = bound  # of all displays of one run, in bytes
        self._left = 0
        self._count = 0

    def begin(self):
        self._left = self._bound
        self._count = 0

    def result(self, value):
        # With nothing left to draw the end of the run follows at once.
        self._send("result", bundle(value), last="matplotlib._pylab_helpers" not in sys.modules)

    def show(self, *values, **options):
        """Shows each value as its richest representations; options are accepted and ignored."""
        for value in values:
            if self._channel.foreign or not self._channel.run:
                print(_plain(value))  # another process, or a thread that outlived its run
            else:
                sys.stdout.flush()
                self._send("display", bundle(value))

    def _send(self, role, data, last=False):
        encoded = []
        for mime, value in data.items():
            if isinstance(value, str):
                value = value.encode("utf-8", "backslashreplace")
            encoded.append((mime, value))
        size = sum(len(value) for _, value in encoded)
        most = min(self._left, verdict.MAX_BUNDLE)
        if size > most or self._count >= verdict.MAX_DISPLAYS:
            self._note("a display of %d bytes was left out: %d bytes are allowed for one run, %d are left"
                       % (size, self._bound, self._left))
            encoded = [part for part in encoded if part[0] == "text/plain" and len(part[1]) <= most]
            if not encoded or self._count >= verdict.MAX_DISPLAYS:
                return
        self._left -= sum(len(value) for _, value in encoded)
        self._count += 1
        self._flush()
        parts, blobs, inline = [], [], 0
        for mime, value in encoded[:verdict.MAX_PARTS]:
            part = {"mime": mime, "size": len(value)}
            string = _inline(mime, value)
            if string is not None and inline < verdict.MAX_MESSAGE // 2:
                part["text"] = string
                inline += len(text.dumps(string))
            else:
                blobs.append(value)
            parts.append(part)
        message = {"t": "display", "n": self._channel.run, "role": role, "parts": parts}
        if last and not blobs:
            self._channel.keep(message)
        else:
            self._channel.send(message, blobs)

    @staticmethod
    def _flush():
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:  # user code may have put anything there
                pass

    @staticmethod
    def _note(message):
        try:
            sys.stderr.write("brig: %s\n" % message)
        except Exception:
            pass

    # Figures.

    def imported_pyplot(self, pyplot):
        """Makes show() show, where the backend itself has no screen."""
        def show(*args, **options):
            self.figures()
        show.__doc__ = pyplot.show.__doc__
        pyplot.show = show
        figure = sys.modules.get("matplotlib.figure")
        if figure is not None:
            figure.Figure.show = lambda fig, warn=True: self._show(fig)

    def _show(self, figure):
        """Emits one figure, and closes it, lest it is emitted again at the end of the run."""
        self._figure(figure)
        helpers = sys.modules.get("matplotlib._pylab_helpers")
        if helpers is not None:
            helpers.Gcf.destroy_fig(figure)

    def figures(self):
        """Emits every figure that is open in pyplot, and closes it."""
        helpers = sys.modules.get("matplotlib._pylab_helpers")
        if helpers is None or self._channel.foreign:
            return
        for manager in list(helpers.Gcf.get_all_fig_managers()):
            try:
                self._figure(manager.canvas.figure)
            finally:
                helpers.Gcf.destroy(manager)

    def _figure(self, figure):
        try:
            data = _png_of(figure)
        except Exception as err:
            self._note("a figure could not be drawn: %s" % brief(err))
            return
        if self._channel.run and not self._channel.foreign:
            self._send("figure", {"image/png": data, "text/plain": _plain(figure)})


def _png_of(figure):
    buffer = trusted("io").BytesIO()
    figure.savefig(buffer, format="png", bbox_inches="tight")
    return buffer.getvalue()


def _inline(mime, value):
    """The value as text, if it may travel inside the message."""
    if len(value) > verdict.MAX_INLINE or not (mime.startswith("text/") or mime in ("application/json", "image/svg+xml")):
        return None
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return None


def bundle(value):
    """Representations by MIME kind; text/plain is always among them."""
    found = {}
    kind = type(value)
    method = getattr(kind, "_repr_mimebundle_", None)
    if callable(method) and not isinstance(value, type):
        _take(found, value, method, lambda data: found.update(_checked(data)), include=None, exclude=None)
    for mime, name in _METHODS:
        method = getattr(kind, name, None)
        if mime in found or not callable(method) or isinstance(value, type):
            continue
        _take(found, value, method, lambda data, mime=mime: found.update(_checked({mime: data})))
    if "image/png" not in found and _is_loose_figure(value):
        found["image/png"] = _png_of(value)
    if "text/plain" not in found:
        found["text/plain"] = _plain(value)
    return found


def _take(found, value, method, put, **options):
    try:
        data = method(value, **options)
        if isinstance(data, tuple) and len(data) == 2:
            data = data[0]  # the other is metadata
        if data is not None:
            put(data)
    except Exception as err:
        Displays._note("%s failed: %s" % (getattr(method, "__qualname__", "a representation"), brief(err)))


def _checked(data):
    """Those entries of a bundle that are what their kind says."""
    found = {}
    for mime, value in dict(data).items():
        if not isinstance(mime, str) or not verdict.is_mime(mime) or value is None:
            continue
        if mime.startswith("text/") or mime in ("image/svg+xml", "application/javascript"):
            found[mime] = value if isinstance(value, str) else str(value)
        elif mime == "application/json" or mime.endswith("+json"):
            if not isinstance(value, (str, bytes)):
                value = trusted("json").dumps(value)
            found[mime] = value
        elif isinstance(value, str):  # binary kinds as text are base64
            found[mime] = trusted("binascii").a2b_base64(value)
        else:
            found[mime] = bytes(value)
    return found


def _is_loose_figure(value):
    """Whether it is a matplotlib figure that pyplot does not know and would not emit."""
    figure = sys.modules.get("matplotlib.figure")
    if figure is None or not isinstance(value, figure.Figure):
        return False
    helpers = sys.modules.get("matplotlib._pylab_helpers")
    return helpers is None or all(m.canvas.figure is not value for m in helpers.Gcf.get_all_fig_managers())


def _plain(value):
    try:
        string = repr(value)
    except Exception as err:
        return "<%s object, whose repr failed: %s>" % (type(value).__name__, brief(err))
    if len(string) > MAX_TEXT:
        string = "%s… (%d more characters)" % (string[:MAX_TEXT], len(string) - MAX_TEXT)
    return string
