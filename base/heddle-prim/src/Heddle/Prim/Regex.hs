-- |
-- Module      : Heddle.Prim.Regex
-- Description : GNU's regular expressions
-- Stability   : stable
--
-- The C library's matcher, in all dialects that GNU's programs know.
--
-- A compiled expression holds a lock while it matches; so there is one copy per
-- capability, and workers that stay on theirs never meet.
--
-- Cost: compiling, about 10 us per capability; matching, that of the C library.
-- Owner: the collector frees the copies.
module Heddle.Prim.Regex
  ( Dialect,
    dialects,
    defaultDialect,
    extendedDialect,
    Regex,
    compileRegex,
    matchRegex,
    testRegex,
    searchRegex,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Unsafe qualified as Bytes
import Data.Int (Int64)
import Data.Word (Word8)
import Foreign.C.String (CString)
import Foreign.C.Types (CInt (..), CSize (..))
import Foreign.ForeignPtr (FinalizerPtr, ForeignPtr, newForeignPtr, withForeignPtr)
import Foreign.Marshal.Alloc (alloca)
import Foreign.Ptr (Ptr, castPtr, nullPtr)
import Foreign.Storable (peek)
import Heddle.Prim.Atomic (Table, newTable, readEntry, tableSize, writeEntry)
import Heddle.Prim.Thread (getProcessors, myCapability)

-- | A grammar of regular expressions.
newtype Dialect = Dialect CInt
  deriving stock (Eq)

-- | Their names, in GNU find's order.
dialects :: IO [(ByteString, Dialect)]
dialects = go 0
  where
    go i = do
      name <- c_dialect i
      if name == nullPtr
        then pure []
        else do
          text <- Bytes.packCString name
          ((text, Dialect i) :) <$> go (i + 1)

-- | @emacs@; unlike that of @findutils-default@, its dot matches no newline.
defaultDialect :: Dialect
defaultDialect = Dialect 2

-- | @egrep@'s, without its rule that a newline stands for an alternative.
extendedDialect :: Dialect
extendedDialect = Dialect 10

-- | A compiled expression.
data Regex
  = -- | A copy per capability that has used it, and how to make another.
    Regex !(Table (Maybe (ForeignPtr ()))) !(IO (Either ByteString (ForeignPtr ())))

-- | Compile, folding case if so asked; or the C library's complaint.
--
-- [Cost]: one compilation, and one more on each capability that uses it.
compileRegex :: Dialect -> Bool -> ByteString -> IO (Either ByteString Regex)
compileRegex (Dialect dialect) fold pattern' =
  compileOne >>= \case
    Left complaint -> pure (Left complaint)
    Right regex -> do
      copies <- getProcessors
      table <- newTable (max 1 copies) Nothing
      writeEntry table 0 (Just regex)
      pure (Right (Regex table compileOne))
  where
    compileOne = Bytes.unsafeUseAsCStringLen pattern' $ \(p, n) -> alloca $ \failure -> do
      compiled <- c_new dialect (if fold then 1 else 0) p (fromIntegral n) failure
      if compiled == nullPtr
        then Left <$> (peek failure >>= Bytes.packCString)
        else Right <$> newForeignPtr c_free compiled

-- | Does it match all of a text in memory?
--
-- [Cost]: that of the C library; back references can take exponential time.
matchRegex :: Regex -> Ptr Word8 -> Int -> IO Bool
matchRegex regex text n = withCopy regex False $ \re -> (/= 0) <$> c_match re (castPtr text) (fromIntegral n)

-- | Does it match any part of a text in memory?
--
-- [Cost]: that of the C library; back references can take exponential time.
testRegex :: Regex -> Ptr Word8 -> Int -> IO Bool
testRegex regex text n = withCopy regex False $ \re -> (>= 0) <$> c_search re (castPtr text) (fromIntegral n) 0 nullPtr

-- | The first part at or behind an offset that it matches, the longest of those that begin
-- there: where it begins and ends.
--
-- [Cost]: that of the C library; back references can take exponential time.
searchRegex :: Regex -> Ptr Word8 -> Int -> Int -> IO (Maybe (Int, Int))
searchRegex regex text n from = withCopy regex Nothing $ \re -> alloca $ \end -> do
  found <- c_search re (castPtr text) (fromIntegral n) (fromIntegral from) end
  if found < 0 then pure Nothing else (\e -> Just (fromIntegral found, fromIntegral e)) <$> peek end

-- With this capability's copy; the other answer is for when memory is short.
withCopy :: Regex -> a -> (Ptr () -> IO a) -> IO a
withCopy (Regex table compileOne) without use = do
  capability <- (`rem` tableSize table) <$> myCapability
  known <- readEntry table capability
  case known of
    Just regex -> withForeignPtr regex use
    Nothing ->
      compileOne >>= \case
        Right regex -> writeEntry table capability (Just regex) >> withForeignPtr regex use
        -- It could be compiled before: memory is short. Share the first.
        Left _ -> readEntry table 0 >>= maybe (pure without) (`withForeignPtr` use)

-- Unsafe: reads a table.
foreign import ccall unsafe "heddle_regex_dialect" c_dialect :: CInt -> IO CString

-- Unsafe: computes; its lock is held for a computation only.
foreign import ccall unsafe "heddle_regex_new" c_new :: CInt -> CInt -> CString -> CSize -> Ptr CString -> IO (Ptr ())

-- Unsafe: frees memory.
foreign import ccall unsafe "&heddle_regex_free" c_free :: FinalizerPtr ()

-- Unsafe: computes on memory; the pattern's lock is free but for a thread that was moved in
-- between, which computes too and needs nothing of ours to finish.
foreign import ccall unsafe "heddle_regex_match" c_match :: Ptr () -> CString -> CSize -> IO CInt

-- Unsafe: as above.
foreign import ccall unsafe "heddle_regex_search" c_search :: Ptr () -> CString -> CSize -> CSize -> Ptr Int64 -> IO Int64
