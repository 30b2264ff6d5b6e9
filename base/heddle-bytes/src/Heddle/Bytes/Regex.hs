-- |
-- Module      : Heddle.Bytes.Regex
-- Description : Regular expressions, by the C library's matcher
-- Stability   : stable
--
-- The GNU C library's matcher, in all dialects that GNU programs use.
--
-- glibc locks a compiled expression while it matches. So each capability has its own copy, and threads on
-- different capabilities never wait for each other.
--
-- Cost: compiling, about 10 us per capability; matching, that of the C library.
-- Owner: a 'Regex' is a value; the garbage collector frees its copies.
module Heddle.Bytes.Regex
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

-- | All dialects by name, in the order in which GNU find lists them.
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

-- | @emacs@, find's default. Unlike @findutils-default@, its dot matches no newline.
defaultDialect :: Dialect
defaultDialect = Dialect 2

-- | @posix-extended@: egrep's syntax, except that a newline separates no alternatives.
extendedDialect :: Dialect
extendedDialect = Dialect 10

-- | A compiled expression.
data Regex
  = -- | The copies of the capabilities that have used it, and an action that makes another.
    Regex !(Table (Maybe (ForeignPtr ()))) !(IO (Either ByteString (ForeignPtr ())))

-- | Compile; 'True' ignores case. 'Left' has the C library's message.
--
-- [Cost]: one compilation, and one more on each capability that uses it. The C library's time is
-- exponential in nested counted repeats of what may be empty: @(((a?){2,}){2,}){2,}@ and so on.
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

-- | Does it match a whole text in memory?
--
-- [Cost]: that of the C library; back references can take exponential time.
matchRegex :: Regex -> Ptr Word8 -> Int -> IO Bool
matchRegex regex text n = withCopy regex False $ \re -> (/= 0) <$> c_match re (castPtr text) (fromIntegral n)

-- | Does it match any part of a text in memory?
--
-- [Cost]: that of the C library; back references can take exponential time.
testRegex :: Regex -> Ptr Word8 -> Int -> IO Bool
testRegex regex text n = withCopy regex False $ \re -> (>= 0) <$> c_search re (castPtr text) (fromIntegral n) 0 nullPtr

-- | The first match at or after an offset, the longest of those that begin at the same place: its start and end.
--
-- [Cost]: that of the C library; back references can take exponential time.
searchRegex :: Regex -> Ptr Word8 -> Int -> Int -> IO (Maybe (Int, Int))
searchRegex regex text n from = withCopy regex Nothing $ \re -> alloca $ \end -> do
  found <- c_search re (castPtr text) (fromIntegral n) (fromIntegral from) end
  if found < 0 then pure Nothing else (\e -> Just (fromIntegral found, fromIntegral e)) <$> peek end

-- Use this capability's copy. If memory is short, the result is the default.
withCopy :: Regex -> a -> (Ptr () -> IO a) -> IO a
withCopy (Regex table compileOne) without use = do
  capability <- (`rem` tableSize table) <$> myCapability
  known <- readEntry table capability
  case known of
    Just regex -> withForeignPtr regex use
    Nothing ->
      compileOne >>= \case
        Right regex -> writeEntry table capability (Just regex) >> withForeignPtr regex use
        -- It compiled before, so memory is short: share the first copy.
        Left _ -> readEntry table 0 >>= maybe (pure without) (`withForeignPtr` use)

-- Unsafe: reads a table.
foreign import ccall unsafe "heddle_regex_dialect" c_dialect :: CInt -> IO CString

-- Unsafe: computes; its lock is held for a computation only.
foreign import ccall unsafe "heddle_regex_new" c_new :: CInt -> CInt -> CString -> CSize -> Ptr CString -> IO (Ptr ())

-- Unsafe: frees memory.
foreign import ccall unsafe "&heddle_regex_free" c_free :: FinalizerPtr ()

-- Unsafe: computes on memory. The pattern's lock is contended only by a thread that has migrated since it read the
-- table; that thread is inside this function too, and finishes without the capability.
foreign import ccall unsafe "heddle_regex_match" c_match :: Ptr () -> CString -> CSize -> IO CInt

-- Unsafe: as above.
foreign import ccall unsafe "heddle_regex_search" c_search :: Ptr () -> CString -> CSize -> CSize -> Ptr Int64 -> IO Int64
