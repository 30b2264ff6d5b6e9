-- |
-- Module      : Heddle.Serve.LogOrder
-- Description : Lines of all capabilities in the order of their requests
-- Stability   : internal, exempt from the version policy
--
-- Each capability has a ring of its own, so of two requests of one client on two cores, the later one's line may be taken first. In a log
-- for people each line in a ring begins with a stamp, the time at which its request began, and the writer keeps lines in a reorder buffer
-- for a short time, from which they come in the order of the stamps.
--
-- Cost: 16 bytes for each line in a ring, and O(log lines) for each line in the buffer.
-- Owner: the log's writer.
module Heddle.Serve.LogOrder
  ( pokeStamp,
    ReorderBuffer,
    noLines,
    isEmptyBuffer,
    addStamped,
    takeUntil,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Char (digitToInt)
import Data.Map.Strict (Map)
import Data.Map.Strict qualified as Map
import Data.Word (Word8)
import Foreign.Ptr (Ptr)
import Heddle.Bytes.Write (hexFixed, pokeWrite)
import Heddle.Prim.Clock (Deadline (..))

-- | Write a stamp before a line; the address after it.
--
-- [Cost]: 16 bytes.
pokeStamp :: Deadline -> Ptr Word8 -> IO (Ptr Word8)
pokeStamp (Deadline at) = pokeWrite (hexFixed stampLength (fromIntegral at))

stampLength :: Int
stampLength = 16

-- | Lines with their newlines, by stamp and then as they came, and the number of the next one.
data ReorderBuffer = ReorderBuffer !Int !(Map (Int, Int) ByteString)

-- | Nothing.
noLines :: ReorderBuffer
noLines = ReorderBuffer 0 Map.empty

-- | Ask whether there is no line.
isEmptyBuffer :: ReorderBuffer -> Bool
isEmptyBuffer (ReorderBuffer _ held) = Map.null held

-- | Put in whole lines with their stamps.
--
-- [Cost]: O(log lines) for each.
addStamped :: ByteString -> ReorderBuffer -> ReorderBuffer
addStamped given buffer@(ReorderBuffer next held) = case C.elemIndex '\n' given of
  Nothing -> buffer
  Just end ->
    let (stamp, line) = B.splitAt stampLength (B.take (end + 1) given)
        at = C.foldl' (\n c -> 16 * n + digitToInt c) 0 stamp
     in addStamped (B.drop (end + 1) given) (ReorderBuffer (next + 1) (Map.insert (at, next) line held))

-- | Take out the lines with stamps up to a time, in order.
--
-- [Cost]: O(lines taken).
takeUntil :: Deadline -> ReorderBuffer -> (ByteString, ReorderBuffer)
takeUntil (Deadline limit) (ReorderBuffer next held) =
  let (due, rest) = Map.spanAntitone ((<= limit) . fst) held
   in (B.concat (Map.elems due), ReorderBuffer next rest)
