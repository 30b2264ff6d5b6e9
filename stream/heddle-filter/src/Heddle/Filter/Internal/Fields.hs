-- |
-- Module      : Heddle.Filter.Internal.Fields
-- Description : Fields of rows
-- Stability   : internal, exempt from the version policy
--
-- Cost: linear in the row.
-- Owner: none; pure functions.
module Heddle.Filter.Internal.Fields
  ( selectFields,
    fieldOfEach,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Internal (fromForeignPtr, mallocByteString)
import Data.ByteString.Unsafe qualified as Bytes
import Data.Word (Word8)
import Foreign.C.Types (CInt (..))
import Foreign.ForeignPtr (withForeignPtr)
import Foreign.Ptr (Ptr, castPtr)
import Heddle.Filter.Internal.Types
import Heddle.Prim.Unsafe (unsafeDupable)

-- | @selectFields ranges separator between row@: the fields in these ranges, in this order, with
-- @between@ between them, and the row's newline. Missing fields are left out. Without a
-- separator, fields are separated by runs of blanks and tabs; those at the ends of the row are
-- ignored.
selectFields :: [FieldRange] -> Maybe ByteString -> ByteString -> ByteString -> ByteString
selectFields ranges separator between row = Bytes.intercalate between (concatMap chosen ranges) <> newline
  where
    (text, newline)
      | not (Bytes.null row) && Bytes.last row == 0x0a = (Bytes.init row, Bytes.singleton 0x0a)
      | otherwise = (row, Bytes.empty)
    fields = maybe (filter (not . Bytes.null) (Bytes.splitWith (\b -> b == 0x20 || b == 0x09) text)) (`splitOn` text) separator
    chosen (FieldRange from to) = maybe id (\t -> take (t - from + 1)) to (drop (from - 1) fields)

-- | The field of this number of each row, with the row's newline; without a separator as 'selectFields'.
--
-- [Cost]: linear in the rows; the result takes their room.
fieldOfEach :: Int -> Maybe Word8 -> ByteString -> ByteString
fieldOfEach number separator rows = unsafeDupable $ do
  memory <- mallocByteString (Bytes.length rows)
  n <- withForeignPtr memory $ \to -> Bytes.unsafeUseAsCStringLen rows $ \(from, size) ->
    c_field to (castPtr from) size number (maybe (-1) fromIntegral separator)
  pure (fromForeignPtr memory 0 n)

-- The separator is not empty.
splitOn :: ByteString -> ByteString -> [ByteString]
splitOn separator text
  | Bytes.length separator == 1 = if Bytes.null text then [text] else Bytes.split (Bytes.head separator) text
  | otherwise = case Bytes.breakSubstring separator text of
    (field, rest)
      | Bytes.null rest -> [field]
      | otherwise -> field : splitOn separator (Bytes.unsafeDrop (Bytes.length separator) rest)

-- Unsafe: computes on the memory of a block.
foreign import ccall unsafe "heddle_rows_field" c_field :: Ptr Word8 -> Ptr Word8 -> Int -> Int -> CInt -> IO Int
