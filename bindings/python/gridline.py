# SPDX-License-Identifier: Apache-2.0
"""gridline - time-stamped, typed events from Python programs, by libgridline.

    import gridline

    with gridline.Log("mover", "unix:/run/gridline/agent.sock") as log:
        log.write("transfer.start", id=7, file="/data/x")
        with log.timer("transfer"):
            ...
        log.write("transfer.end", gridline.INFO, id=7, bytes=1 << 20, rate=11.5)

Field types follow Python's: int (uint where it is above 2^63 - 1), float, bool, str, bytes; None is a field that is
missing; anything else is written as str(value). Field names that are no Python names go in a mapping:
log.write("a", fields={"wall.ns": 5}).

Needs ctypes and libgridline.so.0 only: no compiler. The library is looked for in $GRIDLINE_LIBRARY (a path), then by
the loader. Like the library itself, a Log never raises because a destination is away: see Log.stats.
"""

import ctypes
import logging
import os
import time

__all__ = ["Log", "Handler", "Error", "version", "THREAD", "ENV", "MANUAL"]

EMERGENCY, ALERT, CRITICAL, ERROR, WARNING, AUTH, SECURITY, IMPORTANT, NOTICE, SYSTEM, USAGE, INFO, DEBUG, TRACE = range(14)
__all__ += ["EMERGENCY", "ALERT", "CRITICAL", "ERROR", "WARNING", "AUTH", "SECURITY", "IMPORTANT", "NOTICE", "SYSTEM",
            "USAGE", "INFO", "DEBUG", "TRACE"]

THREAD, ENV, MANUAL = 1, 2, 4  # flags of Log, as in gridline.h


class Error(OSError):
    """What a call answered: errno and its text, or a limit of the event model."""


class _Union(ctypes.Union):
    _fields_ = [("i", ctypes.c_int64), ("u", ctypes.c_uint64), ("f", ctypes.c_double), ("p", ctypes.c_char_p)]


class _Value(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("type", ctypes.c_char), ("v", _Union), ("n", ctypes.c_size_t)]


class _Stats(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in (
        "taken", "passed", "queued", "dropped", "dropped_ring_full", "dropped_nested", "dropped_too_large",
        "dropped_unwritable", "dropped_memory", "dropped_refused", "refused_too_old", "refused_too_new")]


_P, _S, _I, _U = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint
_CALLS = {  # name: result, arguments
    "gridline_open": (_P, _S, _S, _U),
    "gridline_close": (None, _P),
    "gridline_add": (_I, _P, _S),
    "gridline_backup": (_I, _P, _S, ctypes.c_uint64),
    "gridline_set_const": (_I, _P, _S, _S, _S),
    "gridline_set_host": (_I, _P, _S),
    "gridline_set_key": (_I, _P, _S, _S),
    "gridline_flush": (_I, _P, _I),
    "gridline_dump": (_I, _P, _S),
    "gridline_stats": (None, _P, ctypes.POINTER(_Stats), ctypes.c_size_t),
    "gridline_set_level": (None, _P, _I),
    "gridline_set_event_level": (_I, _P, _S, _I),
    "gridline_watch": (_I, _P, _S),
    "gridline_poll": (None, _P),
    "gridline_write_values": (_I, _P, ctypes.c_int64, _I, _S, ctypes.POINTER(_Value), ctypes.c_size_t),
    "gridline_counter_get": (_P, _P, _S),
    "gridline_counter_add": (None, _P, ctypes.c_int64),
    "gridline_counter_report": (None, _P),
    "gridline_counter_threshold": (_I, _P, ctypes.c_int64),
    "gridline_timer_get": (_P, _P, _S),
    "gridline_timer_start": (None, _P),
    "gridline_timer_stop": (None, _P),
    "gridline_timer_report": (None, _P),
    "gridline_summary_get": (_P, _P, _S, ctypes.c_double),
    "gridline_summary_add": (None, _P, ctypes.c_double),
    "gridline_summary_report": (None, _P),
    "gridline_histogram_get": (_P, _P, _S, _U, ctypes.c_double),
    "gridline_histogram_add": (None, _P, ctypes.c_double),
    "gridline_histogram_report": (None, _P),
    "gridline_self": (None, _P),
    "gridline_version": (_S,),
}


def _load():
    library = ctypes.CDLL(os.environ.get("GRIDLINE_LIBRARY") or "libgridline.so.0", use_errno=True)
    for name, (result, *arguments) in _CALLS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


_lib = _load()


def version():
    """The library's version, "0.1.0"."""
    return _lib.gridline_version().decode()


def _check(result):
    if result >= 0:
        return result
    text = os.strerror(-result) if result > -4096 else "over a limit of the event model, or malformed"
    raise Error(-result, text)


def _text(value):
    return os.fsencode(value) if isinstance(value, (str, os.PathLike)) else value


def _fill(slot, name, value):
    """Sets one field. False when there is nothing to set. What it points to must outlive the call: it is returned by
    ctypes' own references in the structure (c_char_p keeps its bytes alive)."""
    if value is None:
        return False
    slot.name = name.encode()
    if isinstance(value, bool):
        slot.type, slot.v.u = b"b", value
    elif isinstance(value, int) and -2 ** 63 <= value < 2 ** 63:
        slot.type, slot.v.i = b"i", value
    elif isinstance(value, int) and 0 <= value < 2 ** 64:
        slot.type, slot.v.u = b"u", value
    elif isinstance(value, float):
        slot.type, slot.v.f = b"f", value
    else:
        is_bytes = isinstance(value, (bytes, bytearray, memoryview))
        data = bytes(value) if is_bytes else str(value).encode("utf-8", "surrogateescape")
        slot.type, slot.v.p, slot.n = b"x" if is_bytes else b"t", data, len(data)
    return True


class Log:
    """One handle. Threads may share it. Use it as a context manager, or call close()."""

    def __init__(self, prog, url=None, flags=None):
        """prog names the program in each event; url is a destination, or several separated by spaces (gridline.h).
        Without one, $GRIDLINE_DEST says where; if that is not set, the log is off."""
        if flags is None:
            flags = 0 if url else ENV
        self._handle = _lib.gridline_open(_text(prog), _text(url), flags)
        if not self._handle and url:
            code = ctypes.get_errno()
            raise Error(code, os.strerror(code), str(url))

    def close(self):
        """Writes out what is left (gridline_close) and ends. Further calls do nothing."""
        handle, self._handle = self._handle, None
        _lib.gridline_close(handle)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    def write(self, event, level=INFO, *, fields=None, time_ns=0, **named):
        """Writes an event with the fields of both `fields` (a mapping) and the keywords. time_ns: since 1970, UTC;
        0 = now. Raises Error when the event breaks a limit of the model, and then it is counted as dropped."""
        if not self._handle:
            return
        if fields:
            named = {**fields, **named}
        values = (_Value * len(named))()
        n = 0
        for name, value in named.items():
            n += _fill(values[n], name, value)
        _check(_lib.gridline_write_values(self._handle, time_ns, level, event.encode(), values, n))

    def flush(self, timeout_s=0):
        """True when the destinations have taken everything."""
        return _lib.gridline_flush(self._handle, int(timeout_s * 1000)) == 0

    def stats(self):
        """A dict: taken = passed + queued + dropped, exactly; and why events were dropped."""
        out = _Stats()
        _lib.gridline_stats(self._handle, ctypes.byref(out), ctypes.sizeof(out))
        return {name: getattr(out, name) for name, _ in _Stats._fields_}

    def add(self, url):
        _check(_lib.gridline_add(self._handle, _text(url)))

    def backup(self, directory, max_bytes=0):
        _check(_lib.gridline_backup(self._handle, _text(directory), max_bytes))

    def dump(self, url):
        _check(_lib.gridline_dump(self._handle, _text(url)))

    def set_const(self, name, value):
        """A field that every event carries; before the first event."""
        kinds = {bool: "bool", int: "i64", float: "f64"}
        text = str(value).lower() if isinstance(value, bool) else str(value)
        _check(_lib.gridline_set_const(self._handle, name.encode(), kinds.get(type(value), "text").encode(),
                                       text.encode()))

    def set_host(self, host):
        _check(_lib.gridline_set_host(self._handle, host.encode()))

    def set_key(self, event, *fields):
        """The text fields by which events of that name are told apart; before the first of them."""
        _check(_lib.gridline_set_key(self._handle, event.encode(), ",".join(fields).encode()))

    def set_level(self, level, pattern=None):
        """Events up to this level are on; with a pattern, those whose name matches it (-1 = off)."""
        if pattern is None:
            _lib.gridline_set_level(self._handle, level)
        else:
            _check(_lib.gridline_set_event_level(self._handle, pattern.encode(), level))

    def watch(self, path):
        """Follows a control file."""
        _check(_lib.gridline_watch(self._handle, _text(path)))

    def self_usage(self):
        """An event process.self: what this process uses."""
        _lib.gridline_self(self._handle)

    def counter(self, name):
        return Counter(self, name)

    def timer(self, name):
        return Timer(self, name)

    def summary(self, name, interval_s=0.0):
        return Summary(self, name, interval_s)

    def histogram(self, name, buckets=60, first_width_s=1.0):
        return Histogram(self, name, buckets, first_width_s)


class _Point:
    """Found or made by name; lives as long as its log, which it keeps alive. After log.close() its calls do nothing."""

    def __init__(self, log, kind, name, *arguments):
        self._log = log
        self._point = getattr(_lib, f"gridline_{kind}_get")(log._handle, name.encode(), *arguments)
        self._report = getattr(_lib, f"gridline_{kind}_report")
        if not self._point and log._handle:
            raise ValueError(f"{name}: not a name or argument that gridline.h allows")

    @property
    def _live(self):
        return self._point if self._log._handle else None

    def report(self):
        self._report(self._live)


class Counter(_Point):
    """counter.add(n); as a context manager it counts how often its block was entered."""

    def __init__(self, log, name):
        super().__init__(log, "counter", name)

    def add(self, n=1):
        _lib.gridline_counter_add(self._live, n)

    def threshold(self, limit):
        """An event NAME.threshold each time the count crosses limit."""
        _check(_lib.gridline_counter_threshold(self._live, limit))

    def __enter__(self):
        self.add()
        return self

    def __exit__(self, *unused):
        pass


class Timer(_Point):
    """with timer: ... adds the block's wall-clock and processor time (of the thread). Nests."""

    def __init__(self, log, name):
        super().__init__(log, "timer", name)

    def start(self):
        _lib.gridline_timer_start(self._live)

    def stop(self):
        _lib.gridline_timer_stop(self._live)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *unused):
        self.stop()


class Summary(_Point):
    """summary.add(value); as a context manager it adds the seconds that its block took."""

    def __init__(self, log, name, interval_s):
        super().__init__(log, "summary", name, interval_s)
        self._starts = []

    def add(self, value):
        _lib.gridline_summary_add(self._live, value)

    def __enter__(self):
        self._starts.append(time.perf_counter())
        return self

    def __exit__(self, *unused):
        self.add(time.perf_counter() - self._starts.pop())


class Histogram(_Point):
    """histogram.add(value): a Paradyn time histogram."""

    def __init__(self, log, name, buckets, first_width_s):
        super().__init__(log, "histogram", name, buckets, first_width_s)

    def add(self, value):
        _lib.gridline_histogram_add(self._live, value)


class Handler(logging.Handler):
    """Python's log records as events: logging.getLogger().addHandler(gridline.Handler(log)).

    A record is an event python.log (or `event`) with the fields message, logger, file, line, thread, and exception if
    there is one; what was given as extra={...} becomes fields too. Its time is the record's."""

    _LEVELS = ((logging.CRITICAL, CRITICAL), (logging.ERROR, ERROR), (logging.WARNING, WARNING), (logging.INFO, INFO),
               (logging.DEBUG, DEBUG))
    _OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

    def __init__(self, log, level=logging.NOTSET, event="python.log"):
        super().__init__(level)
        self._log, self._event = log, event

    def emit(self, record):
        try:
            level = next((ours for theirs, ours in self._LEVELS if record.levelno >= theirs), TRACE)
            fields = {"message": record.getMessage(), "logger": record.name, "file": record.pathname,
                      "line": record.lineno, "thread": record.threadName}
            if record.exc_info:
                fields["exception"] = logging.Formatter().formatException(record.exc_info)
            fields.update((k, v) for k, v in vars(record).items() if k not in self._OWN and k not in fields)
            self._log.write(self._event, level, fields=fields, time_ns=int(record.created * 1e9))
        except Exception:  # as logging.Handler asks: handleError decides
            self.handleError(record)

    def flush(self):
        self._log.flush()
