"""A client of HTTP/2 that the suite runs as `python3 h2_peer.py PORT CASE [SEED]`.

Each case checks what the server answers, well-formed or not, and ends with status 0 or an
assertion. A case that waits for the suite prints a line and reads one.
"""
import random
import select
import socket
import struct
import sys
import time

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import hpack

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
PATIENCE = 60
CALM = h2.errors.ErrorCodes.ENHANCE_YOUR_CALM


def request(path, method="GET", extra=()):
    return [(":method", method), (":scheme", "http"), (":authority", "a"), (":path", path), *extra]


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def connect(port):
    sock = socket.create_connection(("127.0.0.1", port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


class Peer:
    """A connection by the h2 library; what happens to each stream is kept.

    A first request leaves with the preface, right after connecting."""

    def __init__(self, port, first=None, extra=()):
        config = h2.config.H2Configuration(client_side=True, header_encoding="utf-8", validate_outbound_headers=False, normalize_outbound_headers=False)
        self.conn = h2.connection.H2Connection(config=config)
        self.conn.initiate_connection()
        self.heads, self.bodies, self.ended, self.resets, self.interim = {}, {}, set(), {}, []
        self.hints, self.trailers = [], {}
        self.goaways, self.closed, self.out, self.pings, self.asked, self.window = [], False, b"", 0, 0, True
        self.first = self.open(first, extra=extra) if first else None
        self.sock = connect(port)
        self.sock.setblocking(False)
        if first:
            self.turn()

    def turn(self, wait=0.05):
        """Send what there is, take what comes."""
        self.out += self.conn.data_to_send()
        reads, writes, _ = select.select([self.sock], [self.sock] if self.out else [], [], wait)
        if writes:
            try:
                self.out = self.out[self.sock.send(self.out):]
            except OSError:
                self.closed = True
        if reads:
            try:
                data = self.sock.recv(65536)
            except OSError:
                data = b""
            if not data:
                self.closed = True
                return
            try:
                for event in self.conn.receive_data(data):
                    self.take(event)
            except h2.exceptions.ProtocolError as problem:
                # After GOAWAY the library takes nothing more.
                if self.conn.state_machine.state != h2.connection.ConnectionState.CLOSED:
                    raise problem
                self.closed = True

    def take(self, event):
        if isinstance(event, h2.events.ResponseReceived):
            self.heads[event.stream_id] = dict(event.headers)
        elif isinstance(event, h2.events.InformationalResponseReceived):
            self.interim.append(dict(event.headers)[":status"])
            self.hints.append(dict(event.headers))
        elif isinstance(event, h2.events.TrailersReceived):
            self.trailers[event.stream_id] = list(event.headers)
        elif isinstance(event, h2.events.DataReceived):
            self.bodies.setdefault(event.stream_id, bytearray()).extend(event.data)
            if self.window:
                self.conn.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            self.ended.add(event.stream_id)
        elif isinstance(event, h2.events.StreamReset) and event.remote_reset:
            self.resets[event.stream_id] = event.error_code
        elif isinstance(event, h2.events.ConnectionTerminated):
            self.goaways.append((event.error_code, event.last_stream_id))
        elif isinstance(event, h2.events.PingAckReceived):
            self.pings += 1
        elif isinstance(event, h2.events.PingReceived):
            self.asked += 1

    def until(self, what, condition):
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, "waited in vain for " + what
            assert not self.closed, "closed while waiting for %s: %r" % (what, self.goaways)
            self.turn()

    def open(self, path, method="GET", end=True, extra=()):
        stream = self.conn.get_next_available_stream_id()
        self.conn.send_headers(stream, request(path, method, extra), end_stream=end)
        return stream

    def done(self, stream):
        return stream in self.ended or stream in self.resets

    def get(self, path, **kw):
        return self.answer(self.open(path, **kw), path)

    def answer(self, stream, path):
        self.until(path, lambda: self.done(stream))
        assert stream not in self.resets, "%s was reset: %r" % (path, self.resets[stream])
        return self.heads[stream], self.bodies.get(stream, b"")

    def until_closed(self):
        end = time.monotonic() + PATIENCE
        while not self.closed:
            assert time.monotonic() < end, "the server does not close"
            self.turn()


class Raw:
    """A connection by frames: for what a library would not send, or not accept."""

    def __init__(self, port):
        self.sock = connect(port)
        self.sock.setblocking(False)
        self.encoder, self.decoder = hpack.Encoder(), hpack.Decoder()
        self.out, self.input, self.closed = PREFACE + frame(4, 0, 0), b"", False
        self.heads, self.bodies, self.ended, self.goaways = {}, {}, set(), []

    def turn(self, wait=0.05):
        reads, writes, _ = select.select([self.sock], [self.sock] if self.out else [], [], wait)
        try:
            if writes:
                self.out = self.out[self.sock.send(self.out):]
            data = self.sock.recv(65536) if reads else None
        except OSError:
            data = b""
        if data == b"":
            self.closed = True
        self.input += data or b""
        while len(self.input) >= 9:
            size = int.from_bytes(self.input[:3], "big")
            if len(self.input) < 9 + size:
                break
            kind, flags, stream = self.input[3], self.input[4], int.from_bytes(self.input[5:9], "big")
            payload, self.input = self.input[9:9 + size], self.input[9 + size:]
            if kind == 1:
                self.heads[stream] = dict(self.decoder.decode(payload))
            elif kind == 0:
                self.bodies[stream] = self.bodies.get(stream, b"") + payload
            elif kind == 7:
                last, code = struct.unpack(">II", payload[:8])
                self.goaways.append((code, last))
            elif kind == 4 and not flags:
                self.out += frame(4, 1, 0)
            elif kind == 6 and not flags:
                self.out += frame(6, 1, 0, payload)
            if kind in (0, 1) and flags & 1:
                self.ended.add(stream)

    def until(self, what, condition):
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, "waited in vain for " + what
            assert not self.closed, "closed while waiting for " + what
            self.turn()

    def open(self, stream, path):
        self.out += frame(1, 5, stream, self.encoder.encode(request(path)))

    def until_closed(self):
        end = time.monotonic() + PATIENCE
        while not self.closed:
            assert time.monotonic() < end, "the server does not close"
            self.turn()


def check_alive(port):
    head, body = Peer(port).get("/hello")
    assert head[":status"] == "200" and body == b"hello\n", (head, body)


# Answers -------------------------------------------------------------------------------


def hello(port, rng):
    peer = Peer(port)
    for _ in range(3):
        head, body = peer.get("/hello")
        assert head[":status"] == "200" and body == b"hello\n"
        assert head["content-length"] == "6" and head["server"] == "heddle" and "date" in head
        for name in ("connection", "transfer-encoding", "keep-alive", "upgrade"):
            assert name not in head, head
    assert peer.get("/fields")[0]["x-mixed-case"] == "kept"
    assert peer.get("/nowhere")[0][":status"] == "404"
    head, body = peer.get("/hello", method="HEAD")
    assert head["content-length"] == "6" and body == b""
    head, body = peer.get("/stream", method="HEAD")
    assert "content-length" not in head and body == b""
    for status in ("204", "304"):
        head, body = peer.get("/" + status)
        assert head[":status"] == status and body == b"" and "content-length" not in head
    assert peer.get("/stream")[1] == b"one two three"
    assert peer.get("/file")[1] == bytes(i % 251 for i in range(200000))
    assert peer.get("/ready")[1] == b"ready\n"
    assert peer.get("/ready", method="HEAD")[1] == b""
    assert peer.get("/big")[1] == b"x" * 3000000
    assert peer.get("/throw")[0][":status"] == "500"
    assert peer.get("/unsafe")[0][":status"] == "500"
    assert peer.get("/forbidden")[0][":status"] == "500"
    assert peer.get("/tunnel")[0][":status"] == "501"
    stream = peer.open("/torn")
    peer.until("reset", lambda: peer.done(stream))
    assert peer.resets[stream] == h2.errors.ErrorCodes.INTERNAL_ERROR
    cookies = [("cookie", "a=1"), ("cookie", "b=2"), ("x-one", "1")]
    text = peer.get("/seen", extra=cookies)[1].decode()
    assert "cookie: a=1; b=2" in text and "host: a" in text and "x-one: 1" in text and text.startswith("2.0 GET /seen"), text


def inside(port, rng):
    """Builders, sized streams, replies from inside the handler."""
    peer = Peer(port)
    head, body = peer.get("/small")
    assert head["content-length"] == "5" and body == b"small"
    assert peer.get("/small", method="HEAD")[0]["content-length"] == "5"
    head, body = peer.get("/built")
    assert "content-length" not in head and body == b"0123456789" * 20000
    head, body = peer.get("/sized")
    assert head["content-length"] == "10" and body == b"1234567890"
    head, body = peer.get("/built-of")
    assert head["content-length"] == "200000" and body == b"0123456789" * 20000
    assert peer.get("/built-of", method="HEAD")[0]["content-length"] == "200000"
    assert peer.get("/now")[1] == b"now"
    assert peer.get("/goes-on")[1] == b"refused"
    for path in ("/failing", "/never"):
        assert peer.get(path)[0][":status"] == "500"
    for path in ("/wrong", "/built-wrong", "/abort", "/short"):
        stream = peer.open(path)
        peer.until("reset", lambda: peer.done(stream))
        assert peer.resets[stream] == h2.errors.ErrorCodes.INTERNAL_ERROR, (path, peer.resets[stream])
    for extra, left in (([("content-length", "12")], b"Just 12"), ([], b"Nothing")):
        stream = peer.open("/left", method="POST", end=False, extra=extra)
        peer.until("an answer", lambda: stream in peer.ended)
        assert peer.bodies[stream] == left
    assert peer.get("/left")[1] == b"Just 0"
    raw = Raw(port)
    raw.open(1, "/close")
    raw.until_closed()
    assert raw.bodies[1] == b"closing" and raw.goaways == [(0, 1)], raw.goaways


def bodies(port, rng):
    peer = Peer(port)
    stream = peer.open("/echo", method="POST", end=False)
    peer.conn.send_data(stream, b"abc")
    peer.conn.send_headers(stream, [("x-trailer", "dropped")], end_stream=True)
    peer.until("echo", lambda: peer.done(stream))
    assert peer.bodies[stream] == b"abc"
    # Expect: nothing is sent before 100.
    stream = peer.open("/echo", method="POST", end=False, extra=[("expect", "100-continue"), ("content-length", "4")])
    peer.until("100", lambda: peer.interim)
    assert peer.interim == ["100"]
    peer.conn.send_data(stream, b"body", end_stream=True)
    peer.until("echo", lambda: peer.done(stream))
    assert peer.bodies[stream] == b"body"
    assert peer.get("/echo", method="POST", extra=[("expect", "something")])[0][":status"] == "417"
    # Too large, by its length and while it is read.
    stream = peer.open("/whole", method="POST", end=False, extra=[("content-length", "9000000")])
    peer.until("413", lambda: stream in peer.heads)
    assert peer.heads[stream][":status"] == "413"
    # A reply to an upload that is not read: the rest is refused without error.
    stream = peer.open("/hello", method="POST", end=False)
    peer.conn.send_data(stream, b"x" * 16000)
    peer.conn.send_data(stream, b"x" * 16000)
    peer.conn.send_data(stream, b"x" * 16000)
    peer.until("the refusal", lambda: stream in peer.resets)
    assert peer.bodies[stream] == b"hello\n" and peer.resets[stream] == 0
    assert peer.get("/hello")[1] == b"hello\n"


def head_first(port, rng):
    """A client may send its body only when it has the head."""
    peer = Peer(port)
    for path in ("/echo", "/echo-now"):
        stream = peer.open(path, method="POST", end=False)
        peer.until("the head", lambda: stream in peer.heads)
        peer.conn.send_data(stream, b"late", end_stream=True)
        peer.until("echo", lambda: peer.done(stream))
        assert peer.bodies[stream] == b"late", path


def late_end(port, rng):
    """A request that ends after its reply is followed by a PING; others are not."""
    for ending in (lambda s: peer.conn.send_data(s, b"x", end_stream=True), lambda s: peer.conn.send_data(s, b"", end_stream=True),
                   lambda s: peer.conn.send_headers(s, [("x-trailer", "dropped")], end_stream=True)):
        peer = Peer(port)
        stream = peer.open("/hello", method="POST", end=False)
        peer.until("the reply", lambda: stream in peer.ended)
        assert peer.asked == 0
        ending(stream)
        peer.until("a PING", lambda: peer.asked == 1)
        assert peer.get("/echo", method="POST")[0][":status"] == "200"
        assert peer.asked == 1 and not peer.goaways


def trailers(port, rng):
    peer = Peer(port)

    def trailing(path, **kw):
        stream = peer.open(path, **kw)
        peer.until(path, lambda: peer.done(stream))
        assert stream not in peer.resets, (path, peer.resets[stream])
        return bytes(peer.bodies.get(stream, b"")), peer.trailers.get(stream)

    both = [("grpc-status", "0"), ("x-two", "2")]
    assert trailing("/trailers") == (b"body", both)
    assert trailing("/trailers?alone") == (b"", both)
    assert trailing("/trailers?sized") == (b"body", both)
    # None of these may stand behind the content.
    assert trailing("/trailers?early") == (b"body", None)
    assert trailing("/trailers", method="HEAD") == (b"", None)
    # Large content first: the trailers wait for the windows.
    content, fields = trailing("/trailers?big")
    assert len(content) == 300000 and fields == both, (len(content), fields)
    for path in ("/trailers?bad", "/trailers?many"):
        stream = peer.open(path)
        peer.until("reset", lambda: peer.done(stream))
        assert peer.resets[stream] == h2.errors.ErrorCodes.INTERNAL_ERROR, path


def hints(port, rng):
    peer = Peer(port)
    stream = peer.open("/hints")
    peer.until("hints", lambda: len(peer.hints) == 2)
    # Before the reply, which waits for the suite.
    assert stream not in peer.heads
    print("hinted", flush=True)
    peer.until("an answer", lambda: peer.done(stream))
    assert peer.hints == [{":status": "103", "link": "</a>; rel=preload"}, {":status": "103", "link": "<" + "b" * 5000 + ">"}], peer.hints
    assert peer.heads[stream][":status"] == "200" and peer.bodies[stream] == b"hinted"
    assert peer.get("/hints?bad")[1] == b"refused"
    assert len(peer.hints) == 2


def send_all(peer, left, rng):
    """Send bodies, in random pieces of random streams, as the windows allow."""
    for stream in rng.sample(list(left), len(left)):
        if stream in peer.resets or peer.conn.streams.get(stream) is None:
            del left[stream]
            continue
        room = min(peer.conn.local_flow_control_window(stream), peer.conn.max_outbound_frame_size, rng.randint(1, 40000))
        piece, rest = left[stream][:room], left[stream][room:]
        if piece or not left[stream]:
            peer.conn.send_data(stream, piece, end_stream=not rest)
            if rest:
                left[stream] = rest
            else:
                del left[stream]


def interleave(port, rng):
    peer = Peer(port)
    sizes = [0, 1, 16384, 65535, 65536, rng.randint(0, 1000000)] + [rng.randint(0, 100000) for _ in range(14)]
    bodies, left = {}, {}
    for size in sizes:
        stream = peer.open(rng.choice(["/echo", "/whole"]), method="POST", end=False)
        bodies[stream] = left[stream] = rng.randbytes(size)
    end = time.monotonic() + PATIENCE
    while left or not all(peer.done(s) for s in bodies):
        assert time.monotonic() < end, "stuck: %r" % (sorted(set(bodies) - peer.ended),)
        if left and len(peer.out) < 100000:
            send_all(peer, left, rng)
        peer.turn(0.001 if left else 0.05)
        assert not peer.closed
    for stream, body in bodies.items():
        assert peer.bodies.get(stream, b"") == body, (stream, len(body))


def splits(port, rng):
    """The same bytes, however they are cut."""
    encoder = hpack.Encoder()
    raw, expected = PREFACE + frame(4, 0, 0), {}
    for stream in range(1, 13, 2):
        body = rng.randbytes(rng.randint(0, 400))
        head = encoder.encode(request("/echo", "POST", [("x-n", str(stream))]))
        at = rng.randint(0, len(head))
        raw += frame(1, 0, stream, head[:at]) + frame(9, 4, stream, head[at:])
        at = rng.randint(0, len(body))
        raw += frame(0, 8, stream, b"\5" + body[:at] + bytes(5)) + frame(0, 1, stream, body[at:])
        raw += frame(6, 0, 0, bytes(8)) + frame(2, 0, stream, struct.pack(">IB", 0, 9))
        expected[stream] = body
    for piece in (1, rng.randint(2, 40), rng.randint(40, 1000), len(raw)):
        peer = Peer(port)
        peer.conn.data_to_send()
        for stream in expected:
            # Tells the library of streams that the bytes above open.
            peer.conn.send_headers(stream, request("/echo", "POST"), end_stream=True)
        peer.conn.data_to_send()
        peer.sock.setblocking(True)
        at = 0
        while at < len(raw):
            n = piece if piece < 3 or rng.random() < 0.5 else rng.randint(1, piece)
            peer.sock.sendall(raw[at:at + n])
            at += n
        peer.sock.setblocking(False)
        peer.until("all answers", lambda: all(peer.done(s) for s in expected))
        assert {s: peer.bodies.get(s, b"") for s in expected} == expected
        peer.until("the answers to PING", lambda: peer.pings == 6)


def resets(port, rng):
    """Streams given up at any point; the others do not notice."""
    peer = Peer(port)
    for _ in range(3):
        bodies, left, given_up = {}, {}, set()
        for _ in range(20):
            path = rng.choice(["/echo", "/whole", "/big", "/wait", "/endless"])
            stream = peer.open(path, method="POST", end=False)
            bodies[stream] = left[stream] = rng.randbytes(rng.randint(0, 60000))
            if path in ("/wait", "/endless", "/big") or rng.random() < 0.5:
                given_up.add(stream)
        waiting = sorted(given_up)
        rng.shuffle(waiting)
        end = time.monotonic() + PATIENCE
        while waiting or not all(peer.done(s) for s in bodies if s not in given_up):
            assert time.monotonic() < end
            send_all(peer, left, rng)
            if waiting and rng.random() < 0.3:
                stream = waiting.pop()
                left.pop(stream, None)
                try:
                    peer.conn.reset_stream(stream, 8)
                except h2.exceptions.ProtocolError:
                    pass  # it has ended meanwhile
            peer.turn(0.002)
            assert not peer.closed
        for stream, body in bodies.items():
            if stream not in given_up:
                assert peer.bodies.get(stream, b"") == body
    assert peer.get("/hello")[1] == b"hello\n"


def vanish(port, rng):
    """The client goes away at any point."""
    peer = Peer(port)
    for _ in range(rng.randint(1, 10)):
        stream = peer.open(rng.choice(["/wait", "/endless", "/echo", "/big"]), method="POST", end=False)
        peer.conn.send_data(stream, bytes(1000))
    for _ in range(rng.randint(0, 5)):
        peer.turn(0.005)
    if rng.random() < 0.5:
        peer.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.sock.close()


# Flow control ----------------------------------------------------------------------------


def stalled(port, rng):
    """A reply waits for the window; other streams do not."""
    peer = Peer(port)
    peer.window = False
    stream = peer.open("/big")
    peer.until("the window", lambda: len(peer.bodies.get(stream, b"")) == 65535)
    peer.conn.ping(bytes(8))
    peer.until("a ping", lambda: peer.pings == 1)
    peer.conn.increment_flow_control_window(1000000)
    assert peer.get("/hello")[1] == b"hello\n"
    peer.window = True
    peer.conn.increment_flow_control_window(2000000, stream)
    peer.conn.increment_flow_control_window(2000000)
    peer.until("the rest", lambda: peer.done(stream))
    assert peer.bodies[stream] == b"x" * 3000000


def one_byte_windows(port, rng):
    peer = Peer(port)
    peer.window = False
    peer.conn.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0})
    peer.until("settings", lambda: peer.conn.local_settings.initial_window_size == 0)
    stream = peer.open("/hello")
    for n in range(1, 7):
        peer.conn.increment_flow_control_window(1, stream)
        peer.until("a byte", lambda: len(peer.bodies.get(stream, b"")) == n)
    peer.until("the end", lambda: peer.done(stream))
    assert peer.bodies[stream] == b"hello\n"


def closed_windows(port, rng):
    """Replies that wait for a window; the suite looks what they hold meanwhile."""
    peer = Peer(port)
    peer.window = False
    peer.conn.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0})
    peer.until("settings", lambda: peer.conn.local_settings.initial_window_size == 0)
    paths = ["/file", "/forty", "/forty", "/forty"]
    streams = [peer.open(paths[n % 4]) for n in range(320)]
    peer.until("the heads", lambda: all(stream in peer.heads for stream in streams))
    peer.conn.ping(bytes(8))
    peer.until("a ping", lambda: peer.pings == 1)
    print("waiting", flush=True)
    sys.stdin.readline()
    # In steps of any size, in any order; the last ones of all streams at once, by the initial window.
    peer.conn.increment_flow_control_window(2000000000)
    for stream in rng.sample(streams, 60):
        peer.conn.increment_flow_control_window(rng.choice([1, 100, 5000, 70000]), stream)
        peer.turn(0)
    peer.conn.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 4000000})
    peer.until("the ends", lambda: all(peer.done(stream) for stream in streams))
    file = bytes(n % 251 for n in range(200000))
    wanted = {"/file": bytes(range(100)) + file[100:], "/forty": b"f" * 40000}
    for n, stream in enumerate(streams):
        assert stream in peer.ended, (n, peer.resets)
        assert bytes(peer.bodies[stream]) == wanted[paths[n % 4]], n
    # Streams that are given up while they wait leave nothing behind.
    peer.conn.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0})
    peer.until("settings", lambda: peer.conn.local_settings.initial_window_size == 0)
    streams = [peer.open(paths[n % 4]) for n in range(40)]
    peer.until("the heads", lambda: all(stream in peer.heads for stream in streams))
    for stream in streams[:20]:
        peer.conn.reset_stream(stream, h2.errors.ErrorCodes.CANCEL)
    peer.conn.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 300000})
    peer.until("the other ends", lambda: all(peer.done(stream) for stream in streams[20:]))
    assert peer.get("/left")[0][":status"] == "200"


def never_reads(port, rng):
    """Streams whose client takes nothing are reset (the suite has made the pace short)."""
    peer = Peer(port)
    peer.window = False
    large = peer.open("/big")
    peer.until("the window", lambda: len(peer.bodies.get(large, b"")) == 65535)
    small = peer.open("/forty")
    peer.until("resets", lambda: large in peer.resets and small in peer.resets)
    peer.conn.increment_flow_control_window(100000)
    assert peer.get("/hello")[1] == b"hello\n"


# Limits --------------------------------------------------------------------------------


def many_fields(port, rng):
    peer = Peer(port)
    assert peer.get("/hello", extra=[("x%d" % i, "") for i in range(140)])[0][":status"] == "431"
    assert peer.get("/hello", extra=[("x%d" % i, "y" * 3000) for i in range(12)])[0][":status"] == "431"
    stream = peer.open("/hello", method="HEAD", extra=[("x%d" % i, "") for i in range(140)])
    peer.until("431", lambda: peer.done(stream))
    assert peer.get("/hello?" + "q" * 9000)[0][":status"] == "414"
    assert peer.get("/hello", extra=[("host", "b")])[0][":status"] == "400"
    assert peer.get("/hello", extra=[("host", "A")])[0][":status"] == "200"
    for bad in ([("connection", "close")], [("transfer-encoding", "chunked")], [("upgrade", "x")], [("te", "gzip")],
                [("X-Upper", "x")], [(":late", "x")], [("x", "a\rb")], [("x", "a\0b")]):
        stream = peer.open("/hello", extra=bad)
        peer.until("a reset", lambda: peer.done(stream))
        assert peer.resets.get(stream) == 1, (bad, peer.heads.get(stream))
    assert peer.get("/hello")[1] == b"hello\n"


def flood(port, pieces, others=()):
    """Write until the server has had enough; what it answers is read at the same time. It says CALM, or one of the others."""
    peer = Raw(port)
    for piece in pieces:
        peer.out += piece
        while len(peer.out) > 20000 and not peer.closed:
            peer.turn(0.001)
        if peer.closed or peer.goaways:
            break
    peer.until_closed()
    # The GOAWAY may be lost, because the server closes while this side still sends.
    assert [code for code, _ in peer.goaways] in ([CALM], [], *([other] for other in others)), peer.goaways
    check_alive(port)


def rapid_reset(port, rng):
    head = hpack.Encoder().encode(request("/wait"))
    flood(port, (frame(1, 5, s, head) + frame(3, 0, s, struct.pack(">I", 8)) for s in range(1, 3001, 2)))


def provoked_reset(port, rng):
    """Bodies that are shorter than announced."""
    head = hpack.Encoder().encode(request("/wait", "POST", [("content-length", "5")]))
    flood(port, (frame(1, 4, s, head) + frame(0, 1, s, b"x") for s in range(1, 3001, 2)))


def overflowing_windows(port, rng):
    """An error of the stream, and since some release of libnghttp2 (seen in 1.70) of the connection: code 3."""
    head = hpack.Encoder().encode(request("/wait"))
    flood(port, (frame(1, 5, s, head) + frame(8, 0, s, struct.pack(">I", 2**31 - 1)) for s in range(1, 3001, 2)), [3])


def ping_flood(port, rng):
    flood(port, (frame(6, 0, 0, bytes(8)) for _ in range(100000)))


def settings_flood(port, rng):
    flood(port, (frame(4, 0, 0) for _ in range(100000)))


def empty_data(port, rng):
    head = hpack.Encoder().encode(request("/wait", "POST"))
    flood(port, [frame(1, 4, 1, head)] + [frame(0, 0, 1) * 1000] * 2000)


def window_updates(port, rng):
    flood(port, [frame(8, 0, 0, struct.pack(">I", 1)) * 1000] * 2000)


def priority_flood(port, rng):
    flood(port, [frame(2, 0, 3, bytes(5)) * 1000] * 2000)


def continuations(port, rng):
    sock = connect(port)
    sock.sendall(PREFACE + frame(4, 0, 0) + frame(1, 0, 1, hpack.Encoder().encode(request("/hello"))))
    try:
        for _ in range(20000):
            sock.sendall(frame(9, 0, 1, b"\x00\x01a\x01b"))
        sock.settimeout(PATIENCE)
        while sock.recv(65536):
            pass
    except OSError:
        pass
    check_alive(port)


def too_many(port, rng):
    """More streams than announced: refused, and those that were announced are answered."""
    peer = Peer(port)
    peer.until("settings", lambda: peer.conn.remote_settings.max_concurrent_streams == 100)
    for _ in range(100):
        peer.open("/wait")
    peer.turn()
    extra = peer.conn.get_next_available_stream_id()
    peer.out += peer.conn.data_to_send() + frame(1, 5, extra, peer.conn.encoder.encode(request("/hello")))
    end = time.monotonic() + PATIENCE
    while not peer.goaways and not peer.closed:
        assert time.monotonic() < end
        peer.turn()
    check_alive(port)


def stubborn(port, rng):
    """Handlers that do not end when their stream is reset count on."""
    peer = Peer(port)
    streams = [peer.open("/stubborn") for _ in range(100)]
    peer.turn()
    print("opened", flush=True)
    assert sys.stdin.readline()
    for stream in streams:
        peer.conn.reset_stream(stream)
    stream = peer.open("/hello")
    peer.until("a refusal", lambda: peer.done(stream))
    assert peer.resets.get(stream) == h2.errors.ErrorCodes.REFUSED_STREAM, (peer.resets.get(stream), peer.heads.get(stream))
    print("refused", flush=True)
    assert sys.stdin.readline()
    assert peer.get("/hello")[1] == b"hello\n"


# Deadlines, draining --------------------------------------------------------------------


def incomplete_head(port, rng):
    """The suite has made the deadline of heads short."""
    # A request that is refused is not an incomplete one: the connection outlives the deadline.
    peer = Peer(port, "/hello", [("connection", "close")])
    peer.until("a reset", lambda: peer.done(peer.first))
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        assert peer.get("/hello")[1] == b"hello\n"
    assert peer.get("/hello")[1] == b"hello\n"
    peer.out += frame(1, 1, 2**31 - 1, hpack.Encoder().encode(request("/hello"))[:3])
    peer.until_closed()
    sock = connect(port)
    sock.sendall(PREFACE)
    sock.settimeout(PATIENCE)
    while sock.recv(65536):
        pass


def idle(port, rng):
    """The suite has made the idle deadline short; PING does not extend it."""
    peer = Peer(port, "/hello")
    assert peer.answer(peer.first, "/hello")[1] == b"hello\n"
    end, due = time.monotonic() + PATIENCE, 0
    while not peer.closed:
        assert time.monotonic() < end
        if not peer.goaways and time.monotonic() > due:
            peer.conn.ping(bytes(8))
            due = time.monotonic() + 0.02
        peer.turn(0.02)
    assert [code for code, _ in peer.goaways] == [0], peer.goaways


def rests(port, connections, requests, fields):
    """Connections that idle; the suite looks what they hold. The tables of both sides must be as before."""
    peers = [Peer(port) for _ in range(connections)]

    def ask(n):
        extra = fields(n)
        for peer, stream in [(peer, peer.open("/seen", extra=extra)) for peer in peers]:
            body = bytes(peer.answer(stream, "/seen")[1]).decode()
            assert all("%s: %s" % field in body for field in extra), (extra, body)

    for peer in peers:
        peer.until("SETTINGS", lambda: peer.conn.remote_settings.max_concurrent_streams == 100)
        peer.conn.ping(bytes(8))
        peer.until("a ping", lambda: peer.pings == 1)
    for n in range(requests):
        ask(n)
    print(connections, flush=True)
    sys.stdin.readline()
    for n in (0, max(0, requests - 1)):
        ask(n)
    print("answered", flush=True)
    sys.stdin.readline()


BROWSER = [
    ("user-agent", "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"), ("accept", "text/css,*/*;q=0.1"),
    ("accept-language", "en-GB,en;q=0.5"), ("accept-encoding", "gzip, deflate, br, zstd"), ("referer", "https://www.example.org/index.html"),
    ("cookie", "session=0123456789abcdef0123456789abcdef"), ("sec-fetch-dest", "style"), ("sec-fetch-mode", "no-cors"),
    ("sec-fetch-site", "same-origin"), ("te", "trailers")]


def rests_unused(port, rng):
    rests(port, 100, 0, lambda n: [])


def rests_used(port, rng):
    rests(port, 100, 9, lambda n: BROWSER)


def rests_full(port, rng):
    """As many fields as find room, and those that push them out."""
    rests(port, 20, 100, lambda n: BROWSER + [("x-some-%d" % (n % 70), "%d of some fields" % n)])


def slow_body(port, rng):
    """The suite has made the pace of bodies short."""
    peer = Peer(port)
    stream = peer.open("/whole", method="POST", end=False)
    peer.until("408", lambda: stream in peer.heads)
    assert peer.heads[stream][":status"] == "408"


def drain(port, rng):
    peer, idle_peer = Raw(port), Raw(port)
    idle_peer.open(1, "/hello")
    idle_peer.until("an answer", lambda: 1 in idle_peer.ended)
    peer.open(1, "/gate")
    peer.open(3, "/hello")
    peer.until("an answer", lambda: 3 in peer.ended)
    print("waiting", flush=True)
    assert sys.stdin.readline()
    # The next request finds the server draining: it is answered, and the end is announced.
    peer.open(5, "/hello")
    peer.until("the notice", lambda: peer.goaways)
    assert peer.goaways[0] == (0, 2**31 - 1), peer.goaways
    peer.until("an answer", lambda: 5 in peer.ended)
    # Then streams are refused; those under way are finished.
    peer.until("the last stream", lambda: len(peer.goaways) > 1)
    assert peer.goaways[1] == (0, 5), peer.goaways
    peer.open(7, "/hello")
    peer.turn()
    print("told", flush=True)
    peer.until_closed()
    assert 1 in peer.ended and 7 not in peer.heads, (peer.ended, peer.heads)
    idle_peer.until_closed()
    assert idle_peer.goaways[-1] == (0, 1), idle_peer.goaways


def waits(port, rng):
    peer = Peer(port)
    peer.open("/wait")
    peer.open("/endless")
    assert peer.get("/hello")[1] == b"hello\n"
    print("waiting", flush=True)
    peer.until_closed()


# HTTP/1 ----------------------------------------------------------------------------------


def converse(port, data):
    sock = connect(port)
    sock.settimeout(PATIENCE)
    sock.sendall(data)
    sock.shutdown(socket.SHUT_WR)
    got = b""
    try:
        while True:
            piece = sock.recv(65536)
            if not piece:
                return got
            got += piece
    except ConnectionResetError:
        return got


def late_preface(port, rng):
    get = b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n"
    got = converse(port, get + PREFACE + frame(4, 0, 0))
    assert got.startswith(b"HTTP/1.1 200") and b"HTTP/1.1 505" in got, got
    got = converse(port, PREFACE[:16] + b"\r\nxx\r\n\r\n")
    assert got.startswith(b"HTTP/1.1 505") or b"HTTP/1.1" not in got, got
    sock = connect(port)
    sock.sendall(get)
    assert sock.recv(65536).startswith(b"HTTP/1.1 200")
    sock.sendall(PREFACE)
    assert sock.recv(65536).startswith(b"HTTP/1.1 505")
    got = converse(port, b"GET /hello HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAAA\r\n\r\n")
    assert got.startswith(b"HTTP/1.1 200"), got


def turned_off(port, rng):
    assert converse(port, PREFACE + frame(4, 0, 0)).startswith(b"HTTP/1.1 505")


if __name__ == "__main__":
    globals()[sys.argv[2]](int(sys.argv[1]), random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 0))
