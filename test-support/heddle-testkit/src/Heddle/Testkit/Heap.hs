-- | What an action allocates, which repeats exactly, and what is in use.
module Heddle.Testkit.Heap
  ( allocatedBy,
    liveBytes,
  )
where

import GHC.Stats (GCDetails (..), RTSStats (..), getRTSStats)
import System.Mem (getAllocationCounter, performMajorGC)

-- | The bytes that the action allocates for each of many rounds, from the difference between few
-- and many of them.
allocatedBy :: (Int -> IO ()) -> IO Int
allocatedBy action = do
  _ <- during 10
  few <- during 1000
  many <- during 11000
  pure ((many - few) `quot` 10000)
  where
    during n = do
      before <- getAllocationCounter
      action n
      after <- getAllocationCounter
      pure (fromIntegral (before - after) :: Int)

-- | How much of the heap is in use. The program's runtime must keep statistics (@-T@).
--
-- 'performMajorGC' returns without a collection of its own when another capability was about to collect, and what a minor
-- collection calls live contains garbage that is older than it: so it is called until a major one is the last.
--
-- [Cost]: a major collection, seldom more.
-- [Units]: bytes.
liveBytes :: IO Int
liveBytes = do
  before <- major_gcs <$> getRTSStats
  performMajorGC
  stats <- getRTSStats
  if major_gcs stats > before && gcdetails_gen (gc stats) > 0 then pure (fromIntegral (gcdetails_live_bytes (gc stats))) else liveBytes
