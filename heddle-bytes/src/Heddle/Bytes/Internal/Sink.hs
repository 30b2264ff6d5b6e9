-- |
-- Module      : Heddle.Bytes.Internal.Sink
-- Description : Where a Put goes
-- Stability   : internal; exempt from the version policy
--
-- A sink is a stretch of memory to fill and a way to get more of it. What is being filled
-- changes; where it ends is in a word of the sink, and where the next byte goes is passed
-- along ("Heddle.Prim.Walk").
--
-- Invariant: after 'sinkMore' for n bytes there is room for n bytes.
-- Cost: a comparison for each piece; what 'sinkMore' does, rarely.
-- Owner: the thread that runs the 'Put'.
module Heddle.Bytes.Internal.Sink
  ( -- * Sinks
    Sink,
    newSink,
    sinkEnd,
    setSinkEnd,

    -- * Pieces
    Write (..),
    pokeWrite,

    -- * Sequences
    Put,
    runPut,
    write,
    writeBounded,
    slice,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.ByteString.Internal qualified as ByteString (memcpy)
import Data.ByteString.Unsafe qualified as ByteString (unsafeUseAsCStringLen)
import Data.Word (Word8)
import Foreign.Ptr (IntPtr (..), Ptr, castPtr, intPtrToPtr, minusPtr, plusPtr, ptrToIntPtr)
import Heddle.Prim.Atomic (Words, newWords, readWord, writeWord)
import Heddle.Prim.Walk (At (..), Walk, stepping, walkFrom)

-- | Where a 'Put' goes.
data Sink = Sink
  { -- | Word 0: the end of the memory that is being filled.
    sinkWords :: !Words,
    -- | Up to here it is filled, and so many bytes more are needed: takes what is there, and
    -- says where to go on.
    sinkMore :: !(Ptr Word8 -> Int -> IO (Ptr Word8)),
    -- | A slice that is larger than the room that is left.
    sinkSlice :: !(Ptr Word8 -> ByteString -> IO (Ptr Word8))
  }

-- | A sink, made with itself at hand, so that its actions can set the end.
--
-- [Cost]: four words.
newSink :: (Sink -> Ptr Word8 -> Int -> IO (Ptr Word8)) -> (Sink -> Ptr Word8 -> ByteString -> IO (Ptr Word8)) -> IO Sink
newSink more large = do
  words_ <- newWords 1
  let sink = Sink {sinkWords = words_, sinkMore = more sink, sinkSlice = large sink}
  pure sink

-- | Where the memory ends.
sinkEnd :: Sink -> IO (Ptr Word8)
sinkEnd sink = intPtrToPtr . IntPtr <$> readWord (sinkWords sink) 0
{-# INLINE sinkEnd #-}

-- | Other memory, which ends here.
setSinkEnd :: Sink -> Ptr Word8 -> IO ()
setSinkEnd sink end = case ptrToIntPtr end of IntPtr n -> writeWord (sinkWords sink) 0 n
{-# INLINE setSinkEnd #-}

-- | A piece: the most bytes that it takes, and how to write it, which says where it ended.
data Write = Write !Int (Ptr Word8 -> IO (Ptr Word8))

-- | One after the other, with one check for both.
instance Semigroup Write where
  Write m f <> Write n g = Write (m + n) (\p -> f p >>= g)
  {-# INLINE (<>) #-}

instance Monoid Write where
  mempty = Write 0 pure
  {-# INLINE mempty #-}

-- | Write a piece where there is room for it.
--
-- [Cost]: the piece's.
pokeWrite :: Write -> Ptr Word8 -> IO (Ptr Word8)
pokeWrite (Write _ f) = f
{-# INLINE pokeWrite #-}

-- | Any number of pieces.
newtype Put = Put (Walk Sink ())

-- | One after the other.
instance Semigroup Put where
  Put a <> Put b = Put (a *> b)
  {-# INLINE (<>) #-}

instance Monoid Put where
  mempty = Put (pure ())
  {-# INLINE mempty #-}

-- | Run it from here on; answers where it ended.
runPut :: Put -> Sink -> Ptr Word8 -> IO (Ptr Word8)
runPut (Put w) sink p = do
  At end () <- walkFrom w sink p
  pure end
{-# INLINE runPut #-}

-- | A piece, for which room is made if there is none.
--
-- [Cost]: one comparison, and the piece's.
write :: Write -> Put
write (Write bound f) = writeBounded bound f
{-# INLINE write #-}

-- | The same, taken apart.
writeBounded :: Int -> (Ptr Word8 -> IO (Ptr Word8)) -> Put
writeBounded bound f = Put . stepping $ \sink p -> do
  end <- sinkEnd sink
  if bound <= end `minusPtr` p then f p else sinkMore sink p bound >>= f
{-# INLINE writeBounded #-}

-- | Bytes that are there already: copied if there is room, else the sink decides.
--
-- [Cost]: a copy.
slice :: ByteString -> Put
slice text = Put . stepping $ \sink p -> do
  end <- sinkEnd sink
  let len = ByteString.length text
  if len <= end `minusPtr` p
    then ByteString.unsafeUseAsCStringLen text $ \(from, n) -> do
      ByteString.memcpy p (castPtr from) n
      pure (p `plusPtr` n)
    else sinkSlice sink p text
