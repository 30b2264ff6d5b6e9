{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Walk.Find.Internal.Pattern
-- Description : Shell patterns over names in memory
-- Stability   : internal, exempt from the version policy
--
-- Matches a name where it lies, without copying it. The shapes that people type (a plain
-- name, @*suffix@, @prefix*@, @*infix*@) are compared byte by byte; all others go to
-- fnmatch(3), in the user's locale.
--
-- Cost: a few ns for the shapes, 100 to 500 ns for fnmatch(3).
-- Owner: values.
module Heddle.Walk.Find.Internal.Pattern
  ( Pattern,
    Fold (..),
    newPattern,
    matchPattern,
    Shape (..),
    patternShape,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Char8 qualified as Char8
import Data.ByteString.Internal qualified as Bytes (memcmp, toForeignPtr)
import Data.Word (Word8)
import Foreign.C.String (CString)
import Foreign.C.Types (CInt (..), CSize (..))
import Foreign.ForeignPtr (ForeignPtr, withForeignPtr)
import Foreign.Ptr (Ptr, castPtr, nullPtr, plusPtr)
import Heddle.Walk.Find.Internal.System (bytesCompare)

-- | Are small and capital letters the same?
data Fold = CaseMatters | CaseFolds
  deriving stock (Eq, Show)

-- | What a pattern comes down to.
data Shape
  = Everything
  | Literal !ByteString
  | Prefix !ByteString
  | Suffix !ByteString
  | Infix !ByteString
  | -- | A beginning and an end that may not overlap.
    Both !ByteString !ByteString
  | -- | Only fnmatch(3) knows.
    General
  deriving stock (Eq, Show)

-- | A pattern ready to be matched.
data Pattern = Pattern !Shape !Fold !(ForeignPtr Word8)

-- | Its shape, from which tests see whether it needs fnmatch(3).
patternShape :: Pattern -> Shape
patternShape (Pattern shape _ _) = shape

-- | Prepare a pattern.
--
-- [Cost]: O(n), once.
newPattern :: Fold -> ByteString -> IO Pattern
newPattern fold text = do
  plain <- bytesCompare
  let (memory, _, _) = Bytes.toForeignPtr (Bytes.copy (Bytes.snoc text 0))
      shape
        | text == Char8.pack "*" = Everything
        | fold == CaseMatters && plain = shapeOf text
        | otherwise = General
  pure (Pattern shape fold memory)

shapeOf :: ByteString -> Shape
shapeOf text = case Char8.split '*' text of
  parts | any (Char8.any (`elem` "?[\\")) parts -> General
  [whole] -> Literal whole
  [start, end]
    | Bytes.null start -> Suffix end
    | Bytes.null end -> Prefix start
    | otherwise -> Both start end
  [start, middle, end] | Bytes.null start && Bytes.null end -> Infix middle
  _ -> General

-- | Does it match the text of this length, which a NUL follows?
--
-- [Cost]: see above; 0 bytes for shapes.
matchPattern :: Pattern -> Ptr Word8 -> Int -> IO Bool
matchPattern (Pattern shape fold memory) = case shape of
  Everything -> \_ _ -> pure True
  Literal whole -> with whole $ \p k text n -> if n == k then same p text k else pure False
  Prefix start -> with start $ \p k text n -> if n >= k then same p text k else pure False
  Suffix end -> with end $ \p k text n -> if n >= k then same p (text `plusPtr` (n - k)) k else pure False
  Both start end ->
    let k = Bytes.length start
        m = Bytes.length end
        (startMemory, startAt, _) = Bytes.toForeignPtr start
        (endMemory, endAt, _) = Bytes.toForeignPtr end
     in \text n ->
          if n < k + m
            then pure False
            else withForeignPtr startMemory $ \p -> do
              begins <- same (p `plusPtr` startAt) text k
              if begins
                then withForeignPtr endMemory $ \q -> same (q `plusPtr` endAt) (text `plusPtr` (n - m)) m
                else pure False
  Infix middle -> with middle $ \p k text n ->
    (/= nullPtr) <$> c_memmem (castPtr text) (fromIntegral n) (castPtr p) (fromIntegral k)
  General ->
    let flags = case fold of CaseMatters -> 0; CaseFolds -> 16
     in \text _ -> withForeignPtr memory $ \p -> (== 0) <$> c_fnmatch (castPtr p) (castPtr text) flags
  where
    with part match =
      let (start, at, k) = Bytes.toForeignPtr part
       in \text n -> withForeignPtr start $ \p -> match (p `plusPtr` at) k text n
    same :: Ptr Word8 -> Ptr Word8 -> Int -> IO Bool
    same p q k = (== 0) <$> Bytes.memcmp p q k
{-# INLINE matchPattern #-}

-- Unsafe: computes on memory.
foreign import ccall unsafe "fnmatch" c_fnmatch :: CString -> CString -> CInt -> IO CInt

-- Unsafe: computes on memory.
foreign import ccall unsafe "memmem" c_memmem :: CString -> CSize -> CString -> CSize -> IO CString
