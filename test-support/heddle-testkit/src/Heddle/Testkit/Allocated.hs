-- | What an action allocates, which repeats exactly.
module Heddle.Testkit.Allocated
  ( allocatedBy,
  )
where

import System.Mem (getAllocationCounter)

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
