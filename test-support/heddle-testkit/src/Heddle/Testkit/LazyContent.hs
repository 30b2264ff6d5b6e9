-- |
-- Module      : Heddle.Testkit.LazyContent
-- Description : Lazy bytes that look how much memory is in use while they come into being
-- Stability   : internal, exempt from the version policy
--
-- For tests that something passes lazy bytes on without holding them. The program's runtime must keep statistics (@-T@).
--
-- Owner: the caller.
-- Cost: a major collection for each megabyte and each 20,000 pieces.
module Heddle.Testkit.LazyContent
  ( lazyContent,
    staysSmall,
  )
where

import Control.Exception (evaluate)
import Control.Monad (when)
import Data.ByteString qualified as B
import Data.ByteString.Lazy qualified as L
import Data.IORef
import Heddle.Testkit.Heap (liveBytes)
import Heddle.Testkit.Watchdog (unexpected)
import System.IO.Unsafe (unsafeInterleaveIO)

-- | @lazyContent most size count@ is this many pieces of this size, made when they are asked for. The greatest 'liveBytes' seen
-- meanwhile is left in the reference.
lazyContent :: IORef Int -> Int -> Int -> IO L.ByteString
lazyContent most size count = L.fromChunks <$> from 0
  where
    look = max 1 (min 20000 (1000000 `quot` size))
    from i
      | i == count = pure []
      | otherwise = unsafeInterleaveIO $ do
        when (i `rem` look == look - 1) $ liveBytes >>= modifyIORef' most . max
        piece <- evaluate (B.replicate size 120)
        (piece :) <$> from (i + 1)

-- | Run an action that passes 24 MB on in pieces of 64 KB, then one that passes 300,000 pieces of ten bytes: given the content and
-- its length. Neither may hold much of it.
--
-- [Throws]: 'Heddle.Testkit.Watchdog.Unexpected' when more than 6 MB were in use at once.
staysSmall :: (IO L.ByteString -> Int -> IO ()) -> IO ()
staysSmall act = mapM_ once [(65536, 370), (10, 300000)]
  where
    once (size, count) = do
      before <- liveBytes
      most <- newIORef 0
      act (lazyContent most size count) (size * count)
      seen <- readIORef most
      when (seen == 0 || seen - before > 6000000) $
        unexpected ("at most 6 MB in use for pieces of " ++ show size ++ " bytes") (show (seen - before))
