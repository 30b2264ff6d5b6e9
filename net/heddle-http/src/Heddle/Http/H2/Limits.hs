-- |
-- Module      : Heddle.Http.H2.Limits
-- Description : Limits of HTTP/2 connections
-- Stability   : stable
--
-- HTTP/2 gives a client cheap ways to make a server work: streams reset as soon as they are
-- opened, empty frames, control frames that must be answered. Each has a limit. A client beyond
-- one is told ENHANCE_YOUR_CALM, and its connection ends.
--
-- Cost: read per connection.
-- Owner: immutable.
module Heddle.Http.H2.Limits
  ( Http2Limits (..),
    defaultHttp2Limits,
  )
where

-- | Limits of one HTTP/2 connection. Those of 'Heddle.Http.Limits' hold as well: a request's
-- head is checked by the same parser.
data Http2Limits = Http2Limits
  { -- | Streams open at once. One that the client has reset counts until its handler has ended.
    http2Streams :: !Int,
    -- | How much of a body a stream may send before the handler reads it.
    http2StreamWindow :: !Int,
    -- | The same for all streams together.
    http2ConnectionWindow :: !Int,
    -- | How much of a reply waits in memory for the client, per stream.
    http2Output :: !Int,
    -- | The size of a request's fields, each counted with 32 bytes more; beyond it, 431.
    http2HeaderList :: !Int,
    -- | How many fields; beyond it, 431.
    http2Fields :: !Int,
    -- | Streams reset by the client, or by the server because of what the client sent: how many at once.
    http2ResetBurst :: !Int,
    -- | How many more per second.
    http2ResetRate :: !Int,
    -- | PING and SETTINGS frames: how many at once.
    http2ControlBurst :: !Int,
    -- | How many more per second.
    http2ControlRate :: !Int,
    -- | An eighth of the bytes of all frames may exceed those that carry requests and content by
    -- this many: padding, empty frames, window updates.
    http2Useless :: !Int
  }
  deriving stock (Eq, Show)

-- | 100 streams, windows of 64 KB and 1 MB, 64 KB of output, 32 KB and 128 fields, 200 resets and
-- 20 per second, 1,000 control frames and 100 per second, 1 MB.
defaultHttp2Limits :: Http2Limits
defaultHttp2Limits =
  Http2Limits
    { http2Streams = 100,
      http2StreamWindow = 65535,
      http2ConnectionWindow = 1048576,
      http2Output = 65536,
      http2HeaderList = 32768,
      http2Fields = 128,
      http2ResetBurst = 200,
      http2ResetRate = 20,
      http2ControlBurst = 1000,
      http2ControlRate = 100,
      http2Useless = 1048576
    }
