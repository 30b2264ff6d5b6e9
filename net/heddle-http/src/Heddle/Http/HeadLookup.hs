{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Http.HeadLookup
-- Description : The values of headers, by name
-- Stability   : internal, exempt from the version policy
--
-- A header's value may stand on several lines of its name.
--
-- Cost: a copy of the value.
-- Owner: the owner of the table.
module Heddle.Http.HeadLookup
  ( lookupHeader,
    lookupKnown,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Char (toLower)
import Data.Word (Word8)
import Foreign.Ptr (Ptr)
import Heddle.Http.Head

-- | The value of the header of this name, in any case; that of several lines as 'lookupKnown' has it.
--
-- [Cost]: O(headers); allocates the copy. 'lookupKnown' is O(1).
lookupHeader :: Ptr Word8 -> HeadTable -> ByteString -> IO (Maybe ByteString)
lookupHeader buffer table name = combined name <$> foldHeaders table step []
  where
    step values spelt value = do
      same <- sliceEquals buffer spelt name
      if same then (: values) <$> copySlice buffer value else pure values

-- | The value of a header: that of its line, or those of several lines joined with @, @, which is what a list on several
-- lines means; lines of Cookie are joined with @; @, and of Set-Cookie, which is no list, the first is found. What may be
-- there only once becomes a value that is none of its kind, such as a Range of two units.
--
-- [Cost]: O(length of the value), with several lines O(headers) too; allocates the copy.
-- [Source]: RFC 9110, section 5.2; RFC 9113, section 8.2.3.
lookupKnown :: Ptr Word8 -> HeadTable -> KnownHeader -> IO (Maybe ByteString)
lookupKnown buffer table known = do
  count <- knownCount table known
  if count > 1
    then combinedKnown buffer table known
    else do
      i <- knownIndex table known
      if i < 0
        then pure Nothing
        else Just <$> (headerValue table i >>= copySlice buffer)
{-# INLINE lookupKnown #-}

combinedKnown :: Ptr Word8 -> HeadTable -> KnownHeader -> IO (Maybe ByteString)
combinedKnown buffer table known = combined (knownHeaderName known) <$> foldKnown table known (\values slice -> (: values) <$> copySlice buffer slice) []
{-# NOINLINE combinedKnown #-}

-- The value of lines of one name, the last one first. Lines of a list are one list, so the value is what RFC 9110, section 5.2 says:
-- theirs with commas between. The crumbs of Cookie that HTTP/2 allows are joined as RFC 9113, section 8.2.3 says, and lines of
-- Set-Cookie are never one.
combined :: ByteString -> [ByteString] -> Maybe ByteString
combined name values = case values of
  [] -> Nothing
  [value] -> Just value
  _
    | is "set-cookie" -> Just (last values)
    | otherwise -> Just (B.intercalate (if is "cookie" then "; " else ", ") (reverse (filter (not . B.null) values)))
  where
    is other = B.length name == B.length other && C.map toLower name == other
