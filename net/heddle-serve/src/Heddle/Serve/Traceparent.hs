{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.Traceparent
-- Description : The traceparent header of W3C Trace Context
-- Stability   : internal, exempt from the version policy
--
-- Reads and writes the header that says which trace a request belongs to.
--
-- Cost: O(55 bytes).
-- Owner: values.
-- [Source]: W3C Trace Context, level 1, sections 3.2 and 4.3.
module Heddle.Serve.Traceparent
  ( Traceparent (..),
    parseTraceparent,
    renderTraceparent,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Char (isDigit)

-- | A request's place in a trace. The ids are hexadecimal digits in lower case, 32 and 16 of them, not all zero.
data Traceparent = Traceparent
  { traceId :: !ByteString,
    -- | Of the span that the request belongs to.
    traceParent :: !ByteString,
    -- | Whether the caller may have recorded it.
    traceSampled :: !Bool
  }
  deriving stock (Eq, Show)

-- | Read a header's value; 'Nothing' if it is not valid. Of a version later than 00 the fields known here are read.
--
-- >>> parseTraceparent "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"
-- Just (Traceparent {traceId = "0af7651916cd43dd8448eb211c80319c", traceParent = "00f067aa0ba902b7", traceSampled = True})
parseTraceparent :: ByteString -> Maybe Traceparent
parseTraceparent value
  | B.length value >= 55,
    C.index value 2 == '-' && C.index value 35 == '-' && C.index value 52 == '-',
    all (C.all isHex) [version, trace, parent, flags],
    version /= "ff",
    C.any (/= '0') trace && C.any (/= '0') parent,
    B.length value == 55 || (version /= "00" && C.index value 55 == '-') =
    Just (Traceparent trace parent (isOdd (C.last flags)))
  | otherwise = Nothing
  where
    part from n = B.take n (B.drop from value)
    version = part 0 2
    trace = part 3 32
    parent = part 36 16
    flags = part 53 2
    isHex c = isDigit c || (c >= 'a' && c <= 'f')
    -- A digit is as odd as its code; a letter, as the code less 1.
    isOdd c = odd (fromEnum c) == isDigit c

-- | Write it in version 00, with the one flag that this version has.
--
-- >>> renderTraceparent (Traceparent "0af7651916cd43dd8448eb211c80319c" "b7ad6b7169203331" False)
-- "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
renderTraceparent :: Traceparent -> ByteString
renderTraceparent (Traceparent trace parent sampled) = B.concat ["00-", trace, "-", parent, if sampled then "-01" else "-00"]
