-- |
-- Module      : Heddle.Measure.Samples
-- Description : Measurements kept outside the Haskell heap
-- Stability   : stable
--
-- A table of measurements in memory of malloc. A collector copies what is live, so a benchmark that keeps its
-- samples in the heap makes later benchmarks slower; these are invisible to it.
--
-- Cost: 64 bytes for each measurement; recording allocates nothing in the heap and makes no system call, except
-- when the table doubles.
-- Owner: one thread writes; the memory is freed when the table is no longer reachable.
module Heddle.Measure.Samples
  ( Samples,
    newSamples,
    Field (..),
    record,
    sampleCount,
    column,
    perIteration,
    total,
  )
where

import Data.Int (Int64)
import Data.Primitive.PrimArray (generatePrimArray, indexPrimArray)
import Foreign.ForeignPtr (ForeignPtr, mallocForeignPtrBytes, newForeignPtr, withForeignPtr)
import Foreign.Marshal.Alloc (finalizerFree, mallocBytes)
import Foreign.Marshal.Array (advancePtr)
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (Ptr)
import Foreign.Storable (peek, peekElemOff, poke)
import Heddle.Measure.Statistics (Sample, sampleFromList, sampleToList)
import Heddle.Prim.Atomic (Ref, newRef, readRef, writeRef)

-- | A growing table.
data Samples = Samples
  { -- | The rows, and how many there is room for.
    rows :: !(Ref Table),
    -- | How many are filled; outside the heap's counting, too.
    filled :: !(ForeignPtr Int64)
  }

data Table = Table !(ForeignPtr Int64) !Int

-- | What a row holds, all of one sample: how many iterations it had; times in nanoseconds; bytes; and events.
-- What could not be measured is -1.
data Field = Iterations | Wall | Cpu | Allocated | Copied | Gc | Instructions | CacheMisses
  deriving stock (Bounded, Enum, Eq, Show)

fields :: Int
fields = 1 + fromEnum (maxBound :: Field)

-- | An empty table that begins with room for this number of samples.
newSamples :: Int -> IO Samples
newSamples capacity = do
  memory <- newTable (max 16 capacity)
  table <- newRef memory
  number <- mallocForeignPtrBytes 8
  withForeignPtr number (`poke` 0)
  pure (Samples table number)

newTable :: Int -> IO Table
newTable capacity = do
  memory <- mallocBytes (8 * fields * capacity) >>= newForeignPtr finalizerFree
  pure (Table memory capacity)

-- | Append a row; the action writes its fields in the order of 'Field'.
record :: Samples -> (Ptr Int64 -> IO ()) -> IO ()
record samples write = withForeignPtr (filled samples) $ \number -> do
  n <- fromIntegral <$> peek number
  Table memory capacity <- readRef (rows samples)
  Table current _ <-
    if n < capacity
      then pure (Table memory capacity)
      else do
        larger@(Table more _) <- newTable (2 * capacity)
        withForeignPtr memory $ \from -> withForeignPtr more $ \to -> copyBytes to from (8 * fields * capacity)
        larger <$ writeRef (rows samples) larger
  withForeignPtr current $ \p -> write (p `advancePtr` (n * fields))
  poke number (fromIntegral n + 1)

-- | How many rows there are.
sampleCount :: Samples -> IO Int
sampleCount samples = withForeignPtr (filled samples) (fmap fromIntegral . peek)

-- | One field of all rows.
column :: Samples -> Field -> IO Sample
column samples field = do
  n <- sampleCount samples
  Table memory _ <- readRef (rows samples)
  withForeignPtr memory $ \p ->
    sampleFromList <$> mapM (\row -> fromIntegral <$> peekElemOff p (row * fields + fromEnum field)) [0 .. n - 1]

-- | One field divided by the iterations of its row; 'Nothing' where it could not be measured.
perIteration :: Samples -> Field -> IO (Maybe Sample)
perIteration samples field = do
  values <- column samples field
  iterations <- column samples Iterations
  n <- sampleCount samples
  pure $
    if n == 0 || any (< 0) (sampleToList values)
      then Nothing
      else Just (generatePrimArray n (\i -> indexPrimArray values i / indexPrimArray iterations i))

-- | The sum of a field.
total :: Samples -> Field -> IO Double
total samples field = sum . sampleToList <$> column samples field
