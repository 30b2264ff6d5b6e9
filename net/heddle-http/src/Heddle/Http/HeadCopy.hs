-- |
-- Module      : Heddle.Http.HeadCopy
-- Description : A request's head, kept beyond its handler
-- Stability   : stable
--
-- A 'Heddle.Http.Request' is a view that ends with its handler. For interfaces whose requests live
-- longer and are read lazily, such as WAI's, a 'HeadCopy' is the head's bytes and the offsets of
-- its parts. Everything taken from it is a slice of these bytes, made when it is asked for.
--
-- Cost: copying is one allocation: the head's bytes, and 64 bytes with 20 for each header. A part
-- costs its slice.
-- Owner: immutable; any thread.
module Heddle.Http.HeadCopy
  ( HeadCopy,
    copyHead,

    -- * The request line
    copiedMethod,
    copiedMethodCode,
    copiedTarget,
    copiedForm,
    copiedPath,
    copiedQuery,
    copiedMinor,

    -- * Headers
    copiedHeader,
    copiedHeaders,
    copiedHeadersAs,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Internal (fromForeignPtr)
import Data.Int (Int32)
import Data.Primitive.ByteArray (ByteArray, indexByteArray, newPinnedByteArray, unsafeFreezeByteArray)
import Data.Primitive.Ptr (copyPtrToMutableByteArray)
import Heddle.Http.Head
import Heddle.Http.Request (Request (..), withHead)
import Heddle.Http.Workspace
import Heddle.Prim.Buffer (arrayBuffer, bufferForeign)
import Heddle.Prim.Unsafe (unsafeInlined)

-- | The offsets of a head's parts, as the parser's table has them, then the head's bytes. Pinned, so that slices need no
-- copy.
newtype HeadCopy = HeadCopy ByteArray

-- | Copy the head of a request, in its handler.
--
-- [Cost]: O(bytes); one allocation.
-- [Threads]: the handler's.
copyHead :: Request -> IO HeadCopy
copyHead request = withHead request $ \p table -> do
  added <- addedBytes ws
  -- Headers that were added stand behind the whole input.
  n <- if added == 0 then headLength table else (\base -> inputSize ws - base + added) <$> get ws WorkBase
  numbers <- numbersSize table
  copy <- newPinnedByteArray (numbers + n)
  copyNumbers table copy
  copyPtrToMutableByteArray copy numbers p n
  HeadCopy <$> unsafeFreezeByteArray copy
  where
    ws = requestWork request
{-# NOINLINE copyHead #-}

number :: HeadCopy -> Int -> Int
number (HeadCopy copy) i = fromIntegral (indexByteArray copy i :: Int32)
{-# INLINE number #-}

field :: HeadCopy -> Field -> Int
field copy = number copy . fromEnum
{-# INLINE field #-}

part :: HeadCopy -> Int -> Int -> ByteString
part copy@(HeadCopy array) offset = fromForeignPtr (bufferForeign memory (4 * copiedAt (field copy FieldHeaderCount) + offset)) 0
  where
    -- Nobody writes to it.
    memory = unsafeInlined (arrayBuffer array)
{-# INLINE part #-}

-- | The method; that of a known one is shared.
copiedMethod :: HeadCopy -> ByteString
copiedMethod copy
  | B.null known = part copy (field copy FieldMethodOffset) (field copy FieldMethodLength)
  | otherwise = known
  where
    known = methodName (copiedMethodCode copy)

-- | The method's code.
copiedMethodCode :: HeadCopy -> MethodCode
copiedMethodCode copy = MethodCode (field copy FieldMethod)

-- | The target, as sent.
copiedTarget :: HeadCopy -> ByteString
copiedTarget copy = part copy (field copy FieldTargetOffset) (field copy FieldTargetLength)

-- | The target's form.
copiedForm :: HeadCopy -> TargetForm
copiedForm copy = toEnum (field copy FieldTargetForm)

-- | The path, as sent (still escaped), without the query.
copiedPath :: HeadCopy -> ByteString
copiedPath copy = part copy (field copy FieldPathOffset) (field copy FieldPathLength)

-- | The query, as sent, from its question mark on; empty if there is none.
copiedQuery :: HeadCopy -> ByteString
copiedQuery copy = part copy from (field copy FieldTargetOffset + field copy FieldTargetLength - from)
  where
    from = field copy FieldPathOffset + field copy FieldPathLength

-- | The y of HTTP/1.y.
copiedMinor :: HeadCopy -> Int
copiedMinor copy = field copy FieldMinorVersion

-- | The first value of a well-known header.
--
-- [Cost]: O(headers).
copiedHeader :: KnownHeader -> HeadCopy -> Maybe ByteString
copiedHeader known copy = go 0
  where
    !count = field copy FieldHeaderCount
    go !i
      | i >= count = Nothing
      | number copy (copiedAt i + 4) == fromEnum known = Just (value copy i)
      | otherwise = go (i + 1)

-- | All header lines in order. The first function names well-known headers, the second the others,
-- as spelt.
--
-- [Cost]: O(headers).
copiedHeaders :: (KnownHeader -> name) -> (ByteString -> name) -> HeadCopy -> [(name, ByteString)]
copiedHeaders knownName = copiedHeadersAs (\known _ -> knownName known)
{-# INLINE copiedHeaders #-}

-- | 'copiedHeaders', where the first function is given the name as spelt, too.
--
-- [Cost]: O(headers).
copiedHeadersAs :: (KnownHeader -> ByteString -> name) -> (ByteString -> name) -> HeadCopy -> [(name, ByteString)]
copiedHeadersAs knownName name copy = go 0
  where
    !count = field copy FieldHeaderCount
    go !i
      | i >= count = []
      | code >= 0 = (knownName (toEnum code) asSpelt, value copy i) : go (i + 1)
      | otherwise = (name asSpelt, value copy i) : go (i + 1)
      where
        !at = copiedAt i
        !code = number copy (at + 4)
        asSpelt = part copy (number copy at) (number copy (at + 1))
{-# INLINE copiedHeadersAs #-}

value :: HeadCopy -> Int -> ByteString
value copy i = part copy (number copy (copiedAt i + 2)) (number copy (copiedAt i + 3))
