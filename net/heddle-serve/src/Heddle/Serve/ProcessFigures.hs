{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.ProcessFigures
-- Description : What this process uses
-- Stability   : internal, exempt from the version policy
--
-- Processor time, memory and descriptors, as the kernel tells them in @\/proc@, and the runtime's collections if it keeps
-- statistics (@+RTS -T@). What cannot be read is 'Nothing'.
--
-- Cost: some system calls.
-- Owner: values.
module Heddle.Serve.ProcessFigures
  ( ProcessFigures (..),
    Collections (..),
    processFigures,
  )
where

import Control.Monad (guard)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Either (fromRight)
import GHC.Stats (GCDetails (..), RTSStats (..), getRTSStats, getRTSStatsEnabled)
import Heddle.Prim.Exception (trySync)
import System.Directory (listDirectory)
import System.Posix.Resource

-- | In seconds and bytes.
data ProcessFigures = ProcessFigures
  { figureCpu :: !(Maybe Double),
    -- | Since 1970.
    figureStarted :: !(Maybe Double),
    figureResident :: !(Maybe Int),
    figureVirtual :: !(Maybe Int),
    figureDescriptors :: !(Maybe Int),
    figureMostDescriptors :: !(Maybe Int),
    figureCollections :: !(Maybe Collections)
  }
  deriving stock (Eq, Show)

-- | What the collector has done.
data Collections = Collections
  { collectionCount :: !Int,
    collectionMajor :: !Int,
    collectionSeconds :: !Double,
    -- | Bytes live after the last collection.
    collectionLive :: !Int,
    collectionAllocated :: !Int
  }
  deriving stock (Eq, Show)

-- | As it is now.
--
-- [Cost]: O(descriptors).
-- [Blocks]: holds an OS thread.
processFigures :: IO ProcessFigures
processFigures = do
  stat <- content "/proc/self/stat"
  boot <- content "/proc/stat"
  status <- content "/proc/self/status"
  open <- either (const Nothing) (Just . length) <$> trySync (listDirectory "/proc/self/fd")
  limits <- either (const Nothing) (limited . softLimit) <$> trySync (getResourceLimit ResourceOpenFiles)
  kept <- getRTSStatsEnabled
  collections <- if kept then Just . collectionsOf <$> getRTSStats else pure Nothing
  let -- After the name, which may contain anything and ends with the last parenthesis. The first is field 3.
      fields = C.words (B.drop 1 (snd (C.breakEnd (== ')') stat)))
      ticks n = (/ ticksPerSecond) . fromIntegral <$> (at (n - 3) fields >>= number)
      started = (+) <$> (fromIntegral <$> (line "btime" boot >>= number)) <*> ticks 22
  pure
    ProcessFigures
      { figureCpu = (+) <$> ticks 14 <*> ticks 15,
        figureStarted = started,
        figureResident = kilobytes "VmRSS:" status,
        figureVirtual = kilobytes "VmSize:" status,
        -- One of them is that of the directory itself.
        figureDescriptors = subtract 1 <$> open,
        figureMostDescriptors = limits,
        figureCollections = collections
      }
  where
    content path = fromRight "" <$> trySync (B.readFile path)
    limited = \case
      ResourceLimit n -> Just (fromIntegral n)
      _ -> Nothing
    kilobytes name text = (* 1024) <$> (line name text >>= number)

-- Of all Linux systems; the kernel's times for programs do not follow its own clock.
ticksPerSecond :: Double
ticksPerSecond = 100

at :: Int -> [a] -> Maybe a
at i list = case drop i list of
  x : _ -> Just x
  [] -> Nothing

line :: ByteString -> ByteString -> Maybe ByteString
line name text = case [word | one <- C.lines text, first : word : _ <- [C.words one], first == name] of
  word : _ -> Just word
  [] -> Nothing

number :: ByteString -> Maybe Int
number text = do
  (n, rest) <- C.readInt text
  n <$ guard (B.null rest)

collectionsOf :: RTSStats -> Collections
collectionsOf stats =
  Collections
    { collectionCount = fromIntegral (gcs stats),
      collectionMajor = fromIntegral (major_gcs stats),
      collectionSeconds = fromIntegral (gc_elapsed_ns stats) / 1e9,
      collectionLive = fromIntegral (gcdetails_live_bytes (gc stats)),
      collectionAllocated = fromIntegral (allocated_bytes stats)
    }
