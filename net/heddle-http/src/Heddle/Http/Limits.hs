-- |
-- Module      : Heddle.Http.Limits
-- Description : How large a request may be
-- Stability   : hidden; "Heddle.Http" exports it
--
-- Cost: none; values.
-- Owner: values.
module Heddle.Http.Limits
  ( Limits (..),
    defaultLimits,
  )
where

-- | The largest request a server accepts; every size is in bytes.
data Limits = Limits
  { -- | Longest target; a longer one is answered 414.
    limitTarget :: !Int,
    -- | Longest head, request line and empty lines included; beyond it, 414 in
    -- the request line and 431 later.
    limitHeadBytes :: !Int,
    -- | Most header lines; beyond it, 431. The table's capacity is a limit too.
    limitHeaders :: !Int,
    -- | Longest body, whatever its framing; a longer one is answered 413.
    limitBody :: !Int,
    -- | Longest trailer section of a chunked body; beyond it, 431.
    limitTrailers :: !Int,
    -- | Chunk extensions in excess of what the data allows; beyond it, 400.
    limitChunkExtensions :: !Int
  }
  deriving stock (Eq, Show)

-- | Target 8,000, head 16,384, 100 headers, body 1 GiB, trailers 8,192, chunk
-- extensions 4,096.
--
-- [Cost]: none.
-- [Source]: RFC 9112, section 3, asks for targets of at least 8,000.
defaultLimits :: Limits
defaultLimits =
  Limits
    { limitTarget = 8000,
      limitHeadBytes = 16384,
      limitHeaders = 100,
      limitBody = 1073741824,
      limitTrailers = 8192,
      limitChunkExtensions = 4096
    }
